// plan, simulate.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/launch_request.h"
#include "app/cli/step_text.h"
#include "app/cli/terminal.h"
#include "app/runs/launch_summary.h"
#include "app/runs/plan_figures.h"
#include "app/runs/preview.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"

namespace lockstep::app::cli {
namespace {

Result<PlannedLaunch> launchOf(const Globals& globals, const Arguments& arguments, bool events,
                               passes::PassTrace* trace = nullptr) {
  return plannedLaunch(globals, arguments, {arguments.words()[0], arguments.all("set")}, events,
                       trace);
}

std::string figureText(PlanFigure::Unit unit, double value) {
  switch (unit) {
    case PlanFigure::Unit::kSeconds:
      return millisecondsText(value) + " ms";
    case PlanFigure::Unit::kBytes:
      return bytesText(value);
    case PlanFigure::Unit::kFlops:
      return flopText(value) + "FLOP";
    case PlanFigure::Unit::kJoules:
      return joulesText(value);
    case PlanFigure::Unit::kPerSecond:
      return fmt::format("{:.0f}/s", value);
    case PlanFigure::Unit::kCount:
      break;
  }
  return fmt::format("{:.0f}", value);
}

std::string_view unitName(PlanFigure::Unit unit) {
  constexpr std::array<std::string_view, 6> kNames{"",      "seconds",    "bytes",
                                                   "flops", "per second", "joules"};
  return kNames[static_cast<std::size_t>(unit)];
}

// Two plans side by side; figures that are equal are left out of the text.
void printDifference(const Preview& preview, const Preview& other, bool json) {
  const std::vector<FigurePair> pairs = sideBySide(planFigures(preview), planFigures(other));
  if (json) {
    for (const FigurePair& pair : pairs)
      JsonLine("figure")
          .add("name", pair.name)
          .add("unit", unitName(pair.unit))
          .add("plan", pair.first)
          .add("other", pair.second)
          .print();
    JsonLine("difference").add("same_plan", preview.planHash == other.planHash).print();
    return;
  }
  if (preview.planHash == other.planHash) {
    put(stdout, "the plans are the same\n");
    return;
  }
  Table table{{"a training step", "plan", "other", "difference"}, {false, true, true, true}, {}};
  for (const FigurePair& pair : pairs) {
    const std::string plan = figureText(pair.unit, pair.first);
    const std::string rest = figureText(pair.unit, pair.second);
    if (plan == rest) continue;
    table.rows.push_back(
        {pair.name, plan, rest,
         pair.second == 0 ? "" : fmt::format("{:+.1f} %", 100 * (pair.first / pair.second - 1))});
  }
  put(stdout, table.text());
}

// "1=2.5": rank 1 takes 2.5 times as long.
Result<std::vector<double>> slowdownOf(const std::vector<std::string>& texts, std::size_t ranks) {
  constexpr double kFastest = 1e-6, kSlowest = 1e6;
  std::vector<double> out;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    int rank = -1;
    double factor = 0;
    if (equals != std::string::npos) {
      const auto a = std::from_chars(text.data(), text.data() + equals, rank);
      const auto b = std::from_chars(text.data() + equals + 1, text.data() + text.size(), factor);
      if (a.ec != std::errc() || a.ptr != text.data() + equals || b.ec != std::errc() ||
          b.ptr != text.data() + text.size())
        rank = -1;
    }
    if (rank < 0 || static_cast<std::size_t>(rank) >= ranks ||
        !(factor >= kFastest && factor <= kSlowest))
      return invalidArgument(
          "--slow {}: RANK=FACTOR was expected, a rank below {} and a factor from {:.6f} to {:.0f}",
          text, ranks, kFastest, kSlowest);
    if (out.empty()) out.assign(ranks, 1.0);
    out[static_cast<std::size_t>(rank)] = factor;
  }
  return out;
}

std::string eventColumns(const Preview& preview) {
  nlohmann::json out;
  for (const char* name :
       {"rank", "step", "plan_step", "kind", "phase", "begin_ns", "end_ns", "bytes", "peer"})
    out[name] = nlohmann::json::array();
  for (const plan::Event& event : preview.simulation.events) {
    out["rank"].push_back(event.rank);
    out["step"].push_back(event.step);
    out["plan_step"].push_back(event.planStep);
    out["kind"].push_back(plan::eventKindName(event.kind));
    out["phase"].push_back(phaseText(event));
    out["begin_ns"].push_back(event.begin);
    out["end_ns"].push_back(event.end);
    out["bytes"].push_back(event.bytes);
    out["peer"].push_back(event.peer);
  }
  return out.dump();
}

// Bytes from which on a plan is printed without what is alike in its stages.
constexpr std::size_t kLongPlan = std::size_t{1} << 20;

// Exit code for a plan that does not fit, so that a script does not launch it.
int exitCodeFor(const Preview& preview) {
  return preview.misfit ? exitCodeOf(*preview.misfit) : kSucceeded;
}

Error unknownPass(const std::string& name, const passes::PassTrace& trace) {
  std::set<std::string> names;
  for (const passes::PassRecord& record : trace.records()) names.insert(record.pass);
  Error error = invalidArgument("no pass {} was run for this plan", name);
  error.next = message("one of {}", fmt::join(names, ", "));
  return error;
}

// The passes in the order in which they ran, or the graphs after one of them.
void printPasses(const passes::PassTrace& trace, const Arguments& arguments, bool json) {
  if (json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const passes::PassRecord& record : trace.records()) {
      rows.push_back({{"program", record.program},
                      {"pass", record.pass},
                      {"runs", record.runs},
                      {"seconds", static_cast<double>(record.elapsed) * 1e-9},
                      {"nodes_before", record.nodesBefore},
                      {"nodes_after", record.nodesAfter}});
    }
    JsonLine line("passes");
    line.addRaw("passes", rows.dump());
    if (arguments.has("dump-after")) line.add("graphs", trace.dump());
    line.print();
    return;
  }
  if (arguments.has("dump-after")) {
    put(stdout, trace.dump());
    return;
  }
  Table table{{"program", "pass", "runs", "ms", "nodes before", "nodes after"},
              {false, false, true, true, true, true},
              {}};
  for (const passes::PassRecord& record : trace.records()) {
    table.rows.push_back({record.program, record.pass, std::to_string(record.runs),
                          fmt::format("{:.2f}", static_cast<double>(record.elapsed) * 1e-6),
                          std::to_string(record.nodesBefore), std::to_string(record.nodesAfter)});
  }
  put(stdout, table.text());
}

}  // namespace

int planCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const bool traces = arguments.has("passes") || arguments.has("dump-after");
  passes::PassTrace trace(arguments.text("dump-after"));
  const auto planned = [&]() -> Result<PlannedLaunch> {
    if (traces && arguments.has("measure"))
      return invalidArgument(
          "--passes and --dump-after show a plan made from built-in costs; "
          "leave --measure out");
    if (traces && arguments.has("diff"))
      return invalidArgument("--diff compares plans; leave --passes and --dump-after out");
    LOCKSTEP_ASSIGN(PlannedLaunch made, launchOf(globals, arguments, false, &trace));
    if (arguments.has("dump-after") && trace.dump().empty())
      return unknownPass(arguments.text("dump-after"), trace);
    return made;
  }();
  if (!planned.ok()) {
    report(planned.error(), json);
    return exitCodeOf(planned.error());
  }
  const Preview& preview = planned->preview;
  if (traces) {
    printPasses(trace, arguments, json);
    return exitCodeFor(preview);
  }
  if (arguments.has("diff")) {
    const auto other = plannedLaunch(globals, arguments, {arguments.text("diff"), {}}, false);
    if (!other.ok()) {
      report(other.error(), json);
      return exitCodeOf(other.error());
    }
    printDifference(preview, other->preview, json);
    return exitCodeFor(preview);
  }
  const std::vector<SummaryRow> summary =
      launchSummary(planned->request, preview, samplesToLaunch(*planned->request.spec));
  if (json) {
    if (preview.misfit) errorLine(*preview.misfit, "misfit").print();
    JsonLine("plan")
        .addRaw("prediction", predictionJson(preview))
        .addRaw("summary", summaryJson(summary))
        .add("plan", preview.planText)
        .print();
    return exitCodeFor(preview);
  }
  put(stderr,
      (preview.misfit ? "error: " : "") + previewText(preview) + "\n" + summaryText(summary));
  const bool isLong = preview.planText.size() > kLongPlan && !arguments.has("whole");
  put(stdout, isLong ? plan::briefText(preview.plan) : preview.planText);
  return exitCodeFor(preview);
}

int simulateCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  auto preview = [&]() -> Result<Preview> {
    LOCKSTEP_ASSIGN(PlannedLaunch made, launchOf(globals, arguments, true));
    return std::move(made.preview);
  }();
  if (preview.ok() && arguments.has("slow")) {
    auto slowdown = slowdownOf(arguments.all("slow"), preview->ranks.size());
    if (!slowdown.ok()) {
      preview = slowdown.error();
    } else {
      planner::SimulateOptions options;
      options.slowdown = std::move(*slowdown);
      simulate(*preview, options);
    }
  }
  if (!preview.ok()) {
    report(preview.error(), json);
    return exitCodeOf(preview.error());
  }
  if (json) {
    if (preview->misfit) errorLine(*preview->misfit, "misfit").print();
    JsonLine("simulate")
        .addRaw("prediction", predictionJson(*preview))
        .addRaw("events", eventColumns(*preview))
        .print();
    return exitCodeFor(*preview);
  }
  put(stdout,
      (preview->misfit ? "error: " : "") + previewText(*preview) + "\n" +
          timelineText(simulatedStep(*preview), rankNodes(*preview),
                       Style(wantsColour(STDOUT_FILENO)), terminalSize(STDOUT_FILENO).columns));
  return exitCodeFor(*preview);
}

}  // namespace lockstep::app::cli
