#include "app/cli/run_report.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/cli/json_line.h"
#include "app/cli/run_view.h"
#include "app/cli/terminal.h"
#include "app/runs/energy.h"
#include "app/runs/recorder.h"
#include "engine/base/clock.h"
#include "engine/base/utf8.h"
#include "engine/specs/placement.h"
#include "engine/specs/workload.h"

namespace lockstep::app::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string testText(std::string_view before, std::string_view metric, double value) {
  const std::string text = metricText(metric, value);
  return text.empty() ? text : fmt::format("{}test {}", before, text);
}

JsonLine finishedLine(const RunResult& result) {
  JsonLine line("finished");
  line.add("status", result.status).add("effective_time", result.effectiveTime);
  line.add(result.figures);
  return line;
}

}  // namespace

void printArtifacts(const ArtifactsUpdate& update) {
  for (const ArtifactFile& file : update.files) {
    JsonLine line("artifact");
    line.add("node", file.node).add("path", validUtf8(file.path)).add("bytes", file.bytes);
    line.add("sha256", file.sha256).print();
  }
  if (update.error) errorLine(*update.error, "artifacts_failed").print();
  if (!update.found) return;
  std::vector<std::string> problems;
  for (const Message& one : update.found->problems) problems.push_back(one.text());
  JsonLine line("artifacts");
  line.add("folder", update.found->folder).add("files", update.found->files);
  line.add("bytes", update.found->bytes).addRaw("problems", jsonTexts(problems)).print();
}

namespace {

class JsonReport final : public RunReport {
 public:
  explicit JsonReport(std::int64_t every) : every_(every) {}
  void progress(const std::string& text) override { put(stderr, text + "\n"); }
  void launching(const LaunchProgress& state) override {
    progress(state.text());
    for (const DataActivity& activity : state.data) {
      JsonLine line("data");
      line.add("node", activity.node).add("file", activity.file);
      line.add("activity", activity.kind == DataActivity::Kind::kDecoding   ? "decoding"
                           : activity.kind == DataActivity::Kind::kFetching ? "fetching"
                                                                            : "hashing");
      line.add("done", activity.bytesDone).add("total", activity.bytesTotal);
      line.print();
    }
  }
  void settingUp(const SetupOutput& output) override {
    for (const std::string& line : output.lines)
      JsonLine("setup")
          .add("node", output.node)
          .add("command", output.command)
          .add("text", line)
          .print();
  }
  void queued(const QueueState& state) override {
    RunReport::queued(state);
    if (state.state.empty()) return;
    JsonLine line("queued");
    line.add("job", state.job).add("state", state.state).add("reason", state.reason);
    if (state.position) line.add("position", *state.position);
    if (!state.start.empty()) line.add("expected_start", state.start);
    line.print();
  }
  void allocated(const spec::v1::ClusterSpec& cluster) override {
    RunReport::allocated(cluster);
    nlohmann::json nodes = nlohmann::json::array();
    for (const auto& node : cluster.nodes()) nodes.push_back(node.name());
    JsonLine line("allocated");
    line.add("job", std::int64_t{cluster.placement().job()}).addRaw("nodes", nodes.dump());
    line.add("restarts", cluster.placement().restarts()).print();
  }
  void started(const RunContext& context) override {
    story_.begin(context);
    metric_ = context.row.figures.metric;
    JsonLine line("started");
    line.add("run", context.row.run).add("version", context.row.version);
    line.add("world", context.row.world).add("plan_hash", context.row.planHash);
    line.print();
  }
  void update(const RunUpdate& update) override {
    for (const std::string& note : story_.nodeNotes(update)) progress(note);
    for (const std::string& note : EventSequencer::scaleNotes(update)) progress(note);
    for (const std::string& note : EventSequencer::awaitedNotes(update)) progress(note);
    tell(story_.take(update));
    if (model().ofProgram()) tellProgram(update);
    for (const StragglerChange& change : update.stragglers) tell(change);
    for (const Error& warning : story_.newWarnings(update)) errorLine(warning, "warning").print();
    for (const RunRestart& restart : story_.newRestarts(update)) tell(restart);
    for (const Error& error : story_.newErrors(update)) failed(error);
  }
  void idle() override {
    if (held_ && Clock::now() - lastTold_ >= kPause) tellHeld();
  }
  void alert(const AlertEvent& event) override {
    tellHeld();
    putRaw(stdout, alertJson(event) + "\n");
  }
  void failed(const Error& error) override {
    tellHeld();
    errorLine(error).print();
  }
  void files(const ArtifactsUpdate& update) override {
    tellHeld();
    printArtifacts(update);
  }
  void without(const StragglerRow& slow, const StepsWithout& steps) override {
    tellHeld();
    JsonLine("straggler_cost")
        .add("rank", slow.rank)
        .add("node", slow.node)
        .add("first_step", steps.first)
        .add("last_step", steps.last)
        .add("step_seconds", steps.measuredSeconds)
        .add("without_seconds", steps.without({slow.rank}))
        .add("error", steps.error)
        .add("text", withoutText(steps, slow.rank, slow.node))
        .print();
  }
  void finished(const RunResult& result) override {
    tell(story_.rest());
    tellHeld();
    finishedLine(result).print();
  }
  const RunModel& model() const override { return story_.model(); }

