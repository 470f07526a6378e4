// RunControl: one run on one node. One node is the coordinator; the others follow it. Runs on the
// loop's thread. Conducts what the run consists of, a part each:
//
//   Workers        the processes of this node's ranks
//   Rendezvous     the store by which the ranks find each other
//   Recovery       whether the run restarts after a failure
//   Hangs          which ranks hold up the others
//   Requests       what a person has asked for, to be done after the next checkpoint
//   CopyRounds     which checkpoints other nodes have copies of
//   CheckpointCopies  the copies that this node keeps
//   Succession     who takes over from a lost coordinator
//   Evaluations    what the evaluator node has to do; Evaluator does it there
//
// Two-phase start: a run is PREPARED until the client's Commit reaches the coordinator, which
// forwards it. Each node then starts its workers. When all workers are bound, the coordinator lets
// them begin. The run ends when all workers have succeeded, or with an error: the coordinator
// collects errors for a moment, prefers a root cause to cascading failures, and then either aborts
// all nodes or restarts the run: all nodes end their workers and start those of the next
// generation.
//
// The evaluator node has no ranks. Its failures are warnings. After the ranks have ended, the
// coordinator waits a limited time for its evaluation of the last epoch.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/base/run_folder.h"
#include "agent/host/links.h"
#include "agent/host/metrics.h"
#include "agent/host/stacks.h"
#include "agent/supervisor/checkpoint_copies.h"
#include "agent/supervisor/copy_rounds.h"
#include "agent/supervisor/electorates.h"
#include "agent/supervisor/evaluations.h"
#include "agent/supervisor/evaluator.h"
#include "agent/supervisor/hangs.h"
#include "agent/supervisor/members.h"
#include "agent/supervisor/peers.h"
#include "agent/supervisor/recovery.h"
#include "agent/supervisor/rendezvous.h"
#include "agent/supervisor/requests.h"
#include "agent/supervisor/run_limits.h"
#include "agent/supervisor/spool.h"
#include "agent/supervisor/succession.h"
#include "agent/supervisor/workers.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {

class RunControl {
 public:
  // `onOver` is called once, when the last record is written.
  RunControl(EventLoop& loop, RunFolder folder, node::v1::PrepareRequest request, Spool& spool,
             std::string version, RunLimits limits, std::function<void()> onOver);

  // Listens for peers if this node coordinates several. Returns the address, or "".
  Result<std::string> start();
  Status commit(const node::v1::CommitRequest& request);
  Status stop(const node::v1::StopRequest& request);
  Status checkpoint(const std::string& run, int generation);  // takes one soon
  // Takes a checkpoint soon, and then continues without the node.
  Status exclude(const std::string& run, int generation, const std::string& node);
  // Takes a checkpoint soon, and then restarts all ranks from it.
  Status restart(const std::string& run, int generation);
  // Takes a checkpoint soon, and then divides the batch by these shares.
  Status rebalance(const std::string& run, int generation, const std::vector<double>& shares);
  // Calls `answer` once a node that takes over would know what was asked until now; with an error
  // if that is not so within RunLimits::kept, or when the run ends.
  void whenKept(std::function<void(const Status&)> answer) {
    whenKept(limits_.kept, std::move(answer));
  }
  // All ranks record the events of so many steps. Returns which: those that are being recorded, if
  // there are some.
  Result<node::v1::ProfiledSteps> profile(const std::string& run, int generation, int steps);
  Status kill(const std::string& run, int generation, const Message& why);
  run::v1::RunState state() const { return state_; }
  bool hasEnded() const { return outcome_ && !alone_; }
  void say(std::string line);  // logs a line, also as a record
  // Returns the process of a rank of this node. kNotFound if it has none now.
  Result<int> processOf(int rank) const;
  void readStacks(int pid, StackReader::Done done) { stacks_.read(pid, std::move(done)); }
  // Whether the process is one of its workers.
  bool owns(int pid) const {
    return workers_.owns(pid) || (evaluator_ && evaluator_->pid() == pid);
  }

 private:
  using Worker = Workers::Worker;
  struct Heard {           // of another node
    Nanoseconds last = 0;  // 0: nothing yet
    bool silent = false;
  };
  struct Peer {  // another node, at the coordinator
    bool joined = false, ready = false;
    bool failed = false;    // a spare, which cannot be used any more
    std::string done;       // its status, once its workers have succeeded
    std::string address;    // where it serves its peers; "": it does not
    std::int64_t kept = 0;  // the newest revision of decisions that it has confirmed
    Heard heard;
    Nanoseconds left = 0;  // when its stream ended, the first time within RunLimits::lostPeer
    EventLoop::TimerId lost = 0;
  };

