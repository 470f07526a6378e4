// `lockstep advise`: the best strategies of a run, and a run launched again with one of them.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/advice/run_advice.h"
#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/json_line.h"
#include "app/cli/launch_request.h"
#include "app/cli/terminal.h"
#include "app/runs/launcher.h"
#include "app/runs/relaunch.h"
#include "app/whatif/measured_speeds.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

constexpr int kPricedSteps = 1000;

struct Asked {
  SearchStart start;
  ClusterSpecFile cluster;
  LaunchRequest request;
  AdviceOptions options;
  std::vector<HostFacts> hosts;
  std::optional<WhatIfSubject> ofRun;  // that has measured
  Launched asMeasured;                 // of that run
  bool isUnderWay = false;             // the run
  bool isRerun = false;                // it is launched again from its start, not resumed
  std::size_t chosen = 0;              // the strategy of --show or --apply, from 1; 0: none
  bool applies = false;                // the run is launched again with it
};

std::string runOf(const Asked& asked) { return asked.ofRun ? asked.ofRun->steps.run : ""; }

// The launch of --run, on nodes and links as the run measured them. Its spec is the one that is
// resumed with other settings.
Result<RunSpecFile> takeRun(const Globals& globals, const Arguments& arguments, Asked& out) {
  for (const char* const option : {"cluster", "local", "ranks", "comm", "measure"})
    if (arguments.has(option))
      return invalidArgument("--run takes the cluster of the run; leave --{} out", option);
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.text("run")));
  auto found = relaunchOf(*history, row.run, RelaunchKind::kFaster);
  if (!found.ok() && !arguments.has("apply"))
    found = relaunchOf(*history, row.run, RelaunchKind::kRerun);
  LOCKSTEP_ASSIGN(const Relaunch again, std::move(found));
  LOCKSTEP_ASSIGN(out.ofRun, subjectOf(*history, row));
  if (!out.ofRun->launched.ok()) return out.ofRun->launched.error();
  LOCKSTEP_ASSIGN(out.asMeasured,
                  launchAsMeasured(*out.ofRun, hostsHere(*out.ofRun->launched->request.cluster)));
  out.isUnderWay = again.isUnderWay;
  out.isRerun = again.checkpoints.empty();
  out.cluster.spec = out.asMeasured.request.cluster;
  out.hosts = out.asMeasured.hosts;
  return completeRunSpec(again.specYaml, "spec of run " + row.run, arguments.all("set"));
}

Result<RunSpecFile> takeSpec(const Globals& globals, const Arguments& arguments, Asked& out) {
  if (arguments.words().empty())
    return invalidArgument("a spec is missing: advise SPEC, or advise --run RUN");
  LOCKSTEP_ASSIGN(RunSpecFile written,
                  loadRunSpec(modelFile(arguments.words()[0]), arguments.all("set")));
  LOCKSTEP_TRY(mustHaveModel(written));
  LOCKSTEP_ASSIGN(out.cluster, clusterOf(globals, arguments));
  out.hosts = hostsHere(*out.cluster.spec);
  return written;
}

const char* choiceOption(const Asked& asked) { return asked.applies ? "apply" : "show"; }

