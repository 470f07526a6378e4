#include "engine/passes/stages.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"

namespace lockstep::passes {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

const ir::Node& producerOf(const ir::Graph& graph, ValueId value) {
  return graph.node(graph.value(value).producer);
}

// Made anew where it is read: the trainer feeds every program, and initial values depend on
// nothing. So are their views, such as the ids of a batch.
bool isLocal(const ir::Graph& graph, const ir::Node& node) {
  return node.op == Op::kInput || node.op == Op::kFill || node.op == Op::kRandom ||
         (ir::viewsInput(node.op) && isLocal(graph, producerOf(graph, node.inputs[0])));
}
// Values of another stage that it reads are sent as rows.
bool isOfRows(const ir::Node& node) { return node.op == Op::kPush || node.op == Op::kPull; }
// A part of a step has what it reads of a state, in other types too, from the state.
bool isOfState(const ir::Graph& graph, const ir::Node& node) {
  return node.op == Op::kState ||
         (node.op == Op::kCast &&
          graph.node(graph.value(node.inputs[0]).producer).op == Op::kState);
}

class StageCut {
 public:
  StageCut(const ir::Graph& graph, const cluster::Mesh& mesh, bool serverSessions)
      : graph_(graph),
        mesh_(mesh),
        serverSessions_(serverSessions),
        readers_(graph.values().size()) {
    for (std::size_t i = graph.nodes().size(); i-- > 0;) {
      const ir::Node& node = graph.nodes()[i];
      if (isOfRows(node)) continue;
      const std::set<int> stages = stagesOf(node);
      for (const ValueId input : node.inputs)
        readers_[static_cast<std::size_t>(input)].insert(stages.begin(), stages.end());
    }
  }

  Result<ir::Graph> run(int stage) const {
    Rewrite rewrite(graph_);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      const ir::Node& node = graph_.node(id);
      const bool mine = node.stage == stage || node.stage == ir::kEveryStage;
      if (isOfRows(node)) {
        LOCKSTEP_TRY(node.op == Op::kPush ? push(rewrite, node, stage)
                                          : pull(rewrite, node, stage));
        continue;
      }
      if (isLocal(graph_, node) ? reads(stage, node) : mine)
        LOCKSTEP_TRY(rewrite.copy(id).status());
      if (node.stage == ir::kEveryStage || isLocal(graph_, node)) continue;
      for (const ValueId output : node.outputs) {
        for (const int reader : readers_[static_cast<std::size_t>(output)]) {
          if (reader == node.stage) continue;
          if (mine) LOCKSTEP_TRY(send(rewrite, output, reader));
          if (reader == stage) LOCKSTEP_TRY(receive(rewrite, output, stage));
        }
      }
    }
    return rewrite.take();
  }

