#include "ui/plots/series_plottable.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "ui/plots/blend.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

// The part of a segment in `area`; false: none. Liang and Barsky's way.
bool clip(QPointF& a, QPointF& b, const QRectF& area) {
  double from = 0, to = 1;
  const QPointF d = b - a;
  const auto cut = [&](double p, double q) {
    if (p == 0) return q >= 0;
    const double at = q / p;
    if (p < 0)
      from = std::max(from, at);
    else
      to = std::min(to, at);
    return from <= to;
  };
  if (!cut(-d.x(), a.x() - area.left()) || !cut(d.x(), area.right() - a.x()) ||
      !cut(-d.y(), a.y() - area.top()) || !cut(d.y(), area.bottom() - a.y()))
    return false;
  const QPointF begin = a;
  a = begin + d * from;
  b = begin + d * to;
  return true;
}

// The parts of a line in `area`: not all vector formats can clip.
QVector<QPolygonF> clipped(const QPolygonF& line, const QRectF& area) {
  QVector<QPolygonF> out;
  bool open = false;
  for (qsizetype i = 0; i + 1 < line.size(); ++i) {
    QPointF a = line[i], b = line[i + 1];
    if (!clip(a, b, area)) {
      open = false;
      continue;
    }
    if (!open || a != line[i]) out.append(QPolygonF() << a);
    out.back() << b;
    open = b == line[i + 1];
  }
  return out;
}

bool isSpreadable(const Series& line) { return !line.dots && !line.dashed; }
bool isSeen(const Series& line) { return line.visible && isSpreadable(line); }

constexpr double kHalo = 4.5;  // pixels, the width of a line's edge
// Pixels of antialiased line, all series together, that are drawn quickly enough; a corner costs as
// much as some of them.
constexpr double kLineLength = 60'000, kCorner = 5;

}  // namespace

SeriesPlottable::SeriesPlottable(QCPAxis* keyAxis, QCPAxis* valueAxis)
    : QCPAbstractPlottable(keyAxis, valueAxis) {
  setSelectable(QCP::stNone);
  connect(mParentPlot, &QCustomPlot::beforeReplot, this, [this] { isOnScreen_ = true; });
  connect(mParentPlot, &QCustomPlot::afterReplot, this, [this] { isOnScreen_ = false; });
}

QCPRange SeriesPlottable::xRange() const {
  MinMax all;
  for (const auto& s : series_) {
    if (!s->visible || s->raw().size() == 0) continue;
    all.add(s->raw().x(0));
    all.add(s->raw().x(s->raw().size() - 1));
  }
  return all.empty() ? QCPRange(0, 1) : QCPRange(all.min, all.max);
}

QCPRange SeriesPlottable::yRange(QCPRange keys) const {
  MinMax all;
  for (const auto& s : series_) {
    if (!s->visible) continue;
    const Pyramid& shown = s->shown(keys.lower, keys.upper);
    for (const Pyramid* data : {&s->raw(keys.lower, keys.upper), &shown}) {
      std::size_t begin = data->lower(keys.lower), end = data->upper(keys.upper);
      if (begin == end) {  // the line crosses the view between two samples: take both
        if (begin > 0) --begin;
        if (end < data->size()) ++end;
      }
      all.add(data->range(begin, end));
      if (data == &shown) break;
    }
  }
  return all.empty() ? QCPRange(0, 1) : QCPRange(all.min, all.max);
}

QCPRange SeriesPlottable::getKeyRange(bool& found, QCP::SignDomain) const {
  found = !series_.empty();
  return xRange();
}
QCPRange SeriesPlottable::getValueRange(bool& found, QCP::SignDomain, const QCPRange&) const {
  found = !series_.empty();
  return yRange(mKeyAxis->range());
}

