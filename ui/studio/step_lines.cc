#include "ui/studio/step_lines.h"

#include <QElapsedTimer>
#include <QStringList>
#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace lockstep::ui {
namespace {

constexpr int kSliceMs = 12;                // of the window's thread at a time
constexpr std::int64_t kTogether = 16'384;  // steps read at a time

constexpr std::pair<std::string_view, app::StepMeasure> kNames[] = {
    {"step", app::StepMeasure::kStep},           {"data", app::StepMeasure::kData},
    {"forward", app::StepMeasure::kForward},     {"backward", app::StepMeasure::kBackward},
    {"waiting", app::StepMeasure::kWaiting},     {"transfer", app::StepMeasure::kTransfer},
    {"optimizer", app::StepMeasure::kOptimizer}, {"stalled", app::StepMeasure::kStalled},
    {"gpu_clock", app::StepMeasure::kGpuClock}};

std::optional<std::pair<int, app::StepMeasure>> partsOf(const std::string& name) {
  const QStringList parts = QString::fromStdString(name).split('/');
  if (parts.size() != 3 || parts[0] != "rank") return std::nullopt;
  bool isNumber = false;
  const int rank = parts[1].toInt(&isNumber);
  const auto* which = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& one) {
    return one.first == parts[2].toStdString();
  });
  if (!isNumber || rank < 0 || which == std::end(kNames)) return std::nullopt;
  return std::pair{rank, which->second};
}

// Calls `add(step, seconds)` for steps [from, to] of a rank: for the least and the greatest of
// every `together` steps, in their order. A cell of several steps has one value, at its first.
template <typename Add>
void readReduced(const app::StepMatrix& steps, app::StepMeasure measure, int rank,
                 std::int64_t from, std::int64_t to, std::int64_t together, Add add) {
  if (rank >= steps.ranks() || to < from) return;
  const std::int64_t stride = steps.stride(), cell = steps.cellOf(from);
  std::vector<float> values(static_cast<std::size_t>(steps.cellOf(to) - cell + 1));
  steps.read(measure, rank, cell, values.size(), values.data());
  const auto step = [&](std::size_t i) {
    return static_cast<double>(std::max(from, (cell + static_cast<std::int64_t>(i)) * stride + 1));
  };
  const auto each = static_cast<std::size_t>((together + stride - 1) / stride);
  for (std::size_t begin = 0; begin < values.size(); begin += each) {
    std::size_t least = begin, greatest = begin;
    for (std::size_t i = begin; i < std::min(begin + each, values.size()); ++i) {
      // A comparison with not-a-number is false; a number replaces it.
      if (values[i] < values[least] || std::isnan(values[least])) least = i;
      if (values[i] > values[greatest] || std::isnan(values[greatest])) greatest = i;
    }
    if (std::isnan(values[least])) continue;
    const auto [first, second] = std::minmax(least, greatest);
    add(step(first), static_cast<double>(values[first]));
    if (second != first) add(step(second), static_cast<double>(values[second]));
  }
}

// So many steps become two samples that no more than `most` are left.
std::int64_t togetherFor(std::int64_t steps, std::size_t most) {
  const auto room = static_cast<std::int64_t>(std::max<std::size_t>(most, 2));
  return steps <= room ? 1 : (2 * steps + room - 1) / room;
}

}  // namespace

StepLines::StepLines(const app::StepMatrix& steps, SampleRoom& room, QObject* parent)
    : QObject(parent), steps_(steps), room_(room) {
  next_.setSingleShot(true);
  connect(&next_, &QTimer::timeout, this, &StepLines::work);
}

bool StepLines::has(const std::string& name) { return partsOf(name).has_value(); }

std::shared_ptr<Series> StepLines::pin(const std::string& name) {
  auto line = std::make_shared<Series>(QString::fromStdString(name), 0);
  room_.add(line);
  const auto parts = partsOf(name);
  if (!parts) return line;
  lines_.push_back({name, parts->second, parts->first, line, 0, {}});
  wake();
  return line;
}

void StepLines::took(const app::RunBatch::Series& points) {
  std::int64_t& known = known_[points.name];
  for (const app::Point& point : points.points)
    if (std::isfinite(point.x)) known = std::max(known, static_cast<std::int64_t>(point.x));
  wake();
}

void StepLines::wake() {
  if (!lines_.empty() && !next_.isActive()) next_.start(0);
}

void StepLines::work() {
  std::erase_if(lines_, [](const Line& line) { return line.line.expired(); });
  QElapsedTimer spent;
  spent.start();
  std::size_t idle = 0;  // in a row
  bool any = false;
  while (idle < lines_.size()) {
    if (at_ >= lines_.size()) at_ = 0;
    const bool busy = workOn(lines_[at_]);
    any = any || busy;
    idle = busy ? 0 : idle + 1;
    if (!busy) ++at_;
    if (spent.elapsed() >= kSliceMs) {
      next_.start(0);
      break;
    }
  }
  if (any) Q_EMIT changed();
}

bool StepLines::workOn(Line& line) {
  const auto series = line.line.lock();
  // A cell of several steps is drawn when all of them have come.
  const std::int64_t known = known_[line.name] / steps_.stride() * steps_.stride();
  if (!series) return false;
  if (line.filled < known) {
    fill(line, *series, known);
    return true;
  }
  if (!line.window) return false;
  look(line, *series, *std::exchange(line.window, std::nullopt));
  return true;
}

// Some steps more. Of many at once only the extremes, so that there is room for later ones.
void StepLines::fill(Line& line, Series& series, std::int64_t last) const {
  const std::int64_t together = togetherFor(last - line.filled, room_.limit() / 2);
  const std::int64_t to =
      std::min(last, line.filled + (kTogether + together - 1) / together * together);
  if (together > 1) series.setThinned();
  readReduced(steps_, line.measure, line.rank, line.filled + 1, to, together,
              [&](double step, double seconds) { series.append(step, seconds); });
  line.filled = to;
}

void StepLines::look(const Line& line, Series& series, const Window& window) const {
  const double margin = (window.to - window.from) / 2;
  const auto from = static_cast<std::int64_t>(std::max(1.0, std::floor(window.from - margin)));
  const auto to = static_cast<std::int64_t>(
      std::min(static_cast<double>(line.filled), std::ceil(window.to + margin)));
  const std::int64_t together =
      togetherFor(to - from + 1, static_cast<std::size_t>(std::max(1, 4 * window.pixels)));
  Pyramid samples;
  readReduced(steps_, line.measure, line.rank, from, to, together,
              [&](double step, double seconds) { samples.append(step, seconds); });
  if (samples.size() == 0) return;
  series.setDetail(window.from - margin, static_cast<double>(to), samples, together == 1);
}

void StepLines::refine(const std::vector<std::shared_ptr<Series>>& lines, double from, double to,
                       int pixels) {
  for (Line& line : lines_) {
    const auto series = line.line.lock();
    if (!series || !series->visible || !series->wantsDetail(from, to, pixels)) continue;
    if (std::find(lines.begin(), lines.end(), series) != lines.end())
      line.window = Window{from, to, pixels};
  }
  wake();
}

}  // namespace lockstep::ui
