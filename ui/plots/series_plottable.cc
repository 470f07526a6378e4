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
