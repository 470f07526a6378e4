// Trainer: the loop round the programs of a Plan, on one rank: init or load, step, evaluate after
// each epoch, checkpoint, stop.
//
// Inputs it feeds by name, where a program has them: the data set's fields ("x", "label"),
// "weight" f[B], "dropout" i32[B] (a random number of seed, step and place in the global batch),
// "lr" f[1], "t" f[1] (update count from 1), "stop" f[1] (1 where this rank was asked to stop). The
// result "metrics.<metric>" (see Plan::metric) holds Σ w·loss, Σ w, the sums of the metric (see
// metric.h), number of ranks asked to stop; reduced over the data axis, so all ranks stop after the
// same step. A step that updates nothing, by result "scaling", is a step like others; its loss
// counts where it is a number.
//
// A run whose loss is not finite, of a step that updates or of an evaluation, ends, on all ranks
// with the same error: after which step, and the first tensor that is not finite in the order of
// the plan (see TrainerOptions::nonFinite). Ranks look for it only then. Workers that do not wait
// for each other end as after a stop.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/safetensors.h"
#include "engine/runtime/schedule.h"

namespace lockstep::runtime {

struct TrainerOptions {
  std::int64_t epochs = 1;    // 0: as many as maxSteps needs
  std::int64_t maxSteps = 0;  // 0: no limit besides epochs
  std::uint64_t seed = 1;
  bool shuffle = true;
  data::Augment augment;  // of the training images
  Schedule schedule;
  std::string checkpointFolder;  // "": none. Rank 0 writes one after each epoch and at the end
  int keepCheckpoints = 2;
  // after each epoch; else something apart reads the checkpoints
  bool evaluate = true;
  // "": start anew; a checkpoint read by rank 0 (…/step-000938), or a folder of them
  std::string resumeFrom;
  // kTaken: a run goes on whose loss or state is not finite.
  NonFinite nonFinite = NonFinite::kRefused;
  // on rank 0, where not null: the training goes on all the same
  std::function<void(const Error&)> warn;
  std::string modelFile;  // "": none. Rank 0 writes the trained parameters at the end
  // Where a step is predicted to take no longer, seconds: all ranks play one on made-up input
  // before they have any state, and where it is small once more when all are ready, so that their
  // first finds caches and page tables warm.
  double warmUpSeconds = 0;
  bool hashReplica = false;  // fills TrainerSummary::replicaSha256
  // Where not null, called with replicaHash() when the state is there, new or resumed, before the
  // first step. Its error ends the training.
  std::function<Status(const std::string& replica)> beforeFirst;
  // on rank 0, where not null: the same tensors, one after another
  TensorSink onTensor;
  TensorSink onFirstTensor;      // likewise, before the first step
  std::int64_t eventsEvery = 0;  // full events of every n-th step; 0: none
};

struct StepRecord {  // one a step; plain data, fits a ring
  // from 1: steps done, each of one update or of several local ones
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // from 1
  Nanoseconds begin = 0, end = 0;
  double loss = 0;    // mean over the global batch
  double metric = 0;  // of the global batch
  float data = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;  // seconds
  Nanoseconds collectiveBegin = 0;  // when this rank arrived at the first collective
  std::int64_t samples = 0;         // of the global batch
  // Of fp16: what the loss was multiplied by, at the last update; how many updates were left out,
  // because gradients were no finite numbers.
  float lossScale = 0;  // 0: of another precision
  std::int32_t skipped = 0;
  // Where workers do not wait for each other: loss and metric are of this worker's samples, and so
  // many updates by others came between what its last gradient was made of and when that was
  // applied. A server's are of all, the mean.
  float staleness = 0;
};

struct EpochRecord {
  std::int64_t epoch = 0, step = 0;
  double trainLoss = 0, evalLoss = 0, evalMetric = 0;  // 0 where it was not evaluated
};

struct TrainerSummary {
  std::string status;  // "succeeded" or "stopped"
  std::int64_t steps = 0, epochs = 0;
  // NaN where nothing was left to train
  double trainLoss = std::numeric_limits<double>::quiet_NaN();
  double evalLoss = 0, evalMetric = 0;
  double samplesPerSecond = 0;  // over training steps, without evaluation and start-up
  std::string replicaSha256;    // replicaHash() at the end
  std::string weightsSha256;    // over the model's parameters, by name; "" off rank 0
};

// Called on the trainer's thread; must not block or allocate in onStep.
class TrainerObserver {
 public:
  virtual ~TrainerObserver() = default;
  virtual void onReady(std::int64_t boundBytes) = 0;  // bound, loaded, before the first step
  virtual void onStep(const StepRecord& record) = 0;
  virtual void onEvents(const std::vector<plan::Event>& events) = 0;
  virtual void onEpoch(const EpochRecord& record) = 0;
  virtual void onCheckpoint(std::int64_t step, const std::string& folder) = 0;
};

// `stop` is read once a step. Errors carry rank and step.
Result<TrainerSummary> train(const plan::Plan& plan, int rank, const TrainerOptions& options,
                             const data::Dataset& trainData, const data::Dataset& evalData,
                             backends::Backend& backend, const Groups& groups,
                             const std::atomic<bool>& stop, TrainerObserver& observer);

}  // namespace lockstep::runtime
