#include "engine/plan/verify_body.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "engine/plan/order.h"
#include "engine/plan/verify_schedule.h"

namespace lockstep::plan {
namespace {

class BodyVerifier {
 public:
  // `ranks` run the body, all of one stage.
  BodyVerifier(const Plan& plan, const Program& program, const Body& body,
               const std::vector<int>& ranks)
      : plan_(plan),
        program_(program),
        body_(body),
        ranks_(ranks),
        stage_(ranks.empty() ? -1 : plan.stageOf(ranks[0])) {}

  Status run() {
    LOCKSTEP_TRY(buffers());
    LOCKSTEP_TRY(steps());
    LOCKSTEP_TRY(results());
    order_.emplace(body_);
    LOCKSTEP_TRY(groups());
    LOCKSTEP_TRY(accesses());
    LOCKSTEP_TRY(sharing());
    for (std::size_t i = 0; i < body_.steps.size(); ++i) LOCKSTEP_TRY(types(i, body_.steps[i]));
    return {};
  }

 private:
  struct Access {
    int step;                 // steps_.size(): the end of the program
    std::int64_t begin, end;  // bytes of the root
    bool write;
  };

  template <typename... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return broken(fmt::format("program {}, body {}: {}", program_.name, body_.role,
                              fmt::format(format, std::forward<Args>(args)...)));
  }
  const Buffer& at(BufferId id) const { return body_.buffers[static_cast<std::size_t>(id)]; }
  bool inRange(BufferId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < body_.buffers.size();
  }
  // Returns the distance from the first rank's view to the last rank's.
  std::int64_t reach(const Buffer& buffer) const {
    return buffer.axis.empty() ? 0 : (plan_.mesh.axisSize(buffer.axis) - 1) * buffer.stride;
  }
  BufferId rootOf(BufferId id) const { return plan::rootOf(body_, id); }

  Status buffers() const {
    for (std::size_t i = 0; i < body_.buffers.size(); ++i) {
      const Buffer& buffer = body_.buffers[i];
      const std::int64_t bytes = buffer.type.bytes();
      if (buffer.offset < 0 || bytes < 0) {
        return fail("buffer %{} {} lies at {}", i, buffer.name, buffer.offset);
      }
      if (buffer.base >= 0) {
        if (!inRange(buffer.base) || at(buffer.base).base >= 0) {
          return fail("buffer %{} {} is a view of %{}, which is no buffer of its own", i,
                      buffer.name, buffer.base);
        }
        const Buffer& base = at(buffer.base);
        if (buffer.kind != base.kind) {
          return fail("buffer %{} {} is of another kind than its base", i, buffer.name);
        }
        if (!buffer.axis.empty() && stage_ > 0 && plan_.mesh.servers() > 0) {
          return fail("buffer %{} {} of a server lies along axis {}", i, buffer.name, buffer.axis);
        }
        if (!buffer.axis.empty() && plan_.mesh.axisSize(buffer.axis) < 2) {
          return fail("buffer %{} {} lies along axis {}, which has no two ranks", i, buffer.name,
                      buffer.axis);
        }
        if (buffer.stride < 0 || buffer.stride > base.type.bytes() ||
            buffer.offset > base.type.bytes() - bytes - reach(buffer)) {
          return fail("buffer %{} {} reaches past its base {}", i, buffer.name, base.name);
        }
        const auto element = static_cast<std::int64_t>(sizeOf(buffer.type.dtype));
        if (buffer.offset % element != 0 || buffer.stride % element != 0) {
          return fail("buffer %{} {} splits an element of its base", i, buffer.name);
        }
        continue;
      }
      if (buffer.offset % kAlignment != 0) {
        return fail("buffer %{} {} at {} is not aligned to {} bytes", i, buffer.name, buffer.offset,
                    kAlignment);
      }
      if (buffer.kind == BufferKind::kState) {
        const auto slot = std::find_if(plan_.state.begin(), plan_.state.end(),
                                       [&](const StateSlot& s) { return s.name == buffer.name; });
        if (slot == plan_.state.end() || slot->type != buffer.type ||
            slot->offset != buffer.offset || (stage_ >= 0 && slot->stage != stage_)) {
          return fail("buffer %{} {} is not the plan's state of that name", i, buffer.name);
        }
      } else if (buffer.offset > body_.arenaBytes - bytes) {
        return fail("buffer %{} {} reaches past the arena's {} bytes", i, buffer.name,
                    body_.arenaBytes);
      }
    }
    return {};
  }

