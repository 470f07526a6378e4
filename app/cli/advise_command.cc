// `lockstep advise`: the best strategies of a run.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/advice/advice.h"
#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/runs/launcher.h"
#include "engine/base/clock.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

struct Asked {
  RunSpecFile spec;
  ClusterSpecFile cluster;
  LaunchRequest request;
  AdviceOptions options;
};

Result<Asked> askedBy(const Globals& globals, const Arguments& arguments) {
  Asked out;
  LOCKSTEP_ASSIGN(out.spec, loadRunSpec(arguments.words()[0], arguments.all("set")));
  LOCKSTEP_ASSIGN(out.cluster, clusterOf(globals, arguments));
  out.request.spec = out.spec.spec;
  out.request.cluster = out.cluster.spec;
  out.request.specYaml = out.spec.yaml;
  out.request.clusterYaml = out.cluster.yaml;
  out.request.comm = arguments.text("comm");
  for (const std::string& pin : arguments.all("pin")) {
    const std::size_t equals = pin.find('=');
    out.options.pinned.push_back({pin.substr(0, equals), equals == std::string::npos
                                                             ? std::string()
                                                             : pin.substr(equals + 1)});
  }
  out.options.precisions = arguments.all("precision");
  LOCKSTEP_ASSIGN(const std::int64_t seconds, arguments.integer("seconds", 8, 1, 86400));
  out.options.time = std::chrono::seconds(seconds);
  out.options.all = arguments.has("all");
  LOCKSTEP_ASSIGN(const std::int64_t top, arguments.integer("top", 10, 1, 1000));
  out.options.top = static_cast<std::size_t>(top);
  out.options.threads = static_cast<std::size_t>(usableCores());
  return out;
}

// Benchmarks the best ones on the nodes, one after another, and ranks them anew.
Status measure(const Globals& globals, const LaunchRequest& request, Advice& advice) {
  Inbox inbox;
  AskingSession asking(request.cluster, globals, inbox);
  std::vector<AdvisedStrategy> measured;
  for (AdvisedStrategy& one : advice.best) {
    put(stderr, fmt::format("benchmarking {} of {} …\n", measured.size() + 1, advice.best.size()));
    LOCKSTEP_ASSIGN(LaunchRequest own, requestWith(request, one.settings));
    std::optional<Result<Preview>> done;
    MeasuredPreview preview(std::move(own), asking.session, globals.home, inbox,
                            [&](Result<Preview> result) { done.emplace(std::move(result)); });
    if (!drainUntil(
            inbox, [&] { return done.has_value(); }, interrupts())) {
      preview.cancel();
      return makeError(Code::kCancelled, "measuring was cancelled");
    }
    if (!done->ok()) return done->error();
    noteFigures(one, **done);
    measured.push_back(std::move(one));
  }
  rankStrategies(measured);
  advice.best = std::move(measured);
  return {};
}

Result<Advice> adviceFor(const Globals& globals, const Arguments& arguments, Asked& asked) {
  std::stop_source stop;
  const bool shows = isTerminal(STDERR_FILENO) && !arguments.has("json");
  std::atomic<Nanoseconds> shown{monotonicNow()};
  asked.options.stop = stop.get_token();
  asked.options.onPlanned = [&](std::size_t done, std::size_t of) {
    if (interrupts() > 0) stop.request_stop();
    Nanoseconds last = shown;
    const Nanoseconds now = monotonicNow();
    if (shows && now - last > 200'000'000 && shown.compare_exchange_strong(last, now))
      putRaw(stderr, fmt::format("\r{} of {} planned ", done, of));
  };
  auto advice = advise(asked.request, hostsHere(*asked.cluster.spec), asked.options);
  if (shows) putRaw(stderr, "\r\x1b[K");
  if (!advice.ok())
    return withSourceLocation(advice.error(), asked.spec, asked.cluster.written,
                              asked.cluster.file);
  if (arguments.has("measure")) LOCKSTEP_TRY(measure(globals, asked.request, *advice));
  return advice;
}