 private:
  // The stages that run a node whose readers are known.
  std::set<int> stagesOf(const ir::Node& node) const {
    if (isLocal(graph_, node)) return readers_[static_cast<std::size_t>(node.outputs[0])];
    if (node.stage != ir::kEveryStage) return {node.stage};
    std::set<int> all;
    for (int stage = 0; stage < mesh_.stages(); ++stage) all.insert(stage);
    return all;
  }
  bool reads(int stage, const ir::Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return readers_[static_cast<std::size_t>(output)].contains(stage);
    });
  }
  // The same for the sender and the receiver.
  std::string name(ValueId value, int to) const {
    const ir::Value& sent = graph_.value(value);
    return fmt::format("{}.{}.to.{}", graph_.node(sent.producer).name, sent.index, to);
  }
  // The workers of servers are one stage of several ranks.
  bool areWorkers(int stage) const { return mesh_.servers() > 0 && stage == 0; }
  bool areAll(int stage) const { return areWorkers(stage) && !serverSessions_; }
  ir::Attrs along(int peer) const {
    ir::Attrs attrs{{"axis", std::string(mesh_.messageAxis())}};
    if (areWorkers(peer) && serverSessions_) {
      attrs["peer"] = std::int64_t{ir::kPartner};
    } else if (areWorkers(peer)) {
      attrs["count"] = std::int64_t{mesh_.workers()};
    } else {
      attrs["peer"] = std::int64_t{mesh_.messageCoordinate(peer)};
    }
    return attrs;
  }

  Status send(Rewrite& rewrite, ValueId value, int to) const {
    return rewrite.to()
        .add(areAll(to) ? Op::kMulticast : Op::kSend, name(value, to), {rewrite(value)}, along(to),
             producerOf(graph_, value).phase)
        .status();
  }
  Status receive(Rewrite& rewrite, ValueId value, int to) const {
    const ir::Value& sent = graph_.value(value);
    const ir::Node& producer = graph_.node(sent.producer);
    const bool collected = areAll(producer.stage);
    ir::Attrs attrs = along(producer.stage);
    attrs["dtype"] = std::string(dtypeName(sent.type.dtype));
    attrs["shape"] = sent.type.shape;
    LOCKSTEP_ASSIGN(const NodeId node,
                    rewrite.to().add(collected ? Op::kRecvSum : Op::kRecv, name(value, to), {},
                                     std::move(attrs), producer.phase));
    const ValueId received = rewrite.to().output(node);
    rewrite.replace(value, received);
    if (!collected) {
      rewrite.to().value(received).placement = sent.placement;
      return {};
    }
    // Every worker sends its part of the sum.
    const bool partial =
        sent.placement && sent.placement->axes.size() == 1 &&
        sent.placement->axes.begin()->second.kind == ir::AxisPlacement::Kind::kPartialSum;
    if (partial || mesh_.workers() == 1) return {};
    return makeError(Code::kInternal, "node {} is read by a server and is no sum over the workers",
                     producer.name);
  }

  Status sendRows(Rewrite& rewrite, const ir::Node& node, std::string name, ValueId rows,
                  ValueId counts, ir::Attrs attrs) const {
    return rewrite.to()
        .add(Op::kSendRows, std::move(name), {rewrite(rows), rewrite(counts)}, std::move(attrs),
             node.phase)
        .status();
  }
  Result<NodeId> recvRows(Rewrite& rewrite, const ir::Node& node, std::string name,
                          ir::Attrs attrs) const {
    const ir::Value& received = graph_.value(node.outputs[0]);
    attrs["dtype"] = std::string(dtypeName(received.type.dtype));
    attrs["shape"] = received.type.shape;
    LOCKSTEP_ASSIGN(const NodeId made, rewrite.to().add(Op::kRecvRows, std::move(name), {},
                                                        std::move(attrs), node.phase));
    const ValueId rows = rewrite.to().output(made);
    rewrite.to().value(rows).placement = received.placement;
    rewrite.replace(node.outputs[0], rows);
    return made;
  }
  // Of the workers' rows a server has one part of so many; it speaks to all of them, or to one.
  ir::Attrs withServer(int stage) const {
    return {{"axis", std::string(mesh_.messageAxis())},
            {"peer", std::int64_t{mesh_.messageCoordinate(stage)}},
            {"count", std::int64_t{1}}};
  }
  ir::Attrs withWorkers() const {
    return {{"axis", std::string(mesh_.messageAxis())},
            {"peer", std::int64_t{serverSessions_ ? ir::kPartner : 0}},
            {"count", std::int64_t{serverSessions_ ? 1 : mesh_.workers()}},
            {"parts", std::int64_t{mesh_.servers()}}};
  }
  // From the workers to the server that the node is on.
  Status push(Rewrite& rewrite, const ir::Node& node, int stage) const {
    const std::string name = fmt::format("{}.to.{}", node.name, node.stage);
    if (stage == 0) {
      ir::Attrs attrs = withServer(node.stage);
      attrs["part"] = ir::intAttr(node.attrs, "part");
      attrs["parts"] = graph_.value(node.inputs[1]).type.count();
      return sendRows(rewrite, node, name, node.inputs[0], node.inputs[1], std::move(attrs));
    }
    if (stage != node.stage) return {};
    LOCKSTEP_ASSIGN(const NodeId made, recvRows(rewrite, node, name, withWorkers()));
    rewrite.replace(node.outputs[1], rewrite.to().output(made, 1));
    return {};
  }
  // From all servers, which come one after another, to the workers.
  Status pull(Rewrite& rewrite, const ir::Node& node, int stage) const {
    const std::string name = node.name + ".to.0";
    if (stage == 0) {
      ir::Attrs attrs = withServer(producerOf(graph_, node.inputs[2]).stage);
      attrs["count"] = static_cast<std::int64_t>(node.inputs.size() / 2 - 1);
      return recvRows(rewrite, node, name, std::move(attrs)).status();
    }
    for (std::size_t i = 2; i < node.inputs.size(); i += 2) {
      if (producerOf(graph_, node.inputs[i]).stage != stage) continue;
      LOCKSTEP_TRY(
          sendRows(rewrite, node, name, node.inputs[i], node.inputs[i + 1], withWorkers()));
    }
    return {};
  }

  const ir::Graph& graph_;
  const cluster::Mesh& mesh_;
  const bool serverSessions_;
  std::vector<std::set<int>> readers_;  // of each value, by stage
};

