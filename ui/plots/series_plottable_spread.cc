// Of a plottable: the spreads of many lines.
#include <algorithm>
#include <cmath>

#include "ui/plots/blend.h"
#include "ui/plots/series_plottable.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

// Their shares of the line's colour, on the ground.
constexpr double kSpreadShade[kSpreadParts] = {1, 0.42, 0.17};
// Of a part that lies on the one before it: both are seen together as above.
constexpr double kSpreadAlpha[kSpreadParts] = {1, 1 - (1 - 0.42) / (1 - 0.17), 0.17};
constexpr int kSpreadColors[SeriesPlottable::kMostSpreads] = {0, 5, 2};

constexpr std::chrono::milliseconds kInAFrame{8};

// Around the values of the median, which is at least a line.
constexpr double kHalfMedian = 1;

// All around a band.
QPolygonF outlineOf(const std::vector<QRectF>& band) {
  QPolygonF out;
  for (const QRectF& step : band) out << step.topLeft() << step.topRight();
  for (auto step = band.rbegin(); step != band.rend(); ++step)
    out << step->bottomRight() << step->bottomLeft();
  return out;
}

// Steps of a pixel or two, many where lines are noisy, which a painter fills slowly.
void fill(QImage& image, const std::vector<QRectF>& band, QRgb color, QPointF origin,
          double ratio) {
  const auto toPixel = [&](double at, double begin, int most) {
    return std::clamp(static_cast<int>(std::lround((at - begin) * ratio)), 0, most);
  };
  int top = image.height(), bottom = 0;  // with those of steps before, too narrow for a column
  for (const QRectF& step : band) {
    const int left = toPixel(step.left(), origin.x(), image.width());
    const int right = toPixel(step.right(), origin.x(), image.width());
    top = std::min(top, toPixel(step.top(), origin.y(), image.height()));
    bottom = std::max(bottom, toPixel(step.bottom(), origin.y(), image.height()));
    if (left == right) continue;
    for (int row = top; row < bottom; ++row) {
      auto* pixels = reinterpret_cast<QRgb*>(image.scanLine(row));
      for (int column = left; column < right; ++column)
        pixels[column] = blend(color, pixels[column]);
    }
    top = image.height();
    bottom = 0;
  }
}

}  // namespace

int spreadLineColor(int spread) { return kSpreadColors[spread]; }

QColor spreadColor(SpreadPart part, int spread) {
  const Theme& theme = Theme::instance();
  const QColor line = theme.series(spreadLineColor(spread)), ground = theme.color("base");
  const double share = kSpreadShade[static_cast<int>(part)];
  const auto mix = [&](double a, double b) {
    return static_cast<float>(share * a + (1 - share) * b);
  };
  return QColor::fromRgbF(mix(line.redF(), ground.redF()), mix(line.greenF(), ground.greenF()),
                          mix(line.blueF(), ground.blueF()));
}

void SeriesPlottable::drawSpreads(QPainter& painter) {
  painter.save();
  painter.setPen(Qt::NoPen);
  painter.setRenderHint(QPainter::Antialiasing);
  forBands([&](const Band& band, const QColor& color) {
    painter.setBrush(color);
    painter.drawPolygon(outlineOf(band));
  });
  painter.restore();
}

void SeriesPlottable::fillSpreads(double ratio) {
  const QPointF origin = mKeyAxis->axisRect()->rect().topLeft();
  forBands([&](const Band& band, const QColor& color) {
    fill(image_, band, qPremultiply(color.rgba()), origin, ratio);
  });
}

// Of several, the medians lie on all bands.
void SeriesPlottable::forBands(const std::function<void(const Band&, const QColor&)>& draw) {
  const QCPRange keys = mKeyAxis->range();
  const bool log = mKeyAxis->scaleType() == QCPAxis::stLogarithmic;
  const double pixels = std::max<double>(1, mKeyAxis->axisRect()->width());
  const double pixel = (log ? std::log10(keys.upper / keys.lower) : keys.size()) / pixels;
  const auto until =
      isOnScreen_ ? Spread::Clock::now() + kInAFrame : Spread::Clock::time_point::max();
  for (SpreadLines& one : spreads_)
    if (!one.spread.update(one.lines, {keys.lower, keys.upper, pixel, log}, until))
      isWhole_ = false;
  const auto each = [&](SpreadPart part, MinMax Spread::Stretch::*values, double more) {
    for (std::size_t i = 0; i < spreads_.size(); ++i) {
      QColor color = Theme::instance().series(spreadLineColor(static_cast<int>(i)));
      color.setAlphaF(static_cast<float>(kSpreadAlpha[static_cast<int>(part)]));
      for (const Band& band : bandsOf(spreads_[i].spread, values, more)) draw(band, color);
    }
  };
  each(SpreadPart::kAll, &Spread::Stretch::all, 0);
  each(SpreadPart::kMiddle, &Spread::Stretch::middle, 0);
  each(SpreadPart::kMedian, &Spread::Stretch::median, kHalfMedian);
}

// A stretch reaches to the next one, `more` pixels around its values.
std::vector<SeriesPlottable::Band> SeriesPlottable::bandsOf(const Spread& spread,
                                                            MinMax Spread::Stretch::*values,
                                                            double more) const {
  const QRectF area = mKeyAxis->axisRect()->rect();
  const bool logY = mValueAxis->scaleType() == QCPAxis::stLogarithmic;
  const auto toX = [&](double x) {
    return std::clamp(mKeyAxis->coordToPixel(x), area.left(), area.right());
  };
  // Out of sight it has no height.
  const auto toY = [&](double y, double shift) {
    if (logY && y <= 0) return area.bottom();
    return std::clamp(mValueAxis->coordToPixel(y) + shift, area.top(), area.bottom());
  };
  std::vector<Band> out;
  double lastTop = 0, lastBottom = 0;
  bool isOpen = false;
  const auto& all = spread.stretches();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool ends = i + 1 == all.size() || all[i + 1].index > all[i].index + 1;
    const double left = toX(spread.begin(all[i]));
    const double right = toX(ends ? spread.end(all[i]) : spread.begin(all[i + 1]));
    if (right > area.left() && left < area.right()) {
      double top = toY((all[i].*values).max, -more);
      double bottom = toY((all[i].*values).min, more);
      const double ownTop = top, ownBottom = bottom;
      if (isOpen) {  // no step is apart from the one before
        top = std::min(top, lastBottom);
        bottom = std::max(bottom, lastTop);
      } else {
        out.emplace_back();
        isOpen = true;
      }
      lastTop = ownTop;
      lastBottom = ownBottom;
      out.back().emplace_back(QPointF(left, top), QPointF(right, bottom));
    }
    if (ends) isOpen = false;
  }
  return out;
}

}  // namespace lockstep::ui
