// Checkpoints of a training.
#include "engine/runtime/training.h"

namespace lockstep::runtime {

Status Training::openCheckpoints() {
  if (options_.checkpointFolder.empty()) return {};
  checkpoints_ = std::make_unique<CheckpointWriter>(
      CheckpointTarget{options_.checkpointFolder, options_.checkpointFolderMade,
                       options_.keepCheckpoints, options_.copiedCheckpoint},
      rankState());
  return ofThisRank(checkpoints_->open());
}

Status Training::ofThisRank(Status status) const {
  if (!status.ok()) status.error().rank = rank_;
  return status;
}

bool Training::isCheckpointAsked() const {
  return options_.checkpointAsked != nullptr && !checkpoints_->isBusy() &&
         options_.checkpointAsked->load(std::memory_order_relaxed);
}

bool Training::isCheckpointDue() const {
  if (isCheckpointAsked() || (checkpointIsLate_ && !checkpoints_->isBusy())) return true;
  return options_.checkpointSeconds > 0 &&
         static_cast<double>(monotonicNow() - lastCheckpoint_) * 1e-9 >= options_.checkpointSeconds;
}

// Asynchronous workers meet when one asks for a checkpoint. While one is written, rank 0 alone asks
// for meetings.
Request Training::requestNow() const {
  if (stop_.load(std::memory_order_relaxed)) return Request::kStop;
  const bool hasNews = checkpointHasNews_ && (!plan_.isAsynchronous() || rank_ == 0);
  return checkpoints_ && (hasNews || isCheckpointDue()) ? Request::kCheckpoint : Request::kNone;
}

Status Training::checkpoint() {
  if (!checkpoints_) return {};
  lastCheckpoint_ = monotonicNow();
  if (checkpoints_->isBusy()) {
    tellLeftOut();
    return {};
  }
  checkpointIsLate_ = false;
  if (options_.checkpointAsked != nullptr) *options_.checkpointAsked = false;
  LOCKSTEP_TRY(state_->fetch());
  const auto notFinite = checkpoints_->takeSnapshot(progress_);
  if (!notFinite.ok()) {
    Status failed = ofThisRank(notFinite.status());
    failed.error().step = progress_.step;
    return failed;
  }
  LOCKSTEP_TRY(endIfNotFinite(*notFinite));
  observer_.flush();
  checkpoints_->begin();
  return {};
}

void Training::tellLeftOut() {
  if (rank_ != 0 || !options_.warn || toldSlowDisk_) return;
  toldSlowDisk_ = true;
  Error warning =
      checkpointIsLate_
          ? makeError(Code::kDeadlineExceeded, "the checkpoint at step {} is late", progress_.step)
          : makeError(Code::kDeadlineExceeded, "the checkpoint at step {} was skipped",
                      progress_.step);
  warning.why = "the previous checkpoint is still being written";
  warning.next = checkpointIsLate_              ? "use a faster disk"
                 : options_.checkpointSteps > 0 ? "increase training.checkpoint.every_steps"
                                                : "increase training.checkpoint.every_minutes";
  options_.warn(warning);
}

// Within an epoch.
Status Training::checkpointIfDue() {
  if (!checkpoints_) return {};
  bool asked = false;
  if (agreed_ == Request::kCheckpoint) {
    const auto attended = checkpoints_->attend(isCheckpointDue());
    LOCKSTEP_TRY(ofThisRank(attended.status()));
    asked = *attended;
    tellWritten();
    tellGivenUp();
  }
  const auto news = checkpoints_->hasNews();
  LOCKSTEP_TRY(ofThisRank(news.status()));
  checkpointHasNews_ = *news;
  const bool isTurn =
      options_.checkpointSteps > 0 && progress_.step % options_.checkpointSteps == 0;
  const bool endsEpoch = progress_.step % epochSteps() == 0 || progress_.step == lastStep();
  if ((!isTurn && !asked) || endsEpoch) return {};
  LOCKSTEP_TRY(addSums());
  keepSums();
  return checkpoint();
}

Status Training::finishCheckpoint() {
  if (!checkpoints_) return {};
  LOCKSTEP_TRY(ofThisRank(checkpoints_->finish()));
  checkpointHasNews_ = false;
  tellWritten();
  return {};
}

// At the end of an epoch. A slow disk does not hold up the next one: this epoch's checkpoint is
// then taken as soon as the earlier one is written. An evaluator needs one of every epoch.
Status Training::finishEarlierCheckpoint() {
  if (!options_.evaluate || progress_.step >= lastStep()) return finishCheckpoint();
  if (!checkpoints_) return {};
  LOCKSTEP_TRY(ofThisRank(checkpoints_->finishSoon()));
  checkpointIsLate_ = checkpoints_->isBusy();
  if (!checkpointIsLate_) checkpointHasNews_ = false;
  tellWritten();
  return {};
}

// Once, until one is written again.
void Training::tellGivenUp() {
  const Status& failed = checkpoints_->failed();
  if (failed.ok()) toldGivenUp_ = false;
  if (failed.ok() || std::exchange(toldGivenUp_, true) || rank_ != 0 || !options_.warn) return;
  const Error& cause = failed.error();
  Error warning = makeError(
      cause.code, "the checkpoint at step {} was not written; training goes on", cause.step);
  warning.why = cause.why.empty() ? cause.what : message("{}: {}", cause.what, cause.why);
  warning.next =
      "free space on that disk, or mount it again; the next checkpoint is taken as planned";
  options_.warn(warning);
}

void Training::tellWritten() {
  if (const auto written = checkpoints_->written(); written)
    observer_.onCheckpoint(written->step, written->folder);
}

}  // namespace lockstep::runtime