// Copies nodes into one graph a part, and notes what parts leave to later ones.
class Splitter {
 public:
  Splitter(const ir::Graph& graph, const std::vector<int>& partOf, int parts, std::string_view name)
      : graph_(graph), partOf_(partOf), name_(name) {
    for (int part = 0; part < parts; ++part) rewrites_.emplace_back(graph);
  }

  Result<Programs> run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const ir::Node& node = graph_.nodes()[i];
      // where they are read
      if (isLocal(graph_, node) || isOfState(graph_, node) || ir::viewsInput(node.op)) continue;
      const int part = partOf_[i];
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) {
        LOCKSTEP_ASSIGN(const ValueId value, valueIn(part, input, node.phase));
        inputs.push_back(value);
      }
      if (node.op == Op::kSend || node.op == Op::kMulticast || node.op == Op::kSendRows) {
        LOCKSTEP_ASSIGN(inputs[0], kept(part, node));
      }
      LOCKSTEP_TRY(in(part).copy(static_cast<NodeId>(i), node.attrs, std::move(inputs)).status());
    }
    Programs out;
    for (Rewrite& rewrite : rewrites_) out.graphs.push_back(rewrite.take());
    out.saved = std::move(saved_);
    return out;
  }

 private:
  Rewrite& in(int part) { return rewrites_[static_cast<std::size_t>(part)]; }

  // The value as the part reads it.
  Result<ValueId> valueIn(int part, ValueId value, ir::Phase phase) {
    if (in(part)(value) >= 0) return in(part)(value);
    const NodeId id = graph_.value(value).producer;
    const ir::Node& node = graph_.node(id);
    if (isLocal(graph_, node) || isOfState(graph_, node) || ir::viewsInput(node.op)) {
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) {
        LOCKSTEP_ASSIGN(const ValueId made, valueIn(part, input, phase));
        inputs.push_back(made);
      }
      LOCKSTEP_TRY(in(part).copy(id, node.attrs, std::move(inputs)).status());
      return in(part)(value);
    }
    const int maker = partOf_[static_cast<std::size_t>(id)];
    if (maker >= part) {
      return makeError(Code::kInternal, "node {} runs after what reads it", node.name);
    }
    LOCKSTEP_ASSIGN(const std::size_t index, stash(maker, value));
    saved_[index].to = std::max(saved_[index].to, part);
    const std::string state = saved_[index].state;
    ir::Attrs attrs{{"state", state},
                    {"dtype", std::string(dtypeName(graph_.value(value).type.dtype))},
                    {"shape", graph_.value(value).type.shape}};
    LOCKSTEP_ASSIGN(const NodeId read,
                    in(part).to().add(Op::kState, state, {}, std::move(attrs), phase));
    in(part).replace(value, in(part).to().output(read));
    return in(part)(value);
  }

  // Copies the values that the part sends to memory that lasts until they have been sent.
  Result<ValueId> kept(int part, const ir::Node& send) {
    ValueId whole = send.inputs[0];
    while (ir::viewsInput(producerOf(graph_, whole).op))
      whole = producerOf(graph_, whole).inputs[0];
    const ir::Node& maker = producerOf(graph_, whole);
    if (maker.op == Op::kState || in(part)(whole) < 0 ||
        (!isOfState(graph_, maker) &&
         partOf_[static_cast<std::size_t>(graph_.value(whole).producer)] != part)) {
      return in(part)(send.inputs[0]);
    }
    if (!ir::info(maker.op).isCollective) {
      LOCKSTEP_ASSIGN(const std::size_t index, stash(part, whole));
      saved_[index].sent = true;
      return in(part)(send.inputs[0]);
    }
    const ValueId sent = in(part)(send.inputs[0]);
    LOCKSTEP_ASSIGN(const ValueId copy, copied(part, sent, send.name + ".copy", send.phase));
    LOCKSTEP_ASSIGN(const std::size_t index, store(part, copy));
    saved_[index].sent = true;
    return copy;
  }

  Result<ValueId> copied(int part, ValueId value, std::string name, ir::Phase phase) {
    ir::Graph& graph = in(part).to();
    const DType type = graph.value(value).type.dtype;
    const bool narrow = sizeOf(type) == 2;  // of these there are casts alone
    LOCKSTEP_ASSIGN(
        const NodeId copy,
        graph.add(narrow ? Op::kCast : Op::kScale, std::move(name), {value},
                  narrow ? ir::Attrs{{"dtype", std::string(dtypeName(type))}, {"scale", 1.0}}
                         : ir::Attrs{{"factor", 1.0}},
                  phase));
    return graph.output(copy);
  }

  // Returns the stash in which the part leaves the value.
  Result<std::size_t> stash(int part, ValueId value) {
    if (const auto known = indexOf_.find(value); known != indexOf_.end()) return known->second;
    ValueId kept = in(part)(value);
    const ir::OpInfo& maker = ir::info(producerOf(graph_, value).op);
    if (maker.isCollective && maker.op != Op::kRecv && maker.op != Op::kRecvSum &&
        maker.op != Op::kRecvRows) {
      // made where its operand lies
      const ir::Node& node = producerOf(graph_, value);
      LOCKSTEP_ASSIGN(kept, copied(part, kept, node.name + ".kept", node.phase));
    }
    LOCKSTEP_ASSIGN(const std::size_t index, store(part, kept));
    indexOf_.emplace(value, index);
    return index;
  }
  Result<std::size_t> store(int part, ValueId value) {
    const std::size_t index = saved_.size();
    const std::string state = fmt::format("stash.{}.{}", name_, index);
    saved_.push_back({state, in(part).to().value(value).type, part, part});
    LOCKSTEP_TRY(in(part)
                     .to()
                     .add(Op::kStore, state + ".store", {value}, {{"state", state}},
                          in(part).to().node(in(part).to().value(value).producer).phase)
                     .status());
    return index;
  }

  const ir::Graph& graph_;
  const std::vector<int>& partOf_;
  const std::string name_;
  std::vector<Rewrite> rewrites_;
  std::map<ValueId, std::size_t> indexOf_;  // of values, in saved_
  std::vector<SavedTensor> saved_;
};

}  // namespace