Result<Asked> askedBy(const Globals& globals, const Arguments& arguments) {
  Asked out;
  if (arguments.has("apply") && !arguments.has("run"))
    return invalidArgument("--apply is of a run: advise --run RUN --apply N");
  if (arguments.has("apply") && arguments.has("show"))
    return invalidArgument("--apply shows what it runs; leave --show out");
  if (arguments.has("detach") && !arguments.has("apply"))
    return invalidArgument("--detach goes with --apply");
  if (arguments.has("run") && !arguments.words().empty())
    return invalidArgument("--run takes the spec of the run; leave {} out", arguments.words()[0]);
  LOCKSTEP_ASSIGN(const RunSpecFile written, arguments.has("run")
                                                 ? takeRun(globals, arguments, out)
                                                 : takeSpec(globals, arguments, out));
  LOCKSTEP_ASSIGN(out.start, searchStart(written));
  LOCKSTEP_TRY(pin(out.start, arguments.all("pin")));
  out.request = requestOf(out.start.spec, out.cluster, arguments);
  out.options.precisions = arguments.all("precision");
  if (arguments.has("all") && arguments.has("seconds"))
    return invalidArgument("--all has no limit of time; leave --seconds out");
  LOCKSTEP_ASSIGN(const std::int64_t seconds, arguments.integer("seconds", 8, 1, 86400));
  out.options.time = std::chrono::seconds(seconds);
  out.options.all = arguments.has("all");
  LOCKSTEP_ASSIGN(const std::int64_t top, arguments.integer("top", 10, 1, 1000));
  out.options.top = static_cast<std::size_t>(top);
  out.applies = arguments.has("apply");
  LOCKSTEP_ASSIGN(const std::int64_t chosen, arguments.integer(choiceOption(out), 0, 1, top));
  out.chosen = static_cast<std::size_t>(chosen);
  return out;
}

// Benchmarks one on the nodes.
Status measure(const Globals& globals, const Asked& asked, AskingSession& asking, Inbox& inbox,
               AdvisedStrategy& one) {
  LaunchRequest own = asked.request;
  LOCKSTEP_ASSIGN(own.spec, specWith(asked.start.spec)(one.settings));
  std::optional<Result<Preview>> done;
  MeasuredPreview preview(std::move(own), asking.session, globals.home, inbox,
                          [&](Result<Preview> result) { done.emplace(std::move(result)); });
  if (!drainUntil(inbox, [&] { return done.has_value(); })) {
    preview.cancel();
    return makeError(Code::kCancelled, "measuring was cancelled");
  }
  if (!done->ok()) return done->error();
  if ((*done)->misfit) return *(*done)->misfit;
  if ((*done)->unmeasured) return *(*done)->unmeasured;
  if (!(*done)->measured) return makeError(Code::kUnavailable, "its costs could not be measured");
  noteFigures(one, **done);
  return {};
}

// Benchmarks the best ones and the spec's own, one after another, and ranks them anew. Those that
// cannot be measured are left out.
Status measureAll(const Globals& globals, const Asked& asked, Advice& advice) {
  Inbox inbox;
  AskingSession asking(asked.request.cluster, globals, inbox);
  std::vector<AdvisedStrategy> measured, rows = std::move(advice.best);
  const bool isThere =
      std::any_of(rows.begin(), rows.end(), [](const auto& one) { return one.settings.empty(); });
  if (advice.current && !isThere) rows.push_back(*advice.current);
  advice.current.reset();
  std::optional<Error> failure;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    put(stderr, fmt::format("benchmarking {} of {} …\n", i + 1, rows.size()));
    const Status status = measure(globals, asked, asking, inbox, rows[i]);
    if (!status.ok() && status.error().code == Code::kCancelled) return status;
    if (!status.ok()) {
      put(stderr,
          fmt::format("left out: {}: {}\n", textOf(rows[i].choice).text(), status.error().text()));
      failure = status.error();
      continue;
    }
    measured.push_back(std::move(rows[i]));
  }
  if (measured.empty()) return *failure;
  rankStrategies(measured);
  for (const AdvisedStrategy& one : measured)
    if (one.settings.empty()) advice.current = one;
  advice.best = std::move(measured);
  return {};
}

Result<Advice> adviceFor(const Globals& globals, const Arguments& arguments, Asked& asked) {
  auto advice = [&] {
    SearchProgress progress(arguments);
    progress.watch(asked.options);
    if (asked.ofRun)
      return adviseAsMeasured(*asked.ofRun, asked.asMeasured, asked.start, asked.options);
    return advise(asked.request, asked.start, asked.hosts, asked.options);
  }();
  if (!advice.ok())
    return withSourceLocation(advice.error(), asked.start.spec, asked.cluster.written,
                              asked.cluster.file);
  if (arguments.has("measure")) LOCKSTEP_TRY(measureAll(globals, asked, *advice));
  if (asked.chosen > advice->best.size())
    return invalidArgument("--{} {}: {} strategies were found", choiceOption(asked), asked.chosen,
                           advice->best.size());
  return advice;
}