  void watchFolder(const std::stop_token& stop);
  Status check(const std::string& run, int generation) const;
  Status checkCoordinates() const;
  Status checkTakesCheckpoints() const;
  bool ofProgram() const { return request_.spec().has_workload(); }
  bool coordinates() const { return request_.coordinator(); }
  const spec::v1::NodeSpec* ownNode() const;
  std::string checkpointFolder() const {
    return specs::checkpointFolder(request_.spec(), request_.run(), folder_.checkpoints());
  }
  // Returns whether this is the evaluator node.
  bool evaluates() const { return !request_.evaluation_plan().empty(); }
  bool isEvaluator(const std::string& node) const {
    return evaluations_ && evaluations_->node() == node;
  }
  bool evaluatorAwaited(const std::string& node) const {
    return isEvaluator(node) && !evaluations_->lost();
  }
  void setState(run::v1::RunState state);
  void join(const std::string& address);
  std::unique_ptr<PeerClient> connect(const std::string& node, const std::string& address);
  Rendezvous::Handlers rendezvousHandlers();

  // Workers
  void committed();
  void tellSetup();
  void form();
  Nanoseconds formationLimit() const;
  Workers::Handlers workersHandlers();
  void onSteps(Worker& worker, const run::v1::StepChunk& steps);
  void onWorkerMessage(Worker& worker, node::v1::FromWorker& message);
  void onReady(Worker& worker, std::int64_t boundBytes);
  void onKvGet(Worker& worker, const node::v1::KvGet& asked);
  void onProgram(Worker& worker, int pid);
  void onProgramStacks(const Worker& worker, const node::v1::Stacks& stacks);
  void onWorkerStalled(int rank, node::v1::Stalled& stalled);
  void noteTrained(std::int64_t step);  // a checkpoint's
  void profileHere(const node::v1::ProfiledSteps& steps);
  void onWorkerExit(Worker& worker, int status);
  void endWorkers();
  std::map<std::string, std::string> nodesByAddress() const;  // the other nodes
  void sample();

  // Heartbeats
  void beat();
  void excuseOwnDelay();
  // Whether the node has just fallen silent, or is heard of again.
  bool changed(const std::string& node, Heard& heard);
  // But not yet silent. A node whose stream has ended is late at once: it is lost, or joins again.
  // One that comes and goes is not late for longer than silence takes.
  bool isLate(const Peer& peer) const;
  bool anyLate() const;
  void warnOfSilence(const std::string& node);
  LimitedRun limitedRun() const;
  void tellLimits();

  // Hangs
  Hangs::Handlers hangHandlers();
  void readStacksAnywhere(int rank);  // at the coordinator
  void readStacks(int rank);          // of this node, for the log and the coordinator
  // `begin`: lines that are told before them.
  void readStacksOf(const Worker& worker, const std::vector<std::string>& begin = {});
  void tellStacks(int rank, const std::vector<std::string>& lines);

  // Restarts
  // Coordinator only, like the next four: restarts the run, or ends it.
  // `byNode`: the error's node caused it. `since`: when this was first called for it; 0: now.
  void failed(const Error& error, bool byNode, Nanoseconds since = 0);
  bool failsAtOnce(const Error& error) const;
  FailureKind kindOf(const Error& error) const;
  void noteProgramProgress();
  bool trained() const { return gone_ || generation_ > request_.generation(); }
  void recover(const Error& cause, const std::optional<node::v1::Members>& members = {});
  // Returns true if the run continues without them or ends.
  bool replaceLost(const std::vector<std::string>& lost);
  void leaveOut(const std::string& node);
  void leaveOutLost(const std::vector<std::string>& lost, Error& error);
  void refuse(const std::string& node);
  bool hasRanks(const std::string& node) const;
  bool awaited(const std::string& node) const { return hasRanks(node) || evaluatorAwaited(node); }
  bool answers(const std::string& node) const;
  void beginGeneration(int generation, const node::v1::Recover& recover);
  void startGeneration();
  void noteFirstSteps(const run::v1::StepChunk& steps);
  void noteRecovered(std::int64_t step);
  bool isEnding() const;  // the run: a node's ranks have succeeded, or the last step is done

  // Nodes that come back
  bool mayReturn() const;
  void endAlone(const Error& error);
  void endAbsence();
  void takeCluster(spec::v1::ClusterSpec cluster);
  bool addSpare(const std::string& node);
  bool takeBack(const std::string& node);  // at the coordinator, like the next three
  bool canGrow() const;
  void grow();
  void checkpointNow();
  void regroupSoon();
  bool awaitsCheckpoint() const { return canGrow() || (coordinates() && requests_.any()); }
  void regroup(std::int64_t step);  // of a checkpoint

