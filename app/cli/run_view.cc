#include "app/cli/run_view.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>

#include "app/cli/terminal.h"
#include "app/history/series_name.h"
#include "app/runs/preview.h"
#include "engine/base/clock.h"

namespace lockstep::app::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The whole curve in bounded memory: means of neighbours once there are too many.
class Curve {
 public:
  void add(double value) {
    sum_ += value;
    if (++inSum_ < stride_) return;
    values_.push_back(sum_ / static_cast<double>(inSum_));
    sum_ = 0;
    inSum_ = 0;
    if (values_.size() < kMost) return;
    for (std::size_t i = 0; i < kMost / 2; ++i)
      values_[i] = (values_[2 * i] + values_[2 * i + 1]) / 2;
    values_.resize(kMost / 2);
    stride_ *= 2;
  }
  const std::vector<double>& values() const { return values_; }

 private:
  static constexpr std::size_t kMost = 2048;
  std::vector<double> values_;
  double sum_ = 0;
  std::size_t inSum_ = 0, stride_ = 1;
};

struct GpuFigures {
  double utilisation = NAN, memory = NAN, temperature = NAN, power = NAN, clock = NAN,
         throttled = 0;
};

struct NodeFigures {
  double cpu = NAN, memory = NAN, in = NAN, out = NAN, loopback = NAN;
  bool reachable = true;
  std::string detail;
  std::map<int, GpuFigures> gpus;
};

class LiveView final : public RunReport {
 public:
  LiveView() : style_(wantsColour(STDOUT_FILENO)) {}

  void progress(const std::string& text) override {
    progress_ = text;
    draw(true);
  }

  void settingUp(const SetupOutput& output) override {
    erase();
    for (const std::string& line : output.lines)
      put(stdout, fmt::format("{} setup | {}\n", output.node, printable(line)));
    draw(true);
  }

  void files(const ArtifactsUpdate& update) override {
    if (!update.over()) return;
    progress_.clear();
    erase();
    for (const std::string& line : artifactLines(update)) put(stdout, line + "\n");
    draw(true);
  }

  void started(const RunContext& context) override {
    story_.begin(context);
    if (auto prediction = parsePrediction(context.documents.prediction); prediction.ok())
      predicted_ = std::move(*prediction);
    for (const RankPreview& rank : predicted_.ranks) nodes_[rank.node];
    progress_.clear();
    draw(true);
  }

  void update(const RunUpdate& update) override {
    for (const auto& series : update.series) take(series);
    for (const auto& item : story_.take(update)) {
      if (!item.step) continue;
      step_ = *item.step;
      loss_.add(item.step->loss);
    }
    for (const RunUpdate::Node& node : update.nodes) {
      nodes_[node.name].reachable = node.reachable;
      nodes_[node.name].detail = node.detail;
    }
    if (model().ofProgram()) tellProgram(update);
    for (const LogRow& log : update.logs) {
      if (model().ofProgram() && log.rank >= 0) continue;
      logs_.push_back(fmt::format("{} {}",
                                  log.rank >= 0 ? fmt::format("rank {}", log.rank) : log.node,
                                  printable(log.text)));
      if (logs_.size() > 50) logs_.pop_front();
    }
    for (const Error& warning : story_.newWarnings(update)) tell("warning: " + warning.text());
    for (const std::string& note : story_.restartNotes(update)) tell(note);
    for (const Error& error : story_.newErrors(update)) failed(error);
    dirty_ = true;
  }

  void idle() override { draw(false); }

  void alert(const AlertEvent& event) override {
    const std::string text = alertText(event);
    if (!text.empty()) tell(text);
  }

  void failed(const Error& error) override {
    erase();
    put(stderr, errorStyle_.red("error:") + " " + error.text() + "\n");
  }

  void without(const StragglerRow& slow, const StepsWithout& steps) override {
    tell(withoutText(steps, slow.rank, slow.node));
  }

  void finished(const RunResult& result) override {
    (void)story_.rest();
    progress_.clear();
    ended_ = true;
    if (row().run.empty()) return erase();  // nothing ran: the error says it all
    draw(true);
    const std::string text = resultText(result);
    const std::string line = result.status == "succeeded" ? style_.green(text)
                             : result.status == "failed"  ? style_.red(text)
                                                          : style_.yellow(text);
    put(stdout, line + "\n");
    drawn_ = 0;
  }

  const RunModel& model() const override { return story_.model(); }

 private:
  const RunRow& row() const { return model().row(); }

