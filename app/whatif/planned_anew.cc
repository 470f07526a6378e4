#include "app/whatif/planned_anew.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "app/runs/preview.h"
#include "app/specs/spec_text.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

Error notPlanned(Message why) {
  Error error = makeError(Code::kFailedPrecondition, "the run cannot be planned anew");
  error.why = std::move(why);
  return error;
}

// Copies of the cluster's nodes that train, until there are so many ranks. Spares, an evaluator and
// servers that the strategy has no use of stay as they are.
Status changeRanks(Launched& launched, int ranks) {
  LaunchRequest& request = launched.request;
  if (specs::awaitsAllocation(*request.cluster))
    return notPlanned("the scheduler has not allocated its nodes");
  LOCKSTEP_ASSIGN(const spec::v1::ClusterSpec before,
                  specs::withSpares(request.spec->recovery(), *request.cluster));
  std::set<std::string> withRanks;
  for (const spec::v1::NodeSpec* node : specs::nodesWithRanks(before, request.spec->strategy()))
    withRanks.insert(node->name());
  if (withRanks.empty()) return {};  // the planner says so
  auto after = std::make_shared<spec::v1::ClusterSpec>(before);
  after->clear_nodes();
  std::vector<HostFacts> hosts;
  for (int copy = 1, left = ranks; copy == 1 || left > 0; ++copy) {
    const std::string suffix = copy > 1 ? fmt::format(".{}", copy) : std::string();
    for (const spec::v1::NodeSpec& original : before.nodes()) {
      const bool trains = withRanks.contains(original.name());
      if (trains ? left == 0 : copy > 1) continue;
      spec::v1::NodeSpec& node = *after->add_nodes();
      node = original;
      for (HostFacts facts : launched.hosts) {
        if (facts.node != original.name()) continue;
        facts.node += suffix;
        facts.host += suffix;
        hosts.push_back(std::move(facts));
      }
      if (!trains) continue;
      if (original.devices_size() > 1)
        return notPlanned(message("node {} has several kinds of devices", original.name()));
      node.set_name(original.name() + suffix);
      if (copy > 1) node.clear_address();
      auto* devices = node.devices().empty() ? node.add_devices() : node.mutable_devices(0);
      devices->set_count(std::min(left, std::max(1, devices->count())));
      left -= devices->count();
    }
  }
  const bool areCopied = after->nodes_size() > before.nodes_size();
  if (areCopied && (request.comm.empty() ? before.comm() : request.comm) == "shm") {
    request.comm.clear();
    after->clear_comm();
  }
  request.cluster = std::move(after);
  launched.hosts = std::move(hosts);
  return {};
}

std::string kindOf(const plan::Step& step) {
  if (step.op == ir::Op::kRecv) return std::string(ir::info(ir::Op::kSend).name);
  return std::string(ir::info(step.op).name);
}

}  // namespace

// How many times as long as predicted from built-in costs each kind of step took.
class CostRatios {
 public:
  CostRatios(const MeasuredRun& run, const planner::Simulation& simulated) {
    std::map<std::string, double> measured, predicted;
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
      const MeasuredRun::Rank& rank = run.ranks[r];
      data_ += meanOf(rank.parts[0]);
      for (std::size_t i = 0; i < rank.script.size(); ++i) {
        if (rank.script[i]->kind != plan::StepKind::kCompute) continue;
        const auto part = static_cast<std::size_t>(ownPartOf(rank.script[i]->phase));
        if (rank.usual[part] > 0)
          measured[kindOf(*rank.script[i])] +=
              rank.seconds[i] * meanOf(rank.parts[part]) / rank.usual[part];
      }
    }
    data_ /= static_cast<double>(run.ranks.size());
    const double scale = run.scalesExchanges ? meanOf(run.exchangeScale) : 1;
    for (const MeasuredRun::Exchange& exchange : run.exchanges) {
      const auto& [rank, id] = exchange.places.front();
      measured[kindOf(
          *run.ranks[static_cast<std::size_t>(rank)].script[static_cast<std::size_t>(id)])] +=
          exchange.seconds * scale * static_cast<double>(exchange.places.size());
    }
    double data = 0;
    std::set<std::string> exchanged;
    for (const plan::Event& event : simulated.events) {
      if (event.step != 2) continue;  // the second is like all others
      const double seconds = static_cast<double>(event.end - event.begin) * 1e-9;
      if (event.kind == plan::EventKind::kData) {
        data += seconds / static_cast<double>(run.ranks.size());
        continue;
      }
      if (event.kind == plan::EventKind::kWaiting) continue;
      const std::string kind = kindOf(*run.ranks[static_cast<std::size_t>(event.rank)]
                                           .script[static_cast<std::size_t>(event.planStep)]);
      predicted[kind] += seconds;
      if (event.kind == plan::EventKind::kTransfer) exchanged.insert(kind);
    }
    dataRatio_ = data > 0 ? data_ / data : 1;
    std::array<double, 2> allMeasured{}, allPredicted{};  // of what computes, of exchanges
    for (const auto& [kind, seconds] : predicted) {
      if (seconds <= 0 || measured[kind] <= 0) continue;
      ofKind_[kind] = measured[kind] / seconds;
      allMeasured[exchanged.contains(kind) ? 1 : 0] += measured[kind];
      allPredicted[exchanged.contains(kind) ? 1 : 0] += seconds;
    }
    for (std::size_t i = 0; i < ofOthers_.size(); ++i)
      if (allPredicted[i] > 0) ofOthers_[i] = allMeasured[i] / allPredicted[i];
  }

  // Predicts the steps of a plan that has built-in costs.
  planner::CostModel applyTo(plan::Plan& plan) const {
    for (plan::Program& program : plan.programs)
      for (plan::Body& body : program.bodies)
        for (plan::Step& step : body.steps) {
          const auto known = ofKind_.find(kindOf(step));
          step.seconds *= known != ofKind_.end()
                              ? known->second
                              : ofOthers_[step.kind == plan::StepKind::kCompute ? 0 : 1];
        }
    planner::CostModel cost;
    cost.stepOverheadSeconds *= dataRatio_;
    return cost;
  }

 private:
  static double meanOf(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) /
           static_cast<double>(std::max<std::size_t>(values.size(), 1));
  }

  std::map<std::string, double> ofKind_;
  std::array<double, 2> ofOthers_{1, 1};  // of what was not measured: computes, exchanges
  double data_ = 0, dataRatio_ = 1;
};

