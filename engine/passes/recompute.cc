#include "engine/passes/recompute.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"

namespace lockstep::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

struct Named {
  Recompute what;
  std::string_view name;
};
constexpr std::array kNamed{Named{Recompute::kNone, "none"},
                            Named{Recompute::kSelective, "selective"},
                            Named{Recompute::kFull, "full"}};

std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

class Recomputer {
 public:
  explicit Recomputer(const ir::Graph& train)
      : graph_(train),
        rewrite_(train),
        facts_(train.values().size()),
        kept_(train.values().size(), false),
        again_(train.values().size(), -1) {}

  Result<ir::Graph> run(Recompute what) {
    findFacts();
    keepWhatMustBe();
    if (what == Recompute::kSelective)
      keepCostly();
    else
      keepEnds();
    keepLastSegment();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) {
        LOCKSTEP_ASSIGN(const ValueId read, isForward(node) ? rewrite_(input) : inBackward(input));
        inputs.push_back(read);
      }
      LOCKSTEP_TRY(rewrite_.copy(static_cast<NodeId>(i), node.attrs, std::move(inputs)).status());
    }
    return rewrite_.take();
  }

 private:
  struct Fact {
    ValueId root = -1;        // what it is a view of, or itself; the others are those of roots
    bool activation = false;  // made by the forward pass, and depends on a state
    bool sum = false;         // much smaller than what it is made of
    bool readBackward = false;
    NodeId lastForward = -1;  // the last forward node that reads it
    int forwardReaders = 0;
  };

  static bool isForward(const Node& node) { return node.phase == ir::Phase::kForward; }
  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }
  std::int64_t bytes(ValueId value) const { return graph_.value(value).type.bytes(); }
  ValueId root(ValueId value) const { return facts_[index(value)].root; }
  Fact& fact(ValueId value) { return facts_[index(root(value))]; }
  bool isKept(ValueId value) const { return kept_[index(root(value))]; }
  void keep(ValueId value) { kept_[index(root(value))] = true; }

  void findFacts() {
    constexpr std::int64_t kMuch = 8;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      bool depends = false;
      std::int64_t read = 0, made = 0;
      for (const ValueId input : node.inputs) {
        depends = depends || fact(input).activation || producer(root(input)).op == Op::kState;
        if (producer(root(input)).op != Op::kState) read = std::max(read, bytes(input));
        if (!isForward(node)) fact(input).readBackward = true;
        if (!isForward(node) || node.op == Op::kReshape) continue;
        fact(input).lastForward = static_cast<NodeId>(i);
        ++fact(input).forwardReaders;
      }
      for (const ValueId output : node.outputs) made += bytes(output);
      for (const ValueId output : node.outputs) {
        Fact& own = facts_[index(output)];
        own.root = node.op == Op::kReshape ? root(node.inputs[0]) : output;
        own.activation = depends && isForward(node);
        own.sum = kMuch * made <= read;
      }
    }
  }

  // What does not depend on a state, what another stage reads, and sums: they take little, and
  // where ranks have parts of them these would be exchanged again.
  void keepWhatMustBe() {
    for (const Node& node : graph_.nodes()) {
      for (const ValueId input : node.inputs) {
        if (isForward(node) && producer(input).stage != node.stage) keep(input);
      }
      for (const ValueId output : node.outputs) {
        if (!fact(output).activation || fact(output).sum) keep(output);
      }
    }
  }

  // Whether all that reads it is a bias, an activation or a cast, which will be one kernel with its
  // product.
  bool goesOn(ValueId value) {
    const Fact& known = fact(value);
    if (known.forwardReaders != 1 || known.readBackward) return false;
    const Node& reader = graph_.node(known.lastForward);
    return (reader.op == Op::kBiasAdd || reader.op == Op::kRelu || reader.op == Op::kCast) &&
           root(reader.inputs[0]) == root(value);
  }

  void keepCostly() {
    std::vector<bool> costly(graph_.values().size(), false);
    for (const Node& node : graph_.nodes()) {
      if (!isForward(node) || node.outputs.empty() || !fact(node.outputs[0]).activation) continue;
      if (!ir::info(node.op).costlyToRecompute && !costly[index(root(node.inputs[0]))]) continue;
      for (const ValueId output : node.outputs) {
        if (goesOn(output))
          costly[index(root(output))] = true;
        else
          keep(output);
      }
    }
  }

  // A value that is all that later layers read of earlier ones.
  struct Cut {
    ValueId value;
    std::int64_t bytes;    // 0 where it is kept in any case
    std::int64_t between;  // of what the backward pass reads and is not kept, since the cut before
  };

  void keepEnds() {
    std::vector<Cut> cuts;
    std::vector<ValueId> live;
    std::int64_t between = 0;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (!isForward(node) || node.op == Op::kReshape) continue;
      for (const ValueId output : node.outputs) {
        if (!fact(output).activation) continue;
        if (fact(output).readBackward && !isKept(output)) between += bytes(output);
        if (fact(output).lastForward >= 0) live.push_back(output);
      }
      std::erase_if(
          live, [&](ValueId value) { return fact(value).lastForward <= static_cast<NodeId>(i); });
      if (live.size() != 1 || goesOn(live[0]) || (!cuts.empty() && cuts.back().value == live[0]))
        continue;
      const std::int64_t own = isKept(live[0]) ? 0 : bytes(live[0]);
      cuts.push_back({live[0], own, fact(live[0]).readBackward ? between - own : between});
      between = 0;
    }
    if (cuts.empty()) return;
    std::int64_t all = 0, best = 0, least = std::numeric_limits<std::int64_t>::max();
    for (const Cut& cut : cuts) all += cut.bytes + cut.between;
    constexpr int kTried = 128;
    for (int i = 0; i <= kTried; ++i) {
      const std::int64_t budget = all / kTried * i;
      std::int64_t largest = between, ends = 0;
      for (const Segment& segment : segments(cuts, budget)) {
        largest = std::max(largest, segment.bytes);
        ends += cuts[segment.end].bytes;
      }
      if (largest + ends >= least) continue;
      least = largest + ends;
      best = budget;
    }
    for (const Segment& segment : segments(cuts, best)) keep(cuts[segment.end].value);
  }

  // Of cuts one after another, with no more than so many bytes between their ends where that can
  // be.
  struct Segment {
    std::size_t end;
    std::int64_t bytes;
  };
  std::vector<Segment> segments(const std::vector<Cut>& cuts, std::int64_t budget) const {
    std::vector<Segment> out;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      bytes += cuts[i].between;
      const bool last = i + 1 == cuts.size();
      if (!last && !isKept(cuts[i].value) &&
          bytes + cuts[i].bytes + cuts[i + 1].between <= budget) {
        bytes += cuts[i].bytes;
        continue;
      }
      out.push_back({i, bytes});
      bytes = 0;
    }
    return out;
  }

  // The backward pass begins where the forward pass ends: what follows the last that is kept is
  // there.
  void keepLastSegment() {
    bool before = true;
    for (std::size_t i = graph_.nodes().size(); before && i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      if (!isForward(node)) continue;
      for (const ValueId output : node.outputs) {
        if (fact(output).activation && !fact(output).sum && isKept(output)) before = false;
      }
      for (const ValueId output : node.outputs) {
        if (before) keep(output);
      }
    }
  }

  Result<ValueId> inBackward(ValueId value) {
    if (!isForward(producer(value)) || isKept(value)) return rewrite_(value);
    if (again_[index(value)] >= 0) return again_[index(value)];
    const Node& node = producer(value);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      LOCKSTEP_ASSIGN(const ValueId read, inBackward(input));
      inputs.push_back(read);
    }
    LOCKSTEP_ASSIGN(const NodeId made,
                    rewrite_.to().add(node.op, node.name + ".again", std::move(inputs), node.attrs,
                                      ir::Phase::kBackward));
    rewrite_.to().setStage(made, node.stage);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      again_[index(node.outputs[i])] = rewrite_.to().output(made, static_cast<int>(i));
    }
    return again_[index(value)];
  }

  const ir::Graph& graph_;
  Rewrite rewrite_;
  std::vector<Fact> facts_;
  std::vector<bool> kept_;      // of roots: the backward pass reads them as they are
  std::vector<ValueId> again_;  // in the new graph; -1 none so far
};

}  // namespace

Result<Recompute> recomputeFromName(std::string_view name) {
  for (const Named& one : kNamed) {
    if (one.name == name) return one.what;
  }
  return invalidArgument("unknown recomputation {}; known are none, selective, full", name);
}

Result<ir::Graph> recompute(const ir::Graph& train, Recompute what) {
  if (what == Recompute::kNone) return train;
  return Recomputer(train).run(what);
}

}  // namespace lockstep::passes
