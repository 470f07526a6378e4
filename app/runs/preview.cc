#include "app/runs/preview.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/cluster/strategies.h"
#include "engine/models/model.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using nlohmann::json;

passes::TrainOptions trainOptions(const spec::v1::TrainingSpec& training) {
  passes::TrainOptions out;
  const auto& optimizer = training.optimizer();
  out.optimizer.kind = optimizer.kind();
  out.optimizer.momentum = optimizer.momentum();
  out.optimizer.weightDecay = optimizer.weight_decay();
  out.optimizer.beta1 = optimizer.beta1();
  out.optimizer.beta2 = optimizer.beta2();
  out.optimizer.epsilon = optimizer.epsilon();
  out.optimizer.decayMatricesOnly = optimizer.decay_matrices_only();
  out.optimizer.clipNorm = optimizer.clip_norm();
  if (training.has_loss_scale()) {
    const auto& scale = training.loss_scale();
    out.lossScale = {scale.initial(), scale.growth_interval(), scale.fixed()};
  }
  out.seed = training.seed();
  return out;
}

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}
std::string kibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
}
std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

Status addEvaluator(Preview& preview, const spec::v1::NodeSpec& node, const LaunchRequest& request,
                    const planner::PlanRequest& plan) {
  if (request.spec->training().checkpoint().disabled()) {
    Error error = invalidArgument("node {} is to evaluate checkpoints, and the run makes none", node.name());
    error.why = "training.checkpoint.disabled";
    error.next = "leave training.checkpoint.disabled out, or take the role evaluator from the node";
    return error;
  }
  const specs::RankDevice device = specs::rankDevices(node, request.spec->training()).front();
  LOCKSTEP_ASSIGN(const plan::Plan made,
                  planner::makeEvaluationPlan(plan, {node.name(), node.name(), device.kind, device.number, device.threads},
                                              preview.cost));
  preview.evaluator = {node.name(), planner::memory(made, 0, device.kind == "cuda").total(), plan::text(made)};
  preview.remarks.push_back(fmt::format(
      "node {} evaluates after each epoch, and the ranks do not: it needs {} of memory", node.name(),
      mebibytes(preview.evaluator->totalBytes)));
  return {};
}

// `chosen`: the spec says how large the ranks' shares are.
void addRemarks(Preview& preview, const std::vector<HostFacts>& hosts, bool chosen) {
  std::map<std::string, int> ranksOf;
  for (const auto& device : preview.cluster.devices)
    if (device.kind == "cpu") ranksOf[device.host] += device.threads;
  for (const auto& host : preview.cluster.hosts)
    if (const int threads = ranksOf[host.name]; threads > host.cores)
      preview.remarks.push_back(fmt::format(
          "{} compute threads share the {} cores of one host, so a step takes longer than on hosts of "
          "their own",
          threads, host.cores));
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> memory;  // host → needed, available
  for (const HostFacts& facts : hosts) {
    if (facts.memoryAvailable <= 0) continue;
    auto& [needed, available] = memory.try_emplace(facts.host, 0, facts.memoryAvailable).first->second;
    for (const RankPreview& rank : preview.ranks)
      if (rank.node == facts.node && rank.inHostMemory()) needed += rank.totalBytes();
    if (preview.evaluator && preview.evaluator->node == facts.node) needed += preview.evaluator->totalBytes;
    available = std::min(available, facts.memoryAvailable);
  }
  for (const HostFacts& facts : hosts) {
    const auto host = memory.find(facts.host);
    if (host == memory.end()) continue;
    const auto [needed, available] = host->second;
    if (needed > available)
      preview.remarks.push_back(
          fmt::format("the ranks on the host of node {} need {} of memory, {} are available there: "
                      "the node will refuse the run",
                      facts.node, mebibytes(needed), mebibytes(available)));
    memory.erase(host);
  }
  if (const std::int64_t window = planner::gatheredWindow(preview.plan, 0); window > 0)
    preview.remarks.push_back(fmt::format(
        "of parameters and gradients that ranks have in parts, rank 0 has at most {} whole at once", mebibytes(window)));
  if (const auto& spent = preview.simulation.ranks; !spent.empty() && spent[0].hidden > 0)
    preview.remarks.push_back(fmt::format(
        "of the {} that rank 0's collectives take in a step, {} are hidden behind what it computes",
        milliseconds(spent[0].transfer + spent[0].hidden), milliseconds(spent[0].hidden)));
  if (const auto& encoded = preview.encoded; encoded.payload > 0)
    preview.remarks.push_back(fmt::format(
        "gradients travel as {}: {} become {}, {:.2f} times less; coding takes {} a step", encoded.coding,
        kibibytes(encoded.bytes), kibibytes(encoded.payload), encoded.ratio(), milliseconds(encoded.seconds)));
  if (const auto& tables = preview.tables; tables.tableBytes > 0)
    preview.remarks.push_back(fmt::format(
        "tables of {} are on the servers by rows: rank 0 receives at most {} rows a step, and exchanges at "
        "most {}",
        mebibytes(tables.tableBytes), tables.rows, mebibytes(tables.exchangedBytes)));
  std::set<std::int64_t> shares;  // of the ranks that compute
  for (const RankPreview& rank : preview.ranks)
    if (rank.samples > 0) shares.insert(rank.samples);
  if (shares.size() > 1 && !chosen)
    preview.remarks.push_back(fmt::format(
        "the batch of {} does not divide by {} ranks: shares are {} and {} samples",
        preview.plan.globalBatch, preview.plan.mesh.axisSize("data"), *shares.rbegin(), *shares.begin()));
}

}  // namespace

