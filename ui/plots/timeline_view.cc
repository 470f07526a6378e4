#include "ui/plots/timeline_view.h"

#include <QAccessible>
#include <QPainter>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

constexpr double kGap = 0.12;        // of a lane, to the next
constexpr double kLeastCover = 0.3;  // of a colour where little of a pixel is busy

using Spans = std::vector<app::TimelineSpan>;

const Spans& spansOf(const app::StepTimeline::Lane& lane, bool asynchronous) {
  return asynchronous ? lane.communication : lane.spans;
}

// The first span that ends after x.
Spans::const_iterator firstAfter(const Spans& spans, double x) {
  return std::partition_point(spans.begin(), spans.end(), [x](const app::TimelineSpan& span) {
    return static_cast<double>(span.end) <= x;
  });
}

QRgb blended(QRgb below, QRgb above, float share) {
  const auto mix = [&](int a, int b) {
    return a + static_cast<int>(static_cast<float>(b - a) * share);
  };
  return qRgb(mix(qRed(below), qRed(above)), mix(qGreen(below), qGreen(above)),
              mix(qBlue(below), qBlue(above)));
}

// How much of each pixel every kind takes.
class Cover {
 public:
  explicit Cover(int width)
      : width_(width), parts_(static_cast<std::size_t>(width + 2) * kPhaseCount, 0.0f) {}

  void add(const Spans& spans, double begin, double perPixel) {
    const double scale = 1 / perPixel, width = width_;
    const double end = begin + perPixel * width_;
    for (auto span = firstAfter(spans, begin); span != spans.end(); ++span) {
      if (static_cast<double>(span->begin) >= end) break;
      const double left = std::max(0.0, (static_cast<double>(span->begin) - begin) * scale);
      const double right = std::min(width, (static_cast<double>(span->end) - begin) * scale);
      const int at = static_cast<int>(left), last = static_cast<int>(right);
      float* part = parts_.data() + at * kPhaseCount + static_cast<int>(span->kind);
      // Most end in this pixel or in the next one; that is not asked.
      const double edge = at + 1;
      part[0] += static_cast<float>(std::min(right, edge) - left);
      if (last > at + 1) {
        for (int x = at + 1; x < last; ++x) *(part += kPhaseCount) += 1;
        part[kPhaseCount] += static_cast<float>(right - last);
      } else {
        part[kPhaseCount] += static_cast<float>(std::max(0.0, right - edge));
      }
    }
  }

  void paint(QRgb* line, const std::array<QRgb, kPhaseCount>& colors, int lanes) const {
    const float* part = parts_.data();
    for (int x = 0; x < width_; ++x, part += kPhaseCount) {
      int most = 0;
      float sum = part[0], greatest = part[0];
      for (int kind = 1; kind < kPhaseCount; ++kind) {
        sum += part[kind];
        most = part[kind] > greatest ? kind : most;
        greatest = std::max(greatest, part[kind]);
      }
      if (sum <= 0) continue;
      const float share = sum / static_cast<float>(lanes);
      line[x] = blended(line[x], colors[static_cast<std::size_t>(most)],
                        std::clamp(share, static_cast<float>(kLeastCover), 1.0f));
    }
  }

 private:
  int width_;
  std::vector<float> parts_;  // by pixel, kind; two pixels more, where nothing is seen
};

}  // namespace

TimelineView::TimelineView(const QString& objectName, QWidget* parent)
    : GridView(objectName, parent) {}

void TimelineView::setTimelines(Timeline measured, Timeline predicted, bool withMedians) {
  chosen_ = {};
  measured_ = std::move(measured);
  predicted_ = std::move(predicted);
  double length = 0;
  int lanes = 0;
  hasAsynchronous_ = false;
  std::set<int> stages;
  for (const Timeline* one : {&measured_, &predicted_}) {
    if (!*one || (*one)->empty()) continue;
    length = std::max(length, static_cast<double>((*one)->length));
    lanes = std::max(lanes, static_cast<int>((*one)->lanes.size()));
    for (const auto& lane : (*one)->lanes)
      hasAsynchronous_ = hasAsynchronous_ || !lane.communication.empty();
    if (!withMedians) continue;
    for (const auto& median : (*one)->medians) stages.insert(median.stage);
  }
  medianStages_.assign(stages.begin(), stages.end());
  setExtent({0, std::max(length, 1.0)}, lanes > 0 ? rowOf(lanes) : 0);
  if (lanes > 0) setView(xRange(), rowRange());
  Q_EMIT spanChosen();
}

