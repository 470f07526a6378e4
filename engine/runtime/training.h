// A training on one rank, step by step: private to the trainer's sources.
#pragma once

#include <limits>
#include <map>
#include <optional>

#include "engine/runtime/checkpoint_writer.h"
#include "engine/runtime/divergence.h"
#include "engine/runtime/feed.h"
#include "engine/runtime/metric.h"
#include "engine/runtime/server.h"
#include "engine/runtime/slow_steps.h"
#include "engine/runtime/trainer.h"

namespace lockstep::runtime {

class Training {
 public:
  Training(const plan::Plan& plan, int rank, const TrainerOptions& options,
           const data::Dataset& trainData, const data::Dataset& evalData,
           backends::Backend& backend, const Groups& groups, const std::atomic<bool>& stop,
           TrainerObserver& observer)
      : plan_(plan),
        rank_(rank),
        options_(options),
        trainData_(trainData),
        evalData_(evalData),
        backend_(backend),
        groups_(groups),
        stop_(stop),
        observer_(observer) {}

  Result<TrainerSummary> run();

 private:
  Status bind();
  Status runMadeUp(std::int64_t step);
  Status warmUp();
  Status warmAgain();
  void clearWhatInitLeaves();
  Status startOrResume();
  Status load();              // loads the rest of the epoch
  Result<bool> trainEpoch();  // true if asked to stop
  Status evaluate();
  Status checkpoint();  // takes a snapshot, which is written while the training goes on
  void tellLeftOut();   // once, that the disk is too slow for a checkpoint
  Status openCheckpoints();
  bool isCheckpointDue() const;  // by elapsed time
  Status checkpointIfDue();
  Status finishCheckpoint();  // waits until it is written
  Status finishEarlierCheckpoint();
  void tellWritten();
  void tellGivenUp();
  Status ofThisRank(Status status) const;  // adds this rank to an error
  Status finishEpoch();
  Result<bool> serveEpoch();  // as trainEpoch()
  // Asynchronous ranks: the step after which they meet next, for a checkpoint or at the end of the
  // epoch; and what they do then.
  std::int64_t nextMeeting() const;
  Status meet();
  Status serveUntil(std::int64_t last);
  Status addSums();
  void keepSums();
  void endSumsWithEpoch();
  Status checkScale(std::int64_t step, double scale) const;
  void noteNonFinite(std::int64_t step);
  Status endIfDiverged();
  Status endDiverged(const Message& what);
  std::optional<Found> stateNotFinite(std::int64_t step) const {
    return runtime::stateNotFinite(plan_, rank_, *state_, step);
  }
  Status endIfNotFinite(const std::optional<Found>& mine);
  bool endsWhereNotFinite() const { return options_.nonFinite == NonFinite::kRefused; }
  Status step(const data::BatchPosition& position, double readingSeconds, Nanoseconds begin);
  bool isCheckpointAsked() const;
  Request requestNow() const;  // of this rank
  bool recordsSlowSteps() const;
  Status runEntries(std::int64_t number, bool withEvents, Nanoseconds begin, StepRecord& record);
  Status checkStep(const StepRecord& record);
  // Returns a step's batch, if its epoch has one; invalidates the previous step's.
  const data::Batch* batchOf(std::int64_t step);
  void writeSamples(std::int64_t step, std::size_t entry);
  Status writeAhead();

  RankState rankState() { return {plan_, rank_, *state_, groups_}; }
  std::int64_t epochSteps() const {
    return data::stepsPerEpoch(trainData_.size(), plan_.globalBatch);
  }
  std::int64_t samplesUntil(std::int64_t step) const {  // of all epochs
    return step / epochSteps() * trainData_.size() + step % epochSteps() * plan_.globalBatch;
  }
  std::int64_t epochEnd() const {  // of the epoch in which the next step is
    return std::min(lastStep(), (progress_.step / epochSteps() + 1) * epochSteps());
  }
  std::int64_t lastStep() const {
    if (options_.epochs == 0) return options_.maxSteps;
    std::int64_t all = 0;
    if (__builtin_mul_overflow(options_.epochs, epochSteps(), &all))
      all = std::numeric_limits<std::int64_t>::max();
    return options_.maxSteps > 0 ? std::min(all, options_.maxSteps) : all;
  }

  const plan::Plan& plan_;
  const std::string_view metric_ = plan_.metric();
  const int rank_;
  const TrainerOptions& options_;
  const data::Dataset& trainData_;
  const data::Dataset& evalData_;
  backends::Backend& backend_;
  const Groups groups_;
  const std::atomic<bool>& stop_;
  TrainerObserver& observer_;

  std::unique_ptr<StateArena> state_;
  Arena arena_;  // shared by all programs, which run one at a time
  std::map<std::pair<std::string, int>, std::unique_ptr<Feed>> feeds_;  // by program and copy
  std::unique_ptr<Feed> evalFeed_;
  std::unique_ptr<Server> server_;  // on an asynchronous server
  struct BoundEntry {
    Feed* feed;
    int micro;
  };
  const std::vector<BoundEntry>& entriesOf(std::int64_t step) const {
    return step <= plan_.uncompressedWarmupSteps ? uncompressedEntries_ : entries_;
  }
  Status bindEntries(const std::vector<plan::ScheduleEntry>& entries,
                     std::vector<BoundEntry>& bound);

  std::vector<BoundEntry> entries_;              // entries of a step, as in the plan
  std::vector<BoundEntry> uncompressedEntries_;  // of the first Plan::uncompressedWarmupSteps
  std::int64_t updates_ = 0;                     // optimizer updates per step
  std::vector<plan::Event> events_;              // of the current step; its capacity is that of all
  SlowSteps slowSteps_;
  std::unique_ptr<data::Loader> loader_;  // of the current or next epoch
  const data::Batch* batch_ = nullptr;
  std::int64_t batchStep_ = 0;  // the step of batch_
  // By step and index: the running entry, and the last one whose samples have been written. On a
  // device, the next samples are written while it runs.
  std::pair<std::int64_t, std::size_t> running_, written_;
  Sums sums_;  // of the current step
  Progress progress_;
  TrainerSummary summary_;
  std::unique_ptr<CheckpointWriter> checkpoints_;  // null: none are written
  Nanoseconds lastCheckpoint_ = 0;                 // when the last one was begun
  bool checkpointHasNews_ = false;                 // see CheckpointWriter::hasNews()
  bool checkpointIsLate_ = false;                  // that of the last epoch's end
  bool toldSlowDisk_ = false, toldGivenUp_ = false;
  Request agreed_ = Request::kNone;  // by all ranks, in the last step
  bool endsEarly_ = false;  // asynchronous workers meet after this step, before nextMeeting()
  std::int64_t skippedInARow_ = 0, tried_ = 0;  // numbers of updates
  // This rank's finding if its loss was not finite: the step, and the first non-finite tensor.
  std::optional<Found> nonFinite_;
  double trainedSamples_ = 0, trainedSeconds_ = 0;
};

}  // namespace lockstep::runtime