std::int64_t RankPreview::totalBytes() const {
  return parameterBytes + optimizerBytes + gradientBytes + activationBytes + workspaceBytes;
}

Result<Preview> makePreview(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                            const planner::CostModel* measured) {
  spec::v1::ClusterSpec clusterSpec = *request.cluster;
  if (!request.comm.empty()) clusterSpec.set_comm(request.comm);
  std::vector<specs::NodeHost> nodeHosts;
  for (const HostFacts& facts : hosts) nodeHosts.push_back({facts.node, facts.host, facts.cores});

  Preview out;
  LOCKSTEP_ASSIGN(out.cluster, specs::toCluster(clusterSpec, nodeHosts, request.spec->strategy(), request.spec->training()));
  LOCKSTEP_ASSIGN(const models::Model model, specs::toModel(request.spec->model()));
  const auto& training = request.spec->training();
  const auto [compute, products, tf32] = specs::precisionOf(training);
  planner::PlanRequest plan;
  plan.products = products;
  plan.tf32 = tf32;
  LOCKSTEP_ASSIGN(plan.microBatches, specs::microBatches(*request.spec, out.cluster.mesh.axisSize("data")));
  plan.inOrder = request.spec->strategy().deterministic_parts() > 0;
  LOCKSTEP_ASSIGN(plan.step, models::build(model, training.batch() / plan.microBatches, compute,
                                           models::Use::kTraining, plan.microBatches));
  LOCKSTEP_ASSIGN(plan.evaluate, models::build(model, training.evaluate_batch(), compute,
                                               models::Use::kEvaluation));
  plan.training = trainOptions(training);
  plan.strategy = request.spec->strategy().kind();
  plan.staleness = request.spec->strategy().staleness();
  if (!request.spec->strategy().dense().empty()) plan.dense = request.spec->strategy().dense();
  plan.bucketBytes = request.spec->strategy().bucket_bytes();
  if (!request.spec->strategy().all_reduce().empty())
    plan.allReduce = request.spec->strategy().all_reduce();
  if (!request.spec->strategy().compression().empty())
    plan.compression = request.spec->strategy().compression();
  if (!request.spec->strategy().overlap().empty()) plan.overlap = request.spec->strategy().overlap();
  plan.gatherBytes = request.spec->strategy().gather_bytes();
  if (!request.spec->strategy().recompute().empty())
    plan.recompute = request.spec->strategy().recompute();
  plan.topKAfter = request.spec->strategy().top_k_after();
  if (request.spec->strategy().top_k_ratio() > 0)
    plan.topKRatio = request.spec->strategy().top_k_ratio();
  plan.shares.assign(request.spec->strategy().shares().begin(), request.spec->strategy().shares().end());
  for (const auto& pin : request.spec->strategy().pins())
    plan.pins.emplace_back(pin.layer(), pin.stage());
  if (!request.spec->strategy().schedule().empty())
    plan.schedule = request.spec->strategy().schedule();
  if (measured != nullptr) out.cost = *measured;
  out.measured = measured != nullptr;
  LOCKSTEP_ASSIGN(out.plan, planner::makePlan(plan, out.cluster, out.cost));
  out.planText = plan::text(out.plan);
  out.planHash = plan::hash(out.plan);
  out.comm = out.cluster.link.kind;
  if (out.comm == "nccl" && clusterSpec.comm().empty()) {
    const auto& devices = out.cluster.devices;
    const bool oneNode = std::all_of(devices.begin(), devices.end(), [&](const auto& device) { return device.node == devices[0].node; });
    out.comm = oneNode ? "shm" : "gloo";
    out.remarks.push_back("the ranks' GPUs exchange among themselves, by NCCL; where the nodes do not have it, through the host");
  }

  out.encoded = planner::encodedGradients(out.plan, 0);
  out.tables = planner::servedTables(out.plan, 0);
  out.simulation = planner::simulate(out.plan, out.cluster, out.cost);
  out.stepSeconds = out.simulation.stepSeconds;
  out.samplesPerSecond =
      out.stepSeconds > 0 ? static_cast<double>(out.plan.globalBatch) / out.stepSeconds : 0;
  for (int rank = 0; rank < out.plan.mesh.size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const cluster::Device& device = out.cluster.devices[index];
    const bool server = out.plan.mesh.isServer(rank);
    const auto share = static_cast<std::size_t>(server ? 0 : out.plan.mesh.coordinate(rank, "data"));
    const planner::RankMemory memory = planner::memory(out.plan, rank, device.kind == "cuda");
    const auto& spent = out.simulation.ranks[index];
    RankPreview row;
    row.rank = rank;
    row.node = device.node;
    row.device = fmt::format("{} {}", device.kind, device.index);
    row.threads = device.threads;
    row.samples =
        server ? 0
               : (out.plan.batchCuts[share + 1] - out.plan.batchCuts[share]) * out.plan.microBatches;
    row.parameterBytes = memory.parameters;
    row.optimizerBytes = memory.optimizer;
    row.gradientBytes = memory.gradients;
    row.activationBytes = memory.activations;
    row.workspaceBytes = memory.workspace;
    row.data = spent.data;
    row.forward = spent.forward;
    row.backward = spent.backward;
    row.waiting = spent.waiting;
    row.transfer = spent.transfer;
    row.hidden = spent.hidden;
    row.optimizer = spent.optimizer;
    out.ranks.push_back(std::move(row));
  }
  if (const auto* node = specs::evaluatorNode(clusterSpec))
    LOCKSTEP_TRY(addEvaluator(out, *node, request, plan));
  addRemarks(out, hosts, !plan.shares.empty());
  for (const auto& node : clusterSpec.nodes()) {
    const bool serves = std::find(node.roles().begin(), node.roles().end(), "ps") != node.roles().end();
    if (serves && out.plan.mesh.servers() == 0)
      out.remarks.push_back(fmt::format("node {} takes no part: its role is ps, and strategy {} has no servers",
                                        node.name(), out.plan.strategy));
  }
  if (plan.inOrder) {
    std::int64_t sums = 0;
    for (const auto& slot : out.plan.state)
      if (slot.name.starts_with("sums.")) sums += slot.type.bytes();
    const int ranks = out.plan.mesh.axisSize("data");
    out.remarks.push_back(fmt::format(
        "gradients of {} parts are added up in one order: a rank receives {} a step for it, where sums alone would take {}",
        request.spec->strategy().deterministic_parts(), kibibytes((ranks - 1) * sums * plan.microBatches),
        kibibytes(2 * (ranks - 1) * sums / ranks)));
  }
  const cluster::Strategy* const kind = cluster::findStrategy(plan.strategy);
  if (kind != nullptr && kind->local && request.spec->strategy().local_steps() == 0)
    out.remarks.push_back(fmt::format(
        "strategy.local_steps is chosen: {}, the largest divisor of the batch of {} up to {} that leaves each rank a sample "
        "of each part",
        plan.microBatches, training.batch(), specs::kLocalSteps));
  if (const double scale = specs::rateScale(training); scale != 1)
    out.remarks.push_back(fmt::format(
        "the learning rate is {:.6g}: {:.6g} for a batch of {}, in proportion to this one of {}",
        training.optimizer().learning_rate() * scale, training.optimizer().learning_rate(),
        training.optimizer().for_batch(), training.batch()));
  return out;
}

