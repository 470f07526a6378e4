#include "ui/plots/color_map.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <span>

#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

constexpr QRgb kCividis[] = {0xff00224e, 0xff123570, 0xff3b496c, 0xff575d6d, 0xff707173,
                             0xff8a8678, 0xffa59c74, 0xffc3b369, 0xffe1cc55, 0xfffee838};
constexpr QRgb kLightDiverging[] = {0xff2a5d9f, 0xff6f9fd0, 0xffb9d3ea, 0xfff0f1f3,
                                    0xfff6cfa5, 0xffe58f3c, 0xffa64700};
constexpr QRgb kDarkDiverging[] = {0xff9ccbff, 0xff4a8fd6, 0xff2b5480, 0xff2c3037,
                                   0xff8a5419, 0xffe58f3c, 0xffffd9a6};
constexpr int kBarWidth = 150, kBarHeight = 10, kGap = 6;

QRgb mixed(std::span<const QRgb> stops, double share) {
  const double at = share * static_cast<double>(stops.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(at), stops.size() - 2);
  const double part = at - static_cast<double>(low);
  const auto mix = [&](int a, int b) { return static_cast<int>(std::lround(a + (b - a) * part)); };
  const QRgb a = stops[low], b = stops[low + 1];
  return qRgb(mix(qRed(a), qRed(b)), mix(qGreen(a), qGreen(b)), mix(qBlue(a), qBlue(b)));
}

}  // namespace

ColorMap::ColorMap(Kind kind) {
  const bool diverging = kind == Kind::kDiverging;
  factor_ = diverging ? (kColors - 1) / 2.0f : kColors - 1;
  offset_ = 0.5f + (diverging ? factor_ : 0);
  const std::span<const QRgb> stops = !diverging ? std::span<const QRgb>(kCividis)
                                      : Theme::instance().isDark()
                                          ? std::span<const QRgb>(kDarkDiverging)
                                          : std::span<const QRgb>(kLightDiverging);
  for (std::size_t i = 0; i < table_.size(); ++i)
    table_[i] = mixed(stops, static_cast<double>(i) / (kColors - 1));
}

ColorLegend::ColorLegend(QWidget* parent) : QWidget(parent) {
  setObjectName("colorLegend");
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
}

void ColorLegend::setScale(ColorMap::Kind kind, const QString& unit, const QString& least,
                           const QString& most) {
  kind_ = kind;
  unit_ = unit;
  least_ = least;
  most_ = most;
  updateGeometry();
  update();
}

QSize ColorLegend::sizeHint() const {
  const QFontMetrics metrics(Theme::instance().small(this));
  return {metrics.horizontalAdvance(least_) + metrics.horizontalAdvance(most_) +
              (unit_.isEmpty() ? 0 : metrics.horizontalAdvance(unit_) + 2 * kGap) + kBarWidth +
              2 * kGap,
          std::max(metrics.height(), kBarHeight) + 4};
}

void ColorLegend::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& theme = Theme::instance();
  painter.setFont(theme.small(this));
  const QFontMetrics metrics(theme.small(this));
  int x = 0;
  const auto text = [&](const QString& words) {
    painter.setPen(theme.color("muted"));
    const int room = metrics.horizontalAdvance(words);
    painter.drawText(QRect(x, 0, room + 1, height()), Qt::AlignVCenter | Qt::AlignLeft, words);
    x += room + kGap;
  };
  if (!unit_.isEmpty()) {
    text(unit_);
    x += kGap;
  }
  text(least_);
  const ColorMap colors(kind_);
  const QRect bar(x, (height() - kBarHeight) / 2, kBarWidth, kBarHeight);
  for (int i = 0; i < kBarWidth; ++i) {
    const float share = static_cast<float>(i) / (kBarWidth - 1);
    painter.fillRect(
        bar.x() + i, bar.y(), 1, bar.height(),
        QColor(colors.at(kind_ == ColorMap::Kind::kDiverging ? 2 * share - 1 : share)));
  }
  painter.setPen(theme.color("border"));
  painter.drawRect(bar.adjusted(-1, -1, 0, 0));
  x = bar.right() + 1 + kGap;
  text(most_);
}

}  // namespace lockstep::ui
