// Warm-up of a training: memory is touched and caches are filled before the first step is timed.
#include <algorithm>
#include <cstring>

#include "engine/base/memory.h"
#include "engine/runtime/training.h"

namespace lockstep::runtime {

// Warm-up: runs what step `step` runs, or several short ones, if the predicted time is at most the
// time to warm up.
Status Training::runMadeUp(std::int64_t step) {
  if (server_ || plan_.mesh.stages() > 1) return {};
  // Identical on all ranks.
  double predicted = 0;
  for (const plan::ScheduleEntry& entry : plan_.entriesOf(rank_)) {
    double longest = 0;
    for (const plan::Body& body : plan_.find(entry.program)->bodies) {
      double seconds = 0;
      for (const plan::Step& step : body.steps) seconds += step.seconds;
      longest = std::max(longest, seconds);
    }
    predicted += longest;
  }
  if (predicted > options_.warmUpSeconds) return {};
  // Repeats very short steps until they reach their steady-state time.
  constexpr double kSeconds = 2e-3;
  constexpr int kMost = 10;
  const int times =
      std::clamp(predicted > 0 ? static_cast<int>(kSeconds / predicted) : 1, 1, kMost);
  for (int time = 0; time < times; ++time) {
    for (const BoundEntry& entry : entriesOf(step)) {
      entry.feed->writeMadeUp();
      LOCKSTEP_TRY(entry.feed->executor().run(0, nullptr));
    }
  }
  return {};
}

Status Training::warmUp() {
  LOCKSTEP_TRY(runMadeUp(1));
  // On a device only device memory was touched.
  if (backend_.device() == nullptr) clearWhatInitLeaves();
  return state_->put();
}

// While a rank waited for the others, its caches were evicted. A small state is saved aside.
Status Training::warmAgain() {
  constexpr std::int64_t kSmall = 32 << 20;
  if (plan_.isAsynchronous() || plan_.mesh.stages() > 1) return {};
  if (state_->bytes() <= kSmall && progress_.step < lastStep()) {
    LOCKSTEP_TRY(state_->fetch());
    const std::vector<std::byte> aside(state_->data(), state_->data() + state_->bytes());
    LOCKSTEP_TRY(runMadeUp(progress_.step + 1));
    std::copy(aside.begin(), aside.end(), state_->data());
    LOCKSTEP_TRY(state_->put());
  }
  // A barrier: otherwise the first step of the first rank would include the others' delay.
  comm::Communicator* const data = groups_.along(cluster::kDataAxis);
  return data != nullptr ? data->barrier() : Status();
}

// Restores the initial state where init does not write it; skips large tables.
void Training::clearWhatInitLeaves() {
  std::vector<std::pair<std::int64_t, std::int64_t>> written;
  if (const plan::Body* const init =
          options_.resumeFrom.empty() ? plan_.find("init", rank_) : nullptr;
      init != nullptr)
    for (const plan::Step& step : init->steps)
      for (const plan::BufferId id : step.outputs) {
        const plan::Buffer& buffer = init->buffers[static_cast<std::size_t>(id)];
        const plan::Buffer& base =
            buffer.base < 0 ? buffer : init->buffers[static_cast<std::size_t>(buffer.base)];
        if (base.kind != plan::BufferKind::kState || !buffer.axis.empty()) continue;
        const std::int64_t begin = base.offset + (buffer.base < 0 ? 0 : buffer.offset);
        written.emplace_back(begin, begin + buffer.type.bytes());
      }
  std::sort(written.begin(), written.end());
  written.emplace_back(state_->bytes(), state_->bytes());
  std::int64_t from = 0;
  for (const auto& [begin, end] : written) {
    if (begin > from) std::memset(state_->data() + from, 0, static_cast<std::size_t>(begin - from));
    from = std::max(from, end);
  }
}

}  // namespace lockstep::runtime
