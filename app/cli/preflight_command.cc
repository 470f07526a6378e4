// cluster preflight.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/cluster/preflight.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

using Kind = PreflightValue::Kind;
using Grade = PreflightValue::Grade;

constexpr double kSampleHertz = 1;

std::string valueText(const PreflightValue& value) {
  switch (value.kind) {
    case Kind::kMatmul:
      return fmt::format("{:.1f} GFLOP/s", value.value * 1e-9);
    case Kind::kMemory:
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
  std::vector<Column> columns{{Kind::kMatmul, "matmul"},
                              {Kind::kMemory, "memory read"},
                              {Kind::kDiskFree, "disk free"},
                              {Kind::kClockSkew, "clock skew"},
                              {Kind::kGpuLanes, "PCIe lanes"}};
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

void printJson(const PreflightResult& result) {
  for (const PreflightValue& value : result.values) {
    JsonLine line("preflight");
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

Result<PreflightResult> measured(const std::vector<PreflightNode>& nodes, const Home& home,
                                 const std::string& cluster, const PreflightOptions& options,
                                 Inbox& inbox) {
  Result<PreflightResult> result = PreflightResult();
  std::atomic<bool> done = false;
  std::jthread thread([&](const std::stop_token& stop) {
    result = runPreflight(nodes, home, cluster, options, stop);
    done = true;
  });
  if (!drainUntil(
          inbox, [&] { return done.load(); }, interrupts()))
    thread.request_stop();
  thread.join();
  return result;
}

}  // namespace

int clusterPreflightCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto failed = [&](const Error& error) {
    report(error, json);
    return error.code == Code::kCancelled ? int{kStoppedByUser} : exitCodeOf(error);
  };
  const auto seconds = arguments.number("seconds", 0.5, 0.05, 10);
  if (!seconds.ok()) return failed(seconds.error());
  if (arguments.has("local") == !arguments.words().empty())
    return failed(invalidArgument("expected the file of a cluster, or --local N"));
  const auto file = arguments.has("local") ? clusterOf(globals, arguments)
                                           : loadClusterSpec(arguments.words()[0]);
  if (!file.ok()) return failed(file.error());
  Connecting connecting(file->spec, sessionOptions(globals, kSampleHertz));
  if (!connecting.connect() || !connecting.awaitGpus()) return kStoppedByUser;
  const ClusterSession& session = connecting.session();
  const std::vector<PreflightNode> nodes = preflightNodes(session);
  std::vector<std::string> names;
  for (const PreflightNode& node : nodes) names.push_back(node.name());
  PreflightOptions options;
  options.seconds = *seconds;
  options.progress = [](int done, int total, const std::string& what) {
    put(stderr, fmt::format("measured {} ({} of {})\n", what, done, total));
  };
  const auto result =
      measured(nodes, globals.home, file->spec->name(), options, connecting.inbox());
  if (!result.ok()) return failed(result.error());
  if (json)
    printJson(*result);
  else
    printTables(*result, names);
  const bool well = reportFailures(session, json) && result->errors.empty();
  for (const Error& error : result->errors) report(error, json);
  for (const PreflightValue& value : result->values)
    if (value.grade == Grade::kWeak) put(stderr, "weak: " + weakText(value).text() + "\n");
  put(stderr, fmt::format("{} of {} values are weak; compared with {} earlier results\n",
                          result->weak(), result->values.size(), result->earlier));
  return !well ? kNode : result->weak() > 0 ? kRunFailed : kSucceeded;
}

}  // namespace lockstep::app::cli