std::string predictionJson(const Preview& preview) {
  json out = {{"step_seconds", preview.stepSeconds},
              {"samples_per_second", preview.samplesPerSecond},
              {"measured", preview.measured},
              {"comm", preview.comm},
              {"plan_hash", preview.planHash},
              {"world", preview.plan.mesh.size()},
              {"compression",
               {{"coding", preview.encoded.coding},
                {"gradient_bytes", preview.encoded.bytes},
                {"payload_bytes", preview.encoded.payload},
                {"ratio", preview.encoded.ratio()},
                {"seconds", preview.encoded.seconds}}},
              {"tables",
               {{"table_bytes", preview.tables.tableBytes},
                {"rows_at_most", preview.tables.rows},
                {"exchanged_bytes_at_most", preview.tables.exchangedBytes}}},
              {"messages", json::array()},
              {"remarks", preview.remarks},
              {"ranks", json::array()}};
  for (const planner::Traffic& link : planner::messageTraffic(preview.plan))
    out["messages"].push_back(
        {{"from", link.from}, {"to", link.to}, {"bytes", link.bytes}, {"at_most", link.atMost}});
  for (const RankPreview& rank : preview.ranks)
    out["ranks"].push_back({{"rank", rank.rank},
                            {"node", rank.node},
                            {"device", rank.device},
                            {"threads", rank.threads},
                            {"samples", rank.samples},
                            {"parameter_bytes", rank.parameterBytes},
                            {"optimizer_bytes", rank.optimizerBytes},
                            {"gradient_bytes", rank.gradientBytes},
                            {"activation_bytes", rank.activationBytes},
                            {"workspace_bytes", rank.workspaceBytes},
                            {"data", rank.data},
                            {"forward", rank.forward},
                            {"backward", rank.backward},
                            {"waiting", rank.waiting},
                            {"transfer", rank.transfer},
                            {"hidden", rank.hidden},
                            {"optimizer", rank.optimizer}});
  return out.dump();
}