void SeriesPlottable::regroup() {
  std::vector<SpreadLines> now;
  std::size_t count = 0;
  const auto ofQuantity = [&](const QString& quantity) -> SpreadLines& {
    for (SpreadLines& one : now)
      if (one.quantity == quantity) return one;
    return now.emplace_back(SpreadLines{quantity, {}, {}});
  };
  for (const auto& line : series_) {
    if (!isSeen(*line)) continue;
    ofQuantity(line->quantity).lines.push_back(line);
    ++count;
  }
  if (count <= kMostLines) now.clear();
  isOne_ = now.size() > kMostSpreads;
  if (isOne_) {
    now = {SpreadLines{}};
    std::copy_if(series_.begin(), series_.end(), std::back_inserter(now[0].lines),
                 [](const auto& line) { return isSeen(*line); });
  }
  const std::size_t share = kMostLines / std::max<std::size_t>(now.size(), 1);
  std::erase_if(now, [&](const SpreadLines& one) { return one.lines.size() <= share; });
  for (SpreadLines& one : now)
    for (SpreadLines& before : spreads_)
      if (before.quantity == one.quantity) one.spread = std::move(before.spread);
  spreads_ = std::move(now);
  alone_.clear();
  std::copy_if(series_.begin(), series_.end(), std::back_inserter(alone_),
               [&](const auto& line) { return !isOfSpread(*line); });
}

bool SeriesPlottable::isOfSpread(const Series& line) const {
  if (spreads_.empty() || !isSpreadable(line)) return false;
  return std::any_of(spreads_.begin(), spreads_.end(), [&](const SpreadLines& one) {
    return isOne_ || one.quantity == line.quantity;
  });
}

std::shared_ptr<Series> SeriesPlottable::nearest(QPointF pixel) const {
  const double x = mKeyAxis->pixelToCoord(pixel.x());
  std::shared_ptr<Series> found;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& line : series_) {
    if (!line->visible || !isOfSpread(*line)) continue;
    const Pyramid& samples = line->shown(x, x);
    const auto at = samples.nearest(x);
    if (at < 0) continue;
    const double away =
        std::abs(mValueAxis->coordToPixel(samples.y(static_cast<std::size_t>(at))) - pixel.y());
    if (!(away < least)) continue;  // also what is no number
    least = away;
    found = line;
  }
  return found;
}

void SeriesPlottable::draw(QCPPainter* painter) {
  isWhole_ = true;
  if (mKeyAxis->axisRect()->rect().isEmpty()) return;
  regroup();
  if (painter->modes().testFlag(QCPPainter::pmVectorized)) {
    drawSpreads(*painter);
    drawVector(*painter, alone_);
  } else if (!spreads_.empty() || !alone_.empty()) {
    drawImage(*painter);
  }
}

bool SeriesPlottable::isShort(const Lines& lines) const {
  const QCPRange keys = mKeyAxis->range();
  const auto columns = static_cast<std::size_t>(mKeyAxis->axisRect()->width());
  const double ratio = mParentPlot->bufferDevicePixelRatio();
  double length = 0;
  for (const auto& line : lines) {
    if (!line->visible) continue;
    const Pyramid& data = line->raw(keys.lower, keys.upper);
    const std::size_t begin = data.lower(keys.lower), end = data.upper(keys.upper);
    if (end - begin >= 2 * columns) continue;  // runs
    length += static_cast<double>(columns);
    double last = std::nan("");
    for (std::size_t i = begin; i < end && length * ratio <= kLineLength; ++i) {
      const double y = mValueAxis->coordToPixel(data.y(i));
      length += kCorner + (std::isfinite(y - last) ? std::abs(y - last) : 0);
      last = y;
    }
    if (length * ratio > kLineLength) return false;
  }
  return true;
}

void SeriesPlottable::drawImage(QCPPainter& painter) {
  const QRect area = mKeyAxis->axisRect()->rect();
  const double ratio = mParentPlot->bufferDevicePixelRatio();
  const QSize size = area.size() * ratio;
  if (image_.size() != size) image_ = QImage(size, QImage::Format_ARGB32_Premultiplied);
  image_.setDevicePixelRatio(ratio);
  image_.fill(Qt::transparent);
  fillSpreads(ratio);
  drawAlone(ratio);
  painter.drawImage(area.topLeft(), image_);
}

