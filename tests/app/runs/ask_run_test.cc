// What a client makes of a coordinator's answer to a request: a refusal, no promise yet, or none.
#include <grpcpp/grpcpp.h>

#include <QTemporaryDir>
#include <QTest>
#include <memory>
#include <string>

#include "app/runs/run_nodes.h"
#include "engine/specs/error_info.h"
#include "engine/specs/protocol.h"
#include "lockstep/node/v1/node.grpc.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

// An agent and a supervisor in one, which answers every stop and kill with `answer`.
class Node final : public node::v1::Agent::Service, public node::v1::Supervisor::Service {
 public:
  grpc::Status answer;

  grpc::Status FindRun(grpc::ServerContext*, const node::v1::FindRunRequest*,
                       node::v1::RunOnNode* reply) override {
    reply->set_socket("supervisor");
    *reply->mutable_speaks() = specs::toProto(specs::ownProtocols());
    return grpc::Status::OK;
  }
  grpc::Status Stop(grpc::ServerContext*, const node::v1::StopRequest*,
                    node::v1::StopReply*) override {
    return answer;
  }
  grpc::Status Kill(grpc::ServerContext*, const node::v1::KillRequest*,
                    node::v1::KillReply*) override {
    return answer;
  }
};

class Access final : public NodeAccess {
 public:
  explicit Access(const std::string& address)
      : channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}
  const std::string& name() const override { return name_; }
  Result<NodeInventory> waitConnected(std::stop_token) override { return NodeInventory(); }
  Result<std::shared_ptr<grpc::Channel>> agent() override { return channel_; }
  Result<std::shared_ptr<grpc::Channel>> supervisor(const std::string&) override {
    return channel_;
  }
  Result<std::string> forward(const std::string&) override {
    return makeError(Code::kInternal, "not used");
  }
  void unforward(const std::string&) override {}

 private:
  const std::string name_ = "n1";
  std::shared_ptr<grpc::Channel> channel_;
};

// As an agent sends it.
grpc::Status sent(Code code, grpc::StatusCode status) {
  Error error = makeError(code, "it is not known whether the run does what was asked");
  error.why = "fewer than half of its nodes have confirmed it";
  return {status, "", specs::toInfo(error).SerializeAsString()};
}

}  // namespace

class AskRunTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void theCodeTellsWhetherItHasAnswered() {
    const QTemporaryDir folder;
    const std::string address = "unix:" + folder.path().toStdString() + "/socket";
    Node node;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<node::v1::Agent::Service*>(&node));
    builder.RegisterService(static_cast<node::v1::Supervisor::Service*>(&node));
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    QVERIFY(server != nullptr);
    Access access(address);
    const RunNode coordinator{"n1", &access};
    const auto ask = [&](RunRequest::Kind kind, const grpc::Status& answer) {
      node.answer = answer;
      return askRun(kind, "run", coordinator, {}).status();
    };
    for (const RunRequest::Kind kind : {RunRequest::kStop, RunRequest::kKill}) {
      QVERIFY(ask(kind, grpc::Status::OK).ok());
      const Status open = ask(kind, sent(Code::kUnavailable, grpc::StatusCode::UNAVAILABLE));
      QCOMPARE(open.code(), Code::kAborted);
      QCOMPARE(open.error().node, std::string("n1"));
      QCOMPARE(open.error().why.text(),
               std::string("fewer than half of its nodes have confirmed it"));
      QCOMPARE(
          ask(kind, sent(Code::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION)).code(),
          Code::kFailedPrecondition);
      // Of the connection, not of the coordinator.
      QCOMPARE(ask(kind, {grpc::StatusCode::UNAVAILABLE, "Socket closed"}).code(),
               Code::kUnavailable);
      QCOMPARE(ask(kind, {grpc::StatusCode::DEADLINE_EXCEEDED, ""}).code(),
               Code::kDeadlineExceeded);
    }
  }
};

QTEST_GUILESS_MAIN(AskRunTest)
#include "ask_run_test.moc"