// The one of --show or --apply; without them, the best.
const AdvisedStrategy& chosenOf(const Advice& advice, const Asked& asked) {
  return advice.best[asked.chosen > 0 ? asked.chosen - 1 : 0];
}

std::string settingsJson(const Remedy& settings) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [path, value] : settings) out[path] = value;
  return out.dump();
}

// A word of a shell command.
std::string shellWord(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// `lockstep …` with these words, and the flags that every command of this home and its SSH needs.
std::string commandLine(const Globals& globals, std::vector<std::string> words) {
  words.insert(words.begin(), "lockstep");
  if (!globals.sshConfig.empty()) words.insert(words.end(), {"--ssh-config", globals.sshConfig});
  for (const std::string& key : globals.acceptedHostKeys)
    words.insert(words.end(), {"--accept-host-key", key});
  if (const auto usual = homeFolder(); !usual.ok() || *usual != globals.home.root)
    words.insert(words.end(), {"--home", globals.home.root});
  for (std::string& word : words) word = shellWord(word);
  return fmt::format("{}", fmt::join(words, " "));
}

// What has to be set for these settings, each option once.
std::vector<std::string> setsFor(const Asked& asked, const Remedy& settings) {
  std::vector<std::string> all = asked.start.spec.sets, out;
  for (const auto& [path, value] : settings) all.push_back(fmt::format("{}={}", path, value));
  for (auto set = all.begin(); set != all.end(); ++set) {
    const std::string path = set->substr(0, set->find('=') + 1);
    const bool isLast = std::none_of(
        set + 1, all.end(), [&](const std::string& later) { return later.starts_with(path); });
    if (isLast) out.push_back(*set);
  }
  return out;
}

// `lockstep run …` with these settings; of a run `lockstep resume …` or `lockstep rerun …`.
std::string launchCommand(const Globals& globals, const Arguments& arguments, const Asked& asked,
                          const Remedy& settings) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& option, const std::string& value) {
    words.push_back("--" + option);
    words.push_back(value);
  };
  if (asked.ofRun)
    words = {asked.isRerun ? "rerun" : "resume", runOf(asked)};
  else
    words = {"run", arguments.words()[0]};
  for (const char* const option : {"cluster", "local", "comm", "ranks"})
    for (const std::string& value : arguments.all(option)) add(option, value);
  for (const std::string& set : setsFor(asked, settings)) add("set", set);
  return commandLine(globals, std::move(words));
}

// The same, after a run that is under way was stopped.
std::string commandFor(const Globals& globals, const Arguments& arguments, const Asked& asked,
                       const Remedy& settings) {
  return (asked.isUnderWay ? commandLine(globals, {"stop", runOf(asked)}) + " && " : "") +
         launchCommand(globals, arguments, asked, settings);
}

