// A node under test: a workdir with its own agent, and runs on it.
#pragma once

#include <QTemporaryDir>

#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::agent_test {

// Throws std::runtime_error on an error: the test fails.
inline void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error().text());
}
template <typename T>
T must(Result<T> result) {
  must(result.status());
  return std::move(*result);
}

// Polls until `condition` holds; false after `seconds`.
bool eventually(const std::function<bool()>& condition, double seconds = 60);
std::vector<int> processesOfRun(const std::string& run);  // LOCKSTEP_RUN in their environment
// A process that was killed lives until its last thread has ended: its first one may be a zombie
// while the process still holds its locks and sockets.
bool alive(int pid);
std::shared_ptr<grpc::Channel> channelTo(const std::string& socket);
std::unique_ptr<grpc::ClientContext> deadline(double seconds = 60);

// Calls that tell their progress before the result. `onProgress` returns false to cancel.
struct ProgressCall {
  double seconds = 60;
  std::function<bool(const node::v1::DataProgress&)> onProgress = {};
};
grpc::Status prepare(node::v1::Agent::Stub& agent, const node::v1::PrepareRequest& request,
                     node::v1::PrepareReply* reply, const ProgressCall& call = {});
grpc::Status findFile(node::v1::Agent::Stub& agent, const node::v1::FindFileRequest& request,
                      node::v1::FindFileReply* reply, const ProgressCall& call = {});

// A command of lockstep-agent to its end.
struct Output {
  int code = -1;
  std::string out, err;
};
Output runAgent(const std::vector<std::string>& arguments, const std::string& input = {});

class Node {
 public:
  explicit Node(std::string name, std::vector<std::string> options = {});
  ~Node();       // ends agent, supervisors and workers of this workdir
  void start();  // serve --detach; throws std::runtime_error
  void killAgent();
  void disconnect() { agent_.reset(); }
  const std::string& name() const { return name_; }
  std::string workdir() const { return folder_.path().toStdString(); }
  int pid() const { return pid_; }
  const std::string& socket() const { return socket_; }
  node::v1::Agent::Stub& agent() { return *agent_; }

 private:
  std::string name_;
  std::vector<std::string> options_;
  QTemporaryDir folder_;
  std::string socket_;
  int pid_ = -1;
  std::unique_ptr<node::v1::Agent::Stub> agent_;
};

// Follows a supervisor's records from the first on, on a thread.
class Follower {
 public:
  Follower(const std::string& socket, std::uint64_t after = 0);
  ~Follower();
  std::vector<run::v1::Record> records() const;
  bool waitFor(const std::function<bool(const run::v1::Record&)>& condition, double seconds = 60);
  bool waitFinished(double seconds = 120);
  run::v1::RunState state() const;  // of `finished`, or unspecified
  std::string error() const;        // what and why of the first error
  std::string ended() const;        // how the stream ended, or that it has not
  std::int64_t lastStep(int rank) const;
  int pidOf(int rank) const;

 private:
  std::unique_ptr<node::v1::Supervisor::Stub> stub_;
  grpc::ClientContext context_;
  mutable std::mutex mutex_;
  std::vector<run::v1::Record> records_;
  std::string ended_;
  std::thread thread_;
};

// fashion-mlp for `nodes` with `ranks` each.
struct RunOptions {
  std::string run;
  std::vector<std::string> nodes = {"n1"};
  int ranks = 3;
  std::string comm = "shm";
  std::int64_t maxSteps = 50;
  std::int64_t batch = 96;
  std::string backend = "reference";
  std::string device = "cpu";  // kind of the nodes' devices
  std::int64_t hidden = 128;   // units of the hidden layer
  std::string strategy = "multi-worker-mirrored";
  std::string evaluator;  // a node of that role after them; "" none
  std::string recovery = "none";
};
node::v1::PrepareRequest prepareRequest(const RunOptions& options, int node = 0);
std::string newRunId();

}  // namespace lockstep::agent_test
