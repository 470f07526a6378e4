#include "app/cli/preflight_text.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "app/cluster/link_matrix.h"

namespace lockstep::app::cli {
namespace {

using Kind = PreflightValue::Kind;
using Grade = PreflightValue::Grade;

std::string valueText(const PreflightValue& value) {
  switch (value.kind) {
    case Kind::kMatmul:
      return fmt::format("{:.1f} GFLOP/s", value.value * 1e-9);
    case Kind::kGpuMatmul:
      return fmt::format("{:.1f} TFLOP/s", value.value * 1e-12);
    case Kind::kMemory:
    case Kind::kDiskWrite:
    case Kind::kGpuMemory:
    case Kind::kBandwidth:
    case Kind::kAllReduce:
      return rateText(value.value);
    case Kind::kDiskFree:
      return bytesText(value.value);
    case Kind::kClockSkew:
    case Kind::kRoundTrip:
      return fmt::format("{:.3f} ms", value.value * 1e3);
    case Kind::kGpuLanes:
      return fmt::format("{:.0f} %", value.value * 100);
  }
  return {};
}

std::string cellText(const PreflightValue& value, const Style& style) {
  const std::string text = valueText(value);
  return value.grade == Grade::kWeak ? style.red(text) : text;
}

std::string cellOf(const PreflightResult& result, const PreflightValue& place, const Style& style) {
  for (const PreflightValue& value : result.values)
    if (value.kind == place.kind && value.node == place.node && value.peer == place.peer &&
        value.gpu == place.gpu)
      return cellText(value, style);
  return "–";
}

bool has(const PreflightResult& result, Kind kind) {
  return std::any_of(result.values.begin(), result.values.end(),
                     [&](const PreflightValue& value) { return value.kind == kind; });
}

struct Column {
  Kind kind;
  const char* name;
};

// A row for each node, or for each GPU of them; "" if nothing of them was measured.
std::string tableOf(const PreflightResult& result, const char* first, std::vector<Column> columns,
                    const std::vector<std::pair<std::string, int>>& places, const Style& style) {
  std::erase_if(columns, [&](const Column& column) { return !has(result, column.kind); });
  if (columns.empty()) return {};
  Table table;
  table.header = {first};
  table.right = {false};
  for (const Column& column : columns) {
    table.header.emplace_back(column.name);
    table.right.push_back(true);
  }
  for (const auto& [node, gpu] : places) {
    std::vector<std::string> row{gpu < 0 ? node : fmt::format("{} GPU {}", node, gpu)};
    for (const Column& column : columns) {
      PreflightValue place{column.kind, node};
      place.gpu = gpu;
      row.push_back(cellOf(result, place, style));
    }
    table.rows.push_back(std::move(row));
  }
  return table.text() + "\n";
}

// The slowest of many links, and the median of all.
std::string slowestOf(const LinkMatrix& links, const char* name, const Style& style) {
  constexpr std::size_t kShown = 10;
  const std::vector<PreflightValue> all = links.slowestFirst();
  Table table;
  table.header = {fmt::format("slowest of {} links", all.size()), name};
  table.right = {false, true};
  for (const PreflightValue& link : all | std::views::take(kShown))
    table.rows.push_back({fmt::format("{} → {}", link.node, link.peer), cellText(link, style)});
  table.rows.push_back({"median", valueText({links.kind, "", "", links.median})});
  return table.text() + "\n";
}

std::string linksOf(const PreflightResult& result, const Column& of, const Style& style) {
  constexpr std::size_t kMostNodes = 16;  // whose links are told as a matrix
  const LinkMatrix links = linkMatrix(result, of.kind);
  if (links.empty()) return {};
  if (links.nodes.size() > kMostNodes) return slowestOf(links, of.name, style);
  Table pairs;
  pairs.header = {std::string(of.name) + " to"};
  pairs.right = {false};
  for (const std::string& peer : links.nodes) {
    pairs.header.push_back(peer);
    pairs.right.push_back(true);
  }
  for (std::size_t from = 0; from < links.nodes.size(); ++from) {
    std::vector<std::string> row{"from " + links.nodes[from]};
    for (std::size_t to = 0; to < links.nodes.size(); ++to) {
      const auto& cell = links.at(from, to);
      row.push_back(from == to ? "" : cell ? cellText(*cell, style) : "–");
    }
    pairs.rows.push_back(std::move(row));
  }
  return pairs.text() + "\n";
}

// A row for each node; "" if there are none.
std::string versionsOf(const PreflightResult& result, const Style& style) {
  using Of = NodeVersion::Kind;
  constexpr std::pair<Of, const char*> kColumns[] = {{Of::kAgent, "agent"},
                                                     {Of::kKernel, "kernel"},
                                                     {Of::kGpuDriver, "GPU driver"},
                                                     {Of::kCuda, "CUDA"},
                                                     {Of::kNccl, "NCCL"}};
  if (result.versions.empty()) return {};
  std::map<std::pair<Of, std::string>, const NodeVersion*> places;
  std::set<Of> kinds;
  for (const NodeVersion& one : result.versions) {
    places[{one.kind, one.node}] = &one;
    kinds.insert(one.kind);
  }
  Table table;
  table.header = {"versions"};
  for (const auto& [kind, name] : kColumns)
    if (kinds.contains(kind)) table.header.emplace_back(name);
  table.right.assign(table.header.size(), false);
  for (const std::string& node : result.nodes) {
    std::vector<std::string> row{node};
    for (const auto& [kind, name] : kColumns) {
      if (!kinds.contains(kind)) continue;
      const NodeVersion* const has = places[{kind, node}];
      const std::string text = has == nullptr         ? "–"
                               : has->version.empty() ? "unknown"
                                                      : shortVersion(*has);
      const bool differs = has != nullptr && has->grade == NodeVersion::Grade::kDifferent;
      row.push_back(differs ? style.yellow(text) : text);
    }
    table.rows.push_back(std::move(row));
  }
  return table.text() + "\n";
}

JsonLine jsonLine(std::string_view event, const PreflightValue& value) {
  JsonLine line(event);
  line.add("kind", kindName(value.kind)).add("node", value.node).add("peer", value.peer);
  if (value.gpu >= 0) line.add("gpu", value.gpu);
  line.add("value", value.value).add("usual", value.usual);
  line.add("compared_with", value.usual <= 0 ? "" : value.earlier ? "earlier" : "others");
  line.add("grade", value.grade == Grade::kWeak   ? "weak"
                    : value.grade == Grade::kGood ? "good"
                                                  : "ungraded");
  if (value.grade == Grade::kWeak) line.add("text", weakText(value).text());
  return line;
}

JsonLine jsonLine(std::string_view event, const NodeVersion& version) {
  using Of = NodeVersion::Grade;
  JsonLine line(event);
  line.add("kind", kindName(version.kind)).add("node", version.node);
  line.add("version", version.version).add("usual", version.usual);
  line.add("grade", version.grade == Of::kDifferent ? "different"
                    : version.grade == Of::kSame    ? "same"
                                                    : "ungraded");
  if (version.grade == Of::kDifferent) line.add("text", differentText(version).text());
  return line;
}

}  // namespace

std::string preflightTables(const PreflightResult& result, const Style& style) {
  std::vector<std::pair<std::string, int>> places, gpus;
  for (const std::string& node : result.nodes) {
    places.emplace_back(node, -1);
    std::set<int> own;
    for (const PreflightValue& value : result.values)
      if (value.node == node && value.gpu >= 0) own.insert(value.gpu);
    for (const int gpu : own) gpus.emplace_back(node, gpu);
  }
  std::string text = tableOf(result, "node",
                             {{Kind::kMatmul, "matmul"},
                              {Kind::kMemory, "memory read"},
                              {Kind::kDiskWrite, "disk write"},
                              {Kind::kDiskFree, "disk free"},
                              {Kind::kClockSkew, "clock skew"}},
                             places, style);
  text += tableOf(result, "GPU",
                  {{Kind::kGpuMatmul, "matmul"},
                   {Kind::kGpuMemory, "memory read"},
                   {Kind::kGpuLanes, "PCIe lanes"}},
                  gpus, style);
  text += versionsOf(result, style);
  text += linksOf(result, {Kind::kBandwidth, "bandwidth"}, style);
  text += linksOf(result, {Kind::kRoundTrip, "round trip"}, style);
  for (const PreflightValue& value : result.values)
    if (value.kind == Kind::kAllReduce)
      text +=
          fmt::format("all-reduce over all nodes: bus bandwidth {}\n\n", cellText(value, style));
  if (!text.empty()) text.pop_back();  // the empty line at the end
  return text;
}

std::vector<JsonLine> preflightLines(std::string_view event, const PreflightResult& result) {
  std::vector<JsonLine> out;
  for (const PreflightValue& value : result.values) out.push_back(jsonLine(event, value));
  const std::string ofVersions = std::string(event) + "_version";
  for (const NodeVersion& version : result.versions) out.push_back(jsonLine(ofVersions, version));
  return out;
}

void printPreflight(std::string_view event, const PreflightResult& result, bool json) {
  if (json)
    for (const JsonLine& line : preflightLines(event, result)) line.print();
  else
    put(stdout, preflightTables(result, Style(wantsColour(STDOUT_FILENO))));
}

void printWarnings(const PreflightResult& result) {
  for (const PreflightValue& value : result.values)
    if (value.grade == Grade::kWeak) put(stderr, "weak: " + weakText(value).text() + "\n");
  for (const NodeVersion& version : result.versions)
    if (version.grade == NodeVersion::Grade::kDifferent)
      put(stderr, "warning: " + differentText(version).text() + "\n");
}

}  // namespace lockstep::app::cli
