// Feed: one program of a plan, bound, with the places its inputs are written to. See trainer.h for
// what it feeds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

class Feed {
 public:
  // `cuts` over axis data of the program's batch. Errors: kInvalidArgument where the data does not
  // fit the program's inputs.
  static Result<std::unique_ptr<Feed>> bind(const plan::Plan& plan, std::string_view program,
                                            int rank, std::span<const std::int64_t> cuts,
                                            const data::Dataset& dataset,
                                            backends::Backend& backend, const Groups& groups,
                                            StateArena& state, std::byte* arena, int copy = 0);

  // The rank's samples of the batch.
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  Executor& executor() { return *executor_; }

  bool readsSamples() const;
  // write() makes a difference
  bool isFed() const { return readsSamples() || dropout_.data != nullptr; }
  bool updates() const { return updates_.data != nullptr; }
  // Loss, weight and the number asked to stop are there beside the metric's sums.
  bool hasMetrics() const { return metrics_.data != nullptr && metrics_.type.count() >= 3; }
  const backends::Operand& metrics() const { return metrics_; }

  // One of the batch's `micros` micro-batches of `size` samples on all ranks. It is what the next
  // play reads; on a device it may be written as soon as the last one has begun.
  void write(const data::Batch& batch, int micro, int micros, std::int64_t size,
             std::uint64_t seed);
  void writeScalars(double learningRate, double updates, bool stop);
  // In place of both: samples of zeros, label 0, of weight 1, and a learning rate of 0.
  void writeMadeUp();
  // What a server that does not wait for all says: after how many steps more, this one among them,
  // to stop, 0 for never; and how stale the last gradient was.
  double stopAfter() const { return readFloat(control_, 0); }
  double staleness() const { return readFloat(control_, 1); }
  // Where the program updates by gradients of a scaled loss: the scale, and whether it updated
  // nothing after all.
  bool hasScale() const { return scaling_.data != nullptr; }
  double lossScale() const { return readFloat(scaling_, 0); }
  bool skipped() const { return readFloat(scaling_, 1) < 0; }

 private:
  Feed() = default;
  std::unique_ptr<Executor> executor_;
  std::int64_t begin_ = 0, end_ = 0;
  std::vector<backends::Operand> fields_;
  backends::Operand weight_, dropout_, learningRate_, updates_, stop_, metrics_, control_, scaling_;
};

}  // namespace lockstep::runtime