 private:
  static constexpr std::chrono::milliseconds kPause{110};

  void tell(const std::vector<EventSequencer::Item>& items) {
    for (const EventSequencer::Item& item : items) {
      if (item.step) {
        held_ = item.step;
        if (every_ > 0 ? item.step->step % every_ == 0 : Clock::now() - lastTold_ >= kPause)
          tellHeld();
        else if (every_ > 0)
          held_.reset();
      } else {
        if (every_ == 0 && Clock::now() - lastTold_ < kPause) held_.reset();
        tellHeld();
        const EpochRow& row = *item.epoch;
        JsonLine line(item.evaluation ? "evaluation" : "epoch");
        line.add("epoch", row.epoch);
        if (item.evaluation)
          line.add("step", row.step);
        else
          line.add("train_loss", row.trainLoss);
        line.add("eval_loss", row.evalLoss);
        if (!metric_.empty()) line.add("eval_" + metric_, row.evalMetric);
        line.print();
      }
    }
  }
  void tellProgram(const RunUpdate& update) {
    tellHeld();
    for (const LogRow& row : update.logs)
      if (row.rank >= 0)
        JsonLine("output")
            .add("node", row.node)
            .add("rank", row.rank)
            .add("text", row.text)
            .print();
    for (const run::v1::ProgramSource& source : update.sources)
      JsonLine("source")
          .add("name", source.name())
          .add("rank", source.rank())
          .add("version", source.version())
          .add("problem", source.problem())
          .print();
    for (const ReportedScalar& scalar : update.scalars) {
      JsonLine line("scalar");
      line.add("tag", scalar.tag).add("step", scalar.step).add("value", scalar.value);
      line.add("source", scalar.source).add("rank", scalar.rank).print();
    }
  }
  void tell(const RunRestart& restart) {
    tellHeld();
    JsonLine line(restart.begins() ? "recovering" : "recovered");
    line.add("generation", restart.generation).add("time", isoTime(restart.wallNs));
    if (restart.begins()) {
      const Error& cause = *restart.cause;
      line.add("cause", cause.what).add("why", cause.why).add("code", codeName(cause.code));
      line.add("node", cause.node).add("rank", cause.rank).add("step", cause.step);
      if (!restart.nodes.empty())
        line.add("world", restart.world).addRaw("nodes", nlohmann::json(restart.nodes).dump());
      if (!restart.samples.empty())
        line.addRaw("samples", fmt::format("[{}]", fmt::join(restart.samples, ",")));
      if (!restart.coordinator.empty()) line.add("coordinator", restart.coordinator);
    } else {
      line.add("lost_steps", restart.lostSteps).add("seconds", restart.seconds);
    }
    line.print();
  }
  void tell(const StragglerChange& change) {
    tellHeld();
    const Straggler& slow = change.slow;
    const bool over = change.kind == StragglerChange::Kind::kOver;
    JsonLine line(over ? "straggler_over" : "straggler");
    line.add("rank", slow.rank).add("node", slow.node).add("phase", slow.phase);
    line.add("since_step", slow.sinceStep).add("stopped", slow.halted).add("factor", slow.factor);
    if (slow.link) {
      line.add("to", slow.link->to).add("common", slow.link->common);
      line.add("bytes_per_second", slow.link->rate);
      line.add("usual_bytes_per_second", slow.link->usualRate);
      line.add("round_trip_seconds", slow.link->roundTrip);
      line.add("usual_round_trip_seconds", slow.link->usualTrip);
      line.add("resent_share", slow.link->resent);
    }
    line.add("step_seconds", slow.stepSeconds).add("without_seconds", slow.withoutSeconds);
    line.add("cause", evidenceText(slow.evidence)).add("text", changeText(change));
    if (over) line.add("until_step", change.untilStep).add("lost_seconds", change.lostSeconds);
    line.print();
  }
  void tellHeld() {
    if (!held_) return;
    JsonLine line("step");
    line.add("step", held_->step).add("epoch", held_->epoch).add("loss", held_->loss);
    for (const auto& [name, value] : held_->watched) line.add(std::string(name), value);
    line.print();
    held_.reset();
    lastTold_ = Clock::now();
  }

