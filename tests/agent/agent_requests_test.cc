// Any request that a client may send: random fields, extreme numbers, odd paths and names, and
// bytes that are no message, to every call of an agent and of a supervisor whose run trains
// meanwhile. Both go on, the run's weights are those of an undisturbed one, and nothing outside of
// the node's folder is touched.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <QTest>
#include <filesystem>
#include <limits>
#include <random>
#include <set>

#include "engine/base/file.h"
#include "tests/agent/agent_node.h"

using namespace lockstep;
using namespace lockstep::agent_test;
using google::protobuf::FieldDescriptor;
using Proto = google::protobuf::Message;

namespace {

// These have a meaning for a run that exists: it would end, or have other weights.
const std::set<std::string> kMeant = {"Stop", "Kill", "Rebalance"};
constexpr int kRounds = 4;        // requests of each call
constexpr double kSeconds = 0.1;  // of a call

class RandomRequests {
 public:
  RandomRequests(unsigned seed, std::vector<std::string> texts)
      : random_(seed), texts_(std::move(texts)) {}

  std::string next(const google::protobuf::Descriptor* type) {
    if (below(8) == 0) {
      std::string bytes(below(200), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random_());
      return bytes;
    }
    auto* factory = google::protobuf::MessageFactory::generated_factory();
    const std::unique_ptr<Proto> message(factory->GetPrototype(type)->New());
    fill(*message, 0);
    return message->SerializeAsString();
  }
  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  void fill(Proto& message, int depth) {
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = message.GetDescriptor()->field(i);
      const std::size_t count = field->is_repeated() ? below(4) : below(4) == 0 ? 0 : 1;
      for (std::size_t n = 0; n < count; ++n) set(message, *field, depth);
    }
  }
  void set(Proto& message, const FieldDescriptor& field, int depth) {
    const auto* r = message.GetReflection();
    const bool add = field.is_repeated();
    const auto put = [&](auto setter, auto adder, auto value) {
      add ? (r->*adder)(&message, &field, value) : (r->*setter)(&message, &field, value);
    };
    using R = google::protobuf::Reflection;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(&R::SetInt32, &R::AddInt32, static_cast<std::int32_t>(integer()));
      case FieldDescriptor::CPPTYPE_INT64:
        return put(&R::SetInt64, &R::AddInt64, integer());
      case FieldDescriptor::CPPTYPE_UINT32:
        return put(&R::SetUInt32, &R::AddUInt32, static_cast<std::uint32_t>(integer()));
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&R::SetUInt64, &R::AddUInt64, static_cast<std::uint64_t>(integer()));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(&R::SetDouble, &R::AddDouble, number());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return put(&R::SetFloat, &R::AddFloat, static_cast<float>(number()));
      case FieldDescriptor::CPPTYPE_BOOL:
        return put(&R::SetBool, &R::AddBool, below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return put(&R::SetEnumValue, &R::AddEnumValue, static_cast<int>(below(6)));
      case FieldDescriptor::CPPTYPE_STRING:
        return put(&R::SetString, &R::AddString, text(field));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (depth < 4)
          fill(add ? *r->AddMessage(&message, &field) : *r->MutableMessage(&message, &field),
               depth + 1);
    }
  }
  std::int64_t integer() {
    constexpr std::int64_t kValues[] = {0,
                                        1,
                                        -1,
                                        2,
                                        200,
                                        1 << 20,
                                        std::numeric_limits<std::int32_t>::max(),
                                        std::numeric_limits<std::int32_t>::min(),
                                        std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min()};
    return kValues[below(std::size(kValues))];
  }
  double number() {
    constexpr double kValues[] = {0,
                                  1,
                                  -1,
                                  0.5,
                                  1e-300,
                                  1e300,
                                  std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN()};
    return kValues[below(std::size(kValues))];
  }
  std::string text(const FieldDescriptor& field) {
    constexpr const char* kAddresses[] = {"127.0.0.1", "127.0.0.1:1", "no address", "::1"};
    if (field.name().find("address") != std::string::npos)  // no port opens but on the loopback
      return kAddresses[below(std::size(kAddresses))];
    if (field.type() == FieldDescriptor::TYPE_BYTES && below(3) == 0) return "\xff\xfe/\x01";
    return texts_[below(texts_.size())];
  }

  std::mt19937 random_;
  std::vector<std::string> texts_;
};

// Returns how the call has ended. A stream is read for a while, then given up.
grpc::Status call(grpc::GenericStub& stub, const std::string& method,
                  const std::vector<std::string>& requests) {
  const auto context = deadline(kSeconds);
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(context.get(), method, &queue);
  const auto done = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  stream->StartCall(nullptr);
  bool ok = done();
  for (const std::string& request : requests) {
    const grpc::Slice slice(request);
    if (ok) stream->Write(grpc::ByteBuffer(&slice, 1), nullptr), ok = done();
  }
  if (ok) stream->WritesDone(nullptr), ok = done();
  for (int replies = 0; ok && replies < 20; ++replies) {
    grpc::ByteBuffer reply;
    stream->Read(&reply, nullptr);
    ok = done();
  }
  if (ok) context->TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  done();
  queue.Shutdown();
  return status;
}