  Status steps() const {
    for (std::size_t i = 0; i < body_.steps.size(); ++i) {
      const Step& step = body_.steps[i];
      const ir::OpInfo& info = ir::info(step.op);
      for (const auto* list : {&step.inputs, &step.outputs}) {
        for (const BufferId id : *list) {
          if (!inRange(id)) return fail("step {} {} uses no buffer of the body", i, step.name);
        }
      }
      const bool collective = step.kind == StepKind::kCollective;
      if (collective != info.isCollective) {
        return fail("step {} {}: {} is {}a collective", i, step.name, info.name,
                    info.isCollective ? "" : "not ");
      }
      if (!collective && !ir::hasKernel(step.op)) {
        return fail("step {} {}: {} is no work", i, step.name, info.name);
      }
      if (static_cast<int>(step.outputs.size()) != info.outputs ||
          static_cast<int>(step.inputs.size()) < info.minInputs ||
          (info.maxInputs >= 0 && static_cast<int>(step.inputs.size()) > info.maxInputs)) {
        return fail("step {} {}: {} takes other operands", i, step.name, info.name);
      }
      if (collective && plan_.mesh.axisSize(step.axis) < 2) {
        return fail("step {} {} runs over axis {}, which has no two ranks", i, step.name,
                    step.axis);
      }
      if (isMessage(step)) LOCKSTEP_TRY(message(i, step));
      LOCKSTEP_TRY(watch(i, step));
      if (step.op == ir::Op::kAllReduce && (rootOf(step.inputs[0]) != rootOf(step.outputs[0]) ||
                                            begin(step.inputs[0]) != begin(step.outputs[0]) ||
                                            at(step.inputs[0]).type != at(step.outputs[0]).type)) {
        return fail("step {} {}: an all-reduce works in place", i, step.name);
      }
      if (step.op == ir::Op::kAllToAll &&
          ir::intAttr(step.attrs, "ranks") != plan_.mesh.axisSize(step.axis)) {
        return fail("step {} {}: parts are for other ranks than axis {} has", i, step.name,
                    step.axis);
      }
      if (const auto hosts = ir::listAttr(step.attrs, "hosts");
          !hosts.empty() &&
          (hosts.size() < 2 || hosts.front() != 0 ||
           hosts.back() != plan_.mesh.axisSize(step.axis) ||
           std::adjacent_find(hosts.begin(), hosts.end(), std::greater_equal<>()) != hosts.end())) {
        return fail("step {} {}: the hosts are no cut-points of axis {}", i, step.name, step.axis);
      }
      if (step.attrs.contains("algorithm") && step.axis == plan_.mesh.messageAxis()) {
        return fail("step {} {}: messages along axis {} are those of stages", i, step.name,
                    step.axis);
      }
      if (step.stream < 0 || step.stream >= kStreams ||
          (step.stream == kCommunicationStream &&
           (!collective || step.axis == plan_.mesh.messageAxis()))) {
        return fail("step {} {}: stream {}", i, step.name, step.stream);
      }
      for (const StepId before : step.after) {
        if (before < 0 || static_cast<std::size_t>(before) >= i) {
          return fail("step {} {} waits for step {}, which is not before it", i, step.name, before);
        }
      }
      for (const double figure : {step.flops, step.seconds, static_cast<double>(step.bytes)}) {
        if (!std::isfinite(figure) || figure < 0) {
          return fail("step {} {} has a cost that is no amount", i, step.name);
        }
      }
    }
    return {};
  }

  // Checks attributes and operands against the op's table row.
  Status types(std::size_t i, const Step& step) const {
    std::vector<ir::TensorType> inputs;
    for (const BufferId id : step.inputs) inputs.push_back(at(id).type);
    ir::Attrs attrs = step.attrs;
    const auto made = ir::inferTypes(step.op, inputs, attrs);
    if (!made.ok()) return fail("step {} {}: {}", i, step.name, made.error().what);
    for (std::size_t k = 0; k < made->size(); ++k) {
      const Buffer& output = at(step.outputs[k]);
      if (output.type == (*made)[k]) continue;
      return fail("step {} {} makes {} in buffer {}, which is {}", i, step.name, (*made)[k].text(),
                  output.name, output.type.text());
    }
    return {};
  }