void TimelineView::setNames(std::vector<QString> names) {
  names_ = std::move(names);
  namesChanged();
}

void TimelineView::markRank(int rank) {
  if (rank == marked_) return;
  marked_ = rank;
  if (rank >= 0 && rowOf(rank) < rowCount()) bringIntoView(xRange().begin, 0, rowOf(rank));
  update();
}

void TimelineView::showUntil(std::optional<double> ns) {
  if (ns == until_) return;
  until_ = ns;
  update();
}

QString TimelineView::rowName(int row) const { return nameOf(rankOf(row)); }

QString TimelineView::nameOf(int rank) const {
  if (rank < 0 && medianRows() == 1) return tr("median rank");
  if (rank < 0)
    return tr("median, stage %1").arg(medianStages_[static_cast<std::size_t>(rowOf(rank))]);
  return static_cast<std::size_t>(rank) < names_.size() ? names_[static_cast<std::size_t>(rank)]
                                                        : QString();
}

const app::StepTimeline::Lane* TimelineView::laneOf(const app::StepTimeline& timeline,
                                                    int row) const {
  if (row < 0) return nullptr;
  if (row < medianRows()) {
    const int stage = medianStages_[static_cast<std::size_t>(row)];
    const auto found = std::find_if(timeline.medians.begin(), timeline.medians.end(),
                                    [stage](const auto& lane) { return lane.stage == stage; });
    return found == timeline.medians.end() ? nullptr : &*found;
  }
  const auto rank = static_cast<std::size_t>(rankOf(row));
  return rank < timeline.lanes.size() ? &timeline.lanes[rank] : nullptr;
}

std::vector<const app::StepTimeline::Lane*> TimelineView::lanes() const {
  std::vector<const app::StepTimeline::Lane*> out;
  const Timeline& timeline = measured_ ? measured_ : predicted_;
  for (int row = 0; timeline && row < rowCount(); ++row) out.push_back(laneOf(*timeline, row));
  return out;
}

QString TimelineView::tickText(double x, double largest, double step) const {
  return formatTick(x * 1e-9, largest * 1e-9, step * 1e-9);
}

TimelineView::Parts TimelineView::parts() const {
  const bool both = measured_ && predicted_;
  const double end = 1 - kGap;
  Parts out;
  out.asynchronous = !measured_ ? 0 : both ? end * 0.6 : end;
  out.measured = out.asynchronous * (hasAsynchronous_ ? 0.65 : 1);
  out.predicted = predicted_ ? end : out.asynchronous;
  return out;
}

void TimelineView::drawBand(QImage& image, const Band& band, const app::StepTimeline& timeline,
                            bool asynchronous, bool pale) const {
  if (band.bottom <= band.top) return;
  const double perPixel = xRange().span() / image.width();
  Cover cover(image.width());
  const int last = std::min(band.last, rowCount());
  for (int row = band.first; row < last; ++row)
    if (const auto* lane = laneOf(timeline, row))
      cover.add(spansOf(*lane, asynchronous), xRange().begin, perPixel);
  const QRgb base = Theme::instance().color("base").rgb();
  std::array<QRgb, kPhaseCount> colors;
  for (int kind = 0; kind < kPhaseCount; ++kind) {
    const QRgb color = Theme::instance().phase(kind).rgb();
    colors[static_cast<std::size_t>(kind)] = pale ? blended(base, color, 0.5f) : color;
  }
  auto* line = reinterpret_cast<QRgb*>(image.scanLine(band.top));
  cover.paint(line, colors, std::max(1, last - band.first));
  for (int y = band.top + 1; y < band.bottom; ++y)
    std::copy_n(line, image.width(), reinterpret_cast<QRgb*>(image.scanLine(y)));
}