void assignStages(ir::ModelGraph& model, const std::vector<int>& stageOfLayer) {
  std::size_t layer = 0;
  const auto nodes = static_cast<NodeId>(model.graph.nodes().size());
  for (NodeId node = 0; node < nodes; ++node) {
    while (layer + 1 < model.layers.size() && node >= model.layers[layer + 1].first) ++layer;
    model.graph.setStage(node, stageOfLayer[layer]);
  }
}

std::vector<int> balanceStages(const std::vector<double>& layerCosts, int stages) {
  return balanceStages(std::vector(static_cast<std::size_t>(stages), layerCosts));
}

std::vector<int> balanceStages(const std::vector<std::vector<double>>& costs) {
  // least[s][i]: the largest sum of the best division of the first i layers into s stages.
  const std::size_t layers = costs.front().size(), count = costs.size();
  std::vector<std::vector<double>> least(count + 1, std::vector<double>(layers + 1, -1));
  std::vector<std::vector<std::size_t>> cut(count + 1, std::vector<std::size_t>(layers + 1, 0));
  least[0][0] = 0;
  for (std::size_t s = 1; s <= count; ++s) {
    std::vector<double> before{0};
    for (const double cost : costs[s - 1]) before.push_back(before.back() + cost);
    for (std::size_t i = s; i <= layers; ++i) {
      for (std::size_t j = s - 1; j < i; ++j) {
        if (least[s - 1][j] < 0) continue;
        const double worst = std::max(least[s - 1][j], before[i] - before[j]);
        if (least[s][i] >= 0 && worst >= least[s][i]) continue;
        least[s][i] = worst;
        cut[s][i] = j;
      }
    }
  }
  std::vector<int> stageOfLayer(layers, 0);
  for (std::size_t s = count, end = layers; s > 0; --s) {
    for (std::size_t i = cut[s][end]; i < end; ++i) stageOfLayer[i] = static_cast<int>(s) - 1;
    end = cut[s][end];
  }
  return stageOfLayer;
}

