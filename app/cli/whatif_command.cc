// `lockstep whatif`: the steps of a run, or the predicted step of a launch, had something been
// otherwise.
#include <charconv>
#include <filesystem>
#include <optional>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/launch_request.h"
#include "app/cli/terminal.h"
#include "app/whatif/subject.h"

namespace lockstep::app::cli {
namespace {

constexpr int kMostRows = 16;  // of ranks, where nothing is asked

struct Question {
  std::string text;
  WhatIfChanges changes;
  WhatIfAnswer answer = {};
};

struct Shown {
  WhatIfSubject subject;
  bool isBenchmarked = false;   // the prediction
  std::optional<Error> misfit;  // of the launch
  std::vector<Question> questions = {};
  OtherSettings settings = {};
  std::optional<PlannedAnew> anew = {};  // with the settings
};

Result<int> rankCount(const std::string& text) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc() || end != text.data() + text.size() || ranks < 1 || ranks > kMostRanks)
    return invalidArgument("--with ranks={}: a number from 1 to {} was expected", text, kMostRanks);
  return ranks;
}

Result<OtherSettings> settingsOf(const Arguments& arguments) {
  constexpr std::string_view kRanks = "ranks=";
  OtherSettings out;
  for (const std::string& text : arguments.all("with")) {
    if (text.starts_with(kRanks)) {
      LOCKSTEP_ASSIGN(out.ranks, rankCount(text.substr(kRanks.size())));
    } else {
      out.sets.push_back(text);
    }
  }
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

// What can be asked of every one. Ranks are not predicted to be slower than their peers.
std::vector<WhatIfChanges> usualQuestions(const WhatIfSubject& subject) {
  std::vector<WhatIfChanges> out;
  const MeasuredRun& run = subject.steps;
  const int ranks = subject.isPredicted() ? 0 : run.plan.mesh.size();
  for (int rank = 0; ranks > 1 && rank < std::min(ranks, kMostRows); ++rank)
    out.push_back({.without = {rank}});
  if (!run.exchanges.empty()) out.push_back({.idealNetwork = true});
  if (run.plan.mesh.servers() == 0 && run.plan.mesh.stages() > 1) out.push_back({.noBubble = true});
  return out;
}

// A spec is told from a run by what it is to run on.
bool isOfLaunch(const Arguments& arguments) {
  return arguments.has("cluster") || arguments.has("local");
}

Result<Shown> launchOf(const Globals& globals, const Arguments& arguments) {
  if (arguments.has("last")) return invalidArgument("--last is of a run; a launch has no steps");
  LOCKSTEP_ASSIGN(
      PlannedLaunch planned,
      plannedLaunch(globals, arguments, {arguments.words()[0], arguments.all("set")}, false));
  LOCKSTEP_ASSIGN(WhatIfSubject subject,
                  subjectOf(planned.preview, {std::move(planned.request), planned.hosts}));
  return Shown{std::move(subject), planned.preview.measured, planned.preview.misfit};
}

Result<Shown> runOf(const Globals& globals, const Arguments& arguments) {
  for (const char* const option : {"set", "ranks", "comm", "measure"})
    if (arguments.has(option)) {
      Error error =
          invalidArgument("--{} is of a launch, which --cluster FILE or --local N names", option);
      error.next = "of a run, --with says what would be otherwise";
      return error;
    }
  LOCKSTEP_ASSIGN(const std::int64_t last,
                  arguments.integer("last", 0, 1, std::numeric_limits<std::int64_t>::max()));
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  const Result<RunRow> row = history->find(arguments.words()[0]);
  if (!row.ok()) {
    Error error = row.error();
    if (std::error_code failed; std::filesystem::exists(modelFile(arguments.words()[0]), failed))
      error.next = "of a spec, say what it is to run on: --cluster FILE or --local N";
    return error;
  }
  LOCKSTEP_ASSIGN(WhatIfSubject subject, subjectOf(*history, *row, last));
  return Shown{std::move(subject)};
}

Result<Shown> answers(const Globals& globals, const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const OtherSettings settings, settingsOf(arguments));
  LOCKSTEP_ASSIGN(Shown out,
                  isOfLaunch(arguments) ? launchOf(globals, arguments) : runOf(globals, arguments));
  const WhatIfSubject& subject = out.subject;
  out.settings = settings;
  LOCKSTEP_ASSIGN(const WhatIfChanges asked, changesOf(arguments, subject.steps));
  if (!asked.empty() && !settings.empty())
    return invalidArgument(
        "--with plans anew; leave --without, --link, --ideal-network and --no-bubble out");
  if (!settings.empty()) {
    if (!subject.launched.ok()) return subject.launched.error();
    LOCKSTEP_ASSIGN(out.anew,
                    plannedAnew(*subject.launched, subject.steps, subject.replayed, settings));
    return out;
  }
  for (const WhatIfChanges& changes :
       asked.empty() ? usualQuestions(subject) : std::vector<WhatIfChanges>{asked}) {
    Question question{textOf(changes), changes};
    auto answer = whatIf(subject.steps, subject.replayed, changes);
    if (!answer.ok() && asked.empty()) continue;  // of the only server, for instance
    if (!answer.ok()) return answer.error();
    question.answer = std::move(*answer);
    out.questions.push_back(std::move(question));
  }
  return out;
}

