#include "app/cli/preflight_text.h"

#include <unistd.h>

#include <algorithm>

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
    case Kind::kMemory:
    case Kind::kDiskWrite:
    case Kind::kBandwidth:
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

std::string cellOf(const PreflightResult& result, Kind kind, const std::string& node,
                   const std::string& peer, const Style& style) {
  for (const PreflightValue& value : result.values) {
    if (value.kind != kind || value.node != node || value.peer != peer) continue;
    const std::string text = valueText(value);
    return value.grade == Grade::kWeak ? style.red(text) : text;
  }
  return "–";
}

}  // namespace

void printTables(const PreflightResult& result, const std::vector<std::string>& nodes) {
  const Style style(wantsColour(STDOUT_FILENO));
  const auto has = [&](Kind kind) {
    return std::any_of(result.values.begin(), result.values.end(),
                       [&](const PreflightValue& value) { return value.kind == kind; });
  };
  struct Column {
    Kind kind;
    const char* name;
  };
  std::vector<Column> columns{{Kind::kMatmul, "matmul"},        {Kind::kMemory, "memory read"},
                              {Kind::kDiskWrite, "disk write"}, {Kind::kDiskFree, "disk free"},
                              {Kind::kClockSkew, "clock skew"}, {Kind::kGpuLanes, "PCIe lanes"}};
  std::erase_if(columns, [&](const Column& column) { return !has(column.kind); });
  Table table;
  table.header = {"node"};
  table.right = {false};
  for (const Column& column : columns) {
    table.header.emplace_back(column.name);
    table.right.push_back(true);
  }
  for (const std::string& node : nodes) {
    std::vector<std::string> row{node};
    for (const Column& column : columns)
      row.push_back(cellOf(result, column.kind, node, "", style));
    table.rows.push_back(std::move(row));
  }
  std::string text = table.text();
  for (const Column& of :
       {Column{Kind::kBandwidth, "bandwidth"}, {Kind::kRoundTrip, "round trip"}}) {
    if (!has(of.kind)) continue;
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
        row.push_back(node == peer ? "" : cellOf(result, of.kind, node, peer, style));
      pairs.rows.push_back(std::move(row));
    }
    text += "\n" + pairs.text();
  }
  put(stdout, text);
}

void printPreflight(std::string_view event, const PreflightResult& result) {
  for (const PreflightValue& value : result.values) {
    JsonLine line(event);
    line.add("kind", kindName(value.kind)).add("node", value.node).add("peer", value.peer);
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
