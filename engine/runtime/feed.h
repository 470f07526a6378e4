// Feed: a bound program with its inputs. See trainer.h for what it feeds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/groups.h"
#include "engine/runtime/metric.h"
#include "engine/runtime/trainer.h"

namespace lockstep::runtime {

class Feed {
 public:
  // `cuts` of the program's batch over axis data. Errors: kInvalidArgument where the data does not
  // fit the program's inputs.
  static Result<std::unique_ptr<Feed>> bind(const plan::Plan& plan, std::string_view program,
                                            int rank, std::span<const std::int64_t> cuts,
                                            const data::Dataset& dataset,
                                            backends::Backend& backend, const Groups& groups,
                                            StateArena& state, std::byte* arena, int copy = 0);

  // This rank's range of samples of the batch.
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  Executor& executor() { return *executor_; }

  bool readsSamples() const;
  // whether write() has any effect
  bool isFed() const { return readsSamples() || dropout_.data != nullptr; }
  bool updates() const { return updates_.data != nullptr; }
  // Whether the metrics include loss, weight and the stop count, besides the metric's sums.
  bool hasMetrics() const { return metrics_.data != nullptr && metrics_.type.count() >= 3; }
  const backends::Operand& metrics() const { return metrics_; }

  // Writes one of the batch's `micros` micro-batches, of `size` samples over all ranks, for the
  // next run; on a device, possible as soon as the last run has begun.
  void write(const data::Batch& batch, int micro, int micros, std::int64_t size,
             std::uint64_t seed);
  void writeScalars(double learningRate, double updates, Request request);
  // Writes synthetic input instead: zero samples, label 0, weight 1, and a learning rate of 0.
  void writeMadeUp();
  // Control values of an asynchronous server: the number of remaining steps including this one, 0
  // for no stop; and the staleness of the last gradient.
  double stopAfter() const { return readFloat(control_, 0); }
  double staleness() const { return readFloat(control_, 1); }
  // With loss scaling: the scale, and whether the update was skipped.
  bool hasScale() const { return scaling_.data != nullptr; }
  double lossScale() const { return readFloat(scaling_, 0); }
  bool skipped() const { return readFloat(scaling_, 1) < 0; }
  // Writes what the last run, of this training step, had or measured: the learning rate, and
  // ir/watch.h's. Values that it does not have, or that are no finite numbers, are left as they
  // are.
  void addWatched(std::int64_t step, StepRecord& record) const;

 private:
  Feed() = default;
  std::unique_ptr<Executor> executor_;
  std::int64_t begin_ = 0, end_ = 0;
  std::vector<backends::Operand> fields_;
  // A result, and whether it is there in watched steps only.
  struct Watched {
    backends::Operand value;
    bool sampled = false;
  };
  Watched watched(std::string_view result) const;
  bool isThere(const Watched& one, std::int64_t step) const;
  double gradientNorm(std::int64_t step) const;  // NaN: not measured
  double updateRatio(std::int64_t step) const;   // likewise

  const plan::Plan* plan_ = nullptr;
  Watched gradientSquares_, gradientDivisor_, updateSquares_, parameterSquares_;
  backends::Operand weight_, dropout_, learningRate_, updates_, stop_, metrics_, control_, scaling_;
};

}  // namespace lockstep::runtime