Result<std::vector<ir::Graph>> cutStages(const ir::Graph& graph, const cluster::Mesh& mesh,
                                         bool serverSessions) {
  const StageCut cut(graph, mesh, serverSessions);
  std::vector<ir::Graph> graphs;
  for (int stage = 0; stage < mesh.stages(); ++stage) {
    LOCKSTEP_ASSIGN(ir::Graph one, cut.run(stage));
    graphs.push_back(std::move(one));
  }
  return graphs;
}

Result<Programs> splitPrograms(const ir::Graph& graph, const std::vector<int>& partOf, int parts,
                               std::string_view name) {
  return Splitter(graph, partOf, parts, name).run();
}

std::vector<int> trainingParts(const ir::Graph& stage, bool splitWeightGrad) {
  std::vector<int> parts;
  for (const ir::Node& node : stage.nodes()) {
    parts.push_back(node.phase == ir::Phase::kBackward ? 1 : 0);
  }
  if (!splitWeightGrad) return parts;
  // A gradient goes apart if on its way to where it is stored it is only laid out and added up,
  // coded or not.
  std::vector<bool> chained(stage.values().size(), false);  // something else waits for it
  for (std::size_t i = stage.nodes().size(); i-- > 0;) {
    const ir::Node& node = stage.nodes()[i];
    const bool isWeightGrad =
        parts[i] == 1 && node.op != Op::kSend && node.op != Op::kRecv &&
        std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId output) { return chained[static_cast<std::size_t>(output)]; });
    if (isWeightGrad) parts[i] = 2;
    if (isWeightGrad && ir::info(node.op).movesOnly) continue;
    for (const ValueId input : node.inputs) chained[static_cast<std::size_t>(input)] = true;
  }
  // What goes apart keeps what it reads until then. Where that is more than it makes, and no
  // product reads it, as of the gradients of norms, the node stays: it is little work (of products
  // alone is it much).
  const auto whole = [&](ValueId value) {
    while (ir::viewsInput(producerOf(stage, value).op)) value = producerOf(stage, value).inputs[0];
    return value;
  };
  std::set<ValueId> ofProducts;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (const ir::Node& node = stage.nodes()[i];
        parts[i] == 2 && ir::info(node.op).matmulOperands > 0)
      for (const ValueId input : node.inputs) ofProducts.insert(whole(input));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ir::Node& node = stage.nodes()[i];
    if (parts[i] != 2 || ir::info(node.op).movesOnly || ir::info(node.op).matmulOperands > 0 ||
        ir::viewsInput(node.op))
      continue;
    std::int64_t kept = 0, made = 0;
    for (const ValueId input : node.inputs) {
      const ir::Node& maker = producerOf(stage, whole(input));
      const bool anew = isLocal(stage, maker) || isOfState(stage, maker);
      if (!anew && !ofProducts.contains(whole(input))) kept += stage.value(input).type.bytes();
    }
    for (const ValueId output : node.outputs) made += stage.value(output).type.bytes();
    if (kept > made) parts[i] = 1;
  }
  return parts;
}

std::vector<int> serverSessionParts(const ir::Graph& server) {
  std::vector<int> parts(server.nodes().size(), 4);
  std::vector<bool> given(server.values().size(), false);
  for (std::size_t i = server.nodes().size(); i-- > 0;) {
    const ir::Node& node = server.nodes()[i];
    const bool goes = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return given[static_cast<std::size_t>(output)];
    });
    if (node.op == Op::kSend || node.op == Op::kSendRows) {
      parts[i] = 2;
    } else if (node.op == Op::kRecvRows && goes) {  // which rows are asked for
      parts[i] = 0;
    } else if (node.op == Op::kRecv || node.op == Op::kRecvRows) {
      parts[i] = 3;
    } else if (node.op == Op::kResult && producerOf(server, node.inputs[0]).op == Op::kRecv) {
      parts[i] = 3;
    } else if (goes) {
      parts[i] = 1;
    } else {
      continue;
    }
    if (parts[i] > 2) continue;
    for (const ValueId input : node.inputs) given[static_cast<std::size_t>(input)] = true;
  }
  return parts;
}

}  // namespace lockstep::passes