// "zero-3, 4 micro-batches, recompute full".
std::string strategyText(const Choice& choice) {
  std::string out = choice.kind;
  if (choice.tensor > 1) out += fmt::format(", tensor {}", choice.tensor);
  if (choice.stages > 1) out += fmt::format(", stages {} {}", choice.stages, choice.schedule);
  if (choice.servers > 0) out += fmt::format(", servers {}", choice.servers);
  if (choice.microBatches > 1) out += fmt::format(", micro-batches {}", choice.microBatches);
  if (choice.recompute != "none") out += ", recompute " + choice.recompute;
  if (choice.precision != "fp32") out += ", " + choice.precision;
  if (choice.overlap != "auto") out += ", overlap " + choice.overlap;
  if (choice.bucketBytes > 0)
    out += ", buckets " + bytesText(static_cast<double>(choice.bucketBytes));
  return out;
}

std::string settingsJson(const Remedy& settings) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [path, value] : settings) out[path] = value;
  return out.dump();
}

void printJson(const Advice& advice, const Asked& asked, bool measured) {
  const auto line = [&](const AdvisedStrategy& one, std::string_view event) {
    JsonLine out(event);
    out.add("strategy", strategyText(one.choice))
        .addRaw("settings", settingsJson(one.settings))
        .add("step_seconds", one.stepSeconds)
        .add("samples_per_second",
             static_cast<double>(asked.spec.spec->training().batch()) / one.stepSeconds)
        .add("memory", one.memoryBytes)
        .add("wire", one.wireBytes)
        .add("computing", one.computing)
        .add("waiting", one.waiting)
        .add("exchanging", one.exchanging)
        .add("hidden", one.hidden)
        .add("why", one.why.text());
    return out;
  };
  for (const AdvisedStrategy& one : advice.best) line(one, "candidate").print();
  if (advice.current) line(*advice.current, "current").print();
  JsonLine("advice")
      .add("judged", static_cast<std::int64_t>(advice.judged))
      .add("planned", static_cast<std::int64_t>(advice.planned))
      .add("refused", static_cast<std::int64_t>(advice.refused))
      .add("misfits", static_cast<std::int64_t>(advice.misfits))
      .add("complete", advice.complete)
      .add("measured", measured)
      .print();
}

void printText(const Advice& advice, const Asked& asked, const Arguments& arguments) {
  const double batch = static_cast<double>(asked.spec.spec->training().batch());
  Table table{{"", "strategy", "step", "samples/s", "memory", "wire", "why"},
              {true, false, true, true, true, true, false},
              {}};
  const auto row = [&](const std::string& number, const AdvisedStrategy& one) {
    table.rows.push_back({number, strategyText(one.choice),
                          millisecondsText(one.stepSeconds) + " ms",
                          fmt::format("{:.0f}", batch / one.stepSeconds),
                          bytesText(static_cast<double>(one.memoryBytes)),
                          bytesText(static_cast<double>(one.wireBytes)), one.why.text()});
  };
  for (std::size_t i = 0; i < advice.best.size(); ++i)
    row(fmt::format("{}", i + 1), advice.best[i]);
  if (advice.current && !advice.best.front().settings.empty()) row("spec", *advice.current);
  put(stdout, table.text());
  put(stdout,
      fmt::format(
          "\n{} strategies judged, {} planned: {} do not fit in memory, {} are not possible "
          "here{}\n",
          advice.judged, advice.planned, advice.misfits, advice.refused,
          advice.complete ? "" : "; the time was used up (--seconds)"));
  if (advice.currentRefusal)
    put(stdout, fmt::format("the spec's own: {}\n", advice.currentRefusal->text()));
  const Remedy& settings = advice.best.front().settings;
  if (settings.empty()) {
    put(stdout, "the spec's own strategy is the best\n");
    return;
  }
  std::string command = fmt::format("lockstep run {}", arguments.words()[0]);
  for (const char* const option : {"cluster", "local", "comm"})
    if (arguments.has(option)) command += fmt::format(" --{} {}", option, arguments.text(option));
  for (const char* const option : {"ranks", "set"})
    for (const std::string& value : arguments.all(option))
      command += fmt::format(" --{} {}", option, value);
  for (const auto& [path, value] : settings) command += fmt::format(" --set {}={}", path, value);
  put(stdout, command + "\n");
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
    printJson(*advice, *asked, arguments.has("measure"));
  else
    printText(*advice, *asked, arguments);
  return kSucceeded;
}

}  // namespace lockstep::app::cli
