// Of a plot that draws its many lines as their spread: which lines are drawn by themselves, and the
// texts.
#include "ui/plots/custom_plot.h"

#include <algorithm>

#include "ui/plots/legend_bar.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/series_plottable.h"
#include "ui/plots/series_table_model.h"
#include "ui/theme/format.h"

namespace lockstep::ui {
namespace {

// Colours of the theme that stand out from the spread, and each from the others.
constexpr int kMarkColors[] = {1, 2, 3, 5, 6};

}  // namespace

std::shared_ptr<Series> PlotView::spreadLine(const QString& name) const {
  const auto& all = lines_->series();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const auto& one) { return one->visible && one->name == name; });
  return found == all.end() ? nullptr : *found;
}

QStringList PlotView::spreadTexts() const {
  return {tr("median"), tr("half of the lines"),
          tr("all %1 lines").arg(formatCount(static_cast<qint64>(lines_->spreadLines())))};
}

QStringList PlotView::spreadValues(double x) const {
  const Spread::Stretch* there = lines_->spread().at(x);
  if (there == nullptr) return {{}, {}, {}};
  const auto range = [&](const MinMax& values) {
    const QString low = valueText(values.min), high = valueText(values.max);
    return low == high ? low : low + QString::fromUtf8(" – ") + high;
  };
  return {range(there->median), range(there->middle), range(there->all)};
}

void PlotView::refreshMarks() {
  const auto& all = lines_->series();
  kept_.clear();
  for (const QString& name : keptNames_)
    if (const auto line = isSpread_ ? spreadLine(name) : nullptr) kept_.push_back(line);
  for (std::size_t i = 0; i < kept_.size(); ++i)
    kept_[i]->colorIndex = kMarkColors[i % std::size(kMarkColors)];
  if (!isSpread_ || std::find(all.begin(), all.end(), hovered_) == all.end()) hovered_ = nullptr;
  marks_->series() = kept_;
  if (hovered_ && std::find(kept_.begin(), kept_.end(), hovered_) == kept_.end()) {
    hovered_->colorIndex = kMarkColors[kept_.size() % std::size(kMarkColors)];
    marks_->series().push_back(hovered_);
  }
}

std::vector<std::shared_ptr<Series>> PlotView::namedLines() const {
  if (!isSpread_) return lines_->series();
  auto named = kept_;
  for (const auto& line : lines_->series())
    if (line->dots || line->dashed) named.push_back(line);
  return named;
}

void PlotView::refreshLegend() {
  linesChanged_ = false;
  isSpread_ = lines_->spreadLines() > 0;
  refreshMarks();
  tableModel_->setSeries(lines_->series());
  if (isSpread_) {
    legend_->setEntries(
        spreadTexts(),
        tr("%1 lines are drawn as their spread. The pale band reaches from the lowest to the "
           "highest value; at least half of the lines stay within the dark one. Point at the plot "
           "for the nearest line, click to keep it.")
            .arg(formatCount(static_cast<qint64>(lines_->spreadLines()))),
        namedLines());
  } else {
    legend_->setEntries({}, {}, namedLines());
  }
  placeLegend();
}

void PlotView::toggleKept(const QString& name) {
  if (!keptNames_.removeOne(name)) keptNames_ << name;
  refreshLegend();
  markDirty();
}

void PlotView::pointAt(QPointF pixel) {
  const double x = plot_->xAxis->pixelToCoord(pixel.x());
  const auto line = isSpread_ ? lines_->nearest(pixel) : nullptr;
  const QString name = line ? line->name : QString();
  if (group_) {
    group_->setCrosshair(x, true, name);
  } else {
    showCrosshair(x, true, name);
  }
}

// Of all plots of the group.
void PlotView::keep(const QString& name) {
  if (group_) return group_->toggleKept(name);
  toggleKept(name);
}

void PlotView::clickedAt(QPointF pixel) {
  clicked_.clear();
  const auto line = isSpread_ ? lines_->nearest(pixel) : nullptr;
  if (!line || !plot_->axisRect()->rect().contains(pixel.toPoint())) return;
  clicked_ = line->name;
  keep(clicked_);
}

void PlotView::clickedLegend(const std::shared_ptr<Series>& series) {
  if (std::find(kept_.begin(), kept_.end(), series) != kept_.end()) return keep(series->name);
  series->visible = !series->visible;
  legend_->update();
  markDirty();
}

}  // namespace lockstep::ui
