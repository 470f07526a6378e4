#include "engine/planner/overlap.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "engine/plan/order.h"

namespace lockstep::planner {
namespace {

const plan::Buffer& bufferOf(const plan::Body& body, plan::BufferId id) {
  return body.buffers[static_cast<std::size_t>(id)];
}

// Bytes of transiently gathered buffers, by the steps at which their lives begin and end.
class Window {
 public:
  explicit Window(const plan::Body& body)
      : starting_(body.steps.size()), ending_(body.steps.size()) {
    const std::vector<bool> whole = isTransientlyGathered(body);
    const plan::Order order(body);
    for (std::size_t b = 0; b < body.buffers.size(); ++b) {
      const auto [first, end] = order.life(static_cast<plan::BufferId>(b));
      if (!whole[b] || first == end) continue;
      starting_[static_cast<std::size_t>(first)] += body.buffers[b].type.bytes();
      ending_[static_cast<std::size_t>(end) - 1] += body.buffers[b].type.bytes();
    }
  }
  std::int64_t starting(std::size_t step) const { return starting_[step]; }
  std::int64_t ending(std::size_t step) const { return ending_[step]; }
  std::vector<std::int64_t> during() const {
    std::vector<std::int64_t> bytes;
    std::int64_t now = 0;
    for (std::size_t i = 0; i < starting_.size(); ++i) {
      bytes.push_back(now += starting_[i]);
      now -= ending_[i];
    }
    return bytes;
  }

 private:
  std::vector<std::int64_t> starting_, ending_;  // bytes, by step
};

bool isState(const plan::Body& body, plan::BufferId id) {
  return plan::rootBufferOf(body, id).kind == plan::BufferKind::kState;
}

// Returns the sharded state that step i gathers transiently, directly or as cast by the step
// before.
std::optional<plan::BufferId> gathered(const plan::Body& body, std::size_t i) {
  const plan::Step& gather = body.steps[i];
  if (gather.op != ir::Op::kAllGather || isState(body, gather.outputs[0])) return std::nullopt;
  if (isState(body, gather.inputs[0])) return gather.inputs[0];
  if (i == 0) return std::nullopt;
  const plan::Step& cast = body.steps[i - 1];
  const bool isCast = cast.op == ir::Op::kCast && cast.outputs[0] == gather.inputs[0] &&
                      isState(body, cast.inputs[0]);
  return isCast ? std::optional(cast.inputs[0]) : std::nullopt;
}

// Gathers, with what casts their parts, keep their order, and so do all other steps.
void gatherAhead(plan::Body& body, const OverlapPolicy& policy, std::int64_t most) {
  const Window window(body);
  std::vector<std::int64_t> whole = window.during();
  // those moved, by the step they come before
  std::vector<std::vector<std::size_t>> before(body.steps.size());
  std::vector<bool> moved(body.steps.size(), false);
  // a state, by the step after the last that wrote it
  std::map<plan::BufferId, std::size_t> written;
  std::size_t earliest = 0;
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const plan::Step& step = body.steps[i];
    if (const auto part = gathered(body, i); part && policy.mayOverlap(step.axis)) {
      const std::size_t first = step.inputs[0] == *part ? i : i - 1;
      earliest = std::max(earliest, written[plan::rootOf(body, *part)]);
      std::size_t at = first;
      for (; at > earliest && whole[at - 1] + window.starting(i) <= most; --at)
        whole[at - 1] += window.starting(i);
      for (std::size_t k = first; k <= i; ++k) {
        before[at].push_back(k);
        moved[k] = true;
      }
      earliest = at;
    }
    for (const plan::BufferId id : step.outputs)
      if (isState(body, id)) written[plan::rootOf(body, id)] = i + 1;
  }
  std::vector<plan::Step> steps;
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    for (const std::size_t one : before[i]) steps.push_back(std::move(body.steps[one]));
    if (!moved[i]) steps.push_back(std::move(body.steps[i]));
  }
  body.steps = std::move(steps);
}

// Which steps need what: what one reads or writes another wrote or read, or they are along one
// axis.
class Needs {
 public:
  explicit Needs(const plan::Body& body) : body_(body), accesses_(body.buffers.size()) {}

  // The latest of the steps added that the step needs; -1: none.
  int of(const plan::Step& step) const {
    int latest = -1;
    const auto touch = [&](plan::BufferId id, bool writes) {
      const Range range = rangeOf(id);
      for (const Access& other : accesses_[static_cast<std::size_t>(plan::rootOf(body_, id))])
        if ((writes || other.writes) && other.range.end > range.begin &&
            range.end > other.range.begin)
          latest = std::max(latest, other.step);
    };
    for (const plan::BufferId id : step.inputs) touch(id, false);
    for (const plan::BufferId id : step.outputs) touch(id, true);
    if (const auto last = along_.find(step.axis);
        step.kind == plan::StepKind::kCollective && last != along_.end())
      latest = std::max(latest, last->second);
    return latest;
  }
  void add(int number) {
    const plan::Step& step = body_.steps[static_cast<std::size_t>(number)];
    const auto note = [&](plan::BufferId id, bool writes) {
      accesses_[static_cast<std::size_t>(plan::rootOf(body_, id))].push_back(
          {number, rangeOf(id), writes});
    };
    for (const plan::BufferId id : step.inputs) note(id, false);
    for (const plan::BufferId id : step.outputs) note(id, true);
    if (step.kind == plan::StepKind::kCollective) along_[step.axis] = number;
  }

