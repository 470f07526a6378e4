// `lockstep whatif`: the steps of a run replayed, had something been otherwise.
#include <charconv>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/whatif/planned_anew.h"
#include "app/whatif/what_if.h"

namespace lockstep::app::cli {
namespace {

constexpr int kMostRows = 16;  // of ranks, where nothing is asked

struct Question {
  std::string text;
  WhatIfChanges changes;
  WhatIfAnswer answer = {};
};

struct Shown {
  MeasuredRun run;
  Replayed replayed;
  std::vector<Question> questions;
  OtherSettings settings;
  std::optional<PlannedAnew> anew;  // with the settings
};

Result<OtherSettings> settingsOf(const Arguments& arguments) {
  constexpr std::int64_t kMostRanks = 1 << 16;
  OtherSettings out;
  LOCKSTEP_ASSIGN(const std::int64_t ranks, arguments.integer("ranks", 0, 1, kMostRanks));
  out.ranks = static_cast<int>(ranks);
  out.sets = arguments.all("set");
  return out;
}

Result<WhatIfChanges> changesOf(const Arguments& arguments, const MeasuredRun& run) {
  WhatIfChanges out;
  for (const std::string& text : arguments.all("without")) {
    int rank = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error != std::errc() || end != text.data() + text.size())
      return invalidArgument("--without {}: the number of a rank was expected", text);
    if (std::find(out.without.begin(), out.without.end(), rank) == out.without.end())
      out.without.push_back(rank);
  }
  for (const std::string& text : arguments.all("link")) {
    LOCKSTEP_ASSIGN(LinkRate rate, parseLinkRate(text, run.nodes));
    out.links.push_back(std::move(rate));
  }
  out.idealNetwork = arguments.has("ideal-network");
  out.noBubble = arguments.has("no-bubble");
  return out;
}

std::string textOf(const WhatIfChanges& changes) {
  std::vector<std::string> parts;
  for (const int rank : changes.without)
    parts.push_back(fmt::format("rank {} as fast as its peers", rank));
  for (const LinkRate& link : changes.links)
    parts.push_back(fmt::format("link {}-{} at {}", link.a, link.b, rateText(link.bytesPerSecond)));
  if (changes.idealNetwork) parts.emplace_back("an ideal network");
  if (changes.noBubble) parts.emplace_back("no bubble");
  return fmt::format("{}", fmt::join(parts, ", "));
}

// What can be asked of every run.
std::vector<WhatIfChanges> usualQuestions(const MeasuredRun& run) {
  std::vector<WhatIfChanges> out;
  const int ranks = run.plan.mesh.size();
  for (int rank = 0; ranks > 1 && rank < std::min(ranks, kMostRows); ++rank)
    out.push_back({.without = {rank}});
  if (!run.exchanges.empty()) out.push_back({.idealNetwork = true});
  if (run.plan.mesh.servers() == 0 && run.plan.mesh.stages() > 1) out.push_back({.noBubble = true});
  return out;
}

Result<Shown> answers(const Globals& globals, const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const std::int64_t last,
                  arguments.integer("last", 0, 1, std::numeric_limits<std::int64_t>::max()));
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.words()[0]));
  Shown out;
  LOCKSTEP_ASSIGN(out.settings, settingsOf(arguments));
  LOCKSTEP_ASSIGN(out.run, readMeasuredRun(*history, row, last));
  LOCKSTEP_ASSIGN(const WhatIfChanges asked, changesOf(arguments, out.run));
  if (!asked.empty() && !out.settings.empty())
    return invalidArgument(
        "--ranks and --set plan the run anew; leave --without, --link, --ideal-network and "
        "--no-bubble out");
  out.replayed = replayOf(out.run);
  if (!out.settings.empty()) {
    LOCKSTEP_ASSIGN(out.anew, plannedAnew(*history, out.run, out.replayed, out.settings));
    return out;
  }
  for (const WhatIfChanges& changes :
       asked.empty() ? usualQuestions(out.run) : std::vector<WhatIfChanges>{asked}) {
    Question question{textOf(changes), changes};
    auto answer = whatIf(out.run, out.replayed, changes);
    if (!answer.ok() && asked.empty()) continue;  // of the only server, for instance
    if (!answer.ok()) return answer.error();
    question.answer = std::move(*answer);
    out.questions.push_back(std::move(question));
  }
  return out;
}

