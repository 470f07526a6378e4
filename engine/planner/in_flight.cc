#include "engine/planner/in_flight.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "engine/plan/order.h"

namespace lockstep::planner {
namespace {

const plan::Buffer& bufferOf(const plan::Body& body, plan::BufferId id) {
  return body.buffers[static_cast<std::size_t>(id)];
}

// What is whole for a time, by when it comes and goes.
class Window {
 public:
  explicit Window(const plan::Body& body) : starting_(body.steps.size()), ending_(body.steps.size()) {
    const std::vector<bool> whole = wholeForATime(body);
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

bool gathersParameters(const plan::Body& body, const plan::Step& step) {
  return step.op == ir::Op::kAllGather &&
         bufferOf(body, plan::rootOf(body, step.inputs[0])).kind == plan::BufferKind::kState &&
         bufferOf(body, plan::rootOf(body, step.outputs[0])).kind == plan::BufferKind::kTemp;
}

// Gathers keep their order, and so do all other steps.
void gatherAhead(plan::Body& body, const FlightRules& rules, std::int64_t most) {
  const Window window(body);
  std::vector<std::int64_t> whole = window.during();
  std::vector<std::vector<std::size_t>> before(body.steps.size());  // gathers, by the step they come before
  std::vector<bool> moved(body.steps.size(), false);
  std::map<plan::BufferId, std::size_t> written;  // a state, by the step after the last that wrote it
  std::size_t earliest = 0;
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const plan::Step& step = body.steps[i];
    if (gathersParameters(body, step) && rules.may(step.axis)) {
      earliest = std::max(earliest, written[plan::rootOf(body, step.inputs[0])]);
      std::size_t at = i;
      for (; at > earliest && whole[at - 1] + window.starting(i) <= most; --at) whole[at - 1] += window.starting(i);
      before[at].push_back(i);
      moved[i] = true;
      earliest = at;
    }
    for (const plan::BufferId id : step.outputs)
      if (const plan::BufferId root = plan::rootOf(body, id); bufferOf(body, root).kind == plan::BufferKind::kState)
        written[root] = i + 1;
  }
  std::vector<plan::Step> steps;
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    for (const std::size_t gather : before[i]) steps.push_back(std::move(body.steps[gather]));
    if (!moved[i]) steps.push_back(std::move(body.steps[i]));
  }
  body.steps = std::move(steps);
}

// Which steps need what: what one reads or writes another wrote or read, or they are along one axis.
class Needs {
 public:
  explicit Needs(const plan::Body& body) : body_(body), accesses_(body.buffers.size()) {}

  // The latest of the steps added that the step needs; -1: none.
  int of(const plan::Step& step) const {
    int latest = -1;
    const auto touch = [&](plan::BufferId id, bool writes) {
      const Range range = rangeOf(id);
      for (const Access& other : accesses_[static_cast<std::size_t>(plan::rootOf(body_, id))])
        if ((writes || other.writes) && other.range.end > range.begin && range.end > other.range.begin)
          latest = std::max(latest, other.step);
    };
    for (const plan::BufferId id : step.inputs) touch(id, false);
    for (const plan::BufferId id : step.outputs) touch(id, true);
    if (const auto last = along_.find(step.axis); step.kind == plan::StepKind::kCollective && last != along_.end())
      latest = std::max(latest, last->second);
    return latest;
  }
  void add(int number) {
    const plan::Step& step = body_.steps[static_cast<std::size_t>(number)];
    const auto note = [&](plan::BufferId id, bool writes) {
      accesses_[static_cast<std::size_t>(plan::rootOf(body_, id))].push_back({number, rangeOf(id), writes});
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

// The first step after a collective that needs what it makes, or may not touch what it reads. Others along its
// axis come to their turn.
std::size_t firstNeed(const plan::Body& body, std::size_t collective) {
  Needs needs(body);
  needs.add(static_cast<int>(collective));
  for (std::size_t i = collective + 1; i < body.steps.size(); ++i)
    if (body.steps[i].kind != plan::StepKind::kCollective && needs.of(body.steps[i]) >= 0) return i;
  return body.steps.size();
}

// A step waits for the latest in flight that it needs. Where there would be more whole at once, it waits for the
// oldest that are the last to use some of it; what is in flight itself comes after these.
void addWaits(plan::Body& body, const Window& window, std::int64_t most) {
  Needs needs(body);
  std::deque<int> last;   // in flight, what they are the last to use not yet known to be free
  std::int64_t whole = 0;
  int done = -1;          // of those in flight, the latest that is known to be
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    plan::Step& step = body.steps[i];
    const bool flies = step.stream == plan::kFlightStream;
    const auto letGo = [&] {
      whole -= window.ending(static_cast<std::size_t>(last.front()));
      last.pop_front();
    };
    int needed = flies ? -1 : needs.of(step);
    while (!last.empty() && last.front() <= std::max(needed, done)) letGo();
    whole += window.starting(i);
    while (window.starting(i) > 0 && whole > most && !last.empty()) {
      if (!flies) needed = std::max(needed, last.front());
      letGo();
    }
    if (needed > done) {
      step.after.push_back(needed);
      done = needed;
    }
    if (flies) needs.add(static_cast<int>(i));
    if (flies && window.ending(i) > 0) last.push_back(static_cast<int>(i));
    else whole -= window.ending(i);
  }
}

}  // namespace

std::vector<bool> wholeForATime(const plan::Body& body) {
  std::vector<bool> out(body.buffers.size(), false);
  const auto note = [&](plan::BufferId id) {
    const plan::BufferId root = plan::rootOf(body, id);
    if (bufferOf(body, root).kind == plan::BufferKind::kTemp) out[static_cast<std::size_t>(root)] = true;
  };
  for (const plan::Step& step : body.steps) {
    if (gathersParameters(body, step)) note(step.outputs[0]);
    if (step.op == ir::Op::kReduceScatter) note(step.inputs[0]);
  }
  return out;
}

std::int64_t mostWhole(const plan::Body& body) {
  const std::vector<std::int64_t> bytes = Window(body).during();
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

void putInFlight(plan::Body& body, FlightRules& rules) {
  const std::int64_t most = rules.wholeBytes > 0 ? rules.wholeBytes : 2 * mostWhole(body);
  gatherAhead(body, rules, most);
  const Window window(body);
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    plan::Step& step = body.steps[i];
    if (step.kind != plan::StepKind::kCollective || plan::isMessage(step) || !rules.may(step.axis)) continue;
    const auto [known, isNew] = rules.decided.try_emplace(step.name, false);
    if (isNew) {
      double meanwhile = 0;
      const std::size_t need = firstNeed(body, i);
      for (std::size_t k = i + 1; k < need; ++k) {
        const plan::Step& other = body.steps[k];
        if (other.kind == plan::StepKind::kCompute)
          meanwhile += std::max(other.flops / rules.flopsPerSecond, static_cast<double>(other.bytes) / rules.bytesPerSecond);
      }
      known->second = meanwhile >= rules.leastSeconds;
    }
    if (known->second) step.stream = plan::kFlightStream;
  }
  addWaits(body, window, most);
}

}  // namespace lockstep::planner