  std::int64_t every_;
  std::string metric_;
  EventSequencer story_;
  std::optional<EventSequencer::Step> held_;  // the newest, not told yet
  Clock::time_point lastTold_{};
};

class PlainReport final : public RunReport {
 public:
  explicit PlainReport(std::int64_t every) : every_(every) {}
  void progress(const std::string& text) override { put(stderr, text + "\n"); }
  void started(const RunContext& context) override {
    story_.begin(context);
    print(fmt::format("run {}: {}, {}, {}{}{}", context.row.run, printable(context.row.name),
                      ranksText(context.row.world), context.row.strategy,
                      context.row.comm.empty() ? "" : ", ", context.row.comm));
  }
  void update(const RunUpdate& update) override {
    for (const std::string& note : story_.nodeNotes(update)) progress(note);
    for (const std::string& note : EventSequencer::scaleNotes(update)) progress(note);
    for (const std::string& note : EventSequencer::awaitedNotes(update)) progress(note);
    tell(story_.take(update));
    if (model().ofProgram()) tellProgram(update);
    for (const StragglerChange& change : update.stragglers) progress(changeText(change));
    for (const Error& warning : story_.newWarnings(update)) progress("warning: " + warning.text());
    for (const std::string& note : story_.restartNotes(update)) progress(note);
    for (const Error& error : story_.newErrors(update)) failed(error);
  }
  void idle() override {}
  void alert(const AlertEvent& event) override {
    if (const std::string text = alertText(event); !text.empty()) progress(text);
  }
  void failed(const Error& error) override { put(stderr, "error: " + error.text() + "\n"); }
  void without(const StragglerRow& slow, const StepsWithout& steps) override {
    progress(withoutText(steps, slow.rank, slow.node));
  }
  void finished(const RunResult& result) override {
    tell(story_.rest());
    if (!model().row().run.empty()) print(resultText(result));  // else the error says it all
  }
  const RunModel& model() const override { return story_.model(); }

