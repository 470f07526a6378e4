#include "engine/passes/serve_tables.h"

#include <algorithm>
#include <map>

#include "engine/cluster/cuts.h"
#include "engine/ir/ops.h"
#include "engine/passes/rewrite.h"

namespace lockstep::passes {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

// A table's parts on the servers.
struct Parts {
  std::vector<std::int64_t> cuts;
  std::vector<ValueId> states;  // of the new graph, by server
};

class Serving {
 public:
  Serving(const ir::ModelGraph& model, int servers, int workers, int with, std::int64_t share)
      : model_(model),
        servers_(servers),
        workers_(workers),
        with_(with),
        share_(share),
        rewrite_(model.graph) {}

  Result<ir::ModelGraph> run(const std::vector<std::string>& tables) {
    ir::ModelGraph out = model_;
    std::vector<NodeId> placeOf;  // of the old nodes
    for (std::size_t id = 0; id < model_.graph.nodes().size(); ++id) {
      placeOf.push_back(static_cast<NodeId>(rewrite_.to().nodes().size()));
      const ir::Node& node = model_.graph.nodes()[id];
      const std::string_view state = ir::textAttr(node.attrs, "state");
      if (node.op == Op::kState && std::find(tables.begin(), tables.end(), state) != tables.end()) {
        LOCKSTEP_TRY(divide(node));
      } else if (const auto parts = parts_.find(node.op == Op::kEmbedding ? node.inputs[0] : -1);
                 parts != parts_.end()) {
        LOCKSTEP_TRY(lookUp(node, parts->second));
      } else {
        LOCKSTEP_TRY(rewrite_.copy(static_cast<NodeId>(id)).status());
      }
    }
    for (auto& layer : out.layers) layer.first = placeOf[static_cast<std::size_t>(layer.first)];
    out.loss = rewrite_(model_.loss);
    out.weight = rewrite_(model_.weight);
    if (model_.metricSums >= 0) out.metricSums = rewrite_(model_.metricSums);
    out.parameters.clear();
    for (const ir::Parameter& parameter : model_.parameters) {
      if (std::find(tables.begin(), tables.end(), parameter.name) == tables.end()) {
        out.parameters.push_back(parameter);
        continue;
      }
      const std::vector<std::int64_t> cuts = cluster::evenCuts(parameter.shape[0], servers_);
      for (int server = 0; server < servers_; ++server) {
        const auto s = static_cast<std::size_t>(server);
        ir::Parameter part = parameter;
        part.name = partName(parameter.name, server);
        part.shape[0] = cuts[s + 1] - cuts[s];
        part.partOf = {parameter.name, cuts[s], parameter.shape[0]};
        out.parameters.push_back(std::move(part));
      }
    }
    out.graph = rewrite_.take();
    return out;
  }

 private:
  static std::string partName(std::string_view table, int server) {
    return fmt::format("{}.rows.{}", table, server);
  }
  Result<NodeId> add(int stage, Op op, std::string name, std::vector<ValueId> inputs,
                     ir::Attrs attrs) {
    LOCKSTEP_ASSIGN(const NodeId node,
                    rewrite_.to().add(op, std::move(name), std::move(inputs), std::move(attrs)));
    rewrite_.to().setStage(node, stage);
    return node;
  }

  Status divide(const ir::Node& table) {
    const ir::TensorType& type = model_.graph.value(table.outputs[0]).type;
    Parts parts{cluster::evenCuts(type.shape[0], servers_), {}};
    for (int server = 0; server < servers_; ++server) {
      const auto s = static_cast<std::size_t>(server);
      const std::string name = partName(ir::textAttr(table.attrs, "state"), server);
      ir::Attrs attrs = table.attrs;
      attrs["state"] = name;
      attrs["shape"] = Shape{parts.cuts[s + 1] - parts.cuts[s], type.shape[1]};
      LOCKSTEP_ASSIGN(const NodeId state, add(1 + server, Op::kState, name, {}, std::move(attrs)));
      parts.states.push_back(rewrite_.to().output(state));
    }
    parts_.emplace(table.outputs[0], std::move(parts));
    return {};
  }