void TimelineView::drawCells(QImage& image) const {
  image.fill(Theme::instance().color("base"));
  const double perLane = image.height() / rowRange().span();
  const Parts ends = parts();
  const auto line = [&](double row) {
    return std::clamp(static_cast<int>(std::lround((row - rowRange().begin) * perLane)), 0,
                      image.height());
  };
  if (perLane < 3) {  // no room for parts: a line of pixels shows one lane or several
    const app::StepTimeline& timeline = measured_ ? *measured_ : *predicted_;
    const auto lanesOf = [&](int y) {
      const int first = static_cast<int>(rowRange().begin + y / perLane);
      const int last = static_cast<int>(rowRange().begin + (y + 1) / perLane);
      return std::pair(first, std::max(first + 1, last));
    };
    for (int top = 0, bottom = 0; top < image.height(); top = bottom) {
      const auto [first, last] = lanesOf(top);
      for (bottom = top + 1; bottom < image.height() && lanesOf(bottom) == std::pair(first, last);)
        ++bottom;
      drawBand(image, {top, bottom, first, last}, timeline, false, !measured_);
    }
    return;
  }
  const int end = std::min(rowCount(), static_cast<int>(std::ceil(rowRange().end)));
  for (int lane = static_cast<int>(rowRange().begin); lane < end; ++lane) {
    const auto band = [&](double from, double to) {
      return Band{line(lane + from), line(lane + to), lane, lane + 1};
    };
    if (measured_) {
      drawBand(image, band(0, ends.measured), *measured_, false, false);
      drawBand(image, band(ends.measured, ends.asynchronous), *measured_, true, false);
    }
    if (!predicted_) continue;
    const double share = hasAsynchronous_ ? 0.65 : 1;
    const double middle = ends.asynchronous + share * (ends.predicted - ends.asynchronous);
    drawBand(image, band(ends.asynchronous, middle), *predicted_, false, measured_ != nullptr);
    drawBand(image, band(middle, ends.predicted), *predicted_, true, measured_ != nullptr);
  }
}

const app::TimelineSpan* TimelineView::chosenSpan() const {
  const auto* lane = measured_ ? laneOf(*measured_, chosen_.row) : nullptr;
  if (lane == nullptr) return nullptr;
  const Spans& spans = spansOf(*lane, chosen_.asynchronous);
  return chosen_.index < spans.size() ? &spans[chosen_.index] : nullptr;
}

QString TimelineView::chosenText() const {
  const app::TimelineSpan* span = chosenSpan();
  return span == nullptr ? QString() : spanText(rankOf(chosen_.row), *span, false);
}

void TimelineView::drawVeil(QPainter& painter) const {
  const Theme& theme = Theme::instance();
  const QRect cells = cellsRect();
  const int x = std::clamp(pixelOf(*until_, 0).x(), cells.left(), cells.right() + 1);
  QColor veil = theme.color("base");
  veil.setAlpha(225);
  painter.fillRect(QRect(QPoint(x, cells.top()), cells.bottomRight()), veil);
  painter.setPen(QPen(theme.color("accent"), 1));
  painter.drawLine(x, cells.top(), x, cells.bottom());
}

void TimelineView::drawArrivals(QPainter& painter,
                                const app::StepTimeline::Collective& collective) const {
  const Theme& theme = Theme::instance();
  const auto mark = [&](const app::StepTimeline::Arrival& arrival, int width) {
    const QPoint top = pixelOf(static_cast<double>(arrival.at), rowOf(arrival.rank));
    const int bottom = pixelOf(0, rowOf(arrival.rank) + 1).y();
    painter.fillRect(QRect(top.x() - width / 2, top.y(), width, std::max(1, bottom - top.y())),
                     theme.color("text"));
  };
  for (const auto& arrival : collective.arrivals) mark(arrival, 2);
  mark(collective.last, 4);
  painter.setPen(QPen(theme.color("text"), 1, Qt::DashLine));
  const int x = pixelOf(static_cast<double>(collective.last.at), 0).x();
  painter.drawLine(x, cellsRect().top(), x, cellsRect().bottom());
}

void TimelineView::drawChosen(QPainter& painter, const app::TimelineSpan& span) const {
  const Parts ends = parts();
  const int row = chosen_.row;
  const double from = row + (chosen_.asynchronous ? ends.measured : 0);
  const double to = row + (chosen_.asynchronous ? ends.asynchronous : ends.measured);
  QRect box(pixelOf(static_cast<double>(span.begin), from),
            pixelOf(static_cast<double>(span.end), to) - QPoint(1, 1));
  if (box.width() < 3) box.setWidth(3);
  if (box.height() < 3) box.setHeight(3);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(Qt::black, 3));
  painter.drawRect(box);
  painter.setPen(QPen(Qt::white, 1));
  painter.drawRect(box);
}

void TimelineView::drawOver(QPainter& painter) const {
  if (medianRows() > 0) {
    painter.setPen(Theme::instance().color("axis"));
    const int y = pixelOf(0, medianRows()).y() - 1;
    painter.drawLine(cellsRect().left(), y, cellsRect().right(), y);
  }
  drawFlows(painter);
  if (until_) drawVeil(painter);
  const app::TimelineSpan* span = chosenSpan();
  if (span == nullptr) return;
  if (span->collective >= 0)
    drawArrivals(painter, measured_->collectives[static_cast<std::size_t>(span->collective)]);
  drawChosen(painter, *span);
}

