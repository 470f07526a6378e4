// Calls that last as long as a node works: what they tell, and when they are given up.
#include <grpcpp/grpcpp.h>

#include <QTemporaryDir>
#include <QTest>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "app/runs/data_calls.h"
#include "lockstep/node/v1/node.grpc.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// An agent that prepares for ever: "slow" says so every eight seconds and is ready after three of
// them, "silent" says so once, "mute" has no result.
class MadeUpAgent final : public node::v1::Agent::Service {
 public:
  explicit MadeUpAgent(const std::string& socket) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~MadeUpAgent() override { server_->Shutdown(std::chrono::system_clock::now()); }
  grpc::Status Prepare(grpc::ServerContext* context, const node::v1::PrepareRequest* request,
                       grpc::ServerWriter<node::v1::PrepareReply>* writer) override {
    ++begun_;
    node::v1::PrepareReply progress, result;
    progress.mutable_progress()->set_activity(node::v1::DataProgress::DECODING);
    progress.mutable_progress()->set_file("/data/images.gz");
    progress.mutable_progress()->set_bytes_done(12'000'000);
    progress.mutable_progress()->set_bytes_total(40'000'000);
    writer->Write(progress);
    if (request->run() == "mute") return grpc::Status::OK;
    for (auto last = Clock::now(); !context->IsCancelled();) {
      std::this_thread::sleep_for(milliseconds(20));
      if (request->run() != "slow" || Clock::now() - last < std::chrono::seconds(8)) continue;
      last = Clock::now();
      writer->Write(progress);
      if (++said_ < 3) continue;
      result.set_socket("ready");
      writer->Write(result);
      return grpc::Status::OK;
    }
    ++cancelled_;
    return grpc::Status::CANCELLED;
  }
  int begun() const { return begun_; }
  int cancelled() const { return cancelled_; }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int> said_ = 0, begun_ = 0, cancelled_ = 0;
};

struct MadeUpNode final : NodeAccess {
  explicit MadeUpNode(const std::string& socket)
      : channel(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials())) {}
  const std::string& name() const override { return own; }
  Result<NodeInventory> waitConnected(std::stop_token) override { return NodeInventory(); }
  Result<std::shared_ptr<grpc::Channel>> agent() override { return channel; }
  Result<std::shared_ptr<grpc::Channel>> supervisor(const std::string&) override { return channel; }
  Result<std::string> forward(const std::string& socketOnNode) override { return socketOnNode; }
  void unforward(const std::string&) override {}
  const std::string own = "n1";
  std::shared_ptr<grpc::Channel> channel;
};

struct Called {
  Called(MadeUpNode& node, const std::string& run, const std::stop_token& stop = {}) {
    thread = std::jthread([this, &node, run, stop] {
      const auto begin = Clock::now();
      node::v1::PrepareRequest request;
      request.set_run(run);
      const auto reply = callPrepare(
          node, request, "it failed",
          [this](const DataActivity& activity) { told.push_back(activity.text()); }, stop);
      seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      status = reply.status();
      if (reply.ok()) socket = reply->socket();
    });
  }
  std::vector<Message> told;
  Status status;
  std::string socket;
  double seconds = 0;
  std::jthread thread;
};

}  // namespace

class DataCallsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void onlySilenceEndsACall() {
    const QTemporaryDir folder;
    const std::string socket = folder.path().toStdString() + "/a.sock";
    MadeUpAgent agent(socket);
    MadeUpNode node(socket);
    std::stop_source stop;
    Called slow(node, "slow"), silent(node, "silent"), mute(node, "mute"),
        cancelled(node, "silent", stop.get_token());
    QTRY_COMPARE_WITH_TIMEOUT(agent.begun(), 4, 60000);
    stop.request_stop();
    for (Called* one : {&mute, &cancelled, &silent, &slow}) one->thread.join();
    QVERIFY2(slow.status.ok(), slow.status.ok() ? "" : slow.status.error().text().c_str());
    QCOMPARE(slow.socket, std::string("ready"));
    QVERIFY(slow.seconds > 23);
    QCOMPARE(slow.told.size(), std::size_t{4});
    QCOMPARE(slow.told[0].text(), std::string("decoding images.gz on n1: 12 of 40 MB"));
    QCOMPARE(silent.status.code(), Code::kDeadlineExceeded);
    QVERIFY(silent.seconds > 19 && silent.seconds < 40);
    QCOMPARE(silent.status.error().node, std::string("n1"));
    QCOMPARE(silent.status.error().why.text(), std::string("the node has been silent for 20 s"));
    QCOMPARE(cancelled.status.code(), Code::kCancelled);
    QVERIFY(cancelled.seconds < 15);
    QCOMPARE(mute.status.code(), Code::kUnavailable);
    QTRY_COMPARE_WITH_TIMEOUT(agent.cancelled(), 2, 30000);  // both were ended at the node, too
  }
};

QTEST_GUILESS_MAIN(DataCallsTest)
#include "data_calls_test.moc"