double samplesPerSecond(const Shown& shown, double stepSeconds) {
  return stepSeconds > 0 ? static_cast<double>(shown.run.plan.globalBatch) / stepSeconds : 0;
}

std::string changesJson(const WhatIfChanges& changes) {
  std::vector<std::string> links;
  for (const LinkRate& link : changes.links)
    links.push_back(JsonLine()
                        .add("a", link.a)
                        .add("b", link.b)
                        .add("bytes_per_second", link.bytesPerSecond)
                        .text());
  return JsonLine()
      .addRaw("without", fmt::format("[{}]", fmt::join(changes.without, ",")))
      .addRaw("links", fmt::format("[{}]", fmt::join(links, ",")))
      .add("ideal_network", changes.idealNetwork)
      .add("no_bubble", changes.noBubble)
      .text();
}

std::string settingsText(const Shown& shown) {
  std::vector<std::string> parts = shown.settings.sets;
  if (shown.settings.ranks > 0)
    parts.insert(parts.begin(), fmt::format("{} ranks", shown.anew->ranks));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void printJson(const Shown& shown) {
  const double measured = shown.replayed.measuredSeconds();
  JsonLine("replay")
      .add("run", shown.run.run)
      .add("first_step", shown.run.steps.front())
      .add("last_step", shown.run.steps.back())
      .add("steps", static_cast<std::int64_t>(shown.run.steps.size()))
      .add("sampled", static_cast<std::int64_t>(shown.run.sampled.size()))
      .add("measured_seconds", measured)
      .add("replayed_seconds", shown.replayed.stepSeconds)
      .add("samples_per_second", samplesPerSecond(shown, measured))
      .add("error", shown.replayed.error())
      .add("spread", shown.replayed.spread())
      .print();
  for (const Question& one : shown.questions)
    JsonLine("whatif")
        .addRaw("changes", changesJson(one.changes))
        .add("text", one.text)
        .add("step_seconds", one.answer.stepSeconds)
        .add("samples_per_second", one.answer.samplesPerSecond)
        .add("error", shown.replayed.error())
        .print();
  if (shown.anew)
    JsonLine("whatif")
        .add("text", settingsText(shown))
        .add("ranks", shown.anew->ranks)
        .addRaw("settings", jsonTexts(shown.settings.sets))
        .add("step_seconds", shown.anew->stepSeconds)
        .add("samples_per_second", shown.anew->samplesPerSecond)
        .add("error", shown.anew->error)
        .print();
}

void printText(const Shown& shown) {
  const double measured = shown.replayed.measuredSeconds();
  put(stdout, fmt::format("steps {} to {} of run {}: {} replayed, with the events of {}\n\n",
                          shown.run.steps.front(), shown.run.steps.back(), shown.run.run,
                          shown.run.steps.size(), shown.run.sampled.size()));
  const double error = shown.anew ? shown.anew->error : shown.replayed.error();
  Table table{{"", "step", "samples/s", "step time"}, {false, true, true, true}, {}};
  const auto add = [&](const std::string& name, double seconds, bool isChange) {
    table.rows.push_back(
        {name, millisecondsText(seconds) + " ms",
         fmt::format("{:.0f}", samplesPerSecond(shown, seconds)),
         isChange && measured > 0 ? fmt::format("{:+.1f} %", 100 * (seconds / measured - 1)) : ""});
  };
  add("measured", measured, false);
  add("replayed", shown.replayed.stepSeconds, true);
  for (const Question& one : shown.questions) add(one.text, one.answer.stepSeconds, true);
  if (shown.anew) {
    add(settingsText(shown), shown.anew->stepSeconds, true);
    table.rows.back()[2] = fmt::format("{:.0f}", shown.anew->samplesPerSecond);
  }
  put(stdout, table.text());
  if (shown.anew)
    return put(
        stdout,
        fmt::format(
            "\nerror: planned anew with measured costs, what did happen is off by {:+.1f} %\n",
            100 * error));
  put(stdout,
      fmt::format("\nerror: the replay of what did happen is off by {:+.1f} %, and by {:.1f} % "
                  "in a single step\n",
                  100 * error, 100 * shown.replayed.spread()));
}

}  // namespace

int whatIfCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  const auto shown = answers(globals, arguments);
  if (!shown.ok()) {
    report(shown.error(), json);
    return exitCodeOf(shown.error());
  }
  (json ? printJson : printText)(*shown);
  return kSucceeded;
}

}  // namespace lockstep::app::cli