void SeriesPlottable::drawAlone(double ratio) {
  const QRect area = mKeyAxis->axisRect()->rect();
  const QCPRange keys = mKeyAxis->range();
  const bool few = isShort(alone_);
  const Theme& theme = Theme::instance();
  const auto one = [&](const Series& s, const Pyramid& data, QColor color, double width) {
    const std::size_t visible = data.upper(keys.upper) - data.lower(keys.lower);
    if (s.dots || ((few || s.dashed) && visible < static_cast<std::size_t>(2 * area.width()))) {
      QPainter brush(&image_);
      brush.setRenderHint(QPainter::Antialiasing);
      drawLine(brush, data, color, width, s.dashed, s.dots, area.topLeft());
    } else {
      drawRuns(image_, data, color, width, area.topLeft(), ratio);
    }
  };
  for (const auto& s : alone_) {
    if (!s->visible || !s->smoothed()) continue;
    QColor shadow = theme.series(s->shownColor());
    shadow.setAlpha(theme.isDark() ? 85 : 70);
    one(*s, s->raw(keys.lower, keys.upper), shadow, 1.0);
  }
  // Few samples among many are seen: they come last, with an edge in the colour of the ground.
  for (const bool dots : {false, true}) {
    for (const auto& s : alone_) {
      if (!s->visible || s->dots != dots) continue;
      if (dots || edged_) one(*s, s->shown(keys.lower, keys.upper), theme.color("base"), kHalo);
      one(*s, s->shown(keys.lower, keys.upper), theme.series(s->shownColor()), 1.7);
    }
  }
}

// Of samples that are denser than half pixels, the lowest and the highest in each.
void SeriesPlottable::drawVector(QPainter& painter, const Lines& lines) const {
  const QRectF area = mKeyAxis->axisRect()->rect();
  const QCPRange keys = mKeyAxis->range();
  const bool logY = mValueAxis->scaleType() == QCPAxis::stLogarithmic;
  const Theme& theme = Theme::instance();
  const auto one = [&](const Series& s, const Pyramid& data, const QColor& color, double width) {
    std::size_t at = data.lower(keys.lower), end = data.upper(keys.upper);
    if (at > 0) --at;
    if (end < data.size()) ++end;
    const bool dense = static_cast<double>(end - at) > 4 * area.width();
    painter.setPen(
        QPen(color, width, s.dashed ? Qt::DashLine : Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin));
    painter.setBrush(Qt::NoBrush);
    QPolygonF line, marks;
    const auto flush = [&] {
      for (const QPolygonF& part : clipped(line, area)) painter.drawPolyline(part);
      if (line.size() == 1) marks << line[0];
      line.clear();
    };
    while (at < end) {
      const double x = mKeyAxis->coordToPixel(data.x(at));
      std::size_t next = at + 1;
      if (dense) next = std::clamp(data.lower(mKeyAxis->pixelToCoord(x + 0.5)), next, end);
      const MinMax values = data.range(at, next);
      at = next;
      if (values.empty() || (logY && values.min <= 0)) {
        flush();
        continue;
      }
      line << QPointF(x, mValueAxis->coordToPixel(values.min));
      if (values.max > values.min) line << QPointF(x, mValueAxis->coordToPixel(values.max));
      if (s.dots) marks << line.back();
    }
    flush();
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    for (const QPointF& mark : marks)
      if (area.adjusted(-1, -1, 1, 1).contains(mark)) painter.drawEllipse(mark, 3, 3);
    painter.setBrush(Qt::NoBrush);
  };
  for (const auto& s : lines) {
    if (!s->visible || !s->smoothed()) continue;
    QColor shadow = theme.series(s->shownColor());
    shadow.setAlpha(70);
    one(*s, s->raw(keys.lower, keys.upper), shadow, 0.8);
  }
  for (const bool dots : {false, true})
    for (const auto& s : lines)
      if (s->visible && s->dots == dots)
        one(*s, s->shown(keys.lower, keys.upper), theme.series(s->shownColor()), 1.5);
}