// The agent and a run on it.
class Scene {
 public:
  Scene() : node_("n1") {
    node_.start();
    options_ = {.run = newRunId(), .comm = "gloo", .maxSteps = 4000, .recovery = "restart"};
    const grpc::Status prepared = prepare(node_.agent(), prepareRequest(options_), &prepared_);
    if (!prepared.ok()) throw std::runtime_error(prepared.error_message());
    records_ = std::make_unique<Follower>(prepared_.socket());
    node::v1::CommitRequest commit;
    commit.set_run(options_.run);
    commit.set_generation(1);
    node::v1::CommitReply reply;
    const auto supervisor = node::v1::Supervisor::NewStub(channelTo(prepared_.socket()));
    if (!supervisor->Commit(deadline().get(), commit, &reply).ok())
      throw std::runtime_error("the run does not begin");
  }
  std::vector<std::string> texts(bool withRun) const {
    std::vector<std::string> out = {"",
                                    "x",
                                    "n1",
                                    "../canary",
                                    "/etc/passwd",
                                    "runs/../../canary",
                                    node_.workdir(),
                                    node_.workdir() + "/../canary",
                                    "model.safetensors",
                                    std::string(5000, 'y'),
                                    "a\nb\x01",
                                    "http://127.0.0.1:1/x"};
    if (withRun) out.push_back(options_.run);
    return out;
  }
  // Both the agent and the supervisor.
  bool answers() {
    node::v1::ListRunsReply runs;
    node::v1::RunOnNode run;
    const auto supervisor = node::v1::Supervisor::NewStub(channelTo(prepared_.socket()));
    return node_.agent().ListRuns(deadline(5).get(), {}, &runs).ok() &&
           supervisor->Status(deadline(5).get(), {}, &run).ok();
  }
  bool trains() const { return records_->lastStep(0) >= 3; }
  std::string weights() const {
    if (!records_->waitFinished(240)) return "it does not end";
    if (records_->state() != run::v1::SUCCEEDED) return records_->error();
    return records_->records().back().finished().weights_sha256();
  }
  Node& node() { return node_; }
  const std::string& supervisor() const { return prepared_.socket(); }

 private:
  Node node_;
  RunOptions options_;
  node::v1::PrepareReply prepared_;
  std::unique_ptr<Follower> records_;
};

}  // namespace

class AgentRequestsTest : public QObject {
  Q_OBJECT

  // Requests to each call of a service; after each call the agent must answer.
  static void sendAll(Scene& scene, const std::string& service, const std::string& socket) {
    const std::string name = "lockstep.node.v1." + service;
    const auto* calls = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    QVERIFY(calls != nullptr && calls->method_count() > 10);
    grpc::GenericStub stub(channelTo(socket));
    for (int i = 0; i < calls->method_count(); ++i) {
      const auto* method = calls->method(i);
      RandomRequests random(static_cast<unsigned>(i) + 7,
                            scene.texts(kMeant.count(method->name()) == 0));
      for (int round = 0; round < kRounds; ++round) {
        std::vector<std::string> requests = {random.next(method->input_type())};
        if (method->client_streaming())
          for (std::size_t more = random.below(3); more > 0; --more)
            requests.push_back(random.next(method->input_type()));
        const grpc::Status status = call(stub, "/" + name + "/" + method->name(), requests);
        QVERIFY2(status.error_code() != grpc::StatusCode::UNIMPLEMENTED,
                 method->full_name().c_str());
      }
      QVERIFY2(eventually([&] { return scene.answers(); }, 30), method->full_name().c_str());
    }
  }

 private Q_SLOTS:
  void everyCallTakesAnyRequest() {
    std::string undisturbed;
    {
      Scene scene;
      undisturbed = scene.weights();
    }
    QCOMPARE(undisturbed.size(), std::size_t{64});
    Scene scene;
    const std::string canary = scene.node().workdir() + "/../canary";
    QVERIFY(writeFileAtomically(canary, "it sings").ok());
    QVERIFY(eventually([&] { return scene.trains(); }));
    sendAll(scene, "Supervisor", scene.supervisor());
    sendAll(scene, "Agent", scene.node().socket());
    QVERIFY(alive(scene.node().pid()));
    QCOMPARE(scene.weights(), undisturbed);
    QCOMPARE(*readFile(canary), std::string("it sings"));
    std::filesystem::remove(canary);
  }
};

QTEST_GUILESS_MAIN(AgentRequestsTest)
#include "agent_requests_test.moc"