 private:
  struct Range {
    std::int64_t begin, end;  // bytes of the buffer that others are views of
  };
  struct Access {
    int step;
    Range range;
    bool writes;
  };
  // Along an axis: wherever some rank's view may lie.
  Range rangeOf(plan::BufferId id) const {
    const plan::Buffer& buffer = bufferOf(body_, id);
    if (buffer.base < 0) return {0, buffer.type.bytes()};
    if (!buffer.axis.empty()) return {buffer.offset, bufferOf(body_, buffer.base).type.bytes()};
    return {buffer.offset, buffer.offset + buffer.type.bytes()};
  }

  const plan::Body& body_;
  std::vector<std::vector<Access>> accesses_;  // by buffer
  std::map<std::string, int> along_;           // the last collective along an axis
};

// The first step after a collective that needs what it makes, or may not touch what it reads.
// Later collectives along its axis are ordered after it anyway.
std::size_t firstNeed(const plan::Body& body, std::size_t collective) {
  Needs needs(body);
  needs.add(static_cast<int>(collective));
  for (std::size_t i = collective + 1; i < body.steps.size(); ++i)
    if (body.steps[i].kind != plan::StepKind::kCollective && needs.of(body.steps[i]) >= 0) return i;
  return body.steps.size();
}

// A step waits for the latest asynchronous collective that it depends on. Where more than `most`
// bytes would be gathered at once, it also waits for the oldest collectives that are the last users
// of gathered buffers: an asynchronous step is ordered after these, and the next compute step waits
// for them, so that later steps reuse their memory.
void addWaits(plan::Body& body, const Window& window, std::int64_t most) {
  Needs needs(body);
  std::deque<int> last;  // asynchronous last users whose buffers are not yet known to be free
  std::int64_t whole = 0;
  int done = -1;    // the latest asynchronous step known to be complete
  int needed = -1;  // the latest that the next compute step waits for
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    plan::Step& step = body.steps[i];
    const bool isAsync = step.stream == plan::kCommunicationStream;
    if (!isAsync) needed = std::max(needed, needs.of(step));
    const auto letGo = [&] {
      whole -= window.ending(static_cast<std::size_t>(last.front()));
      last.pop_front();
    };
    while (!last.empty() && last.front() <= std::max(needed, done)) letGo();
    whole += window.starting(i);
    while (window.starting(i) > 0 && whole > most && !last.empty()) {
      needed = std::max(needed, last.front());
      letGo();
    }
    if (isAsync) {
      needs.add(static_cast<int>(i));
      if (window.ending(i) > 0) last.push_back(static_cast<int>(i));
      continue;
    }
    if (needed > done) {
      step.after.push_back(needed);
      done = needed;
    }
    whole -= window.ending(i);
  }
}

}  // namespace

std::vector<bool> isTransientlyGathered(const plan::Body& body) {
  std::vector<bool> out(body.buffers.size(), false);
  const auto note = [&](plan::BufferId id) {
    const plan::BufferId root = plan::rootOf(body, id);
    if (bufferOf(body, root).kind == plan::BufferKind::kTemp)
      out[static_cast<std::size_t>(root)] = true;
  };
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    if (gathered(body, i)) note(body.steps[i].outputs[0]);
    if (body.steps[i].op == ir::Op::kReduceScatter) note(body.steps[i].inputs[0]);
  }
  return out;
}

std::int64_t peakGatheredBytes(const plan::Body& body) {
  const std::vector<std::int64_t> bytes = Window(body).during();
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

void overlapCollectives(plan::Body& body, OverlapPolicy& policy) {
  const std::int64_t most =
      policy.gatheredBytes > 0 ? policy.gatheredBytes : 2 * peakGatheredBytes(body);
  gatherAhead(body, policy, most);
  const Window window(body);
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    plan::Step& step = body.steps[i];
    if (step.kind != plan::StepKind::kCollective || plan::isMessage(step) ||
        step.phase == ir::Phase::kWatch ||  // not in every step, so nothing may wait for it
        !policy.mayOverlap(step.axis))
      continue;
    const auto [known, isNew] = policy.decided.try_emplace(step.name, false);
    if (isNew) {
      double meanwhile = 0;
      const std::size_t need = firstNeed(body, i);
      for (std::size_t k = i + 1; k < need; ++k) {
        const plan::Step& other = body.steps[k];
        if (other.kind == plan::StepKind::kCompute)
          meanwhile += std::max(other.flops / policy.flopsPerSecond,
                                static_cast<double>(other.bytes) / policy.bytesPerSecond);
      }
      known->second = meanwhile >= policy.leastSeconds;
    }
    if (known->second) step.stream = plan::kCommunicationStream;
  }
  addWaits(body, window, most);
}

}  // namespace lockstep::planner