void printJson(const Globals& globals, const Arguments& arguments, const Advice& advice,
               const Asked& asked) {
  const auto known = [](double figure) { return figure > 0 ? figure : std::nan(""); };
  const auto line = [&](const AdvisedStrategy& one, std::string_view event) {
    JsonLine out(event);
    const Choice& choice = one.choice;
    out.add("strategy", textOf(choice).text())
        .add("kind", choice.kind)
        .add("tensor", choice.tensor)
        .add("stages", choice.stages)
        .add("servers", choice.servers)
        .add("micro_batches", choice.microBatches)
        .add("schedule", choice.schedule)
        .add("recompute", choice.recompute)
        .add("precision", choice.precision)
        .add("overlap", choice.overlap)
        .add("bucket_bytes", choice.bucketBytes)
        .add("shares_by_speed", choice.balanced)
        .addRaw("settings", settingsJson(one.settings))
        .add("step_seconds", one.stepSeconds)
        .add("samples_per_second",
             static_cast<double>(asked.start.spec.spec->training().batch()) / one.stepSeconds)
        .add("memory", one.memoryBytes)
        .add("wire", one.wireBytes)
        .add("link", one.linkBytes)
        .add("bubble", one.bubbleShare)
        .add("step_joules", known(one.joules))
        .add("step_cost", known(one.cost))
        .add("step_carbon_grams", known(one.carbonGrams))
        .add("computing", one.computing)
        .add("waiting", one.waiting)
        .add("exchanging", one.exchanging)
        .add("hidden", one.hidden)
        .add("why", one.why.text())
        .add("command", commandFor(globals, arguments, asked, one.settings));
    if (one.cost > 0) out.add("currency", one.currency);
    return out;
  };
  for (const AdvisedStrategy& one : advice.best) line(one, "candidate").print();
  if (advice.current) line(*advice.current, "current").print();
  if (advice.currentRefusal) errorLine(*advice.currentRefusal, "refusal").print();
  JsonLine summary("advice");
  if (advice.error) summary.add("run", runOf(asked)).add("error", *advice.error);
  summary.add("judged", static_cast<std::int64_t>(advice.judged))
      .add("planned", static_cast<std::int64_t>(advice.planned))
      .add("refused", static_cast<std::int64_t>(advice.refused))
      .add("misfits", static_cast<std::int64_t>(advice.misfits))
      .add("complete", advice.complete)
      .add("nodes_of_unknown_memory", static_cast<std::int64_t>(advice.unknownMemory))
      .add("measured", arguments.has("measure"))
      .add("command", commandFor(globals, arguments, asked, chosenOf(advice, asked).settings))
      .print();
}

// What many steps cost; "": not known.
std::string costOfSteps(const AdvisedStrategy& one) {
  std::string out = one.cost > 0 ? costText(kPricedSteps * one.cost, one.currency) : "";
  if (one.carbonGrams > 0)
    out += (out.empty() ? "" : ", ") + carbonText(kPricedSteps * one.carbonGrams) + " CO2e";
  return out;
}

Table tableOf(const Advice& advice, double batch) {
  Table out{
      {"", "strategy", "step", "samples/s", "bubble", "memory", "wire", "link", "energy", "why"},
      {true, false, true, true, true, true, true, true, true, false},
      {}};
  const auto row = [&](const std::string& number, const AdvisedStrategy& one) {
    out.rows.push_back({number, textOf(one.choice).text(),
                        millisecondsText(one.stepSeconds) + " ms",
                        fmt::format("{:.0f}", batch / one.stepSeconds),
                        fmt::format("{:.0f} %", 100 * one.bubbleShare),
                        bytesText(static_cast<double>(one.memoryBytes)),
                        bytesText(static_cast<double>(one.wireBytes)),
                        one.linkBytes > 0 ? bytesText(static_cast<double>(one.linkBytes)) : "",
                        one.joules > 0 ? joulesText(one.joules) : "", one.why.text()});
  };
  std::vector<AdvisedStrategy> all = advice.best;
  const bool isShown =
      std::any_of(all.begin(), all.end(), [](const auto& one) { return one.settings.empty(); });
  if (advice.current && !isShown) all.push_back(*advice.current);
  for (std::size_t i = 0; i < all.size(); ++i)
    row(i < advice.best.size() ? fmt::format("{}", i + 1) : "spec", all[i]);
  if (std::all_of(all.begin(), all.end(), [](const auto& one) { return costOfSteps(one).empty(); }))
    return out;
  const auto at = static_cast<std::ptrdiff_t>(out.header.size()) - 1;  // before the last column
  out.header.insert(out.header.begin() + at, fmt::format("{} steps", kPricedSteps));
  out.right.insert(out.right.begin() + at, true);
  for (std::size_t i = 0; i < all.size(); ++i)
    out.rows[i].insert(out.rows[i].begin() + at, costOfSteps(all[i]));
  return out;
}