TimelineView::Hit TimelineView::spanAt(double x, double row, double slack) const {
  const auto at = static_cast<int>(row);
  const Parts ends = parts();
  const double in = row - at;
  const bool inMeasured = measured_ && (in < ends.asynchronous || !predicted_);
  const Timeline& timeline = inMeasured ? measured_ : predicted_;
  const auto* lane = timeline ? laneOf(*timeline, at) : nullptr;
  if (lane == nullptr) return {};
  const double share = hasAsynchronous_ ? 0.65 : 1;
  const bool asynchronous =
      hasAsynchronous_ &&
      (inMeasured ? in >= ends.measured
                  : in >= ends.asynchronous + share * (ends.predicted - ends.asynchronous));
  const Spans& spans = spansOf(*lane, asynchronous);
  const auto found = firstAfter(spans, x - slack);
  if (found == spans.end() || static_cast<double>(found->begin) > x + slack) return {};
  return {
      &*found, {at, asynchronous, static_cast<std::size_t>(found - spans.begin())}, !inMeasured};
}

// Returns the span of the measured lane at x, or the next one.
TimelineView::Hit TimelineView::nearestAt(int row, double x) const {
  const auto* lane = measured_ ? laneOf(*measured_, row) : nullptr;
  if (lane == nullptr || lane->spans.empty()) return {};
  const Spans& spans = lane->spans;
  const auto found = std::min(firstAfter(spans, x), spans.end() - 1);
  return {&*found, {row, false, static_cast<std::size_t>(found - spans.begin())}, false};
}

void TimelineView::chooseSpan(const Place& place) {
  chosen_ = place;
  const app::TimelineSpan* span = chosenSpan();
  if (span != nullptr)
    bringIntoView(static_cast<double>(span->begin), static_cast<double>(span->length()), place.row);
  setAccessibleDescription(chosenText());
  QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
  QAccessible::updateAccessibility(&changed);
  update();
  Q_EMIT spanChosen();
}

void TimelineView::choose(double x, double row) {
  const Hit hit = hitAt(x, row);
  chooseSpan(hit.span == nullptr || hit.predicted ? Place{} : hit.place);
}

void TimelineView::chooseNothing() { chooseSpan({}); }

void TimelineView::moveChosen(int dx, int dy, bool far) {
  const app::TimelineSpan* span = chosenSpan();
  if (span == nullptr) {
    const Hit first = nearestAt(rowOf(std::max(0, marked_)), xRange().begin);
    if (first.span != nullptr) chooseSpan(first.place);
    return;
  }
  const double middle = static_cast<double>(span->begin + span->end) / 2;
  if (dy != 0) {
    const Hit other = nearestAt(chosen_.row + dy, middle);
    if (other.span != nullptr) chooseSpan(other.place);
    return;
  }
  const Spans& spans = spansOf(*laneOf(*measured_, chosen_.row), chosen_.asynchronous);
  const auto reach = static_cast<std::ptrdiff_t>(dx) * (far ? 10 : 1);
  Place next = chosen_;
  next.index = static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(chosen_.index) + reach, 0,
                                 static_cast<std::ptrdiff_t>(spans.size()) - 1));
  chooseSpan(next);
}

double TimelineView::chosenX() const {
  const app::TimelineSpan* span = chosenSpan();
  return span == nullptr ? std::numeric_limits<double>::quiet_NaN()
                         : static_cast<double>(span->begin + span->end) / 2;
}

QString TimelineView::spanText(int rank, const app::TimelineSpan& span, bool predicted) const {
  const app::StepTimeline& timeline = predicted ? *predicted_ : *measured_;
  QStringList parts{nameOf(rank), phaseName(static_cast<int>(span.kind))};
  if (span.name >= 0)
    parts << QString::fromStdString(timeline.names[static_cast<std::size_t>(span.name)]);
  parts << formatSeconds(static_cast<double>(span.length()) * 1e-9);
  if (span.collective >= 0) {
    const auto& last = timeline.collectives[static_cast<std::size_t>(span.collective)].last;
    parts << (last.rank == rank ? tr("the last to arrive")
                                : tr("last to arrive: %1").arg(nameOf(last.rank)));
  }
  parts << flowTexts(timeline, rank, span);
  if (predicted) parts << tr("predicted");
  return parts.join(QString::fromUtf8(" · "));
}

QString TimelineView::tipAt(double x, double row) const {
  const Hit hit = hitAt(x, row);
  return hit.span == nullptr ? QString()
                             : spanText(rankOf(hit.place.row), *hit.span, hit.predicted);
}

}  // namespace lockstep::ui