  Status lookUp(const ir::Node& node, const Parts& parts) {
    const ValueId ids = rewrite_(node.inputs[1]);
    const std::int64_t perSample = rewrite_.to().value(ids).type.count() / model_.batch;
    LOCKSTEP_ASSIGN(const NodeId unique,
                    add(0, Op::kUnique, node.name + ".unique", {ids},
                        {{"cuts", parts.cuts}, {"shape", Shape{perSample * share_ * workers_}}}));
    const ValueId each = rewrite_.to().output(unique), counts = each + 1, places = each + 2;
    std::vector<ValueId> pulled{each, counts};
    for (int server = 0; server < servers_; ++server) {
      const auto s = static_cast<std::size_t>(server);
      LOCKSTEP_ASSIGN(
          const NodeId asked,
          add(1 + server, Op::kPush, fmt::format("{}.asked.{}", node.name, server), {each, counts},
              {{"part", std::int64_t{server}},
               {"count", std::int64_t{with_}},
               {"rows", perSample * share_ * with_}}));
      const ValueId wanted = rewrite_.to().output(asked);
      LOCKSTEP_ASSIGN(const NodeId rows,
                      add(1 + server, Op::kEmbedding, fmt::format("{}.rows.{}", node.name, server),
                          {parts.states[s], wanted}, {{"first", parts.cuts[s]}}));
      pulled.push_back(rewrite_.to().output(rows));
      pulled.push_back(wanted + 1);
    }
    LOCKSTEP_ASSIGN(const NodeId pull,
                    add(0, Op::kPull, node.name + ".pull", std::move(pulled), {}));
    LOCKSTEP_ASSIGN(const NodeId looked,
                    add(node.stage, Op::kEmbedding, node.name, {rewrite_.to().output(pull), places},
                        {{"local", std::int64_t{1}}}));
    rewrite_.replace(node.outputs[0], rewrite_.to().output(looked));
    return {};
  }

  const ir::ModelGraph& model_;
  const int servers_, workers_, with_;
  const std::int64_t share_;
  Rewrite rewrite_;
  std::map<ValueId, Parts> parts_;  // by the table's value in the old graph
};

}  // namespace

std::vector<std::string> tablesOf(const ir::ModelGraph& model, std::int64_t samples, int servers) {
  std::map<ValueId, std::int64_t> lookups;  // of a state: ids, or -1 where something else reads it
  for (const ir::Node& node : model.graph.nodes()) {
    if (node.op == Op::kState) lookups.emplace(node.outputs[0], 0);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto state = lookups.find(node.inputs[i]);
      if (state == lookups.end() || state->second < 0) continue;
      const bool looksUp = node.op == Op::kEmbedding && i == 0;
      state->second = looksUp ? state->second + model.graph.value(node.inputs[1]).type.count() : -1;
    }
  }
  const auto isFrozen = [&](std::string_view name) {
    return std::any_of(model.parameters.begin(), model.parameters.end(),
                       [&](const auto& one) { return one.name == name && one.frozen; });
  };
  std::vector<std::string> tables;
  for (const auto& [value, ids] : lookups) {
    const std::int64_t rows = model.graph.value(value).type.shape[0];
    const std::string_view name =
        ir::textAttr(model.graph.node(model.graph.value(value).producer).attrs, "state");
    if (ids > 0 && ids / model.batch * samples < rows && rows >= servers && !isFrozen(name))
      tables.emplace_back(name);
  }
  return tables;
}

Result<ir::ModelGraph> serveTables(const ir::ModelGraph& model,
                                   const std::vector<std::string>& tables, int servers, int workers,
                                   int with, std::int64_t share) {
  return Serving(model, servers, workers, with, share).run(tables);
}

}  // namespace lockstep::passes
