// RunControl: one run on one node. Owns the workers and their records, follows the coordinator or
// is it. Everything happens on the loop's thread.
//
// PREPARED until the client's Commit has reached the coordinator, which tells the others; each node
// then starts its workers; when all of them are bound, everyone goes. The run ends when every
// worker of every node ended well, or with the first error: the coordinator collects errors, lets
// one that says what began it go before those that only say that a peer failed, and ends the run
// everywhere with it.
//
// A node of role evaluator is one of them without ranks. What fails there is told as a warning and
// ends nothing; once the ranks have ended, what it makes of the last epoch is awaited for a while.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/base/key_value_store.h"
#include "agent/base/run_folder.h"
#include "agent/host/cores.h"
#include "agent/host/metrics.h"
#include "agent/supervisor/evaluations.h"
#include "agent/supervisor/evaluator.h"
#include "agent/supervisor/peers.h"
#include "agent/supervisor/spool.h"
#include "agent/worker/worker_process.h"
#include "engine/specs/specs.h"

namespace lockstep::agent {

struct RunLimits {
  Nanoseconds prepared = 30'000'000'000;   // until Commit
  Nanoseconds formation = 60'000'000'000;  // from Commit until every worker is bound
  Nanoseconds lostPeer = 30'000'000'000;   // without a stream to the coordinator, or from a node
  Nanoseconds stopTerm = 10'000'000'000;   // from Stop to SIGTERM
  Nanoseconds stopKill = 15'000'000'000;   // from Stop to SIGKILL
  Nanoseconds lastEvaluation = 600'000'000'000;  // from the ranks' end
  // For the error that began it to arrive: who waited for a silent rank asks it for its last words
  // for a second.
  Nanoseconds grace = 2'000'000'000;
};

class RunControl {
 public:
  // `onOver` once, when the last record has been written.
  RunControl(EventLoop& loop, RunFolder folder, node::v1::PrepareRequest request, Spool& spool,
             std::string version, RunLimits limits, std::function<void()> onOver);
  ~RunControl();

  // Listens for peers where this node coordinates several. Returns that address or "".
  Result<std::string> start();
  Status commit(const node::v1::CommitRequest& request);
  Status stop(const std::string& run, int generation);
  Status kill(const std::string& run, int generation, const std::string& why);
  run::v1::RunState state() const { return state_; }
  void say(std::string line);  // a log line of the supervisor, to the records too

 private:
  struct Worker {
    int rank = 0;
    Nanoseconds started = 0;
    std::unique_ptr<WorkerProcess> process;
    bool ready = false, exited = false;
    std::optional<run::v1::Finished> finished;
    std::optional<run::v1::ErrorInfo> failed;
    std::int64_t lastStep = -1;
  };
  struct Peer {  // another node, as the coordinator sees it
    bool joined = false, ready = false;
    std::string done;  // its status, once its workers ended well
    EventLoop::TimerId lost = 0;
  };

  void watchFolder(const std::stop_token& stop);
  Status check(const std::string& run, int generation) const;
  bool coordinates() const { return request_.coordinator(); }
  // this node, and does nothing else
  bool evaluates() const { return !request_.evaluation_plan().empty(); }
  bool isEvaluator(const std::string& node) const {
    return evaluations_ && evaluations_->node() == node;
  }
  void setState(run::v1::RunState state);
  void join(const std::string& address);

  // Workers.
  void committed();
  Status startWorkers();
  Status startWorker(int index, int rank, const specs::RankDevice& device, bool oversubscribed);
  void onWorkerMessage(Worker& worker, node::v1::FromWorker& message);
  void onWorkerExit(Worker& worker, int status);
  void sendAll(const node::v1::ToWorker& message);
  void signalAll(int number);
  bool workersGone() const;
  void sample();

  // Evaluation by a node of its own.
  void startEvaluator();
  void onEpoch(run::v1::Record& record);
  void onCheckpoint(const run::v1::CheckpointInfo& checkpoint);
  void tellEvaluator();
  void onEvaluated(const node::v1::Evaluated& evaluated);
  void evaluatorLost(const std::string& why);
  void warn(run::v1::ErrorInfo warning);

  // Key/value store of the rendezvous.
  void kvSet(const std::string& key, const std::string& value);
  void kvGet(const std::string& key, KeyValueStore::Answer answer);
  void localKvGet(Worker& worker, std::uint64_t id, const std::string& key);

  // Agreement.
  void onPeerJoin(const std::string& node, const node::v1::PeerHello& hello);
  void onPeerLeave(const std::string& node);
  void onPeerMessage(const std::string& node, const node::v1::FromPeer& message);
  void onCoordinatorJoin();
  void onCoordinatorLost(const std::string& why);
  void onCoordinatorMessage(const node::v1::ToPeer& message);
  void tellPeers(const node::v1::ToPeer& message);
  void localReady();
  void checkReady();
  void go();
  void beginStop();
  void localDone();
  void checkDone();
  void localFailure(run::v1::ErrorInfo error, bool cascading);
  void noteFailure(run::v1::ErrorInfo error, bool cascading);
  void abort(const run::v1::ErrorInfo& error);
  void finishWhenGone();
  void finish();

  EventLoop& loop_;
  RunFolder folder_;
  node::v1::PrepareRequest request_;
  Spool& spool_;
  std::string version_;
  RunLimits limits_;
  std::function<void()> onOver_;

  run::v1::RunState state_ = run::v1::PREPARED;
  std::vector<std::unique_ptr<Worker>> workers_;
  int sharedMemory_ = -1;
  CoreClaims cores_;  // while workers are there
  NodeSampler sampler_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<PeerClient> client_;
  std::map<std::string, Peer> peers_;
  std::unique_ptr<Evaluations> evaluations_;  // at the coordinator
  std::unique_ptr<Evaluator> evaluator_;      // at the node of that role
  KeyValueStore kv_;                          // at the coordinator
  std::uint64_t nextGet_ = 1;
  std::map<std::uint64_t, std::pair<std::string, KeyValueStore::Answer>> kvAsked_;
  // said again when the stream is up again
  std::vector<std::pair<std::string, std::string>> kvTold_;

  bool committed_ = false, ready_ = false, gone_ = false, stopping_ = false, forced_ = false;
  bool aborted_ = false, over_ = false;
  run::v1::ErrorInfo abortedWith_;
  std::string doneStatus_;                  // of this node
  std::optional<run::v1::ErrorInfo> told_;  // what this node has told the coordinator
  bool sentCascading_ = false;
  std::optional<run::v1::ErrorInfo> pendingCause_;  // a cascading failure that waits for its cause
  std::optional<run::v1::RunState> outcome_;        // once known
  EventLoop::TimerId expiry_ = 0, formation_ = 0, graceTimer_ = 0, lostTimer_ = 0,
                     lastEvaluation_ = 0;
  std::jthread folderWatch_;  // the last member: it uses the others
};

}  // namespace lockstep::agent
