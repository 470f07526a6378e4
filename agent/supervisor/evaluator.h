// Evaluator: evaluates checkpoints on a node of role evaluator. Takes the newest checkpoint
// announced, fetches its weights from the nodes that have them and evaluates it in a new worker,
// one at a time; a failure does not affect the next. Runs on the loop's thread, and fetches on a
// thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/base/run_folder.h"
#include "agent/worker/worker_process.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class Evaluator {
 public:
  struct Handlers {
    std::function<int()> generation;                       // returns the one that this node is in
    std::function<void(const node::v1::Evaluated&)> tell;  // what came of a checkpoint
    std::function<void(std::string line)> say;
  };
  Evaluator(EventLoop& loop, const RunFolder& folder, const node::v1::PrepareRequest& request,
            const specs::RankDevice& device, Handlers handlers);
  // Cancels a fetch, ends the worker, and removes what was fetched. Waits for the end of a call to
  // the disk.
  ~Evaluator();
  Status start();

  void onNewest(const node::v1::Evaluate& newest);
  void onJoin();  // what was said before may be lost
  // the worker's; -1: none
  int pid() const { return worker_ ? worker_->pid() : -1; }

 private:
  std::int64_t step() const { return at_->epoch().step(); }
  std::string planPath() const { return folder_.path + "/evaluation-plan.txt"; }
  std::string checkpoint() const;  // the folder of the one at work on
  void next();
  void fetch();
  void onFetched(const Status& fetched);
  void passOver();  // the one at work on, for a newer one
  Status evaluate();
  void onMessage(const node::v1::FromWorker& message);
  void onExit(int status);
  void end(std::optional<Error> error);

  EventLoop& loop_;
  const RunFolder folder_;
  const node::v1::PrepareRequest& request_;
  const specs::RankDevice device_;
  const Handlers handlers_;
  std::optional<node::v1::Evaluate> waiting_, at_;  // the newest; the one at work on
  std::vector<std::int64_t> passed_;                // steps passed over meanwhile
  int tries_ = 0;                                   // to fetch it
  EventLoop::TimerId nextTry_ = 0;
  std::unique_ptr<WorkerProcess> worker_;
  std::optional<run::v1::EpochInfo> result_;
  std::optional<Error> failed_;
  std::optional<node::v1::Evaluated> told_;                           // the last
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // of the loop's thread
  std::jthread fetching_;
};

}  // namespace lockstep::agent
