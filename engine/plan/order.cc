#include "engine/plan/order.h"

#include <algorithm>

namespace lockstep::plan {
namespace {

std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

}  // namespace

Order::Order(const Body& body) : steps_(static_cast<int>(body.steps.size())) {
  std::array<int, kStreams> issued{};
  // the clock of each stream's last step
  std::array<std::array<int, kStreams>, kStreams> last{};
  for (const Step& step : body.steps) {
    const std::size_t stream = index(step.stream);
    std::array<int, kStreams> done = last[stream];
    const auto add = [&](const std::array<int, kStreams>& other) {
      for (std::size_t s = 0; s < done.size(); ++s) done[s] = std::max(done[s], other[s]);
    };
    done[stream] = issued[stream];
    if (step.stream == kCommunicationStream) {
      add(last[kComputeStream]);
      done[kComputeStream] = issued[kComputeStream];
    }
    for (const StepId before : step.after) {
      add(done_[index(before)]);
      int& ofItsStream = done[index(stream_[index(before)])];
      ofItsStream = std::max(ofItsStream, position_[index(before)] + 1);
    }
    stream_.push_back(step.stream);
    position_.push_back(issued[stream]++);
    done_.push_back(done);
    last[stream] = done;
  }

  Use none;
  none.first.fill(-1);
  none.last.fill(-1);
  uses_.resize(body.buffers.size(), none);
  for (int i = 0; i < steps_; ++i) {
    const Step& step = body.steps[index(i)];
    for (const auto* ids : {&step.inputs, &step.outputs}) {
      for (const BufferId id : *ids) {
        Use& use = uses_[index(rootOf(body, id))];
        int& first = use.first[index(step.stream)];
        if (first < 0) first = i;
        use.last[index(step.stream)] = i;
      }
    }
  }
  for (const ResultSlot& slot : body.results)
    uses_[index(rootOf(body, slot.buffer))].toTheEnd = true;
}

bool Order::before(int a, int b) const {
  if (b == steps_) return a != steps_;
  if (a == steps_) return false;
  return done_[index(b)][index(stream_[index(a)])] > position_[index(a)];
}

// Steps of a stream are ordered, so the last use of one and the first use of the other decide.
bool Order::allBefore(BufferId a, BufferId b) const {
  const Use &one = uses_[index(a)], &other = uses_[index(b)];
  for (const int first : other.first) {
    if (first < 0) continue;
    if (one.toTheEnd) return false;
    for (const int last : one.last)
      if (last >= 0 && !before(last, first)) return false;
  }
  return !(one.toTheEnd && other.toTheEnd);
}

Order::Life Order::life(BufferId root) const {
  const Use& use = uses_[index(root)];
  Life life{steps_, use.toTheEnd ? steps_ : 0};
  for (std::size_t s = 0; s < use.first.size(); ++s) {
    if (use.first[s] < 0) continue;
    life.first = std::min(life.first, use.first[s]);
    for (int i = std::max(life.end, use.last[s] + 1); i <= steps_; ++i) {
      life.end = i;
      if (before(use.last[s], i)) break;
    }
  }
  if (life.first == steps_) life.first = life.end;
  return life;
}

}  // namespace lockstep::plan