  // Scrolls above what is drawn, as the next does.
  void tell(const std::string& note) {
    erase();
    put(stderr, errorStyle_.yellow(note) + "\n");
  }

  // A program's output.
  void tellProgram(const RunUpdate& update) {
    std::string lines;
    for (const LogRow& log : update.logs)
      if (log.rank >= 0)
        lines +=
            style_.dim(fmt::format("{}:{} | ", log.node, log.rank)) + printable(log.text) + "\n";
    if (lines.empty()) return;
    erase();
    put(stdout, lines);
  }

  void take(const RunBatch::Series& series) {
    if (series.points.empty()) return;
    const double value = series.points.back().y;
    if (series.name == "loss_scale") lossScale_ = value;
    if (series.name == "skipped")
      for (const Point& point : series.points) skipped_ += std::llround(point.y);
    if (series.name == row().figures.metric) {
      metric_ = value;
      return;
    }
    const SeriesName name = parseSeriesName(series.name);
    if (name.node.empty() || !name.to.empty()) return;
    NodeFigures& node = nodes_[name.node];
    const std::string& what = name.figure;
    if (name.gpu >= 0) {
      GpuFigures& gpu = node.gpus[name.gpu];
      if (what == "utilisation") gpu.utilisation = value;
      if (what == "memory") gpu.memory = value;
      if (what == "temperature") gpu.temperature = value;
      if (what == "power") gpu.power = value;
      if (what == "sm_clock") gpu.clock = value;
      if (what == "throttled") gpu.throttled = value;
      return;
    }
    if (what == "cpu") node.cpu = value;
    if (what == "memory") node.memory = value;
    if (what == "net_in") node.in = value;
    if (what == "net_out") node.out = value;
    if (what == "loopback") node.loopback = value;
  }

  std::string headline() const {
    const RunState phase = row().phase;
    std::string state(stateName(phase));
    state = phase == RunState::SUCCEEDED ? style_.green(state)
            : phase == RunState::FAILED  ? style_.red(state)
            : model().over()             ? style_.yellow(state)
                                         : style_.cyan(state);
    return fmt::format("{}  {}  {}  {}", style_.bold(printable(row().name)), state, row().run,
                       style_.dim(fmt::format("{} · {}{}{}", ranksText(row().world), row().strategy,
                                              row().comm.empty() ? "" : " · ", row().comm)));
  }

  std::string progressLine(int columns) const {
    const RunProgress& progress = model().progress();
    const std::int64_t total = progress.totalSteps();
    const double share = progress.fraction();
    std::string text =
        fmt::format("epoch {}{}  step {}", progress.epoch(),
                    progress.epochs() > 0 ? fmt::format("/{}", progress.epochs()) : "", step_.step);
    if (total <= 0) return text;
    text += fmt::format("/{}", total);
    std::string after = fmt::format("{:3.0f} %", 100 * share);
    if (const double left = model().secondsLeft(wallNow()); left >= 0)
      after += "  " + durationText(left) + " left";
    const int room = columns - static_cast<int>(width(text) + width(after)) - 4;
    if (room >= 8) text += "  " + style_.cyan(bar(share, std::min(room, 50)));
    return text + "  " + after;
  }

  std::string lossLine(int columns) const {
    if (step_.step == 0) return style_.dim("waiting for the first step");
    std::string text = fmt::format("loss {:<8.4f}", step_.loss);
    const std::string& metric = row().figures.metric;
    if (std::isfinite(metric_)) text += "  train " + metricText(metric, metric_);
    if (const EpochRow* last = model().lastEvaluated())
      text += fmt::format("  test {}{}loss {}", metricText(metric, last->evalMetric),
                          metric.empty() ? "" : ", ", lossText(last->evalLoss));
    const Nanoseconds now = monotonicNow();
    const double stalled = model().stalledSeconds(now), rate = model().pace(now).samplesPerSecond;
    if (stalled > 0)
      text += fmt::format("  no step for {:.0f} s", stalled);
    else if (rate > 0)
      text += fmt::format("  {:.0f} samples/s", rate);
    if (lossScale_ > 0) text += fmt::format("  loss scale {}", lossScale_);
    if (skipped_ > 0) text += fmt::format(", {} updates left out", skipped_);
    const int room = columns - static_cast<int>(width(text)) - 2;
    if (room >= 8) text += "  " + style_.green(sparkline(loss_.values(), std::min(room, 60)));
    return text;
  }