void SeriesPlottable::drawLine(QPainter& painter, const Pyramid& data, const QColor& color,
                               double width, bool dashed, bool dots, QPointF origin) const {
  const QCPRange keys = mKeyAxis->range();
  std::size_t begin = data.lower(keys.lower), end = data.upper(keys.upper);
  if (begin > 0) --begin;
  if (end < data.size()) ++end;
  QPen pen(color, width, dashed ? Qt::DashLine : Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin);
  painter.setPen(pen);
  QPolygonF line;
  const auto flush = [&] {
    if (line.size() == 1) painter.drawEllipse(line[0], 1, 1);
    if (line.size() > 1) painter.drawPolyline(line);
    line.clear();
  };
  QPolygonF marks;
  for (std::size_t i = begin; i < end; ++i) {
    const double y = data.y(i);
    if (!std::isfinite(y) || (mValueAxis->scaleType() == QCPAxis::stLogarithmic && y <= 0)) {
      flush();
      continue;
    }
    line << QPointF(mKeyAxis->coordToPixel(data.x(i)), mValueAxis->coordToPixel(y)) - origin;
    if (dots) marks << line.back();
  }
  flush();
  if (!marks.isEmpty()) {
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    const double radius = width < kHalo ? 3.2 : 4.6;
    for (const QPointF& at : marks) painter.drawEllipse(at, radius, radius);
    painter.setBrush(Qt::NoBrush);
  }
}

void SeriesPlottable::drawRuns(QImage& image, const Pyramid& data, const QColor& color,
                               double width, QPointF origin, double ratio) const {
  const int columns = image.width(), rows = image.height();
  const QRgb pen = qPremultiply(color.rgba());
  const bool logY = mValueAxis->scaleType() == QCPAxis::stLogarithmic;
  const double half = std::max(0.5, width * ratio / 2);
  const double floorY = mValueAxis->range().lower;
  const auto toRow = [&](double y) {
    if (logY && y <= 0) y = floorY;
    return std::clamp((mValueAxis->coordToPixel(y) - origin.y()) * ratio, -4.0, rows + 4.0);
  };
  std::size_t at = data.lower(mKeyAxis->range().lower);
  // Of a column between two samples, the row on the line from one to the other.
  const auto between = [&](std::size_t before, double column) {
    const auto place = [&](std::size_t i) {
      return QPointF((mKeyAxis->coordToPixel(data.x(i)) - origin.x()) * ratio, toRow(data.y(i)));
    };
    const QPointF a = place(before), b = place(before + 1);
    return a.y() + (b.y() - a.y()) * std::clamp((column - a.x()) / (b.x() - a.x()), 0.0, 1.0);
  };
  double lastTop = 0, lastBottom = 0;
  bool joined = false;
  const int stride = static_cast<int>(image.bytesPerLine() / sizeof(QRgb));
  auto* pixels = reinterpret_cast<QRgb*>(image.bits());
  for (int column = 0; column < columns && at < data.size(); ++column) {
    const double right = mKeyAxis->pixelToCoord(origin.x() + (column + 1) / ratio);
    // Denser than pixels: a few steps or a binary search, whichever is shorter.
    const std::size_t end = data.lower(right, at);
    double top = 0, bottom = 0;
    if (end == at) {
      if (at == 0 || !std::isfinite(data.y(at - 1)) || !std::isfinite(data.y(at))) {
        joined = false;
        continue;
      }
      top = bottom = between(at - 1, column + 0.5);
    } else {
      const MinMax values = data.range(at, end);
      at = end;
      if (values.empty()) {
        joined = false;
        continue;
      }
      top = toRow(values.max);
      bottom = toRow(values.min);
    }
    const double ownTop = top, ownBottom = bottom;
    if (joined) {  // no gap to the column before
      if (lastBottom < top) top = lastBottom;
      if (lastTop > bottom) bottom = lastTop;
    }
    lastTop = ownTop;
    lastBottom = ownBottom;
    joined = true;
    const int from = std::max(0, static_cast<int>(std::floor(top - half + 0.5)));
    const int to = std::min(rows - 1, static_cast<int>(std::ceil(bottom + half - 0.5)));
    QRgb* pixel = pixels + static_cast<std::ptrdiff_t>(from) * stride + column;
    if (qAlpha(pen) == 255) {
      for (int row = from; row <= to; ++row, pixel += stride) *pixel = pen;
    } else {
      for (int row = from; row <= to; ++row, pixel += stride) *pixel = blend(pen, *pixel);
    }
  }
}

}  // namespace lockstep::ui