void printText(const Globals& globals, const Arguments& arguments, const Advice& advice,
               const Asked& asked) {
  const auto batch = static_cast<double>(asked.start.spec.spec->training().batch());
  put(stdout, tableOf(advice, batch).text());
  put(stdout,
      fmt::format(
          "\n{} strategies judged, {} planned: {} do not fit in memory, {} are not possible "
          "here{}\n",
          advice.judged, advice.planned, advice.misfits, advice.refused,
          advice.complete    ? ""
          : interrupts() > 0 ? "; Ctrl-C ended the search early"
                             : "; the search ended early (--seconds)"));
  if (advice.unknownMemory > 0) put(stdout, unknownMemoryText(advice.unknownMemory).text() + "\n");
  if (advice.error)
    put(stdout, fmt::format("planned anew as run {} measured its nodes and links, its own step is "
                            "off by {:+.1f} %\n",
                            runOf(asked), 100 * *advice.error));
  if (advice.currentRefusal)
    put(stdout, fmt::format("the spec's own: {}\n", advice.currentRefusal->text()));
  const Remedy& settings = chosenOf(advice, asked).settings;
  if (asked.chosen == 0 && settings.empty())
    return put(stdout, advice.complete ? "the spec's own strategy is the best\n"
                                       : "the spec's own strategy is the best of those planned\n");
  if (asked.applies && setsFor(asked, settings).empty())
    return put(stdout,
               fmt::format("strategy {} is the run's own: nothing is to be done\n", asked.chosen));
  if (asked.applies)
    put(stdout,
        fmt::format("run {} is {}{} with strategy {}:\n", runOf(asked),
                    asked.isUnderWay ? "stopped after a step, with a checkpoint, and " : "",
                    asked.isRerun ? "launched again from its start" : "resumed", asked.chosen));
  put(stdout, commandFor(globals, arguments, asked, settings) + "\n");
}

// Runs `lockstep stop`, `lockstep resume` or `lockstep rerun`.
int call(int (*command)(const Globals&, const Arguments&), const Globals& globals, bool json,
         std::vector<std::string> words) {
  if (json) words.emplace_back("--json");
  const auto arguments = Arguments::parse(words, {{"set=", "detach", "json"}, 1, 1, {}, {}});
  if (arguments.ok()) return command(globals, *arguments);
  report(arguments.error(), json);
  return exitCodeOf(arguments.error());
}

Status checkStopped(const Globals& globals, const std::string& run) {
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow row, history->row(run));
  return mustHaveStopped(row);
}

// Does what commandFor() says; a run that had trained to its end before is not resumed.
int apply(const Globals& globals, const Arguments& arguments, const Asked& asked,
          const Remedy& settings) {
  const std::vector<std::string> sets = setsFor(asked, settings);
  if (sets.empty()) return kSucceeded;
  const std::string run = runOf(asked);
  const bool json = arguments.has("json");
  if (asked.isUnderWay) {
    if (const int code = call(stopCommand, globals, json, {run}); code != kSucceeded) {
      put(stderr, fmt::format("note: run {} is not resumed; once it has stopped: {}\n", run,
                              launchCommand(globals, arguments, asked, settings)));
      return code;
    }
    if (const Status stopped = checkStopped(globals, run); !stopped.ok()) {
      report(stopped.error(), json);
      return exitCodeOf(stopped.error());
    }
  }
  std::vector<std::string> words{run};
  for (const std::string& set : sets) words.push_back("--set=" + set);
  if (arguments.has("detach")) words.emplace_back("--detach");
  return call(asked.isRerun ? rerunCommand : resumeCommand, globals, json, std::move(words));
}

}  // namespace

int adviseCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  auto asked = askedBy(globals, arguments);
  if (!asked.ok()) {
    report(asked.error(), json);
    return exitCodeOf(asked.error());
  }
  const auto advice = adviceFor(globals, arguments, *asked);
  if (!advice.ok()) {
    report(advice.error(), json);
    return exitCodeOf(advice.error());
  }
  if (json)
    printJson(globals, arguments, *advice, *asked);
  else
    printText(globals, arguments, *advice, *asked);
  if (!asked->applies) return kSucceeded;
  if (interrupts() > 0) {  // what ends a search does not agree to its outcome
    put(stderr, fmt::format("note: run {} is as it was\n", runOf(*asked)));
    return kStoppedByUser;
  }
  return apply(globals, arguments, *asked, chosenOf(*advice, *asked).settings);
}

}  // namespace lockstep::app::cli