 private:
  static void print(const std::string& line) { put(stdout, line + "\n"); }
  static void tellProgram(const RunUpdate& update) {
    for (const LogRow& row : update.logs)
      if (row.rank >= 0) print(fmt::format("{}:{} | {}", row.node, row.rank, printable(row.text)));
  }
  std::string epochText(const EventSequencer::Item& item) const {
    const EpochRow& row = *item.epoch;
    std::string out = fmt::format("epoch {}", row.epoch);
    if (!item.evaluation) out += "  train loss " + lossText(row.trainLoss);
    if (row.evaluated())
      out += fmt::format("  test loss {}{}", lossText(row.evalLoss),
                         testText("  ", model().row().figures.metric, row.evalMetric));
    return out;
  }
  void tell(const std::vector<EventSequencer::Item>& items) {
    for (const EventSequencer::Item& item : items) {
      if (item.epoch)
        print(epochText(item));
      else if (every_ > 0 && item.step->step % every_ == 0)
        print(fmt::format("step {}  loss {:.6f}", item.step->step, item.step->loss));
    }
    const auto last =
        std::find_if(items.rbegin(), items.rend(),
                     [](const EventSequencer::Item& item) { return item.step.has_value(); });
    if (every_ > 0 || last == items.rend() ||
        Clock::now() - lastProgress_ < std::chrono::seconds(5))
      return;
    lastProgress_ = Clock::now();
    if (model().ofProgram())
      return progress(fmt::format("step {}, loss {:.4f}", last->step->step, last->step->loss));
    const std::int64_t total = model().progress().totalSteps();
    std::fprintf(
        stderr, "%s\n",
        fmt::format("epoch {}, step {}{}, loss {:.4f}, {:.0f} samples/s", last->step->epoch,
                    last->step->step, total > 0 ? fmt::format(" of {}", total) : "",
                    last->step->loss, model().progress().pace().samplesPerSecond)
            .c_str());
  }

  std::int64_t every_;
  EventSequencer story_;
  Clock::time_point lastProgress_ = Clock::now();
};

}  // namespace

void RunReport::settingUp(const SetupOutput& output) {
  for (const std::string& line : output.lines)
    progress(fmt::format("{} setup | {}", output.node, printable(line)));
}

void RunReport::files(const ArtifactsUpdate& update) {
  for (const std::string& line : artifactLines(update)) progress(line);
}

std::string artifactsText(const Artifacts& artifacts) {
  const std::string count =
      artifacts.files == 1 ? "1 file" : fmt::format("{} files", artifacts.files);
  if (artifacts.files == 0) return count;
  return fmt::format("{}, {} bytes, in {}", count, artifacts.bytes, artifacts.folder);
}

std::vector<std::string> artifactLines(const ArtifactsUpdate& update) {
  if (update.error) return {"the program's files were not fetched: " + update.error->text()};
  if (!update.found) return {};
  std::vector<std::string> out{"fetched " + artifactsText(*update.found)};
  for (const Message& one : update.found->problems) out.push_back("not fetched: " + one.text());
  return out;
}

void RunReport::allocated(const spec::v1::ClusterSpec& cluster) {
  std::vector<std::string> names;
  for (const auto& node : cluster.nodes()) names.push_back(node.name());
  progress(fmt::format("{} job {} runs on {}", specs::schedulerName(cluster.placement()),
                       cluster.placement().job(), fmt::join(names, ", ")));
}

Result<RunContext> contextOf(const History& history, const std::string& run) {
  RunContext out;
  LOCKSTEP_ASSIGN(out.row, history.row(run));
  LOCKSTEP_ASSIGN(out.documents, history.documents(run));
  out.scope = scopeOf(history, out.row, out.documents);
  return out;
}

RunResult resultOf(const RunRow& row) {
  RunResult out{
      "failed", row.figures, {}, row.strategy == specs::kProgramStrategy, effectiveTime(row)};
  if (row.phase == RunState::SUCCEEDED) out.status = "succeeded";
  if (row.phase == RunState::STOPPED) out.status = "stopped";
  if (lacksModel(row)) out.missing = "the trained model is not saved here";
  return out;
}