  // Checks that peers are other ranks, that what is sent is state, which lasts until it is
  // received, and that a recv-sum has separate memory to receive into.
  Status message(std::size_t i, const Step& step) const {
    const Peers peers = peersOf(step);
    const int size = plan_.mesh.axisSize(step.axis);
    const bool one = step.op == ir::Op::kSend || step.op == ir::Op::kRecv;
    const bool rows = step.op == ir::Op::kSendRows || step.op == ir::Op::kRecvRows;
    const bool partner = peers.first == ir::kPartner && plan_.isAsynchronous();
    bool others = step.axis == plan_.mesh.messageAxis() && (peers.first >= 0 || partner) &&
                  peers.count >= 1 && peers.count <= size && peers.first <= size - peers.count &&
                  step.attrs.contains("peer") == (one || rows) &&
                  step.attrs.contains("count") != one;
    for (const int rank : ranks_) {
      const int self = plan_.mesh.coordinate(rank, step.axis);
      others = others && !(self >= peers.first && self < peers.first + peers.count);
    }
    if (!others) {
      return fail("step {} {} is for coordinates {} to {} of axis {}, where no other rank is", i,
                  step.name, peers.first, peers.first + peers.count - 1, step.axis);
    }
    if (isSend(step)) {
      // ScheduleRun verifies that it is not overwritten.
      if (at(rootOf(step.inputs[0])).kind != BufferKind::kState) {
        return fail("step {} {} sends what does not last until it has been sent", i, step.name);
      }
    }
    if (rows) {
      const ir::TensorType &x = payload(body_, step),
                           &counts = at((step.inputs.empty() ? step.outputs : step.inputs)[1]).type;
      const std::int64_t parts = ir::intAttr(step.attrs, "part") + peers.count;
      if (x.shape.empty() || counts.dtype != DType::kI32 || counts.shape.size() != 1 ||
          counts.count() < parts)
        return fail("step {} {} has no count for each of its messages", i, step.name);
    }
    if (step.op == ir::Op::kRecvSum) {
      const BufferId sum = step.outputs[0], scratch = step.outputs[1];
      const DType dtype = at(sum).type.dtype;
      const bool apart = rootOf(sum) != rootOf(scratch) ||
                         begin(sum) >= begin(scratch) + at(scratch).type.bytes() ||
                         begin(scratch) >= begin(sum) + at(sum).type.bytes();
      if (at(sum).type != at(scratch).type || !apart ||
          (dtype != DType::kF32 && dtype != DType::kF64)) {
        return fail("step {} {} needs two memories of one type, f32 or f64", i, step.name);
      }
    }
    return {};
  }

  Status results() const {
    std::set<std::string> names;
    for (const ResultSlot& slot : body_.results) {
      if (!inRange(slot.buffer)) return fail("result {} is no buffer of the body", slot.name);
      if (!names.insert(slot.name).second) return fail("result {} is given twice", slot.name);
    }
    return {};
  }

  // Checks that collectives along an axis are ordered, since a group runs one at a time. A rank
  // issues them in the body's order and waits for nothing later; with the same order on all ranks
  // there is no deadlock, whatever the streams.
  Status groups() const {
    std::map<std::string, int> last;  // by axis
    for (std::size_t i = 0; i < body_.steps.size(); ++i) {
      const Step& step = body_.steps[i];
      if (step.kind != StepKind::kCollective) continue;
      const auto [known, isNew] = last.emplace(step.axis, static_cast<int>(i));
      if (!isNew && !before(known->second, static_cast<int>(i))) {
        return fail("steps {} and {} use the group along axis {} without an order between them",
                    known->second, i, step.axis);
      }
      known->second = static_cast<int>(i);
    }
    return {};
  }

  bool before(int a, int b) const { return order_->before(a, b); }
  std::int64_t begin(BufferId id) const { return at(id).base >= 0 ? at(id).offset : 0; }

  // Checks for each root buffer that conflicting accesses are ordered, and that temporaries are
  // written before they are read.
  Status accesses() {
    accesses_.resize(body_.buffers.size());
    const auto note = [&](BufferId id, int step, bool write) {
      accesses_[static_cast<std::size_t>(rootOf(id))].push_back(
          {step, begin(id), begin(id) + at(id).type.bytes() + reach(at(id)), write});
    };
    for (std::size_t i = 0; i < body_.steps.size(); ++i) {
      for (const BufferId id : body_.steps[i].inputs) note(id, static_cast<int>(i), false);
      for (const BufferId id : body_.steps[i].outputs) note(id, static_cast<int>(i), true);
    }
    for (const ResultSlot& slot : body_.results) {
      note(slot.buffer, static_cast<int>(body_.steps.size()), false);
    }
    for (std::size_t root = 0; root < accesses_.size(); ++root) {
      const auto& list = accesses_[root];
      for (std::size_t b = 0; b < list.size(); ++b) {
        for (std::size_t a = 0; a < b; ++a) {
          if (!(list[a].write || list[b].write) || list[a].step == list[b].step) continue;
          if (list[a].end <= list[b].begin || list[b].end <= list[a].begin) continue;
          if (!before(list[a].step, list[b].step)) {
            return fail("steps {} and {} use {} without an order between them", list[a].step,
                        list[b].step, body_.buffers[root].name);
          }
        }
        if (!list[b].write) LOCKSTEP_TRY(unwatched(root, b));
        if (!list[b].write && body_.buffers[root].kind == BufferKind::kTemp) {
          LOCKSTEP_TRY(written(root, b));
        }
      }
    }
    return {};
  }

