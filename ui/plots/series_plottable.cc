#include "ui/plots/series_plottable.h"

#include <algorithm>
#include <cmath>

#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

// Source-over of a premultiplied colour on a premultiplied pixel.
inline QRgb blend(QRgb over, QRgb under) {
  const unsigned keep = 255 - qAlpha(over);
  const auto mix = [&](unsigned a, unsigned b) { return a + (b * keep + 127) / 255; };
  return qRgba(static_cast<int>(mix(qRed(over), qRed(under))),
               static_cast<int>(mix(qGreen(over), qGreen(under))),
               static_cast<int>(mix(qBlue(over), qBlue(under))),
               static_cast<int>(mix(qAlpha(over), qAlpha(under))));
}

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

constexpr double kHalo = 4.5;                // pixels, the width of a line's edge
constexpr std::size_t kLinePoints = 20'000;  // more than this, all series together: runs

}  // namespace

SeriesPlottable::SeriesPlottable(QCPAxis* keyAxis, QCPAxis* valueAxis)
    : QCPAbstractPlottable(keyAxis, valueAxis) {
  setSelectable(QCP::stNone);
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
      all.add(data->range(data->lower(keys.lower), data->upper(keys.upper)));
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

void SeriesPlottable::draw(QCPPainter* painter) {
  const QRect area = mKeyAxis->axisRect()->rect();
  if (area.isEmpty()) return;
  if (painter->modes().testFlag(QCPPainter::pmVectorized)) return drawVector(*painter);
  const double ratio = mParentPlot->bufferDevicePixelRatio();
  const QSize size = area.size() * ratio;
  if (image_.size() != size) image_ = QImage(size, QImage::Format_ARGB32_Premultiplied);
  image_.setDevicePixelRatio(ratio);
  image_.fill(Qt::transparent);

  const QCPRange keys = mKeyAxis->range();
  std::size_t points = 0;
  for (const auto& s : series_) {
    const Pyramid& raw = s->raw(keys.lower, keys.upper);
    if (s->visible) points += raw.upper(keys.upper) - raw.lower(keys.lower);
  }
  const bool lines = points <= kLinePoints;
  const Theme& theme = Theme::instance();
  const auto one = [&](const Series& s, const Pyramid& data, QColor color, double width) {
    const std::size_t visible = data.upper(keys.upper) - data.lower(keys.lower);
    if (s.dots || (lines && visible < static_cast<std::size_t>(2 * area.width()))) {
      QPainter brush(&image_);
      brush.setRenderHint(QPainter::Antialiasing);
      drawLines(brush, data, color, width, s.dashed, s.dots, area.topLeft());
    } else {
      drawRuns(image_, data, color, width, area.topLeft(), ratio);
    }
  };
  for (const auto& s : series_) {
    if (!s->visible || !s->smoothed()) continue;
    QColor shadow = theme.series(s->colorIndex);
    shadow.setAlpha(theme.isDark() ? 85 : 70);
    one(*s, s->raw(keys.lower, keys.upper), shadow, 1.0);
  }
  // Few samples among many are seen: they come last, with an edge in the colour of the ground.
  for (const bool dots : {false, true}) {
    for (const auto& s : series_) {
      if (!s->visible || s->dots != dots) continue;
      if (dots) one(*s, s->shown(keys.lower, keys.upper), theme.color("base"), kHalo);
      one(*s, s->shown(keys.lower, keys.upper), theme.series(s->colorIndex), 1.7);
    }
  }
  painter->drawImage(area.topLeft(), image_);
}

// Of samples that are denser than half pixels, the lowest and the highest in each.
void SeriesPlottable::drawVector(QPainter& painter) const {
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
      if (values.empty() || !std::isfinite(values.min) || !std::isfinite(values.max) ||
          (logY && values.min <= 0)) {
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
  for (const auto& s : series_) {
    if (!s->visible || !s->smoothed()) continue;
    QColor shadow = theme.series(s->colorIndex);
    shadow.setAlpha(70);
    one(*s, s->raw(keys.lower, keys.upper), shadow, 0.8);
  }
  for (const bool dots : {false, true})
    for (const auto& s : series_)
      if (s->visible && s->dots == dots)
        one(*s, s->shown(keys.lower, keys.upper), theme.series(s->colorIndex), 1.5);
}

void SeriesPlottable::drawLines(QPainter& painter, const Pyramid& data, const QColor& color,
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
  double lastTop = 0, lastBottom = 0;
  bool joined = false;
  const int stride = static_cast<int>(image.bytesPerLine() / sizeof(QRgb));
  auto* pixels = reinterpret_cast<QRgb*>(image.bits());
  for (int column = 0; column < columns && at < data.size(); ++column) {
    const double right = mKeyAxis->pixelToCoord(origin.x() + (column + 1) / ratio);
    std::size_t end = at;
    // Denser than pixels: a few steps or a binary search, whichever is shorter.
    if (end < data.size() && data.x(end) < right) end = data.lower(right);
    const MinMax values = data.range(at, end);
    at = end;
    if (values.empty() || !std::isfinite(values.min) || !std::isfinite(values.max)) continue;
    double top = toRow(values.max), bottom = toRow(values.min);
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
