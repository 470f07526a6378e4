// Trainer: the training loop of one rank over the programs of a plan: init or load, step, evaluate
// after each epoch, checkpoint, stop.
//
// Inputs fed by name, where a program has them: the data set's fields ("x", "label"), "weight"
// f[B], "dropout" i32[B] (a random number of seed, step and position in the global batch), "lr"
// f[1], "t" f[1] (update count from 1), "stop" f[1] (what this rank asks of all, see Request). The
// result "metrics.<metric>" (see Plan::metric) holds Σ w·loss, Σ w, the sums of the metric
// (metric.h) and of the requests, reduced over the data axis, so that all ranks stop, or take a
// checkpoint, after the same step. A step whose update is skipped (result "scaling") counts as a
// step; its loss counts if it is finite.
//
// A non-finite loss, of a step that updates or of an evaluation, ends the run on all ranks with the
// same error: the step, and the first non-finite tensor in plan order (see
// TrainerOptions::nonFinite). Ranks search for that tensor only then. Asynchronous workers meet
// as for a stop.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/schedule.h"
#include "engine/weights/safetensors.h"

namespace lockstep::runtime {

// Steps that another thread asks to record. A step that is asked about while they change may be
// taken for one of them.
class StepWindow {
 public:
  void set(std::int64_t first, std::int64_t count) {
    std::int64_t end = 0;
    const bool isNumber = !__builtin_add_overflow(first, count, &end);
    end_ = 0;
    first_ = first;
    if (isNumber) end_ = end;  // else there are none
  }
  bool has(std::int64_t step) const {
    return step < end_.load(std::memory_order_relaxed) &&
           step >= first_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> first_{0}, end_{0};
};

struct TrainerOptions {
  std::int64_t epochs = 1;    // 0: until maxSteps
  std::int64_t maxSteps = 0;  // 0: no limit besides epochs
  std::uint64_t seed = 1;
  bool shuffle = true;
  data::Augment augment;  // of the training images
  Schedule schedule;
  // "": no checkpoints. There is one after each epoch, at the end, and as often as these say (0: no
  // more). Asynchronous ranks meet for each.
  std::string checkpointFolder;
  // All ranks share the folder, and an earlier training has made it: where it is not there, its
  // volume is not mounted, and nothing is written to the disk beneath.
  bool checkpointFolderMade = false;
  std::int64_t checkpointSteps = 0;
  double checkpointSeconds = 0;
  // Set by another thread: takes a checkpoint soon, and clears it. May be null.
  std::atomic<bool>* checkpointAsked = nullptr;
  int keepCheckpoints = 2;
  // The step of the newest checkpoint of which other nodes have copies; it and newer ones are kept
  // in any case. Null: no copies are made.
  const std::atomic<std::int64_t>* copiedCheckpoint = nullptr;
  // evaluate after each epoch; false if another process evaluates the checkpoints
  bool evaluate = true;
  // "": start from scratch; else a checkpoint (…/step-000938), or a folder of them
  std::string resumeFrom;
  InitFrom initFrom;  // unless resumeFrom is set; empty: random weights
  // kTaken: the run continues with a non-finite loss or state.
  NonFinite nonFinite = NonFinite::kRefused;
  // rank 0, may be null: receives warnings that do not end the training
  std::function<void(const Error&)> warn;
  std::string modelFile;  // "": none. Rank 0 writes the trained parameters at the end
  // Warm-up: if a step is predicted to take at most this many seconds, all ranks run one on
  // synthetic input before the state exists, and a short one again when all are ready, so that the
  // first step finds warm caches and page tables.
  double warmUpSeconds = 0;
  bool hashReplica = false;  // fills TrainerSummary::replicaSha256
  // May be null. Called with replicaHash() when the state is ready, new or resumed, before the
  // first step. An error ends the training.
  std::function<Status(const std::string& replica)> beforeFirst;
  // rank 0, may be null: receives the trained tensors, one after another
  TensorSink onTensor;
  TensorSink onFirstTensor;              // likewise, before the first step
  std::int64_t eventsEvery = 0;          // records full events of every n-th step; 0: none
  const StepWindow* profiled = nullptr;  // and of these; may be null
  // On processors, records events of steps that took much longer than the others (slow_steps.h).
  bool slowSteps = false;
};

struct StepRecord {  // one per step; plain data, fits a ring buffer
  // from 1: completed steps, each of one update or of several local ones
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // from 1
  Nanoseconds begin = 0, end = 0;
  double loss = 0;    // mean over the global batch
  double metric = 0;  // of the global batch
  float data = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;  // seconds
  // That the loader waited for the files of this rank's samples, ahead of the step; of that, what
  // delays the step is in data.
  float reading = 0;
  Nanoseconds collectiveBegin = 0;  // arrival of this rank at the first collective
  std::int64_t samples = 0;         // of the global batch
  // fp16: the loss scale at the last update, and the number of skipped updates (non-finite
  // gradients).
  float lossScale = 0;  // 0: other precision
  std::int32_t skipped = 0;
  double learningRate = std::numeric_limits<double>::quiet_NaN();  // that the update was given
  // Of the gradient of the global batch, see ir/watch.h; NaN where they were not measured. Ranks of
  // the first stage have them.
  float gradientNorm = std::numeric_limits<float>::quiet_NaN();
  float updateRatio = std::numeric_limits<float>::quiet_NaN();
  std::int64_t samplesSeen = 0;  // of all steps up to this one
  // Asynchronous training: loss and metric are of this worker's samples; staleness is the number of
  // updates by others between the snapshot its last gradient is based on and its application. A
  // server reports totals and the mean.
  float staleness = 0;
};

struct EpochRecord {
  std::int64_t epoch = 0, step = 0;
  double trainLoss = 0, evalLoss = 0, evalMetric = 0;  // 0 if not evaluated
};

struct TrainerSummary {
  std::string status;  // "succeeded" or "stopped"
  std::int64_t steps = 0, epochs = 0;
  // NaN if no step was left to train
  double trainLoss = std::numeric_limits<double>::quiet_NaN();
  double evalLoss = 0, evalMetric = 0;
  double samplesPerSecond = 0;  // over training steps, excluding evaluation and start-up
  std::string replicaSha256;    // replicaHash() at the end
  std::string weightsSha256;    // of the model's parameters, by name; "" except on rank 0
};

// Called on the trainer's thread. onStep must neither block nor allocate.
class TrainerObserver {
 public:
  virtual ~TrainerObserver() = default;
  virtual void onReady(std::int64_t boundBytes) = 0;  // bound and loaded, before the first step
  virtual void onStep(const StepRecord& record) = 0;
  virtual void onEvents(const std::vector<plan::Event>& events) = 0;
  // With TrainerOptions::slowSteps: those of a step that took much longer than the ones before it,
  // and is none of the sampled ones.
  virtual void onSlowStep(const std::vector<plan::Event>&) {}
  virtual void onEpoch(const EpochRecord& record) = 0;
  // A checkpoint is published; on all ranks.
  virtual void onCheckpoint(std::int64_t step, const std::string& folder) = 0;
  // Before a checkpoint is written: a training that goes on from there does not report again what
  // was reported until here. Returns when it cannot be lost with this process any more.
  virtual void flush() {}
};

// `stop` is polled once per step. Errors carry rank and step.
Result<TrainerSummary> train(const plan::Plan& plan, int rank, const TrainerOptions& options,
                             const data::Dataset& trainData, const data::Dataset& evalData,
                             backends::Backend& backend, const Groups& groups,
                             const std::atomic<bool>& stop, TrainerObserver& observer);

}  // namespace lockstep::runtime