  bool isWatch(int step) const {
    return static_cast<std::size_t>(step) < body_.steps.size() &&
           body_.steps[static_cast<std::size_t>(step)].phase == ir::Phase::kWatch;
  }
  // Checks that what access `b` of `root` reads does not depend on whether the step is watched.
  Status unwatched(std::size_t root, std::size_t b) const {
    const auto& list = accesses_[root];
    // results are read at the end, by who knows which steps are watched
    if (isWatch(list[b].step) || list[b].step == static_cast<int>(body_.steps.size())) return {};
    for (const Access& access : list) {
      if (access.write && isWatch(access.step) && access.end > list[b].begin &&
          access.begin < list[b].end && before(access.step, list[b].step)) {
        return fail("step {} reads {}, which step {} writes in watched steps only", list[b].step,
                    body_.buffers[root].name, access.step);
      }
    }
    return {};
  }
  // Checks that a step that is not always run changes no state that outlives the training step.
  Status watch(std::size_t i, const Step& step) const {
    if (step.phase != ir::Phase::kWatch) return {};
    for (const BufferId id : step.outputs) {
      const Buffer& root = at(rootOf(id));
      const auto slot = std::find_if(plan_.state.begin(), plan_.state.end(),
                                     [&](const StateSlot& s) { return s.name == root.name; });
      if (root.kind == BufferKind::kTemp ||
          (root.kind == BufferKind::kState && slot != plan_.state.end() &&
           slot->role == StateRole::kStash)) {
        continue;
      }
      return fail("step {} {} is of phase watch and writes {}", i, step.name, root.name);
    }
    if (step.stream != kComputeStream) {
      return fail("step {} {} is of phase watch, on stream {}", i, step.name, step.stream);
    }
    return {};
  }

  // Checks that earlier steps wrote all bytes that access `b` of `root` reads.
  Status written(std::size_t root, std::size_t b) const {
    const auto& list = accesses_[root];
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (const Access& access : list) {
      if (access.write && before(access.step, list[b].step) && access.end > list[b].begin &&
          access.begin < list[b].end) {
        ranges.emplace_back(access.begin, access.end);
      }
    }
    std::sort(ranges.begin(), ranges.end());
    std::int64_t reached = list[b].begin;
    for (const auto& [first, last] : ranges) {
      if (first > reached) break;
      reached = std::max(reached, last);
    }
    if (reached < list[b].end) {
      return fail("step {} reads {} before all of it was written", list[b].step,
                  body_.buffers[root].name);
    }
    return {};
  }

  // Checks that buffers that share arena memory are not live at once.
  Status sharing() const {
    std::vector<std::size_t> roots;
    for (std::size_t i = 0; i < body_.buffers.size(); ++i) {
      const Buffer& buffer = body_.buffers[i];
      if (buffer.base < 0 && buffer.type.bytes() > 0) roots.push_back(i);
    }
    const auto isState = [&](std::size_t i) { return body_.buffers[i].kind == BufferKind::kState; };
    std::sort(roots.begin(), roots.end(), [&](std::size_t a, std::size_t b) {
      return std::make_tuple(isState(a), body_.buffers[a].offset, a) <
             std::make_tuple(isState(b), body_.buffers[b].offset, b);
    });
    for (std::size_t i = 0; i < roots.size(); ++i) {
      const Buffer& a = body_.buffers[roots[i]];
      for (std::size_t j = i + 1; j < roots.size(); ++j) {
        const Buffer& b = body_.buffers[roots[j]];
        if (isState(roots[i]) != isState(roots[j]) || b.offset >= a.offset + a.type.bytes()) break;
        const bool shareable =
            a.kind == BufferKind::kTemp && b.kind == BufferKind::kTemp &&
            order_->apart(static_cast<BufferId>(roots[i]), static_cast<BufferId>(roots[j]));
        if (!shareable) {
          return fail("buffers {} and {} share memory while both are in use", a.name, b.name);
        }
      }
    }
    return {};
  }

  const Plan& plan_;
  const Program& program_;
  const Body& body_;
  const std::vector<int>& ranks_;
  const int stage_;
  std::optional<Order> order_;  // once buffers and steps are in range
  std::vector<std::vector<Access>> accesses_;
};

}  // namespace

Status verifyBody(const Plan& plan, const Program& program, const Body& body,
                  const std::vector<int>& ranks) {
  return BodyVerifier(plan, program, body, ranks).run();
}

}  // namespace lockstep::plan