double samplesPerSecond(const Shown& shown, double stepSeconds) {
  return stepSeconds > 0 ? static_cast<double>(shown.subject.steps.plan.globalBatch) / stepSeconds
                         : 0;
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

void printSubject(const Shown& shown) {
  const MeasuredRun& run = shown.subject.steps;
  const Replayed& replayed = shown.subject.replayed;
  const double seconds = replayed.measuredSeconds();
  if (shown.subject.isPredicted()) {
    if (shown.misfit) errorLine(*shown.misfit, "misfit").print();
    JsonLine("predicted")
        .add("step_seconds", seconds)
        .add("samples_per_second", samplesPerSecond(shown, seconds))
        .add("measured", shown.isBenchmarked)
        .print();
    return;
  }
  JsonLine("replay")
      .add("run", run.run)
      .add("first_step", run.steps.front())
      .add("last_step", run.steps.back())
      .add("steps", static_cast<std::int64_t>(run.steps.size()))
      .add("sampled", static_cast<std::int64_t>(run.sampled.size()))
      .add("measured_seconds", seconds)
      .add("replayed_seconds", replayed.stepSeconds)
      .add("samples_per_second", samplesPerSecond(shown, seconds))
      .add("error", replayed.error())
      .add("spread", replayed.spread())
      .print();
}

// Of a run with the error of the answer; nothing is known of that of a prediction.
void printAnswer(const Shown& shown, JsonLine line, double stepSeconds, double samplesPerSecond,
                 double error) {
  line.add("step_seconds", stepSeconds).add("samples_per_second", samplesPerSecond);
  if (!shown.subject.isPredicted()) line.add("error", error);
  line.print();
}

void printJson(const Shown& shown) {
  printSubject(shown);
  for (const Question& one : shown.questions) {
    JsonLine line("whatif");
    line.addRaw("changes", changesJson(one.changes)).add("text", one.text);
    printAnswer(shown, std::move(line), one.answer.stepSeconds, one.answer.samplesPerSecond,
                shown.subject.replayed.error());
  }
  if (!shown.anew) return;
  JsonLine line("whatif");
  line.add("text", settingsText(shown))
      .add("ranks", shown.anew->ranks)
      .addRaw("settings", jsonTexts(shown.settings.sets));
  printAnswer(shown, std::move(line), shown.anew->stepSeconds, shown.anew->samplesPerSecond,
              shown.anew->error);
}

std::string errorText(const Shown& shown) {
  if (shown.subject.isPredicted())
    return shown.isBenchmarked ? "predicted from a benchmark of the nodes"
                               : "predicted from built-in costs; --measure benchmarks the nodes";
  if (shown.anew)
    return fmt::format(
        "error: planned anew with measured costs, what did happen is off by {:+.1f} %",
        100 * shown.anew->error);
  const Replayed& replayed = shown.subject.replayed;
  return fmt::format(
      "error: the replay of what did happen is off by {:+.1f} %, and by {:.1f} % in a single step",
      100 * replayed.error(), 100 * replayed.spread());
}

void printText(const Shown& shown) {
  const MeasuredRun& run = shown.subject.steps;
  const Replayed& replayed = shown.subject.replayed;
  const bool isPredicted = shown.subject.isPredicted();
  const double seconds = replayed.measuredSeconds();
  if (shown.misfit) put(stdout, fmt::format("error: {}\n\n", shown.misfit->text()));
  if (!isPredicted)
    put(stdout, fmt::format("steps {} to {} of run {}: {} replayed, with the events of {}\n\n",
                            run.steps.front(), run.steps.back(), run.run, run.steps.size(),
                            run.sampled.size()));
  Table table{{"", "step", "samples/s", "step time"}, {false, true, true, true}, {}};
  const auto add = [&](const std::string& name, double changed, bool isChange) {
    table.rows.push_back(
        {name, millisecondsText(changed) + " ms",
         fmt::format("{:.0f}", samplesPerSecond(shown, changed)),
         isChange && seconds > 0 ? fmt::format("{:+.1f} %", 100 * (changed / seconds - 1)) : ""});
  };
  add(isPredicted ? "predicted" : "measured", seconds, false);
  if (!isPredicted) add("replayed", replayed.stepSeconds, true);
  for (const Question& one : shown.questions) add(one.text, one.answer.stepSeconds, true);
  if (shown.anew) {
    add(settingsText(shown), shown.anew->stepSeconds, true);
    table.rows.back()[2] = fmt::format("{:.0f}", shown.anew->samplesPerSecond);
  }
  put(stdout, table.text());
  put(stdout, fmt::format("\n{}\n", errorText(shown)));
}

}  // namespace

int whatIfCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto shown = answers(globals, arguments);
  if (!shown.ok()) {
    report(shown.error(), json);
    return exitCodeOf(shown.error());
  }
  (json ? printJson : printText)(*shown);
  return shown->misfit ? exitCodeOf(*shown->misfit) : kSucceeded;
}

}  // namespace lockstep::app::cli
