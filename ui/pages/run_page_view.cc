// What a page of a run shows, as the settings keep it: its place, and the parts zoomed into.
#include <cmath>
#include <optional>

#include "ui/pages/run_page.h"
#include "ui/pages/steps_panel.h"
#include "ui/plots/grid_view.h"
#include "ui/plots/plot_group.h"

namespace lockstep::ui {
namespace {

constexpr const char* kPlace = "place";
constexpr const char* kX = "x";  // of a group; its other ranges are of y, by plot

QVariantList listOf(double begin, double end) { return {begin, end}; }

// Nullopt: it is none, as in a settings file that a person has changed.
std::optional<GridView::Range> rangeOf(const QVariant& value) {
  const QVariantList list = value.toList();
  const GridView::Range out{list.value(0).toDouble(), list.value(1).toDouble()};
  if (!std::isfinite(out.begin) || !std::isfinite(out.end) || out.begin >= out.end)
    return std::nullopt;
  return out;
}

QVariantMap mapOf(const PlotGroup::Zoom& zoom) {
  QVariantMap out{{kX, listOf(zoom.lower, zoom.upper)}};
  for (auto y = zoom.y.begin(); y != zoom.y.end(); ++y) out[y.key()] = listOf(y->min, y->max);
  return out;
}

std::optional<PlotGroup::Zoom> plotZoomOf(QVariantMap map) {
  const auto x = rangeOf(map.take(kX));
  if (!x) return std::nullopt;
  PlotGroup::Zoom out{x->begin, x->end, {}};
  for (auto y = map.begin(); y != map.end(); ++y)
    if (const auto range = rangeOf(*y)) out.y[y.key()] = {range->begin, range->end};
  return out;
}

}  // namespace

// The heat map and the plots over steps show the same steps. The map's cells reach to the next one.
void RunPage::shareZoom() {
  GridView* map = steps_->map();
  connect(map, &GridView::xChosen, stepGroup_, [this, map] {
    const auto zoom = stepGroup_->zoomed();
    if (map->xZoom() || (zoom && !zoom->y.empty()))
      stepGroup_->setXRange(map->xRange().begin, map->xRange().end - 1, nullptr);
    else
      stepGroup_->follow();
  });
  connect(stepGroup_, &PlotGroup::zoomChanged, map, [this, map] {
    const auto zoom = stepGroup_->zoomed();
    map->showX(zoom ? std::optional(GridView::Range{zoom->lower, zoom->upper + 1}) : std::nullopt);
  });
}

QVariantMap RunPage::view() const {
  QVariantMap out{{kPlace, linkOf(place())}};
  for (const PlotGroup* group : groups())
    if (const auto zoom = group->zoomed()) out[group->objectName()] = mapOf(*zoom);
  for (const GridView* grid : findChildren<GridView*>())
    if (const auto zoom = grid->zoomed())
      out[grid->objectName()] = QVariantList{QVariant(listOf(zoom->x.begin, zoom->x.end)),
                                             QVariant(listOf(zoom->rows.begin, zoom->rows.end))};
  return out;
}

void RunPage::restoreView(const QVariantMap& view) {
  const auto known = placeOf(view.value(kPlace).toString());
  if (known && known->key == key() && *known != place()) go(*known);
  for (PlotGroup* group : groups())
    if (const auto zoom = plotZoomOf(view.value(group->objectName()).toMap()))
      group->restoreZoom(*zoom);
  // What was zoomed stays in sight, not the cell that was chosen.
  if (known && (view.contains(steps_->map()->objectName()) || stepGroup_->zoomed()))
    steps_->choose(known->rank, known->step, false);
  for (GridView* grid : findChildren<GridView*>()) {
    const QVariantList ranges = view.value(grid->objectName()).toList();
    const auto x = rangeOf(ranges.value(0)), rows = rangeOf(ranges.value(1));
    if (x && rows) grid->restoreZoom({*x, *rows});
  }
}

}  // namespace lockstep::ui
