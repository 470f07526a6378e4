#include "app/cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace lockstep::app::cli {
namespace {

// The steps of a rank's runs, one run after another, as events number them.
std::vector<const plan::Step*> stepsOf(const plan::Plan& plan, int rank) {
  std::vector<const plan::Step*> steps;
  if (rank < 0 || rank >= plan.mesh.size()) return steps;
  for (const plan::ScheduleEntry& entry : plan.entriesOf(rank))
    for (const plan::Step& step : plan.find(entry.program, rank)->steps) steps.push_back(&step);
  return steps;
}

// f(step, begin, end) with each event that is of the plan and has both.
template <typename F>
void forEvents(const plan::Plan& plan, const run::v1::EventChunk& chunk, F f) {
  const std::vector<const plan::Step*> steps = stepsOf(plan, chunk.rank());
  const int count = std::min({chunk.plan_step_size(), chunk.begin_ns_size(), chunk.end_ns_size()});
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(chunk.plan_step(i));
    if (chunk.plan_step(i) < 0 || at >= steps.size() || chunk.end_ns(i) < chunk.begin_ns(i))
      continue;
    f(*steps[at], chunk.begin_ns(i), chunk.end_ns(i));
  }
}

std::string percent(double share) { return share > 0 ? fmt::format("{:.1f}", 100 * share) : ""; }

}  // namespace

std::string chromeTrace(const plan::Plan& plan, const std::vector<run::v1::EventChunk>& ranks) {
  nlohmann::json events = nlohmann::json::array();
  std::int64_t start = 0;
  for (const auto& chunk : ranks)
    if (chunk.begin_ns_size() > 0)
      start = start == 0 ? chunk.begin_ns(0) : std::min<std::int64_t>(start, chunk.begin_ns(0));
  for (const auto& chunk : ranks) {
    const auto name = [&](const char* what, int thread, const std::string& text) {
      events.push_back({{"ph", "M"},
                        {"name", what},
                        {"pid", chunk.rank()},
                        {"tid", thread},
                        {"args", {{"name", text}}}});
    };
    name("process_name", 0, fmt::format("rank {}", chunk.rank()));
    name("thread_name", 0, "computes");
    name("thread_name", 1, "communication");
    forEvents(plan, chunk, [&](const plan::Step& step, std::int64_t begin, std::int64_t end) {
      events.push_back(
          {{"ph", "X"},
           {"name", step.name},
           {"cat", std::string(ir::info(step.op).name)},
           {"pid", chunk.rank()},
           {"tid", step.stream == plan::kCommunicationStream ? 1 : 0},
           {"ts", static_cast<double>(begin - start) * 1e-3},
           {"dur", static_cast<double>(end - begin) * 1e-3},
           {"args",
            {{"flops", step.flops}, {"bytes", step.bytes}, {"predicted_us", step.seconds * 1e6}}}});
    });
  }
  return nlohmann::json({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}).dump();
}

Table profileTable(const plan::Plan& plan, const run::v1::EventChunk& rank,
                   const MachineLimits& limits) {
  struct Kind {
    int count = 0;
    double seconds = 0, flops = 0, bytes = 0;
    bool computes = false;
  };
  std::map<std::string, Kind> kinds;
  std::int64_t first = 0, last = 0;
  double known = 0;
  forEvents(plan, rank, [&](const plan::Step& step, std::int64_t begin, std::int64_t end) {
    const bool isAsync = step.stream == plan::kCommunicationStream;
    Kind& kind = kinds[std::string(ir::info(step.op).name) + (isAsync ? " (async)" : "")];
    const double seconds = static_cast<double>(end - begin) * 1e-9;
    ++kind.count;
    kind.seconds += seconds;
    kind.flops += step.flops;
    kind.bytes += static_cast<double>(step.bytes);
    kind.computes = step.kind == plan::StepKind::kCompute;
    first = first == 0 ? begin : std::min(first, begin);
    last = std::max(last, end);
    if (!isAsync) known += seconds;
  });
  const double whole = static_cast<double>(last - first) * 1e-9;
  if (whole > known) kinds["between them"] = {1, whole - known, 0, 0, false};
  std::vector<std::pair<std::string, Kind>> rows(kinds.begin(), kinds.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  Table table;
  table.header = {"operation", "times",      "ms",   "% of step",
                  "GFLOP/s",   "% of limit", "GB/s", "% of limit"};
  table.right = {false, true, true, true, true, true, true, true};
  for (const auto& [name, kind] : rows) {
    const double flops = kind.computes && kind.seconds > 0 ? kind.flops / kind.seconds : 0;
    const double bytes = kind.computes && kind.seconds > 0 ? kind.bytes / kind.seconds : 0;
    table.rows.push_back({name, fmt::format("{}", kind.count),
                          fmt::format("{:.3f}", 1e3 * kind.seconds),
                          percent(whole > 0 ? kind.seconds / whole : 0),
                          flops > 0 ? fmt::format("{:.1f}", flops * 1e-9) : "",
                          percent(limits.flopsPerSecond > 0 ? flops / limits.flopsPerSecond : 0),
                          bytes > 0 ? fmt::format("{:.1f}", bytes * 1e-9) : "",
                          percent(limits.bytesPerSecond > 0 ? bytes / limits.bytesPerSecond : 0)});
  }
  return table;
}

}  // namespace lockstep::app::cli
