#include "ui/studio/run_curves.h"

#include <QTimer>
#include <algorithm>
#include <utility>

#include "app/history/history.h"
#include "ui/studio/background.h"
#include "ui/studio/metrics.h"

namespace lockstep::ui {
namespace {

// Of the window's thread at a time, for long curves.
constexpr int kSliceMs = 12;
constexpr std::size_t kSlicePoints = 20'000;

}  // namespace

// What a background read brings.
struct RunCurves::Read {
  struct Curve {
    std::string name;
    std::vector<app::Point> points;
    bool exact = true;
  };
  std::vector<Curve> curves;
  Status status;
  bool isDetail = false;
  double from = 0, to = 0;           // of a detail, for the plots' x
  std::size_t at = 0, pointsAt = 0;  // what has been taken

  // Of [from, to] about `most` points; all of them if there are no more.
  static Read of(const std::string& folder, const std::string& run,
                 const std::vector<std::string>& names, double from, double to, std::size_t most);
};

RunCurves::Read RunCurves::Read::of(const std::string& folder, const std::string& run,
                                    const std::vector<std::string>& names, double from, double to,
                                    std::size_t most) {
  Read out;
  for (const std::string& name : names) out.curves.push_back({name, {}, true});
  const auto read = [&]() -> Status {
    LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
    LOCKSTEP_ASSIGN(const auto store, history->openRun(run));
    for (Curve& curve : out.curves) {
      LOCKSTEP_ASSIGN(const auto spans, store->read(curve.name, from, to, static_cast<int>(most)));
      curve.points = pointsOf(spans);
      curve.exact = std::none_of(spans.begin(), spans.end(),
                                 [](const app::Span& span) { return span.low < span.high; });
    }
    return {};
  };
  out.status = read();
  return out;
}

std::vector<app::Point> pointsOf(const std::vector<app::Span>& spans) {
  std::vector<app::Point> out;
  out.reserve(2 * spans.size());
  for (const app::Span& span : spans) {
    const bool one = !(span.low < span.high);
    out.push_back({span.x, one ? span.last : span.low});
    if (!one) out.push_back({span.x, span.high});
  }
  return out;
}

bool isTimeSeries(const std::string& name) {
  if (name.starts_with("node/")) return true;
  return name.starts_with("rank/") && (name.ends_with("/cpu") || name.ends_with("/memory"));
}

RunCurves::RunCurves(std::string historyFolder, std::string run, QObject* parent)
    : QObject(parent), folder_(std::move(historyFolder)), run_(std::move(run)) {
  clock_.start();
}

void RunCurves::begin(const std::vector<std::string>& names, const std::set<std::string>& given) {
  stored_.insert(names.begin(), names.end());
  for (const std::string& name : given) use(name).reading = true;
  for (const std::string& name : names)
    if (!given.contains(name) && used_.contains(name)) want(name);
  for (const std::string& name : names) note(name);
}

void RunCurves::load(const app::RunBatch::Series& points, bool last) {
  Use& curve = use(points.name);
  extend(points.name, curve, points.points);
  if (!last) return;
  curve.reading = false;
  extend(points.name, curve, std::exchange(curve.waiting, {}));
}

void RunCurves::note(const std::string& name) {
  if (names_.insert(name).second) Q_EMIT added(QString::fromStdString(name));
}

RunCurves::Use& RunCurves::use(const std::string& name) {
  Use& curve = used_[name];
  if (curve.line) return curve;
  const bool smooth = metricInfo(name).smooth;
  curve.line = std::make_shared<Series>(QString::fromStdString(name),
                                        static_cast<int>(used_.size()) - 1, smooth);
  curve.line->dots = name.starts_with("epoch/");
  if (name.starts_with("node/"))
    curve.line->owner = QString::fromStdString(name).section('/', 1, 1);
  if (smooth) curve.line->setSmoothing(0.9);
  room_.add(curve.line);
  return curve;
}

std::vector<std::shared_ptr<Series>> RunCurves::Use::lines() const {
  std::vector<std::shared_ptr<Series>> out{line};
  for (const auto& pin : pins)
    if (auto held = pin.lock()) out.push_back(std::move(held));
  return out;
}

std::shared_ptr<Series> RunCurves::pin(const std::string& name) {
  const auto line = std::make_shared<Series>(*series(name));
  line->visible = true;
  line->markColor.reset();
  room_.add(line);
  auto& pins = used_[name].pins;
  std::erase_if(pins, [](const auto& pin) { return pin.expired(); });
  pins.push_back(line);
  return line;
}

void RunCurves::replace(const std::string& name, const std::vector<app::Point>& points) {
  for (const auto& line : use(name).lines()) {
    line->clear();
    for (const app::Point& point : points) line->append(point.x, point.y);
  }
  if (!points.empty()) note(name);
}

std::shared_ptr<Series> RunCurves::series(const std::string& name) {
  if (const auto known = used_.find(name); known != used_.end()) return known->second.line;
  Use& curve = use(name);
  if (stored_.contains(name)) want(name);
  if (const auto recent = recent_.extract(name); !recent.empty())
    for (const Recent& one : recent.mapped()) addFresh(name, curve, one.points);
  return curve.line;
}

void RunCurves::append(const app::RunBatch::Series& points) {
  if (const auto known = used_.find(points.name); known != used_.end()) {
    addFresh(points.name, known->second, points.points);
    if (!std::exchange(known->second.noted, true)) note(points.name);
    return;
  }
  const auto [found, isNew] = recent_.try_emplace(points.name);
  std::deque<Recent>& recent = found->second;
  recent.push_back({clock_.elapsed(), points.points});
  for (; clock_.elapsed() - recent.front().ms > kRecentMs; recent.pop_front())
    stored_.insert(points.name);
  if (isNew) note(points.name);  // a view may ask for it now
}

void RunCurves::addFresh(const std::string& name, Use& curve,
                         const std::vector<app::Point>& points) {
  if (curve.reading)
    curve.waiting.insert(curve.waiting.end(), points.begin(), points.end());
  else
    extend(name, curve, points);
}

void RunCurves::preview(const app::RunBatch::Series& points) {
  note(points.name);
  const auto known = used_.find(points.name);
  if (known == used_.end() || known->second.reading) return;
  Use& curve = known->second;
  const auto lines = curve.lines();
  for (const app::Point& point : points.points) {
    if (point.x <= curve.lastX) continue;
    curve.ahead.push_back(point);
    for (const auto& line : lines) line->appendAhead(point.x - originOf(points.name), point.y);
  }
}

// If history and recorder overlap, the known points stay.
void RunCurves::extend(const std::string& name, Use& curve, const std::vector<app::Point>& points) {
  const double origin = originOf(name), before = curve.lastX;
  const auto pins = curve.pins.empty() ? std::vector<std::shared_ptr<Series>>{} : curve.lines();
  for (const app::Point& point : points) {
    if (point.x < curve.lastX || (point.x == curve.lastX && before == curve.lastX)) continue;
    curve.lastX = point.x;
    if (pins.empty()) curve.line->append(point.x - origin, point.y);
    for (const auto& line : pins) line->append(point.x - origin, point.y);
  }
  if (curve.ahead.empty() || curve.lastX == before) return;
  const auto lines = curve.lines();
  std::erase_if(curve.ahead, [&](const app::Point& point) { return point.x <= curve.lastX; });
  for (const app::Point& point : curve.ahead)
    for (const auto& line : lines) line->appendAhead(point.x - origin, point.y);
}

void RunCurves::want(const std::string& name) {
  used_[name].reading = true;
  wanted_.push_back(name);
  // Those that a view asks for together are read together.
  if (wanted_.size() == 1) QTimer::singleShot(0, this, &RunCurves::startReading);
}

void RunCurves::startReading() {
  if (reading_) return;
  constexpr double kEver = std::numeric_limits<double>::infinity();
  if (!wanted_.empty()) {
    reading_ = true;
    runInBackground(
        this,
        [folder = folder_, run = run_, names = std::exchange(wanted_, {}),
         most = room_.limit() / 2] {
          return std::make_shared<Read>(Read::of(folder, run, names, -kEver, kEver, most));
        },
        [this](const std::shared_ptr<Read>& read) { take(read); });
  } else if (!windows_.empty()) {
    const Window window = std::move(windows_.front());
    windows_.pop_front();
    readMore(window);
  }
}

void RunCurves::readMore(const Window& window) {
  reading_ = true;
  const double margin = (window.to - window.from) / 2;
  const double from = window.from - margin, to = window.to + margin;
  runInBackground(
      this,
      [folder = folder_, run = run_, window, from, to, origin = originOf(window.names.front())] {
        auto read =
            std::make_shared<Read>(Read::of(folder, run, window.names, from + origin, to + origin,
                                            static_cast<std::size_t>(4 * window.pixels)));
        read->isDetail = true;
        read->from = from;
        read->to = to;
        return read;
      },
      [this](const std::shared_ptr<Read>& read) { take(read); });
}

void RunCurves::take(const std::shared_ptr<Read>& read) {
  QElapsedTimer spent;
  spent.start();
  while (read->status.ok() && read->at < read->curves.size() && spent.elapsed() < kSliceMs)
    takeSome(*read);
  if (!read->status.ok() || read->at == read->curves.size()) return end(*read);
  QTimer::singleShot(0, this, [this, read] { take(read); });
  Q_EMIT changed();
}

// A part of a long curve. Both samples of one x are taken together.
void RunCurves::takeSome(Read& read) {
  if (read.isDetail) {
    takeDetail(read);
    ++read.at;
    return;
  }
  const auto& [name, points, exact] = read.curves[read.at];
  Use& curve = used_[name];
  if (read.pointsAt == 0 && curve.unread) takeAgain(name, curve);
  if (!exact)
    for (const auto& line : curve.lines()) line->setThinned();
  std::size_t end = std::min(points.size(), read.pointsAt + kSlicePoints);
  while (end > 0 && end < points.size() && points[end].x == points[end - 1].x) ++end;
  extend(name, curve,
         {points.begin() + static_cast<std::ptrdiff_t>(read.pointsAt),
          points.begin() + static_cast<std::ptrdiff_t>(end)});
  read.pointsAt = end;
  if (end < points.size()) return;
  curve.reading = false;
  extend(name, curve, std::exchange(curve.waiting, {}));
  read.pointsAt = 0;
  ++read.at;
}

// What came since the history could not be read follows what is read now.
void RunCurves::takeAgain(const std::string& name, Use& curve) {
  curve.unread = false;
  std::vector<app::Point> since;
  const Pyramid& there = curve.line->raw();
  for (std::size_t i = 0; i < there.size(); ++i)
    if (there.x(i) + originOf(name) <= curve.lastX)
      since.push_back({there.x(i) + originOf(name), there.y(i)});
  curve.waiting.insert(curve.waiting.begin(), since.begin(), since.end());
  curve.ahead.clear();
  curve.lastX = -std::numeric_limits<double>::infinity();
  for (const auto& line : curve.lines()) line->clear();
}

void RunCurves::takeDetail(const Read& read) {
  const auto& [name, points, exact] = read.curves[read.at];
  if (points.empty()) return;
  Pyramid samples;
  const double origin = originOf(name);
  for (const app::Point& point : points) samples.append(point.x - origin, point.y);
  // Later samples may come.
  for (const auto& line : used_[name].lines())
    line->setDetail(read.from, std::min(read.to, points.back().x - origin), samples, exact);
}

void RunCurves::end(const Read& read) {
  reading_ = false;
  if (read.status.ok()) {
    told_.clear();
    if (!read.isDetail) retryMs_ = kFirstRetryMs;
  } else {
    if (!read.isDetail) tryAgain(read);
    const std::string text = read.status.error().text();
    if (std::exchange(told_, text) != text) Q_EMIT failed(read.status.error());
  }
  Q_EMIT changed();
  startReading();
}

// Meanwhile what comes is shown.
void RunCurves::tryAgain(const Read& failed) {
  std::vector<std::string> names;
  for (const auto& read : failed.curves) {
    Use& curve = used_[read.name];
    curve.reading = false;
    curve.unread = true;
    extend(read.name, curve, std::exchange(curve.waiting, {}));
    names.push_back(read.name);
  }
  QTimer::singleShot(retryMs_, this, [this, names] {
    for (const std::string& name : names) want(name);
  });
  retryMs_ = std::min(2 * retryMs_, kLongestRetryMs);
}

void RunCurves::refine(const std::vector<std::shared_ptr<Series>>& lines, double from, double to,
                       int pixels) {
  if (lines.empty()) return;
  Window window{lines.front().get(), {}, from, to, pixels};
  for (const auto& [name, curve] : used_) {
    if (curve.reading) continue;
    const auto own = curve.lines();
    if (std::any_of(own.begin(), own.end(), [&](const auto& line) {
          return line->visible && line->wantsDetail(from, to, pixels) &&
                 std::find(lines.begin(), lines.end(), line) != lines.end();
        }))
      window.names.push_back(name);
  }
  if (window.names.empty()) return;
  std::erase_if(windows_, [&](const Window& other) { return other.plot == window.plot; });
  windows_.push_back(std::move(window));
  startReading();
}

}  // namespace lockstep::ui
