#include "ui/plots/heat_map_view.h"

#include <QAccessible>
#include <QLocale>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ui/plots/color_map.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

HeatMapView::HeatMapView(const QString& objectName, const app::HeatMap& map, QWidget* parent)
    : GridView(objectName, parent), map_(map) {}

void HeatMapView::refresh(std::vector<int> order, std::vector<QString> names, double scale) {
  order_ = std::move(order);
  names_ = std::move(names);
  scale_ = scale > 0 ? scale : 1;
  const bool any = map_.steps() > 0;
  setExtent({1, static_cast<double>(std::max<std::int64_t>(map_.steps(), 1)) + 1},
            any ? static_cast<int>(order_.size()) : 0);
  describe();
}

void HeatMapView::setDescription(std::function<QString(int rank, std::int64_t step)> text) {
  description_ = std::move(text);
  describe();
}

int HeatMapView::rowOf(int rank) const {
  const auto found = std::find(order_.begin(), order_.end(), rank);
  return rank < 0 || found == order_.end() ? -1 : static_cast<int>(found - order_.begin());
}

QString HeatMapView::rowName(int row) const {
  const auto rank = static_cast<std::size_t>(order_[static_cast<std::size_t>(row)]);
  return rank < names_.size() ? names_[rank] : QString();
}
bool HeatMapView::isMarked(int row) const {
  return rank_ >= 0 && order_[static_cast<std::size_t>(row)] == rank_;
}
QString HeatMapView::tickText(double x, double, double) const {
  return QLocale().toString(std::llround(x));
}

void HeatMapView::drawCells(QImage& image) const {
  std::vector<float> pixels;
  map_.reduce({xRange().begin, xRange().span(), rowRange().begin, rowRange().span(), image.width(),
               image.height()},
              order_, pixels);
  const ColorMap colors(map_.isRelative() ? ColorMap::Kind::kDiverging
                                          : ColorMap::Kind::kSequential);
  const QRgb nothing = Theme::instance().color("base").rgb();
  const auto share = static_cast<float>(1 / scale_);
  // Low clocks, which are negated, are the bright end.
  const float least = !map_.isRelative() && app::isLowBad(map_.measure()) ? 1 : 0;
  const float* value = pixels.data();
  for (int y = 0; y < image.height(); ++y) {
    auto* line = reinterpret_cast<QRgb*>(image.scanLine(y));
    for (int x = 0; x < image.width(); ++x, ++value)
      line[x] = std::isnan(*value) ? nothing : colors.at(least + *value * share);
  }
}

void HeatMapView::drawOver(QPainter& painter) const {
  const int row = rowOf(rank_);
  if (row < 0) return;
  const std::int64_t stride = map_.stride();
  const auto first = static_cast<double>((step_ - 1) / stride * stride + 1);
  QRect cell(pixelOf(first, row),
             pixelOf(first + static_cast<double>(stride), row + 1) - QPoint(1, 1));
  if (cell.width() < 5) cell.adjust(-(5 - cell.width()) / 2, 0, (6 - cell.width()) / 2, 0);
  if (cell.height() < 5) cell.adjust(0, -(5 - cell.height()) / 2, 0, (6 - cell.height()) / 2);
  // Seen on every colour of the map.
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(Qt::black, 3));
  painter.drawRect(cell);
  painter.setPen(QPen(Qt::white, 1));
  painter.drawRect(cell);
}

void HeatMapView::choose(double x, double row) {
  chooseCell(order_[static_cast<std::size_t>(row)], static_cast<std::int64_t>(std::floor(x)));
}

void HeatMapView::chooseCell(int rank, std::int64_t step, bool comesIntoView) {
  const int row = rowOf(rank);
  if (row < 0) {
    rank = -1;
    step = 0;
  } else {
    // While another measure is being read, the map has no steps.
    step = std::max<std::int64_t>(step, 1);
    if (map_.steps() > 0) step = std::min(step, map_.steps());
  }
  if (rank == rank_ && step == step_) return;
  rank_ = rank;
  step_ = step;
  if (row >= 0 && comesIntoView) bringIntoView(static_cast<double>(step), 1, row);
  describe();
  update();
  Q_EMIT cellChosen(rank_, step_);
}

void HeatMapView::moveChosen(int dx, int dy, bool far) {
  if (order_.empty() || map_.steps() == 0) return;
  const int row = rowOf(rank_);
  if (row < 0)  // the first that is in view
    return chooseCell(order_[static_cast<std::size_t>(std::max(0.0, std::ceil(rowRange().begin)))],
                      static_cast<std::int64_t>(std::ceil(xRange().begin)));
  constexpr int kFar = 10;
  const int reach = far ? kFar : 1;
  const int to = std::clamp(row + dy * reach, 0, static_cast<int>(order_.size()) - 1);
  chooseCell(order_[static_cast<std::size_t>(to)],
             std::max<std::int64_t>(1, step_ + dx * reach * map_.stride()));
}

double HeatMapView::chosenX() const {
  return rank_ < 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(step_) + 0.5;
}

QString HeatMapView::tipAt(double x, double row) const {
  if (!description_) return {};
  return description_(order_[static_cast<std::size_t>(row)],
                      static_cast<std::int64_t>(std::floor(x)));
}

QPoint HeatMapView::centreOf(int rank, std::int64_t step) const {
  return pixelOf(static_cast<double>(step) + 0.5, rowOf(rank) + 0.5);
}

void HeatMapView::describe() {
  const QString text = description_ && rank_ >= 0 ? description_(rank_, step_) : QString();
  if (text == accessibleDescription()) return;
  setAccessibleDescription(text);
  QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
  QAccessible::updateAccessibility(&changed);
}

}  // namespace lockstep::ui