  std::string programLine(int columns) const {
    if (step_.step == 0) return style_.dim("no loss has been seen in its output");
    std::string text = fmt::format("step {}  loss {:<8.4f}", step_.step, step_.loss);
    const int room = columns - static_cast<int>(width(text)) - 2;
    if (room >= 8) text += "  " + style_.green(sparkline(loss_.values(), std::min(room, 60)));
    return text;
  }

  std::string stepLine() const {
    const double measured = model().pace(monotonicNow()).stepSeconds;
    std::string text = "step time " + (measured > 0 ? millisecondsText(measured) + " ms" : "–");
    if (predicted_.stepSeconds > 0) {
      text += "  predicted " + millisecondsText(predicted_.stepSeconds) + " ms";
      if (measured > 0)
        text += fmt::format(" ({:+.0f} %)", 100 * (measured / predicted_.stepSeconds - 1));
      text += style_.dim(predicted_.measured
                             ? "  below: ms measured, ms predicted"
                             : "  from built-in costs; below: ms measured, ms predicted");
    }
    return text;
  }

  // Measured milliseconds, and the predicted ones dimmed beside them.
  std::vector<std::string> rankTable(int columns) const {
    struct Phase {
      const char* name;
      double StepBreakdown::*measured;
      double RankPreview::*predicted;
    };
    static constexpr std::array<Phase, 6> kPhases{
        {{"data", &StepBreakdown::data, &RankPreview::data},
         {"forward", &StepBreakdown::forward, &RankPreview::forward},
         {"backward", &StepBreakdown::backward, &RankPreview::backward},
         {"waiting", &StepBreakdown::waiting, &RankPreview::waiting},
         {"transfer", &StepBreakdown::transfer, &RankPreview::transfer},
         {"optimizer", &StepBreakdown::optimizer, &RankPreview::optimizer}}};
    Table table;
    table.header = {"rank", "node"};
    table.right = {true, false};
    for (const Phase& phase : kPhases) {
      table.header.push_back(phase.name);
      table.right.push_back(true);
    }
    const std::vector<StepBreakdown>& breakdown = model().breakdown();
    const std::optional<Straggler>& straggler = model().slow();
    const std::size_t ranks = std::max(breakdown.size(), predicted_.ranks.size());
    const auto fill = [&](bool withPredicted) {
      table.rows.clear();
      for (std::size_t r = 0; r < ranks; ++r) {
        const RankPreview* predicted = r < predicted_.ranks.size() ? &predicted_.ranks[r] : nullptr;
        const StepBreakdown* measured = r < breakdown.size() ? &breakdown[r] : nullptr;
        const bool slow = straggler && straggler->rank == static_cast<int>(r);
        const std::string number = fmt::format("{}", r);
        std::vector<std::string> row{slow ? style_.yellow(number) : number,
                                     predicted ? predicted->node : ""};
        for (const Phase& phase : kPhases) {
          std::string cell = measured ? millisecondsText(measured->*phase.measured) : "–";
          if (slow && straggler->phase == phase.name) cell = style_.yellow(cell);
          if (withPredicted && predicted)
            cell += style_.dim(padded(millisecondsText(predicted->*phase.predicted), 7, true));
          row.push_back(std::move(cell));
        }
        table.rows.push_back(std::move(row));
      }
    };
    fill(true);
    std::vector<std::string> lines = table.lines();
    if (width(lines.front()) > static_cast<std::size_t>(columns)) {
      fill(false);
      lines = table.lines();
      lines.front() = style_.dim(lines.front());
    } else {
      lines.front() = style_.dim(lines.front());
    }
    return lines;
  }

  std::vector<std::string> nodeTable() const {
    Table table;
    // Columns keep their width while the numbers change.
    table.header = {"node",        "   cpu", "    memory", "         in", "        out",
                    "   loopback", ""};
    table.right = {false, true, true, true, true, true, false};
    for (const auto& [name, node] : nodes_) {
      const auto value = [](double v, std::string text) { return std::isfinite(v) ? text : "–"; };
      table.rows.push_back({name, value(node.cpu, fmt::format("{:.0f} %", 100 * node.cpu)),
                            value(node.memory, bytesText(node.memory)),
                            value(node.in, rateText(node.in)), value(node.out, rateText(node.out)),
                            value(node.loopback, rateText(node.loopback)),
                            node.reachable ? "" : style_.yellow("not reachable " + node.detail)});
    }
    std::vector<std::string> lines = table.lines();
    lines.front() = style_.dim(lines.front());
    return lines;
  }