std::string resultText(const RunResult& result) {
  const RunFigures& figures = result.figures;
  const bool trained = figures.samplesPerSecond > 0;
  std::string out = result.status;
  if (!result.ofProgram)
    out += fmt::format(" after {} steps, {} epochs", figures.steps, figures.epochs);
  else if (figures.steps > 0)
    out += fmt::format(" after {} steps", figures.steps);
  if (!result.ofProgram && result.status == "succeeded" && !trained &&
      std::isnan(figures.trainLoss))
    out += "; nothing was left to train";
  else if (!std::isnan(figures.trainLoss))
    out += "; train loss " + lossText(figures.trainLoss);
  if (figures.evalLoss != 0)
    out += fmt::format(", test loss {}{}", lossText(figures.evalLoss),
                       testText(", ", figures.metric, figures.evalMetric));
  if (trained) out += fmt::format("; {:.0f} samples/s", figures.samplesPerSecond);
  if (figures.lostSeconds > 0)
    out += fmt::format("; {:.1f} s lost to failures, {:.1f} % effective", figures.lostSeconds,
                       100 * result.effectiveTime);
  if (figures.joules > 0) out += "; " + energyText(figures);
  if (!figures.weightsSha256.empty()) out += "; weights " + figures.weightsSha256.substr(0, 12);
  if (!result.missing.empty()) out += "; " + result.missing;
  return out;
}

std::string alertText(const AlertEvent& event) {
  // Ends and stragglers are told anyhow.
  if (event.rule == AlertRule::kRunEnded || event.rule == AlertRule::kStraggler) return {};
  return fmt::format("alert{}: {} ({})", event.raised ? "" : " over", event.text.text(),
                     alertRuleInfo(event.rule).name);
}

std::unique_ptr<RunReport> makeReport(const ReportOptions& options) {
  if (options.json) return std::make_unique<JsonReport>(options.every);
  if (isTerminal(STDOUT_FILENO)) return makeLiveView();
  return std::make_unique<PlainReport>(options.every);
}

void EventSequencer::begin(const RunContext& context) { model_.begin(context.row, context.scope); }

void EventSequencer::tell(const EpochRow& row, std::vector<Item>& out) {
  if (row.epoch <= lastEpoch_) {
    if (row.evaluated() && unevaluated_.erase(row.epoch) > 0)
      out.push_back({std::nullopt, row, true});
    return;
  }
  if (!row.evaluated()) unevaluated_.insert(row.epoch);
  lastEpoch_ = row.epoch;
  out.push_back({std::nullopt, row});
}

std::vector<EventSequencer::Item> EventSequencer::take(const RunUpdate& update) {
  model_.add(update, monotonicNow());
  for (const EpochRow& row : update.epochs) waiting_.push_back(row);
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const EpochRow& a, const EpochRow& b) { return a.epoch < b.epoch; });
  noteWatched(update);
  std::vector<Item> out;
  std::size_t told = 0;
  const auto epochsUpTo = [&](std::int64_t step) {
    while (told < waiting_.size() && waiting_[told].step <= step) tell(waiting_[told++], out);
  };
  for (const auto& series : update.series) {
    if (series.name != "loss") continue;
    for (const Point& point : series.points) {
      const auto step = static_cast<std::int64_t>(std::llround(point.x));
      if (step <= lastStep_) continue;
      epochsUpTo(step - 1);
      lastStep_ = step;
      Item& item = out.emplace_back();
      item.step = Step{step, model_.progress().epochOf(step), point.y, {}};
      if (const auto known = watched_.find(step); known != watched_.end())
        item.step->watched = std::move(known->second);
      watched_.erase(watched_.begin(), watched_.upper_bound(step));
    }
  }
  epochsUpTo(lastStep_);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(told));
  return out;
}

void EventSequencer::noteWatched(const RunUpdate& update) {
  for (const auto& series : update.series) {
    const auto name = std::find(kWatched.begin(), kWatched.end(), series.name);
    if (name == kWatched.end()) continue;
    for (const Point& point : series.points)
      if (const auto step = static_cast<std::int64_t>(std::llround(point.x)); step > lastStep_)
        watched_[step].emplace_back(*name, point.y);
  }
}

