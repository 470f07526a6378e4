// StallWatch: tells when the training of this rank stands still, and where. A rank that stands is
// either slow, hung, or waits for one that is: the coordinator tells which (hang_watch.h).
#pragma once

#include <optional>

#include "engine/base/clock.h"
#include "engine/plan/plan.h"
#include "engine/runtime/activity.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

class StallWatch {
 public:
  static constexpr Nanoseconds kStall = 1'000'000'000;

  StallWatch() = default;  // watches nothing
  // Both are borrowed.
  StallWatch(const runtime::Activity* activity, const plan::Plan* plan, int rank)
      : activity_(activity), plan_(plan), rank_(rank) {}

  // To be called several times a second. Returns news: that the rank has stood still for kStall, or
  // that it moves again. `frozen` is the time since the last call in which the process did not run:
  // it is no stall.
  std::optional<node::v1::Stalled> look(Nanoseconds now, Nanoseconds frozen);

 private:
  node::v1::Stalled stalled(const runtime::Activity::Position& at, Nanoseconds now) const;

  const runtime::Activity* activity_ = nullptr;
  const plan::Plan* plan_ = nullptr;
  int rank_ = 0;
  std::uint64_t changes_ = 0;
  Nanoseconds since_ = 0;
  bool told_ = false;
};

}  // namespace lockstep::agent
