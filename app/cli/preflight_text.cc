#include "app/cli/preflight_text.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "app/cli/json_line.h"
#include "app/cli/terminal.h"

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

std::string cellOf(const PreflightResult& result, const PreflightValue& place, const Style& style) {
  for (const PreflightValue& value : result.values) {
    if (value.kind != place.kind || value.node != place.node || value.peer != place.peer ||
        value.gpu != place.gpu)
      continue;
    const std::string text = valueText(value);
    return value.grade == Grade::kWeak ? style.red(text) : text;
  }
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

std::string linksOf(const PreflightResult& result, const Column& of,
                    const std::vector<std::string>& nodes, const Style& style) {
  if (!has(result, of.kind)) return {};
  Table pairs;
  pairs.header = {std::string(of.name) + " to"};
  pairs.right = {false};
  for (const std::string& peer : nodes) {
    pairs.header.push_back(peer);
    pairs.right.push_back(true);
  }
  for (const std::string& node : nodes) {
    std::vector<std::string> row{"from " + node};
    for (const std::string& peer : nodes)
      row.push_back(node == peer ? "" : cellOf(result, {of.kind, node, peer}, style));
    pairs.rows.push_back(std::move(row));
  }
  return pairs.text() + "\n";
}

}  // namespace

void printTables(const PreflightResult& result, const std::vector<std::string>& nodes) {
  const Style style(wantsColour(STDOUT_FILENO));
  std::vector<std::pair<std::string, int>> places, gpus;
  for (const std::string& node : nodes) {
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
  text += linksOf(result, {Kind::kBandwidth, "bandwidth"}, nodes, style);
  text += linksOf(result, {Kind::kRoundTrip, "round trip"}, nodes, style);
  for (const PreflightValue& value : result.values)
    if (value.kind == Kind::kAllReduce)
      text += fmt::format("all-reduce over all nodes: bus bandwidth {}\n\n",
                          cellOf(result, value, style));
  if (!text.empty()) text.pop_back();  // the empty line at the end
  put(stdout, text);
}

void printPreflight(std::string_view event, const PreflightResult& result) {
  for (const PreflightValue& value : result.values) {
    JsonLine line(event);
    line.add("kind", kindName(value.kind)).add("node", value.node).add("peer", value.peer);
    if (value.gpu >= 0) line.add("gpu", value.gpu);
    line.add("value", value.value).add("usual", value.usual);
    line.add("compared_with", value.usual <= 0 ? "" : value.earlier ? "earlier" : "others");
    line.add("grade", value.grade == Grade::kWeak   ? "weak"
                      : value.grade == Grade::kGood ? "good"
                                                    : "ungraded");
    if (value.grade == Grade::kWeak) line.add("text", weakText(value).text());
    line.print();
  }
}

void printWeak(const PreflightResult& result) {
  for (const PreflightValue& value : result.values)
    if (value.grade == Grade::kWeak) put(stderr, "weak: " + weakText(value).text() + "\n");
}

}  // namespace lockstep::app::cli