  // Empty where no node has a GPU.
  std::vector<std::string> gpuTable() const {
    Table table;
    table.header = {"node", "gpu", "  use", "    memory", "    °C", "   power", "SM clock", ""};
    table.right = {false, true, true, true, true, true, true, false};
    for (const auto& [name, node] : nodes_)
      for (const auto& [index, gpu] : node.gpus) {
        const auto value = [](double v, std::string text) { return std::isfinite(v) ? text : "–"; };
        table.rows.push_back(
            {name, fmt::format("{}", index),
             value(gpu.utilisation, fmt::format("{:.0f} %", 100 * gpu.utilisation)),
             value(gpu.memory, bytesText(gpu.memory)),
             value(gpu.temperature, fmt::format("{:.0f}", gpu.temperature)),
             value(gpu.power, fmt::format("{:.0f} W", gpu.power)),
             value(gpu.clock, fmt::format("{:.0f} MHz", gpu.clock)),
             gpu.throttled > 0 ? style_.yellow("throttled") : ""});
      }
    if (table.rows.empty()) return {};
    std::vector<std::string> lines = table.lines();
    lines.front() = style_.dim(lines.front());
    return lines;
  }

  std::vector<std::string> lines(const TerminalSize& size) const {
    const int columns = size.columns - 1;
    if (row().run.empty()) return {style_.dim("· ") + progress_};
    std::vector<std::string> out{headline()};
    if (model().ofProgram())
      out.push_back(programLine(columns));
    else
      for (std::string line : {progressLine(columns), lossLine(columns), stepLine()})
        out.push_back(std::move(line));
    const auto room = [&] { return size.rows - 1 - static_cast<int>(out.size()); };
    const auto append = [&](const std::vector<std::string>& more, int limit) {
      for (int i = 0; i < static_cast<int>(more.size()) && i < limit; ++i)
        out.push_back(more[static_cast<std::size_t>(i)]);
    };
    if (model().slow()) out.push_back(style_.yellow(stragglerText(*model().slow())));
    if (!model().ofProgram()) append(rankTable(columns), std::max(0, room() - 2));
    if (!nodes_.empty()) append(nodeTable(), std::max(0, room() - 1));
    append(gpuTable(), std::max(0, room() - 1));
    for (const std::string& text : {printable(model().awaited().text()), progress_})
      if (!text.empty() && room() > 0) out.push_back(style_.yellow(text));
    if (!ended_) {
      const int shown = std::min({room(), 4, static_cast<int>(logs_.size())});
      for (int i = 0; i < shown; ++i)
        out.push_back(style_.dim(logs_[logs_.size() - static_cast<std::size_t>(shown - i)]));
    }
    return out;
  }

  void erase() {
    if (drawn_ > 0) {
      const std::string up = fmt::format("\x1b[{}A\r\x1b[J", drawn_);
      putRaw(stdout, up);
    }
    drawn_ = 0;
  }

  // One write: up to the first line, each line over the old one, the rest below cleared.
  void draw(bool now) {
    if (!now && (!dirty_ || Clock::now() - drawnAt_ < std::chrono::milliseconds(100))) return;
    const TerminalSize size = terminalSize(STDOUT_FILENO);
    std::string buffer;
    if (drawn_ > 0) buffer = fmt::format("\x1b[{}A\r", drawn_);
    int count = 0;
    for (const std::string& line : lines(size)) {
      buffer +=
          shown(fit(printable(line), static_cast<std::size_t>(std::max(size.columns - 1, 1)))) +
          "\x1b[K\n";
      ++count;
    }
    buffer += "\x1b[J";
    putRaw(stdout, buffer);
    drawn_ = count;
    drawnAt_ = Clock::now();
    dirty_ = false;
  }

  Style style_;
  Style errorStyle_{wantsColour(STDERR_FILENO)};  // stderr may be a file
  Preview predicted_;
  EventSequencer story_;
  EventSequencer::Step step_;
  Curve loss_;
  double metric_ = NAN;
  double lossScale_ = 0;  // of fp16
  std::int64_t skipped_ = 0;
  std::map<std::string, NodeFigures> nodes_;
  std::deque<std::string> logs_;
  std::string progress_;
  Clock::time_point drawnAt_{};
  int drawn_ = 0;
  bool dirty_ = false, ended_ = false;
};

}  // namespace

std::unique_ptr<RunReport> makeLiveView() { return std::make_unique<LiveView>(); }

}  // namespace lockstep::app::cli
