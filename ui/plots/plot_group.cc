#include "ui/plots/plot_group.h"

#include <algorithm>

#include "ui/plots/plot_view.h"

namespace lockstep::ui {

void PlotGroup::add(PlotView* view) {
  if (view->group() == this) return;
  if (view->group() != nullptr) view->group()->remove(view);
  views_.removeIf([](const QPointer<PlotView>& one) { return one.isNull(); });
  views_ << view;
  view->setGroup(this);
  view->setXScale(scale_, scaleTitle_);
  view->setLogX(logX_);
  if (cursor_) view->showCursor(*cursor_, true, cursorOwner_);
  if (following_) return;
  view->showXRange(lower_, upper_);
  giveY(view);
}

void PlotGroup::remove(PlotView* view) {
  views_.removeAll(view);
  if (view->group() != this) return;
  view->setGroup(nullptr);
  view->showCursor(0, false);
  view->resetZoom();
}

void PlotGroup::setXRange(double lower, double upper, PlotView* from) {
  lower_ = lower;
  upper_ = upper;
  if (following_) {
    following_ = false;
    Q_EMIT followingChanged(false);
  }
  for (const auto& view : views_) {
    if (view && view != from) view->showXRange(lower, upper);
  }
  Q_EMIT zoomChanged();
}

std::optional<PlotGroup::Zoom> PlotGroup::zoomed() const {
  if (following_) return std::nullopt;
  Zoom out{lower_, upper_, awaitedY_};
  for (const auto& view : views_)
    if (view && view->yBox()) out.y[view->objectName()] = *view->yBox();
  return out;
}

void PlotGroup::restoreZoom(const Zoom& zoom) {
  setXRange(zoom.lower, zoom.upper, nullptr);
  awaitedY_ = zoom.y;
  for (const auto& view : views_)
    if (view) giveY(view);
}

void PlotGroup::giveY(PlotView* view) {
  const auto found = awaitedY_.constFind(view->objectName());
  if (found == awaitedY_.constEnd()) return;
  view->setYBox(*found);
  awaitedY_.erase(found);
}

void PlotGroup::follow() {
  following_ = true;
  awaitedY_.clear();
  Q_EMIT followingChanged(true);
  for (const auto& view : views_) {
    if (view) view->resetZoom();
  }
  Q_EMIT zoomChanged();
}

void PlotGroup::extent(double* lower, double* upper) const {
  MinMax all;
  for (const auto& view : views_) {
    if (!view || view->sampleCount() == 0) continue;
    all.add(view->dataRange());
  }
  *lower = all.empty() ? 0 : all.min;
  *upper = all.empty() ? 1 : all.max;
}

void PlotGroup::setCrosshair(double x, bool visible, const QString& line) {
  for (const auto& view : views_) {
    if (view) view->showCrosshair(x, visible, line);
  }
}

void PlotGroup::toggleKept(const QString& line) {
  for (const auto& view : views_)
    if (view) view->toggleKept(line);
}

void PlotGroup::setCursor(double x, const QString& owner) {
  cursor_ = x;
  cursorOwner_ = owner;
  for (const auto& view : views_)
    if (view) view->showCursor(x, true, owner);
}
bool PlotGroup::leaveCursor() {
  if (!cursor_) return false;
  Q_EMIT cursorLeft();
  return true;
}
void PlotGroup::clearCursor() {
  cursor_.reset();
  for (const auto& view : views_)
    if (view) view->showCursor(0, false);
}

void PlotGroup::setSmoothing(double weight) {
  smoothing_ = weight;
  for (const auto& view : views_) {
    if (view) view->setSmoothing(weight);
  }
}

void PlotGroup::setPaused(bool paused) {
  if (paused_ == paused) return;
  paused_ = paused;
  Q_EMIT pausedChanged(paused);
  if (paused) return;
  for (const auto& view : views_)
    if (view) view->markDirty();  // also one that was painted meanwhile: it follows again
}

void PlotGroup::setLogX(bool on) {
  logX_ = on;
  for (const auto& view : views_) {
    if (view) view->setLogX(on);
  }
  follow();
}

void PlotGroup::setXScale(std::optional<SeriesScale> scale, const QString& title) {
  scale_ = scale;
  scaleTitle_ = title;
  for (const auto& view : views_)
    if (view) view->setXScale(scale, title);
}

void PlotGroup::dataChanged() {
  if (paused_) return;
  for (const auto& view : views_) {
    if (view) view->lookForData();
  }
}

}  // namespace lockstep::ui