  // Excluding nodes, restarting ranks and dividing the batch anew, at the coordinator
  Status mustTrain(Error refusal) const;
  Status mayExclude(const std::string& node) const;
  Status checkExcludable(const std::string& node) const;
  Status mayGoOnWithout(const std::vector<std::string>& nodes) const;
  Result<node::v1::Members> membersExcluding(const std::vector<std::string>& nodes) const;
  bool mayExcludeNow() const;
  void excludeFailing(const std::string& node);
  bool excludeNow(const Error& cause);
  bool excludeAfter(Error failure);
  void cannotExclude(const Message& why);
  bool rebalanceNow(std::int64_t step);
  void cannotRebalance(const Message& why);
  void dropRequests(const Message& why);

  // Decisions, which survive the coordinator
  node::v1::Decisions decisions() const;
  void tellDecisions();  // to the other nodes
  bool isKept(std::int64_t revision) const;
  void whenKept(Nanoseconds limit, std::function<void(const Status&)> answer);
  void answerKept();
  Error notKept() const;
  std::vector<std::string> nodesThatVote() const;  // from this generation on
  void changeElectorate();
  void endElectorateChange();
  void decideEnd(run::v1::RunState state);
  void writeEnd();
  void endOnceKept();
  void endAsDecided();
  void keepDecisions(const node::v1::Decisions& told);
  void continueFrom(const node::v1::Decisions& told);
  void continueFrom(const Succession::Voters& voters);
  node::v1::Decisions newestOf(const Succession::Voters& voters) const;
  void takeOverRequests();  // of a lost coordinator
  void endAs(run::v1::RunState state);
  void endKilled();
  void tellEnd(const std::string& node, run::v1::RunState state);

  // Copies of checkpoints
  bool listens() const;   // it may take over, or has files that others copy or evaluate
  void setCopySources();  // of the current generation
  CheckpointCopies& copies();
  void endCopies();
  void onPublished(std::int64_t step);  // a checkpoint, on all nodes
  void beginCopies();
  bool areCopiesAwaited() const;
  void hurryCopies();
  node::v1::ToPeer copyMessage() const;
  void askForCopies();
  void copyHere(const node::v1::CopyCheckpoint& asked);
  void onCopied(std::int64_t step, const Status& copied);
  void beginModelCopies();
  void onModelCopied(const Status& copied);
  void noteCopied(const std::string& node, const node::v1::CheckpointCopied& copied);
  void onAllCopied(std::int64_t step);
  void tellCopied();

  // Takeover
  bool hasQuorum() const;  // at the coordinator
  bool continuesWithoutAny() const;
  node::v1::Go goMessage() const;
  Succession::Handlers successionHandlers();
  Succession::Situation situation() const;
  void onVote(const std::string& node, const node::v1::FromPeer& message);
  void onCandidateMessage(const std::string& node, const node::v1::ToPeer& message);
  // Without the nodes `lost`. Returns why the run cannot continue so.
  Status takeOverWithout(const std::vector<std::string>& lost, const Succession::Voters& voters);
  void endInTheirPlace(const std::vector<std::string>& lost);
  void becomeCoordinator(const Succession::Voters& voters);
  void takeOver(const std::vector<std::string>& lost, const Succession::Voters& voters,
                const node::v1::Members& members);

  // Evaluator node
  void startEvaluator();
  void onEpoch(run::v1::Record& record);
  void onCheckpoint(std::int64_t step);
  std::vector<node::v1::FileSource> fileSources() const;
  void tellEvaluator();
  void onEvaluated(const node::v1::Evaluated& evaluated);
  void evaluatorLost(const Message& why);
  void warn(Error warning);

  // Agreement between nodes
  void onPeerJoin(const std::string& node, const node::v1::PeerHello& hello);
  void onPeerLeave(const std::string& node);
  void spareFailed(const std::string& node, Error error);
  void onPeerMessage(const std::string& node, const node::v1::FromPeer& message);
  void onCoordinatorJoin();
  void onCoordinatorLost(const Message& why);
  void onCoordinatorMessage(const node::v1::ToPeer& message);
  void tellPeers(const node::v1::ToPeer& message);
  void localReady();
  void checkReady();
  void go();
  void beginStop();
  void warnOfStopWithout(Error lost);
  void localDone();
  void checkDone();
  bool awaitsLast(bool stopped);
  void tellAwaited(const Message& awaited);
  void giveUpCopies();
  void giveUpCopiesOf(const std::string& node);
  void warnNotCopied(Code code, const Message& why);
  void localFailure(Error error, bool cascading);
  void noteFailure(Error error, bool cascading);
  Error killedError(const Message& why) const;
  void killEverywhere(const Error& error);
  void abort(const Error& error);
  void finishWhenGone();
  void finish();

