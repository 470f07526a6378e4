// A preview as JSON and as text.
#include <nlohmann/json.hpp>

#include "app/core/shallow_json.h"
#include "app/runs/preview.h"
#include "app/runs/quantity_text.h"
#include "engine/cluster/assumed.h"
#include "engine/specs/error_info.h"

namespace lockstep::app {

using nlohmann::json;

std::string predictionJson(const Preview& preview) {
  json out = {{"step_seconds", preview.stepSeconds},
              {"samples_per_second", preview.samplesPerSecond},
              {"measured", preview.measured},
              {"comm", preview.comm},
              {"misfit", preview.misfit ? preview.misfit->text() : ""},
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
              {"remarks", json::array()},
              {"remark_messages", json::array()},
              {"step_overhead_seconds", preview.cost.stepOverheadSeconds},
              {"hosts", json::array()},
              {"links", json::array()},
              {"ranks", json::array()}};
  if (!preview.ofProgram()) {
    const Energy energy = predictedEnergy(preview);
    out["energy"] = json::parse(energyJson(energy, predictedPhases(preview, energy)));
  }
  for (const cluster::Host& host : preview.cluster.hosts)
    out["hosts"].push_back({{"name", host.name}, {"cores", host.cores}});
  for (const auto& [axis, link] : preview.cluster.links)
    out["links"].push_back({{"axis", axis},
                            {"bytes_per_second", link.bytesPerSecond},
                            {"latency_seconds", link.latency}});
  for (const Message& remark : preview.remarks) {
    out["remarks"].push_back(remark.text());
    out["remark_messages"].push_back(json::parse(specs::toJson(remark)));
  }
  for (const plan::Traffic& link : plan::messageTraffic(preview.plan))
    out["messages"].push_back(
        {{"from", link.from}, {"to", link.to}, {"bytes", link.bytes}, {"at_most", link.atMost}});
  for (const RankPreview& rank : preview.ranks)
    out["ranks"].push_back(
        {{"rank", rank.rank},
         {"node", rank.node},
         {"host", preview.cluster.devices[static_cast<std::size_t>(rank.rank)].host},
         {"device", rank.device},
         {"model", preview.cluster.devices[static_cast<std::size_t>(rank.rank)].figures.model},
         {"threads", rank.threads},
         {"samples", rank.samples},
         {"parameter_bytes", rank.parameterBytes},
         {"optimizer_bytes", rank.optimizerBytes},
         {"gradient_bytes", rank.gradientBytes},
         {"activation_bytes", rank.activationBytes},
         {"workspace_bytes", rank.workspaceBytes},
         {"reserved_bytes",
          cluster::reservedBytes(preview.cluster,
                                 preview.cluster.devices[static_cast<std::size_t>(rank.rank)])},
         {"data", rank.data},
         {"forward", rank.forward},
         {"backward", rank.backward},
         {"waiting", rank.waiting},
         {"transfer", rank.transfer},
         {"hidden", rank.hidden},
         {"optimizer", rank.optimizer}});
  return out.dump();
}

namespace {

// The rank's device. A host that the prediction does not tell of has cores for all its ranks.
void addDevice(const RankPreview& rank, const std::string& host, cluster::Cluster& cluster) {
  const std::size_t space = rank.device.find(' ');
  cluster::Device device{rank.node, host.empty() ? rank.node : host, rank.device.substr(0, space)};
  device.threads = std::max(rank.threads, 1);
  const auto known = std::find_if(cluster.hosts.begin(), cluster.hosts.end(),
                                  [&](const auto& one) { return one.name == device.host; });
  if (known == cluster.hosts.end())
    cluster.hosts.push_back({device.host, device.threads});
  else if (host.empty())
    known->cores += device.threads;
  cluster.devices.push_back(std::move(device));
}

}  // namespace

Result<Preview> parsePrediction(const std::string& text) {
  const json in = parseShallow(text);
  if (!in.is_object())
    return makeError(Code::kDataLoss, "the prediction kept with the run is not JSON");
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
  out.cluster.link.kind = out.comm;
  if (in.contains("step_overhead_seconds"))
    out.cost.stepOverheadSeconds = number(in, "step_overhead_seconds");
  if (const auto hosts = in.find("hosts"); hosts != in.end() && hosts->is_array())
    for (const json& host : *hosts)
      if (host.is_object())
        out.cluster.hosts.push_back(
            {string(host, "name"), static_cast<int>(number(host, "cores"))});
  if (const auto remarks = in.find("remark_messages"); remarks != in.end() && remarks->is_array())
    for (const json& remark : *remarks)
      out.remarks.push_back(specs::messageFromJson(remark.dump()));
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
    addDevice(out.ranks.back(), string(from, "host"), out.cluster);
  }
  return out;
}

namespace {

constexpr std::size_t kManyRanks = 64;

std::string figuresText(const RankPreview& rank) {
  return fmt::format(
      "{:>7} {:>11} {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms {:>6.3f} ms\n",
      rank.isServer() ? "server" : fmt::format("{}", rank.samples), mebibytes(rank.totalBytes()),
      rank.data * 1e3, rank.forward * 1e3, rank.backward * 1e3, rank.waiting * 1e3,
      rank.transfer * 1e3, rank.optimizer * 1e3);
}

// A row for each rank; where there are many, one for those that follow each other with the same
// figures.
std::string ranksText(const std::vector<RankPreview>& ranks) {
  const bool isMany = ranks.size() > kManyRanks;
  const auto row = [&](std::string_view rank, std::string_view node, std::string_view device) {
    return isMany ? fmt::format("{:>9}  {:<18} {:<10} ", rank, node, device)
                  : fmt::format("{:>4}  {:<12} {:<8} ", rank, node, device);
  };
  std::string out =
      row("rank", "node", "device") +
      fmt::format("{:>7} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "samples", "memory", "data",
                  "forward", "backward", "waiting", "transfer", "optimizer");
  for (std::size_t first = 0, end = 1; first < ranks.size(); first = end++) {
    const RankPreview& rank = ranks[first];
    const std::string figures = figuresText(rank);
    while (isMany && end < ranks.size() && figuresText(ranks[end]) == figures) ++end;
    const RankPreview& last = ranks[end - 1];
    const std::string_view kind = std::string_view(rank.device).substr(0, rank.device.find(' '));
    out += (end == first + 1
                ? row(fmt::format("{}", rank.rank), rank.node, rank.device)
                : row(fmt::format("{}-{}", rank.rank, last.rank),
                      rank.node == last.node ? rank.node
                                             : fmt::format("{} … {}", rank.node, last.node),
                      kind)) +
           figures;
  }
  return out;
}

}  // namespace

std::string previewText(const Preview& preview) {
  std::string out = preview.misfit ? preview.misfit->text() + "\n\n" : "";
  out += fmt::format(
      "{} {}, {}, global batch {}\npredicted step {}, {:.0f} samples/s ({})\n\n",
      preview.ranks.size(), preview.ranks.size() == 1 ? "rank" : "ranks", preview.comm,
      preview.plan.globalBatch, milliseconds(preview.stepSeconds), preview.samplesPerSecond,
      preview.measured ? "from costs measured on the nodes" : "from built-in costs, not measured");
  out += ranksText(preview.ranks);
  if (!preview.ofProgram()) out += "\n" + energyOfStepText(predictedEnergy(preview)) + "\n";
  for (const Message& remark : preview.remarks) out += "\nnote: " + remark.text() + "\n";
  return out;
}

}  // namespace lockstep::app