Result<Preview> parsePrediction(const std::string& text) {
  const json in = json::parse(text, nullptr, false);
  if (!in.is_object()) return makeError(Code::kDataLoss, "the prediction kept with the run is not JSON");
  const auto number = [](const json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const auto string = [](const json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Preview out;
  out.stepSeconds = number(in, "step_seconds");
  out.samplesPerSecond = number(in, "samples_per_second");
  out.measured = in.value("measured", json(false)).is_boolean() && in.value("measured", false);
  out.comm = string(in, "comm");
  out.planHash = string(in, "plan_hash");
  if (const auto remarks = in.find("remarks"); remarks != in.end() && remarks->is_array())
    for (const json& remark : *remarks)
      if (remark.is_string()) out.remarks.push_back(remark.get<std::string>());
  const auto ranks = in.find("ranks");
  if (ranks == in.end() || !ranks->is_array()) return out;
  for (const json& from : *ranks) {
    if (!from.is_object()) continue;
    RankPreview rank;
    rank.rank = static_cast<int>(number(from, "rank"));
    rank.node = string(from, "node");
    rank.device = string(from, "device");
    rank.threads = static_cast<int>(number(from, "threads"));
    rank.samples = static_cast<std::int64_t>(number(from, "samples"));
    rank.parameterBytes = static_cast<std::int64_t>(number(from, "parameter_bytes"));
    rank.optimizerBytes = static_cast<std::int64_t>(number(from, "optimizer_bytes"));
    rank.gradientBytes = static_cast<std::int64_t>(number(from, "gradient_bytes"));
    rank.activationBytes = static_cast<std::int64_t>(number(from, "activation_bytes"));
    rank.workspaceBytes = static_cast<std::int64_t>(number(from, "workspace_bytes"));
    rank.data = number(from, "data");
    rank.forward = number(from, "forward");
    rank.backward = number(from, "backward");
    rank.waiting = number(from, "waiting");
    rank.transfer = number(from, "transfer");
    rank.hidden = number(from, "hidden");
    rank.optimizer = number(from, "optimizer");
    out.ranks.push_back(std::move(rank));
  }
  return out;
}

std::string previewText(const Preview& preview) {
  std::string out = fmt::format(
      "{} ranks, {}, global batch {}\npredicted step {}, {:.0f} samples/s ({})\n\n",
      preview.ranks.size(), preview.comm, preview.plan.globalBatch, milliseconds(preview.stepSeconds),
      preview.samplesPerSecond,
      preview.measured ? "from costs measured on the nodes" : "from built-in costs, not measured");
  out += fmt::format("{:>4}  {:<12} {:<8} {:>7} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "rank",
                     "node", "device", "samples", "memory", "data", "forward", "backward", "waiting",
                     "transfer", "optimizer");
  for (const RankPreview& rank : preview.ranks)
    out += fmt::format(
        "{:>4}  {:<12} {:<8} {:>7} {:>11} {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms "
        "{:>6.3f} ms\n",
        rank.rank, rank.node, rank.device, rank.isServer() ? "server" : fmt::format("{}", rank.samples), mebibytes(rank.totalBytes()), rank.data * 1e3,
        rank.forward * 1e3, rank.backward * 1e3, rank.waiting * 1e3, rank.transfer * 1e3,
        rank.optimizer * 1e3);
  for (const std::string& remark : preview.remarks) out += "\nnote: " + remark + "\n";
  return out;
}

}  // namespace lockstep::app