  EventLoop& loop_;
  RunFolder folder_;
  node::v1::PrepareRequest request_;  // with the members of this generation
  const spec::v1::ClusterSpec launched_;
  Spool& spool_;
  std::string version_;
  RunLimits limits_;
  std::function<void()> onOver_;

  run::v1::RunState state_ = run::v1::PREPARED;
  int generation_;
  node::v1::Recover recover_;  // how this generation began; empty for the first
  const Nanoseconds heartbeat_;
  Heard coordinatorHeard_;      // at the other nodes
  Nanoseconds lastBeat_ = 0;    // of this process; 0: none yet
  Nanoseconds clockNoted_ = 0;  // when a ClockOffset was recorded
  bool leaving_ = false;        // the workers of the generation before are being ended
  bool absent_ = false;         // this node waits until the coordinator takes it back
  Recovery recovery_;           // at the coordinator, as the next four
  Nanoseconds programBegan_ = 0;
  Nanoseconds failedAt_ = 0;  // when the first error came; 0: it trains
  bool restarting_ = false;   // until the first steps of this generation
  bool toldMinority_ = false, cannotGrow_ = false;
  bool checkpointAsked_ = false;  // by a person, until one is published
  std::string keptOut_;           // silent nodes that could not be replaced, and the spares tried
  // The last step completed in any generation; at every node. Those of this one may be earlier:
  // Workers::lastStep().
  std::int64_t furthest_ = 0;
  std::int64_t epochs_ = 0;  // done; at the node of rank 0
  bool isTrained_ = false;   // its last epoch or step is done; at the coordinator
  CopyRounds checkpoints_;
  // At the coordinator: whether it has had the trained model copied, and who has not answered.
  bool copiesModel_ = false;
  std::set<std::string> modelAwaited_;
  bool warnedOfCopies_ = false;
  std::map<int, node::v1::Stalled> stalled_;  // this node's ranks that stand still
  Hangs hangs_;                               // at the coordinator
  // The newest: nodes that the last generation that trained had begun with. Those that came back
  // during this one are not among them. Empty before the run trains.
  Electorates electorates_;
  std::int64_t electoratesTold_ = 0;  // the first revision with these; at the coordinator
  std::set<std::string> returned_;    // at the coordinator
  // Decisions: at the other nodes, as the coordinator has told them.
  Requests requests_;
  std::optional<run::v1::RunState> decidedEnd_;  // of the run
  std::int64_t revision_ = 0;
  struct Unanswered {
    std::int64_t revision = 0;
    Nanoseconds until = 0;
    std::function<void(const Status&)> answer;
  };
  std::vector<Unanswered> unanswered_;  // at the coordinator
  node::v1::ProfiledSteps profiled_;    // the last that were asked for in this generation
  // At the other nodes, until one of them takes over:
  std::string coordinator_, coordinatorAddress_;
  std::map<std::string, node::v1::Vote> votes_;  // the last of each voter
  Succession succession_;
  std::unique_ptr<PeerClient> candidate_;  // to the successor that this node votes for
  Workers workers_;
  NodeSampler sampler_;
  LinkSampler links_;
  std::string host_;  // at which it serves its peers; "": it does not
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<PeerClient> client_;
  std::map<std::string, Peer> peers_;
  std::unique_ptr<Evaluations> evaluations_;  // at the coordinator
  std::unique_ptr<Evaluator> evaluator_;      // at the node of that role
  std::unique_ptr<CheckpointCopies> copies_;  // where this node keeps copies
  std::vector<std::unique_ptr<CheckpointCopies>>
      endedCopies_;  // that may still be in a disk's call
  Rendezvous rendezvous_;

  bool committed_ = false, ready_ = false, gone_ = false, stopping_ = false, forced_ = false;
  bool aborted_ = false, over_ = false;
  Error abortedWith_;
  std::string doneStatus_;     // this node's
  std::optional<Error> told_;  // sent to the coordinator
  bool sentCascading_ = false;
  std::optional<Error> pendingCause_;         // a cascading failure waiting for its root cause
  std::optional<run::v1::RunState> outcome_;  // once known
  bool agreed_ = false;                       // it is that of the run
  bool alone_ = false;                        // other nodes may continue the run without this one
  bool killed_ = false;                       // the run, as other nodes are told
  bool awaitsKept_ = false;                   // until it is known whether they know
  EventLoop::TimerId expiry_ = 0, formation_ = 0, graceTimer_ = 0, lostTimer_ = 0, absence_ = 0,
                     lastEvaluation_ = 0, lastCopies_ = 0, pause_ = 0;
  std::string toldAwaited_;  // the last text of tellAwaited
  bool endsAtOnce_ = false;  // a person does not want it to wait for that
  StackReader stacks_;
  std::jthread folderWatch_;  // declared last: uses the other members
};

}  // namespace lockstep::agent
