// Of a plot that draws its many lines as their spread: which lines are drawn by themselves, and the
// texts.
#include "ui/plots/custom_plot.h"

#include <algorithm>
#include <iterator>

#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/series_plottable.h"
#include "ui/theme/format.h"

namespace lockstep::ui {
namespace {

// Colours of the theme that stand out from the spread, and each from the others.
constexpr int kMarkColors[] = {1, 2, 3, 5, 6};

}  // namespace

std::shared_ptr<Series> PlotView::spreadLine(const QString& name) const {
  const auto& all = lines_->series();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) {
    return one->visible && one->name == name && lines_->isOfSpread(*one);
  });
  return found == all.end() ? nullptr : *found;
}

// Of one spread its parts, of several each by its median.
std::vector<LegendBar::Part> PlotView::spreadParts() const {
  const auto& spreads = lines_->spreads();
  const auto count = [](const SpreadLines& one) {
    return formatCount(static_cast<qint64>(one.lines.size()));
  };
  if (spreads.empty()) return {};
  if (spreads.size() == 1)
    return {{tr("median"), 0, SpreadPart::kMedian},
            {tr("half of the lines"), 0, SpreadPart::kMiddle},
            {tr("all %1 lines").arg(count(spreads[0])), 0, SpreadPart::kAll}};
  std::vector<LegendBar::Part> out;
  for (std::size_t i = 0; i < spreads.size(); ++i) {
    const QString& quantity = spreads[i].quantity;
    out.push_back({quantity.isEmpty() ? tr("median of %1 others").arg(count(spreads[i]))
                                      : tr("%1, median of %2").arg(quantity, count(spreads[i])),
                   static_cast<int>(i), SpreadPart::kMedian});
  }
  return out;
}

QString PlotView::spreadAbout() const {
  qsizetype lines = 0;
  for (const SpreadLines& one : lines_->spreads()) lines += std::ssize(one.lines);
  if (lines == 0) return {};
  return tr("%1 lines are drawn as their spread. The pale band reaches from the lowest to the "
            "highest value; at least half of the lines stay within the dark one. Point at the plot "
            "for the nearest line, click to keep it.")
      .arg(formatCount(lines));
}

QStringList PlotView::spreadValues(double x) const {
  const auto range = [&](const MinMax& values) {
    const QString low = valueText(values.min), high = valueText(values.max);
    return low == high ? low : low + QString::fromUtf8(" – ") + high;
  };
  QStringList out;
  for (const LegendBar::Part& part : legend_->parts()) {
    const auto at = static_cast<std::size_t>(part.spread);
    const Spread::Stretch* there =
        at < lines_->spreads().size() ? lines_->spreads()[at].spread.at(x) : nullptr;
    out << (there == nullptr                   ? QString()
            : part.part == SpreadPart::kMedian ? range(there->median)
            : part.part == SpreadPart::kMiddle ? range(there->middle)
                                               : range(there->all));
  }
  return out;
}

void PlotView::refreshMarks() {
  kept_.clear();
  for (const QString& name : keptNames_)
    if (const auto line = spreadLine(name)) kept_.push_back(line);
  const auto& all = lines_->series();
  std::vector<std::shared_ptr<Series>> alone;  // of the owner; they have names and colours
  for (const auto& line : all) {
    if (owner_.isEmpty() || line->owner != owner_) continue;
    if (!lines_->isOfSpread(*line))
      alone.push_back(line);  // also while it is hidden
    else if (line->visible && std::find(kept_.begin(), kept_.end(), line) == kept_.end())
      kept_.push_back(line);
  }
  if (hovered_ &&
      (!lines_->isOfSpread(*hovered_) || std::find(all.begin(), all.end(), hovered_) == all.end()))
    hovered_ = nullptr;
  for (const auto& line : marked_) line->markColor.reset();
  marked_ = kept_;
  if (hovered_ && std::find(kept_.begin(), kept_.end(), hovered_) == kept_.end())
    marked_.push_back(hovered_);
  std::vector<int> colors(std::begin(kMarkColors), std::end(kMarkColors));
  for (std::size_t i = 0; i < lines_->spreads().size(); ++i)
    std::erase(colors, spreadLineColor(static_cast<int>(i)));
  for (std::size_t i = 0; i < marked_.size(); ++i)
    marked_[i]->markColor = colors[i % colors.size()];
  marks_->series() = alone;
  marks_->series().insert(marks_->series().end(), marked_.begin(), marked_.end());
}

std::vector<std::shared_ptr<Series>> PlotView::namedLines() const {
  auto named = kept_;
  for (const auto& line : lines_->series())
    if (!lines_->isOfSpread(*line)) named.push_back(line);
  return named;
}

void PlotView::refreshLegend() {
  linesChanged_ = false;
  lines_->regroup();
  nameLines();
}

// What is drawn as spreads and what is kept of them.
void PlotView::nameLines() {
  refreshMarks();
  legend_->setEntries(spreadParts(), spreadAbout(), namedLines());
  placeLegend();
}

void PlotView::toggleKept(const QString& name) {
  if (!keptNames_.removeOne(name)) keptNames_ << name;
  nameLines();
  markDirty();
}

void PlotView::pointAt(QPointF pixel) {
  const double x = plot_->xAxis->pixelToCoord(pixel.x());
  const auto line = lines_->nearest(pixel);
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
  const auto line = lines_->nearest(pixel);
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