namespace {

planner::Simulation simulated(const plan::Plan& plan, cluster::Cluster cluster,
                              const planner::CostModel& cost, bool events) {
  cluster.mesh = plan.mesh;
  planner::SimulateOptions options;
  options.steps = events ? 2 : 4;
  options.events = events;
  return planner::simulate(plan, cluster, cost, options);
}

}  // namespace

Result<Launched> launchOf(const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  Launched out;
  LOCKSTEP_ASSIGN(const RunSpecFile spec,
                  completeRunSpec(documents.specResolved, "spec of run " + run));
  LOCKSTEP_ASSIGN(const ClusterSpecFile cluster,
                  completeClusterSpec(documents.clusterYaml, "cluster of run " + run));
  out.request.spec = spec.spec;
  out.request.cluster = cluster.spec;
  out.request.comm = row.comm;
  LOCKSTEP_ASSIGN(const Preview prediction, parsePrediction(documents.prediction));
  for (const cluster::Device& device : prediction.cluster.devices) {
    const bool isKnown = std::any_of(out.hosts.begin(), out.hosts.end(),
                                     [&](const auto& one) { return one.node == device.node; });
    if (isKnown) continue;
    HostFacts facts{device.node, device.host};
    for (const cluster::Host& host : prediction.cluster.hosts)
      if (host.name == device.host) facts.cores = host.cores;
    out.hosts.push_back(std::move(facts));
  }
  return out;
}

Result<MeasuredCosts> MeasuredCosts::of(const Launched& launched, const MeasuredRun& run,
                                        const Replayed& replayed, const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const Preview was, makeBriefPreview(launched.request, launched.hosts));
  if (was.plan.mesh.size() != run.plan.mesh.size()) return notPlanned("its cluster has changed");
  LOCKSTEP_TRY(unlessStopped(stop));
  plan::Plan plan = run.plan;
  planner::predict(plan, was.cluster, {});
  MeasuredCosts out;
  out.ratios_ = std::make_shared<const CostRatios>(run, simulated(plan, was.cluster, {}, true));
  LOCKSTEP_TRY(unlessStopped(stop));
  const planner::CostModel cost = out.ratios_->applyTo(plan);
  out.same_ = simulated(plan, was.cluster, cost, false).stepSeconds;
  out.measured_ = replayed.measuredSeconds();
  if (!(out.same_ > 0) || !(out.measured_ > 0)) return notPlanned("its steps took no time");
  return out;
}

Result<PlannedAnew> MeasuredCosts::plan(const Launched& other) const {
  LOCKSTEP_ASSIGN(Preview anew, makeBriefPreview(other.request, other.hosts));
  if (anew.misfit) return *anew.misfit;
  const planner::CostModel cost = ratios_->applyTo(anew.plan);
  const double seconds = simulated(anew.plan, anew.cluster, cost, false).stepSeconds;
  PlannedAnew out;
  out.ranks = anew.plan.mesh.size();
  out.error = error();
  out.stepSeconds = measured_ * seconds / same_;
  if (out.stepSeconds > 0)
    out.samplesPerSecond = static_cast<double>(anew.plan.globalBatch) / out.stepSeconds;
  return out;
}

Result<PlannedAnew> plannedAnew(const Launched& launched, const MeasuredRun& run,
                                const Replayed& replayed, const OtherSettings& settings,
                                const std::stop_token& stop) {
  Launched after = launched;
  LOCKSTEP_ASSIGN(const RunSpecFile spec,
                  completeRunSpec(toYaml(*launched.request.spec), "the run's spec", settings.sets));
  after.request.spec = spec.spec;
  if (settings.ranks > 0) LOCKSTEP_TRY(changeRanks(after, settings.ranks));
  LOCKSTEP_ASSIGN(const MeasuredCosts costs, MeasuredCosts::of(launched, run, replayed, stop));
  LOCKSTEP_TRY(unlessStopped(stop));
  return costs.plan(after);
}

}  // namespace lockstep::app