std::vector<EventSequencer::Item> EventSequencer::rest() {
  std::vector<Item> out;
  for (const EpochRow& row : waiting_) tell(row, out);
  waiting_.clear();
  return out;
}

std::vector<std::string> EventSequencer::nodeNotes(const RunUpdate& update) {
  std::vector<std::string> out;
  for (const RunUpdate::Node& node : update.nodes) {
    const bool known = unreachable_.contains(node.name);
    if (!node.reachable && !known)
      out.push_back(fmt::format("node {} does not answer: {}", node.name, node.detail));
    if (node.reachable && known) out.push_back(fmt::format("node {} answers again", node.name));
    if (node.reachable)
      unreachable_.erase(node.name);
    else
      unreachable_.insert(node.name);
  }
  return out;
}

std::vector<std::string> EventSequencer::awaitedNotes(const RunUpdate& update) {
  if (!update.awaited || update.awaited->empty()) return {};
  return {update.awaited->text()};
}

std::vector<std::string> EventSequencer::scaleNotes(const RunUpdate& update) {
  const auto find = [&](std::string_view name) {
    return std::find_if(update.series.begin(), update.series.end(),
                        [&](const RunBatch::Series& series) { return series.name == name; });
  };
  const auto skipped = find("skipped"), scale = find("loss_scale");
  if (skipped == update.series.end() || scale == update.series.end() || scale->points.empty())
    return {};
  std::vector<std::int64_t> steps;
  for (const Point& point : skipped->points) steps.push_back(std::llround(point.x));
  constexpr std::size_t kMost = 8;
  const std::size_t more = steps.size() > kMost ? steps.size() - kMost : 0;
  steps.resize(steps.size() - more);
  if (steps.empty()) return {};
  return {fmt::format(
      "gradients are too large for fp16, nothing is updated in step {}{}; the loss scale is {}",
      fmt::join(steps, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
      scale->points.back().y)};
}

std::vector<Error> EventSequencer::notTold(const std::vector<Error>& errors,
                                           std::vector<std::string>& told) {
  std::vector<Error> out;
  for (const Error& error : errors) {
    const std::string text = error.text();
    if (std::find(told.begin(), told.end(), text) != told.end()) continue;
    told.push_back(text);
    out.push_back(error);
  }
  return out;
}

std::vector<Error> EventSequencer::newErrors(const RunUpdate& update) {
  return notTold(update.errors, errors_);
}
std::vector<Error> EventSequencer::newWarnings(const RunUpdate& update) {
  return notTold(update.warnings, warnings_);
}

std::vector<RunRestart> EventSequencer::newRestarts(const RunUpdate& update) {
  std::vector<RunRestart> out;
  for (const RunRestart& restart : update.restarts) {
    int& told = restart.begins() ? begun_ : restarted_;
    if (restart.generation <= told) continue;
    told = restart.generation;
    out.push_back(restart);
  }
  return out;
}

std::vector<std::string> EventSequencer::restartNotes(const RunUpdate& update) {
  std::vector<std::string> out;
  for (const RunRestart& restart : newRestarts(update))
    out.push_back(fmt::format(
        "{}: {}", localTime(restart.wallNs),
        restart.begins() ? restartWarning(restart).text() : restartedText(restart).text()));
  return out;
}

Result<RunUpdate> storedUpdate(const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  RunUpdate out;
  out.run = run;
  for (const SeriesInfo& info : store->series()) {
    const auto& watched = EventSequencer::kWatched;
    if (info.name != "loss" && info.name != "samples_per_second" && info.name != "rank/0/step" &&
        !isMetric(info.name) &&
        std::find(watched.begin(), watched.end(), info.name) == watched.end())
      continue;
    LOCKSTEP_ASSIGN(auto points, store->readAll(info.name));
    out.series.push_back({info.name, std::move(points)});
  }
  out.epochs = store->epochs();
  out.errors = store->errors();
  return out;
}

}  // namespace lockstep::app::cli
