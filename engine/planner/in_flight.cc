#include "engine/planner/in_flight.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

namespace lockstep::planner {
namespace {

const plan::Buffer& bufferOf(const plan::Body& body, plan::BufferId id) {
  return body.buffers[static_cast<std::size_t>(id)];
}

plan::BufferId rootOf(const plan::Body& body, plan::BufferId id) {
  const plan::BufferId base = bufferOf(body, id).base;
  return base >= 0 ? base : id;
}

// The first and last step that uses a buffer that lies by itself; of one that is not used first > last.
struct Use {
  std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
};
std::vector<Use> usesOf(const plan::Body& body) {
  std::vector<Use> uses(body.buffers.size());
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    for (const auto* ids : {&body.steps[i].inputs, &body.steps[i].outputs}) {
      for (const plan::BufferId id : *ids) {
        Use& use = uses[static_cast<std::size_t>(rootOf(body, id))];
        use.first = std::min(use.first, i);
        use.last = std::max(use.last, i);
      }
    }
  }
  for (const plan::ResultSlot& slot : body.results)
    uses[static_cast<std::size_t>(rootOf(body, slot.buffer))].last = body.steps.size();
  return uses;
}

// What is whole for a time, by when it comes and goes.
class Window {
 public:
  explicit Window(const plan::Body& body) : starting_(body.steps.size()), ending_(body.steps.size()) {
    const std::vector<bool> whole = wholeForATime(body);
    const std::vector<Use> uses = usesOf(body);
    for (std::size_t b = 0; b < body.buffers.size(); ++b) {
      if (!whole[b] || uses[b].first > uses[b].last) continue;
      const std::int64_t bytes = body.buffers[b].type.bytes();
      starting_[uses[b].first] += bytes;
      if (uses[b].last < body.steps.size()) ending_[uses[b].last] += bytes;
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
         bufferOf(body, rootOf(body, step.inputs[0])).kind == plan::BufferKind::kState &&
         bufferOf(body, rootOf(body, step.outputs[0])).kind == plan::BufferKind::kTemp;
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
      earliest = std::max(earliest, written[rootOf(body, step.inputs[0])]);
      std::size_t at = i;
      for (; at > earliest && whole[at - 1] + window.starting(i) <= most; --at) whole[at - 1] += window.starting(i);
      before[at].push_back(i);
      moved[i] = true;
      earliest = at;
    }
    for (const plan::BufferId id : step.outputs)
      if (const plan::BufferId root = rootOf(body, id); bufferOf(body, root).kind == plan::BufferKind::kState)
        written[root] = i + 1;
  }
  std::vector<plan::Step> steps;
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    for (const std::size_t gather : before[i]) steps.push_back(std::move(body.steps[gather]));
    if (!moved[i]) steps.push_back(std::move(body.steps[i]));
  }
  body.steps = std::move(steps);
}

// The first step after a collective that needs what it makes, or may not touch what it reads.
std::size_t firstNeed(const plan::Body& body, std::size_t collective) {
  const plan::Step& step = body.steps[collective];
  const auto uses = [&](const std::vector<plan::BufferId>& ids, const std::vector<plan::BufferId>& of) {
    return std::any_of(ids.begin(), ids.end(), [&](plan::BufferId id) {
      return std::any_of(of.begin(), of.end(), [&](plan::BufferId other) { return rootOf(body, id) == rootOf(body, other); });
    });
  };
  for (std::size_t i = collective + 1; i < body.steps.size(); ++i) {
    const plan::Step& other = body.steps[i];
    if (other.kind == plan::StepKind::kCollective) continue;  // comes to its turn
    if (uses(other.inputs, step.outputs) || uses(other.outputs, step.outputs) || uses(other.outputs, step.inputs)) return i;
  }
  return body.steps.size();
}

}  // namespace

std::vector<bool> wholeForATime(const plan::Body& body) {
  std::vector<bool> out(body.buffers.size(), false);
  const auto note = [&](plan::BufferId id) {
    const plan::BufferId root = rootOf(body, id);
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

std::vector<std::size_t> putInFlight(plan::Body& body, FlightRules& rules) {
  const std::int64_t most = rules.wholeBytes > 0 ? rules.wholeBytes : 2 * mostWhole(body);
  gatherAhead(body, rules, most);
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

  std::vector<std::size_t> heldUntil;
  for (std::size_t i = 0; i < body.steps.size(); ++i)
    heldUntil.push_back(body.steps[i].stream == plan::kFlightStream ? body.steps.size() : i);
  // Of what travels the oldest is given up first where there is too much.
  const Window window(body);
  std::deque<std::size_t> held;
  std::int64_t now = 0;  // with what is held
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    for (now += window.starting(i); now > most && !held.empty() && window.starting(i) > 0; held.pop_front()) {
      heldUntil[held.front()] = i - 1;
      now -= window.ending(held.front());
    }
    if (body.steps[i].stream == plan::kFlightStream && window.ending(i) > 0) held.push_back(i);
    else now -= window.ending(i);
  }
  return heldUntil;
}

}  // namespace lockstep::planner
