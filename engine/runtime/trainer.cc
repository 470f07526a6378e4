#include "engine/runtime/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/memory.h"
#include "engine/cluster/mesh.h"
#include "engine/runtime/agree.h"
#include "engine/runtime/evaluate.h"
#include "engine/runtime/finite.h"
#include "engine/runtime/training.h"

namespace lockstep::runtime {

Status Training::bind() {
  LOCKSTEP_ASSIGN(state_, StateArena::make(plan_, rank_, &backend_));
  LOCKSTEP_ASSIGN(arena_, Arena::make(backend_, plan_.arenaBytesOf(rank_)));
  LOCKSTEP_TRY(openCheckpoints());
  if (options_.evaluate) {
    LOCKSTEP_ASSIGN(evalFeed_, Feed::bind(plan_, "evaluate", rank_, plan_.evaluateCuts, evalData_,
                                          backend_, groups_, *state_, arena_.data()));
    if (endsWhereNotFinite()) evalFeed_->executor().watchLoss();
  }
  if (plan_.isAsynchronous() && plan_.mesh.isServer(rank_)) {
    LOCKSTEP_ASSIGN(server_, Server::bind(plan_, rank_, backend_, groups_, *state_));
    return {};
  }
  LOCKSTEP_TRY(bindEntries(plan_.entriesOf(rank_), entries_));
  if (plan_.uncompressedWarmupSteps > 0) {
    const auto stage = static_cast<std::size_t>(plan_.stageOf(rank_));
    LOCKSTEP_TRY(bindEntries(plan_.uncompressedSchedule()[stage], uncompressedEntries_));
  }
  std::size_t steps = 0;
  for (const BoundEntry& entry : entries_) {
    if (entry.feed->updates()) ++updates_;
    steps += entry.feed->executor().steps();
  }
  const bool evaluates = !evalFeed_ || evalFeed_->hasMetrics() || plan_.mesh.isServer(rank_);
  if (entries_.empty() || !entries_.back().feed->hasMetrics() || !evaluates)
    return invalidArgument("a program of the plan has no result \"metrics\" of at least three");
  sums_.metric.resize(metricSums(entries_.back().feed->metrics()));
  events_.reserve(steps);
  return {};
}

Status Training::bindEntries(const std::vector<plan::ScheduleEntry>& entries,
                             std::vector<BoundEntry>& bound) {
  for (const plan::ScheduleEntry& entry : entries) {
    std::unique_ptr<Feed>& feed = feeds_[{entry.program, entry.copy}];
    if (!feed) {
      LOCKSTEP_ASSIGN(feed, Feed::bind(plan_, entry.program, rank_, plan_.batchCuts, trainData_,
                                       backend_, groups_, *state_, arena_.data(), entry.copy));
      if (endsWhereNotFinite()) feed->executor().watchLoss();
    }
    bound.push_back({feed.get(), entry.micro});
  }
  return {};
}

Status Training::startOrResume() {
  progress_.seed = options_.seed;
  const ReadOptions reading{options_.seed, options_.nonFinite, options_.warn};
  if (options_.resumeFrom.empty()) {
    LOCKSTEP_ASSIGN(const auto init, Executor::bind(plan_, "init", rank_, backend_, groups_,
                                                    *state_, 0, arena_.data()));
    LOCKSTEP_TRY(init->run(0, nullptr));
    if (options_.initFrom.file.empty() && options_.initFrom.checkpoint.empty()) return {};
    LOCKSTEP_TRY(state_->fetch());
    LOCKSTEP_TRY(readWeights(options_.initFrom, reading, rankState()));
    return state_->put();
  }
  LOCKSTEP_ASSIGN(progress_, readCheckpoint(options_.resumeFrom, reading, rankState()));
  LOCKSTEP_TRY(state_->put());
  keepSums();
  return {};
}

const data::Batch* Training::batchOf(std::int64_t step) {
  if (batchStep_ != step) batch_ = loader_->next();
  batchStep_ = step;
  return batch_;
}

void Training::writeSamples(std::int64_t step, std::size_t entry) {
  const auto& [feed, micro] = entriesOf(step)[entry];
  feed->write(*batch_, micro, plan_.microBatches, plan_.globalBatch / plan_.microBatches,
              options_.seed);
  written_ = {step, entry};
}

// Writes the samples of the next entry that has any; one at a time, so that nothing pending is
// overwritten.
Status Training::writeAhead() {
  if (written_ > running_) return {};
  const auto next = [this](std::int64_t step, std::size_t from) {
    const std::vector<BoundEntry>& entries = entriesOf(step);
    while (from < entries.size() && !entries[from].feed->isFed()) ++from;
    return from;
  };
  auto [step, entry] = running_;
  entry = next(step, entry + 1);
  if (entry == entriesOf(step).size()) entry = next(++step, 0);
  if (entry < entriesOf(step).size() && batchOf(step) != nullptr) writeSamples(step, entry);
  return {};
}

// Runs a step's entries one after another; `record` receives loss scale and skipped updates.
Status Training::runEntries(std::int64_t number, bool withEvents, Nanoseconds begin,
                            StepRecord& record) {
  const bool uncompressed = number <= plan_.uncompressedWarmupSteps;
  const double rate = options_.schedule.at(number);
  const Request request = requestNow();
  Breakdown spent;
  Nanoseconds since = begin;
  double dataSeconds = 0;
  std::int64_t update = (number - 1) * updates_;
  const std::vector<BoundEntry>& entries = entriesOf(number);
  for (std::size_t p = 0; p < entries.size(); ++p) {
    Feed* const feed = entries[p].feed;
    if (feed->updates()) ++update;
    running_ = {number, p};
    if (feed->isFed() && written_ < running_) writeSamples(number, p);
    feed->writeScalars(rate, static_cast<double>(update), request);
    dataSeconds += static_cast<double>(monotonicNow() - since) * 1e-9;
    LOCKSTEP_TRY(feed->executor().run(number, withEvents ? &events_ : nullptr,
                                      {static_cast<int>(p), uncompressed},
                                      [this] { return writeAhead(); }));
    spent.add(feed->executor().last());
    feed->addWatched(number, record);
    if (const auto& found = feed->executor().nonFinite(); found && !nonFinite_)
      nonFinite_ = Found{number, *found};
    if (feed->hasScale()) {
      record.lossScale = static_cast<float>(feed->lossScale());
      if (feed->skipped()) ++record.skipped;
      skippedInARow_ = feed->skipped() ? skippedInARow_ + 1 : 0;
      ++tried_;
    }
    since = monotonicNow();
  }
  if (groups_.sender() != nullptr) {
    for (const auto& [key, feed] : feeds_) LOCKSTEP_TRY(feed->executor().awaitSent(number));
    spent.communication += static_cast<double>(monotonicNow() - since) * 1e-9;
  }
  record.data = static_cast<float>(dataSeconds + spent.awaitedHost);
  record.forward = static_cast<float>(spent.forward);
  record.backward = static_cast<float>(spent.backward);
  record.communication = static_cast<float>(spent.communication);
  record.optimizer = static_cast<float>(spent.optimizer);
  record.collectiveBegin = spent.firstCollective;
  return {};
}

// Which step is slow is known at its end, so the events of each are recorded, where that is cheap.
bool Training::recordsSlowSteps() const {
  constexpr double kEventCost = 100, kMostCost = 0.005;  // nanoseconds; of a step
  return options_.slowSteps && backend_.device() == nullptr &&
         kEventCost * static_cast<double>(events_.capacity()) <
             kMostCost * static_cast<double>(slowSteps_.median());
}

Status Training::step(const data::BatchPosition& position, double readingSeconds,
                      Nanoseconds begin) {
  const std::int64_t number = progress_.step + 1;
  // Events cover the plan's own entries only.
  const bool isSampled = options_.eventsEvery > 0 && number % options_.eventsEvery == 0;
  const bool isProfiled = options_.profiled != nullptr && options_.profiled->has(number);
  const bool isTold = isSampled || isProfiled;
  const bool withEvents = (isTold || recordsSlowSteps()) && number > plan_.uncompressedWarmupSteps;
  events_.clear();
  StepRecord record;
  LOCKSTEP_TRY(runEntries(number, withEvents, begin, record));
  const Feed& last = *entriesOf(number).back().feed;
  sums_.loss = sums_.weight = 0;
  std::fill(sums_.metric.begin(), sums_.metric.end(), 0.0);
  addTo(sums_, last.metrics());
  progress_.step = number;
  if (record.skipped == 0 || std::isfinite(sums_.loss)) {
    progress_.lossSum += sums_.loss;
    progress_.weightSum += sums_.weight;
  }
  endsEarly_ = plan_.isAsynchronous() && last.stopAfter() == 1;
  agreed_ = plan_.isAsynchronous() ? Request::kNone : requested(last.metrics());

  record.step = number;
  record.epoch = position.epoch + 1;
  record.begin = begin;
  record.end = monotonicNow();
  record.reading = static_cast<float>(readingSeconds);
  record.loss = sums_.loss / sums_.weight;
  record.metric = metricValue(metric_, sums_.metric, sums_.weight);
  record.samples = position.count;
  record.samplesSeen = samplesUntil(number);
  if (plan_.isAsynchronous())
    record.staleness = static_cast<float>(entries_.back().feed->staleness());
  observer_.onStep(record);
  const bool isSlow = slowSteps_.add(begin, record.end);
  if (withEvents && isTold) observer_.onEvents(events_);
  if (withEvents && !isTold && isSlow) observer_.onSlowStep(events_);
  trainedSamples_ += static_cast<double>(record.samples);
  trainedSeconds_ += static_cast<double>(record.end - record.begin) * 1e-9;
  if (number == plan_.uncompressedWarmupSteps) {  // their memory is free from here on
    uncompressedEntries_.clear();
    std::erase_if(feeds_, [](const auto& feed) {
      return feed.first.first.ends_with(plan::Plan::kUncompressed);
    });
  }
  return endsWhereNotFinite() ? checkStep(record) : Status();
}

// Whether the training can go on from a step.
Status Training::checkStep(const StepRecord& record) {
  LOCKSTEP_TRY(checkScale(record.step, static_cast<double>(record.lossScale)));
  const bool isFinite = std::isfinite(sums_.loss) || record.skipped > 0;
  if (plan_.isAsynchronous()) {  // asynchronous workers synchronize when all have stopped
    if (!isFinite && !nonFinite_) noteNonFinite(record.step);
    return {};
  }
  if (isFinite) {
    nonFinite_.reset();
    return {};
  }
  noteNonFinite(record.step);
  return endDiverged("the loss");
}

// Identical on all ranks. By the hundredth update the scale has long been at its minimum.
Status Training::checkScale(std::int64_t step, double scale) const {
  constexpr std::int64_t kHopeless = 100;
  const bool neverUpdated =
      step == lastStep() && tried_ > 0 && skippedInARow_ == tried_ && scale <= 1;
  if (skippedInARow_ < kHopeless && !neverUpdated) return {};
  Error error =
      makeError(Code::kInvalidArgument, "the last {} updates, up to step {}, were all skipped",
                skippedInARow_, step);
  error.why = "gradients are not finite at any loss scale";
  error.next = "lower the learning rate, look for NaN in the data, or train in bf16";
  return error;
}

// Other stages than the loss's inspect what they stashed.
void Training::noteNonFinite(std::int64_t step) {
  for (const auto& [key, feed] : feeds_) {
    const auto kept = feed->executor().firstNonFiniteKept();
    if (kept && (!nonFinite_ || kept->order < nonFinite_->tensor.order))
      nonFinite_ = Found{step, *kept};
  }
  if (!nonFinite_) nonFinite_ = Found{step, {std::numeric_limits<std::int64_t>::max(), {}}};
}

// Collective. If no rank has a finding beyond the non-finite loss, inspects the state.
Status Training::endDiverged(const Message& what) {
  LOCKSTEP_ASSIGN(FoundMessage first, firstFound(messageOf(rank_, nonFinite_), groups_));
  if (first.step == kNotFound) return {};
  const std::int64_t step = first.step;
  if (first.order == kNotFound) {
    LOCKSTEP_TRY(state_->fetch());
    LOCKSTEP_ASSIGN(first, firstFound(messageOf(rank_, stateNotFinite(step)), groups_));
  }
  std::string where = first.text.data();
  if (!where.empty() && plan_.mesh.size() > 1) where += fmt::format(", on rank {}", first.rank);
  return diverged(message("{} is not finite in step {}", what, step), where, step);
}

// Collective. The error of the first tensor of the state that is not finite; `mine` is this rank's.
Status Training::endIfNotFinite(const std::optional<Found>& mine) {
  if (!endsWhereNotFinite()) return {};
  LOCKSTEP_ASSIGN(const FoundMessage first, firstFound(messageOf(rank_, mine), groups_));
  if (first.step == kNotFound) return {};
  return diverged(message("the {} is not finite after step {}", first.text.data(), progress_.step),
                  {}, progress_.step);
}

// Synchronizes the findings of asynchronous workers.
Status Training::endIfDiverged() {
  if (!plan_.isAsynchronous() || !endsWhereNotFinite()) return {};
  return endDiverged("the loss");
}

Status Training::load() {
  data::Loader::Options options;
  options.globalBatch = plan_.globalBatch;
  options.microBatches = plan_.microBatches;
  options.begin = entries_.front().feed->begin();
  options.end = options.begin;
  // Stages between the first and the last read no samples.
  for (const BoundEntry& entry : entries_)
    if (entry.feed->readsSamples()) options.end = entry.feed->end();
  options.seed = options_.seed;
  options.shuffle = options_.shuffle;
  options.augment = options_.augment;
  options.firstStep = progress_.step;
  options.lastStep = epochEnd();
  LOCKSTEP_ASSIGN(loader_, data::Loader::make(trainData_, options));
  return {};
}

Result<bool> Training::trainEpoch() {
  if (!loader_) LOCKSTEP_TRY(load());
  batchStep_ = 0;
  bool stopped = false;
  const std::int64_t end = epochEnd();
  std::int64_t meeting = plan_.isAsynchronous() ? nextMeeting() : 0;
  while (!stopped) {
    const Nanoseconds begin = monotonicNow();
    const data::Batch* const batch = batchOf(progress_.step + 1);
    LOCKSTEP_TRY(trainData_.problem());
    if (batch == nullptr) break;
    // Within the step, batchOf() may go on to the next batch.
    const data::BatchPosition position = batch->position;
    LOCKSTEP_TRY(step(position, batch->readingSeconds, begin));
    if (endsEarly_ || (progress_.step == meeting && meeting < end)) {
      LOCKSTEP_TRY(meet());
      meeting = nextMeeting();
    }
    stopped = agreed_ == Request::kStop;
    if (!stopped) LOCKSTEP_TRY(checkpointIfDue());
  }
  loader_.reset();
  return stopped;
}

Result<bool> Training::serveEpoch() {
  const std::int64_t end = epochEnd();
  while (progress_.step < end) {
    LOCKSTEP_TRY(serveUntil(nextMeeting()));
    if (!server_->endedEarly() && progress_.step == end) break;
    LOCKSTEP_TRY(meet());
    if (agreed_ == Request::kStop) return true;
    LOCKSTEP_TRY(checkpointIfDue());
  }
  return false;
}

Status Training::serveUntil(std::int64_t last) {
  Nanoseconds begin = monotonicNow();
  LOCKSTEP_ASSIGN(
      progress_.step,
      server_->serve(progress_.step + 1, last, options_.schedule, stop_, endsWhereNotFinite(),
                     [&](const Server::Done& done) {
                       StepRecord record;
                       record.step = done.step;
                       record.epoch = (done.step - 1) / epochSteps() + 1;
                       record.begin = begin;
                       record.end = begin = monotonicNow();
                       record.loss = done.sums.loss / done.sums.weight;
                       record.metric = metricValue(metric_, done.sums.metric, done.sums.weight);
                       record.communication = static_cast<float>(record.end - record.begin) * 1e-9f;
                       record.samples = std::min(
                           plan_.globalBatch,
                           trainData_.size() - (done.step - 1) % epochSteps() * plan_.globalBatch);
                       record.samplesSeen = samplesUntil(done.step);
                       record.learningRate = done.rate;
                       record.staleness = static_cast<float>(done.staleness);
                       observer_.onStep(record);
                     }));
  return {};
}

std::int64_t Training::nextMeeting() const {
  if (!checkpoints_ || options_.checkpointSteps == 0) return epochEnd();
  const std::int64_t every = options_.checkpointSteps;
  return std::min(epochEnd(), (progress_.step / every + 1) * every);
}

// Collective, after the same step on all ranks.
Status Training::meet() {
  LOCKSTEP_TRY(endIfDiverged());
  Standing mine;
  mine.asks = stop_.load(std::memory_order_relaxed) ? 1 : 0;
  LOCKSTEP_ASSIGN(const Standing all, standingOf(mine, groups_));
  agreed_ = all.asks != 0 ? Request::kStop : Request::kCheckpoint;
  return {};
}

// Adds up the sums of asynchronous workers.
Status Training::addSums() {
  comm::Communicator* const workers = groups_.along(cluster::kDataAxis);
  if (!plan_.isAsynchronous() || server_ || workers == nullptr) return {};
  std::array sums{progress_.lossSum, progress_.weightSum};
  LOCKSTEP_TRY(workers->allReduce(sums.data(), 2, DType::kF64, comm::ReduceOp::kSum));
  progress_.lossSum = sums[0];
  progress_.weightSum = sums[1];
  return {};
}

// So that they can be added up again, the first worker alone keeps them.
void Training::keepSums() {
  if (plan_.isAsynchronous() && rank_ > 0) progress_.lossSum = progress_.weightSum = 0;
}

// The next epoch starts from sums of zero, also if the run was stopped at the last step of this
// one.
void Training::endSumsWithEpoch() {
  if (progress_.step % epochSteps() == 0) progress_.lossSum = progress_.weightSum = 0;
}

Status Training::evaluate() {
  if (!evalFeed_) return {};
  LOCKSTEP_ASSIGN(const Evaluation found,
                  runtime::evaluate(plan_, *evalFeed_, evalData_, progress_.step, options_.seed));
  summary_.evalLoss = found.loss;
  summary_.evalMetric = found.metric;
  if (!endsWhereNotFinite()) return {};
  std::int64_t finite = found.finite ? 1 : 0;
  // servers have no result
  if (plan_.mesh.servers() > 0) LOCKSTEP_TRY(groups_.broadcast(&finite, sizeof finite));
  if (finite != 0) return {};
  nonFinite_.reset();
  if (found.nonFinite)
    nonFinite_ = Found{progress_.step, *found.nonFinite};
  else
    nonFinite_ = Found{progress_.step, {std::numeric_limits<std::int64_t>::max(), {}}};
  return endDiverged("the loss of the evaluation");
}

Status Training::finishEpoch() {
  LOCKSTEP_TRY(addSums());
  LOCKSTEP_TRY(evaluate());
  LOCKSTEP_TRY(finishEarlierCheckpoint());  // told before this epoch's end
  if (checkpoints_) tellGivenUp();
  EpochRecord record;
  record.epoch = (progress_.step + epochSteps() - 1) / epochSteps();
  record.step = progress_.step;
  record.trainLoss = progress_.lossSum / progress_.weightSum;
  record.evalLoss = summary_.evalLoss;
  record.evalMetric = summary_.evalMetric;
  observer_.onEpoch(record);
  summary_.trainLoss = record.trainLoss;
  summary_.epochs = progress_.step / epochSteps();
  endSumsWithEpoch();
  return checkpoint();
}

Result<TrainerSummary> Training::run() {
  LOCKSTEP_TRY(bind());
  // Prefetching overlaps the remaining setup, unless a resume may change where to start.
  if (!server_ && options_.resumeFrom.empty()) LOCKSTEP_TRY(load());
  if (options_.warmUpSeconds > 0) LOCKSTEP_TRY(warmUp());
  LOCKSTEP_TRY(startOrResume());
  if (!server_ && !loader_ && progress_.step < lastStep()) LOCKSTEP_TRY(load());
  std::int64_t bytes = state_->bytes() + plan_.arenaBytesOf(rank_);
  if (evalFeed_) bytes += evalFeed_->executor().boundBytes();
  for (const auto& [key, feed] : feeds_) bytes += feed->executor().boundBytes();
  if (server_) bytes += server_->boundBytes();
  if (options_.beforeFirst) {
    LOCKSTEP_TRY(state_->fetch());
    LOCKSTEP_TRY(options_.beforeFirst(replicaHash(plan_, rank_, *state_)));
  }
  if (options_.onFirstTensor) {
    LOCKSTEP_TRY(state_->fetch());
    LOCKSTEP_TRY(exportModel({}, rankState(), options_.onFirstTensor).status());
  }
  if (loader_) loader_->awaitFull();
  observer_.onReady(bytes);
  lastCheckpoint_ = monotonicNow();
  if (options_.warmUpSeconds > 0) LOCKSTEP_TRY(warmAgain());
  summary_.status = "succeeded";
  if (progress_.step >= lastStep()) LOCKSTEP_TRY(evaluate());  // resumed at its end
  while (progress_.step < lastStep()) {
    LOCKSTEP_ASSIGN(const bool stopped, server_ ? serveEpoch() : trainEpoch());
    LOCKSTEP_TRY(endIfDiverged());
    if (stopped && progress_.step < lastStep()) {
      summary_.status = "stopped";
      LOCKSTEP_TRY(addSums());
      summary_.trainLoss = progress_.lossSum / progress_.weightSum;
      endSumsWithEpoch();
      LOCKSTEP_TRY(finishCheckpoint());
      LOCKSTEP_TRY(checkpoint());
      break;
    }
    LOCKSTEP_TRY(finishEpoch());
  }
  LOCKSTEP_TRY(finishCheckpoint());
  if (checkpoints_) LOCKSTEP_TRY(ofThisRank(checkpoints_->failed()));
  summary_.steps = progress_.step;
  summary_.epochs = progress_.step / epochSteps();
  summary_.samplesPerSecond = trainedSeconds_ > 0 ? trainedSamples_ / trainedSeconds_ : 0;
  LOCKSTEP_TRY(state_->fetch());
  if (options_.hashReplica) summary_.replicaSha256 = replicaHash(plan_, rank_, *state_);
  if (endsWhereNotFinite()) LOCKSTEP_TRY(endIfNotFinite(stateNotFinite(progress_.step)));
  LOCKSTEP_ASSIGN(summary_.weightsSha256,
                  exportModel(options_.modelFile, rankState(), options_.onTensor));
  return summary_;
}

Result<TrainerSummary> train(const plan::Plan& plan, int rank, const TrainerOptions& options,
                             const data::Dataset& trainData, const data::Dataset& evalData,
                             backends::Backend& backend, const Groups& groups,
                             const std::atomic<bool>& stop, TrainerObserver& observer) {
  if (plan.evaluateCuts.empty() || plan.batchCuts.empty())
    return invalidArgument("the plan does not say how batches are shared out");
  if (options.epochs < 0 || options.maxSteps < 0 || options.epochs + options.maxSteps == 0)
    return invalidArgument("{} epochs of at most {} steps train nothing", options.epochs,
                           options.maxSteps);
  auto summary = withMemoryFor("the training", 0, [&] {
    return Training(plan, rank, options, trainData, evalData, backend, groups, stop, observer)
        .run();
  });
  if (!summary.ok() && summary.error().rank < 0 && summary.error().code == Code::kResourceExhausted)
    summary.error().rank = rank;
  return summary;
}

}  // namespace lockstep::runtime
