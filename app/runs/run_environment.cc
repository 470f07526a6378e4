#include "app/runs/run_environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "app/core/shallow_json.h"
#include "app/runs/participant.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostNamed = 8;      // values of a field, nodes of a value
constexpr std::size_t kMostVersions = 64;  // a damaged file may have any number

std::int64_t integerOf(const nlohmann::json& value, const char* name) {
  if (!value.is_object()) return 0;
  const auto found = value.find(name);
  return found != value.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

NodeEnvironment readNode(const nlohmann::json& node) {
  NodeEnvironment out;
  out.node = textOf(node, "node");
  out.host = textOf(node, "host");
  if (const auto ranks = node.find("ranks"); ranks != node.end() && ranks->is_array())
    for (const auto& rank : *ranks)
      if (rank.is_number_integer()) out.ranks.push_back(rank.get<int>());
  const auto found = node.find("environment");
  if (found == node.end() || !found->is_object()) return out;
  out.os = textOf(*found, "os");
  out.kernel = textOf(*found, "kernel");
  out.cpu = textOf(*found, "cpu");
  out.gpuDriver = textOf(*found, "gpu_driver");
  out.agent = textOf(*found, "agent");
  out.cores = static_cast<int>(integerOf(*found, "cores"));
  out.memoryBytes = integerOf(*found, "memory_bytes");
  if (const auto gpus = found->find("gpus"); gpus != found->end() && gpus->is_array())
    for (const auto& gpu : *gpus)
      if (gpu.is_string()) out.gpus.push_back(gpu.get<std::string>());
  if (const auto versions = found->find("versions");
      versions != found->end() && versions->is_object())
    for (const auto& [name, version] : versions->items())
      if (version.is_string()) out.versions[name] = version.get<std::string>();
  return out;
}

// "8 × NVIDIA H200, 143771 MiB"
std::string gpusText(const std::vector<std::string>& gpus) {
  std::string out;
  for (auto at = gpus.begin(); at != gpus.end();) {
    const auto end = std::find_if(at, gpus.end(), [&](const auto& gpu) { return gpu != *at; });
    if (!out.empty()) out += " + ";
    out += end - at == 1 ? *at : fmt::format("{} × {}", end - at, *at);
    at = end;
  }
  return out;
}

using Field = std::pair<std::string, std::string>;
std::vector<Field> fieldsOf(const NodeEnvironment& node) {
  std::vector<Field> out = {
      {"os", node.os},
      {"kernel", node.kernel},
      {"cpu", node.cpu},
      {"cores", node.cores > 0 ? fmt::format("{}", node.cores) : std::string()},
      {"memory", node.memoryBytes > 0
                     ? fmt::format("{:.1f} GiB", static_cast<double>(node.memoryBytes) / (1 << 30))
                     : std::string()},
      {"gpus", gpusText(node.gpus)},
      {"gpu_driver", node.gpuDriver},
      {"agent", node.agent}};
  out.insert(out.end(), node.versions.begin(), node.versions.end());
  return out;
}

// The nodes of each value, in their order; "": those that lack the field.
using Values = std::vector<std::pair<std::string, std::vector<std::string>>>;

std::string valueText(const Values& values) {
  if (values.size() == 1) return values.front().first;
  std::string out;
  for (const auto& [value, nodes] : values | std::views::take(kMostNamed)) {
    const std::size_t named = std::min(nodes.size(), kMostNamed);
    out += fmt::format(
        "{}{} ({}{})", out.empty() ? "" : "; ", value.empty() ? "–" : value,
        fmt::join(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(named), ", "),
        named < nodes.size() ? ", …" : "");
  }
  return values.size() > kMostNamed ? out + "; …" : out;
}

}  // namespace

nlohmann::json environmentJson(const Participant& participant) {
  const NodeInventory& has = participant.inventory;
  nlohmann::json out = nlohmann::json::object();
  const auto add = [&](const char* name, const auto& value) {
    if (value != std::decay_t<decltype(value)>()) out[name] = value;
  };
  add("os", has.os);
  add("kernel", has.kernel);
  add("cpu", has.cpu);
  add("cores", has.cores);
  add("memory_bytes", has.memoryBytes);
  add("gpus", has.gpus);
  add("gpu_driver", has.gpuDriver);
  add("agent", has.agentVersion);
  add("versions", participant.versions);
  return out;
}

std::vector<NodeEnvironment> nodeEnvironments(const std::string& nodesJson) {
  std::vector<NodeEnvironment> out;
  const auto nodes = parseShallow(nodesJson);
  if (!nodes.is_array()) return out;
  for (const auto& node : nodes)
    if (node.is_object()) out.push_back(readNode(node));
  return out;
}

std::vector<EnvironmentField> environmentFields(const std::vector<NodeEnvironment>& nodes) {
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> all;
  std::set<std::string> versions;
  for (const NodeEnvironment& node : nodes) {
    const std::vector<Field> fields = fieldsOf(node);
    all.emplace_back(fields.begin(), fields.end());
    for (const auto& [name, version] : node.versions)
      if (versions.size() < kMostVersions) versions.insert(name);
  }
  for (const auto& [name, value] : fieldsOf({})) names.push_back(name);
  names.insert(names.end(), versions.begin(), versions.end());
  std::vector<EnvironmentField> out;
  for (const std::string& name : names) {
    Values values;
    std::map<std::string, std::size_t> places;  // in `values`
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::string& value = all[i][name];
      const auto [place, isNew] = places.try_emplace(value, values.size());
      if (isNew) values.push_back({value, {}});
      values[place->second].second.push_back(nodes[i].node);
    }
    const bool isKnown = std::any_of(values.begin(), values.end(),
                                     [](const auto& one) { return !one.first.empty(); });
    if (isKnown) out.push_back({name, valueText(values)});
  }
  return out;
}

Message environmentTitle(const std::string& field) {
  static const std::map<std::string, Message> kTitles = {{"os", message("Operating system")},
                                                         {"kernel", message("Kernel")},
                                                         {"cpu", message("CPU")},
                                                         {"cores", message("Cores")},
                                                         {"memory", message("Memory")},
                                                         {"gpus", message("GPUs")},
                                                         {"gpu_driver", message("GPU driver")},
                                                         {"agent", message("Agent")}};
  const auto found = kTitles.find(field);
  return found == kTitles.end() ? Message(field) : found->second;
}

SpecFields comparedFields(const RunDocuments& documents) {
  SpecFields out = specFields(documents.specAsRun());
  for (EnvironmentField& field : environmentFields(nodeEnvironments(documents.nodes)))
    out["environment." + field.name] = std::move(field.value);
  return out;
}

}  // namespace lockstep::app
