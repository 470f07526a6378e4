// The gestures on a plot: zoom and pan by mouse and keys, the crosshair with its texts, and the
// menu.
#include "ui/plots/custom_plot.h"

#include <QApplication>
#include <QClipboard>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "ui/plots/legend_bar.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/series_plottable.h"
#include "ui/theme/format.h"

namespace lockstep::ui {
namespace {

constexpr int kLeastBox = 5, kLowBox = 14;  // pixels: less is a click; lower is along x alone
constexpr int kFar = 1 << 20;               // pixels, beyond any click

// A line from bottom to top.
void placeUpright(QCPItemStraightLine* line, double x) {
  double y = 0;
  for (QCPItemPosition* point : {line->point1, line->point2}) {
    point->setTypeY(QCPItemPosition::ptAxisRectRatio);
    point->setCoords(x, y++);
  }
}

}  // namespace

void PlotView::resetZoom() {
  yBox_.reset();
  chosen_ = false;
  refit_ = true;
  markDirty();
}

void PlotView::showAll() {
  if (group_) {
    group_->follow();
  } else {
    resetZoom();
  }
}

void PlotView::showXRange(double lower, double upper) {
  fitting_ = true;
  refit_ = false;
  plot_->xAxis->setRange(lower, upper);
  fitting_ = false;
  rangeRests_.start();
  markDirty();
}

void PlotView::setYBox(const MinMax& range) {
  yBox_ = range;
  markDirty();
}

// By wheel, keys or a drag: within the data, and all of them is following again.
void PlotView::rangeChosen(double lower, double upper) {
  const bool follows = group_ ? group_->following() : !chosen_;
  if (follows && sampleCount() == 0) return resetZoom();  // there is no part to choose yet
  double least = 0, most = 1;
  if (group_) {
    group_->extent(&least, &most);
  } else {
    const MinMax range = dataRange();
    least = range.min;
    most = range.max;
  }
  if (plot_->xAxis->scaleType() == QCPAxis::stLogarithmic) least = std::max(least, 1.0);
  if (most - least < 1e-9) most = least + 1;
  if (upper - lower >= most - least) {
    if (!yBox_) return showAll();
    lower = least;
    upper = most;
  }
  const QCPRange within = QCPRange(lower, upper).bounded(least, most);
  chosen_ = true;
  showXRange(within.lower, within.upper);
  if (group_) group_->setXRange(within.lower, within.upper, this);
}

void PlotView::chooseBox(const QRect& pixels) {
  const QRect box = pixels.normalized().intersected(plot_->axisRect()->rect());
  if (box.width() < kLeastBox && box.height() < kLowBox) return;
  if (box.height() >= kLowBox) {
    yBox_.emplace();
    yBox_->add(plot_->yAxis->pixelToCoord(box.bottom()));
    yBox_->add(plot_->yAxis->pixelToCoord(box.top()));
  }
  if (box.width() >= kLeastBox) {
    rangeChosen(plot_->xAxis->pixelToCoord(box.left()), plot_->xAxis->pixelToCoord(box.right()));
  } else {
    rangeChosen(plot_->xAxis->range().lower, plot_->xAxis->range().upper);
  }
  markDirty();
}

bool PlotView::eventFilter(QObject* watched, QEvent* event) {
  if (watched != plot_) return QWidget::eventFilter(watched, event);
  switch (event->type()) {
    case QEvent::Leave:
      if (group_) {
        group_->setCrosshair(0, false);
      } else {
        showCrosshair(0, false);
      }
      break;
    case QEvent::MouseButtonPress: {
      const auto* mouse = static_cast<QMouseEvent*>(event);
      const bool box = mouse->button() == Qt::LeftButton &&
                       !(mouse->modifiers() & Qt::ShiftModifier) && sampleCount() > 0;
      pressedAt_ = mouse->button() == Qt::LeftButton ? mouse->position() : QPointF(-kFar, -kFar);
      plot_->setSelectionRectMode(box ? QCP::srmCustom : QCP::srmNone);
      break;
    }
    case QEvent::MouseButtonDblClick:  // shows all: what its first click kept or let go is undone
      pressedAt_ = {-kFar, -kFar};
      if (!clicked_.isEmpty()) keep(std::exchange(clicked_, {}));
      break;
    case QEvent::MouseButtonRelease: {
      const QPointF at = static_cast<QMouseEvent*>(event)->position();
      if ((at - pressedAt_).manhattanLength() < kLeastBox) clickedAt(at);
      break;
    }
    case QEvent::KeyPress:
      if (pressKey(static_cast<QKeyEvent*>(event)->key())) return true;
      break;
    case QEvent::FocusIn:
    case QEvent::FocusOut:
      focus_->setVisible(event->type() == QEvent::FocusIn);
      break;
    case QEvent::Resize:
      focus_->setGeometry(plot_->rect());
      markDirty();
      break;
    default:
      break;
  }
  return QWidget::eventFilter(watched, event);
}

// The same without a mouse: arrows pan, plus and minus zoom, Home shows all, Escape leaves the
// cursor.
bool PlotView::pressKey(int key) {
  QCPAxis* axis = plot_->xAxis;
  const double width = axis->range().size();
  switch (key) {
    case Qt::Key_Left:
      axis->moveRange(-width / 10);
      return true;
    case Qt::Key_Right:
      axis->moveRange(width / 10);
      return true;
    case Qt::Key_Plus:
      axis->scaleRange(0.8);
      return true;
    case Qt::Key_Minus:
      axis->scaleRange(1.25);
      return true;
    case Qt::Key_Home:
      showAll();
      return true;
    case Qt::Key_Escape:
      return group_ && group_->leaveCursor();
    default:
      return false;
  }
}

void PlotView::showCursor(double x, bool visible, const QString& owner) {
  placeUpright(cursor_, x);
  cursor_->setVisible(visible);
  if (const QString now = visible ? owner : QString(); now != owner_) {
    owner_ = now;
    if (!linesChanged_) nameLines();  // else with the next frame
    markDirty();
  }
  if (isVisible()) crosshairLayer_->replot();
}

void PlotView::showCrosshair(double x, bool visible, const QString& line) {
  if (visible && !isSeen()) return;
  visible = visible && sampleCount() > 0;
  hovered_ = visible ? spreadLine(line) : nullptr;
  refreshMarks();
  crosshair_->setVisible(visible);
  crosshairText_->setVisible(visible);
  QStringList values = spreadValues(x);
  double sampleX = x;  // of the sample the values are of
  if (visible) {
    placeUpright(crosshair_, x);
    std::size_t most = 0;
    for (const auto& series : namedLines()) {
      const Pyramid& samples = series->shown(x, x);
      const auto at = samples.nearest(x);
      if (at >= 0 && series->raw().size() > most) {
        most = series->raw().size();
        sampleX = samples.x(static_cast<std::size_t>(at));
      }
      values << (at < 0 ? QString() : valueText(samples.y(static_cast<std::size_t>(at))));
    }
  }
  legend_->setValues(visible ? values : QStringList());
  QString ofLine;
  if (hovered_) {
    const Pyramid& samples = hovered_->shown(x, x);
    if (const auto at = samples.nearest(x); at >= 0) {
      sampleX = samples.x(static_cast<std::size_t>(at));
      ofLine = QString(" · %1  %2")
                   .arg(hovered_->name, valueText(samples.y(static_cast<std::size_t>(at))));
    }
  }
  const QCPRange range = plot_->xAxis->range();
  const bool left = x > range.center();
  crosshairText_->setText(xText(sampleX) + ofLine);
  crosshairText_->position->setCoords(x, 0);
  crosshairText_->setPositionAlignment(Qt::AlignTop | (left ? Qt::AlignRight : Qt::AlignLeft));
  if (isVisible()) crosshairLayer_->replot();
}

QString PlotView::valueText(double value) const {
  if (!std::isfinite(value)) return tr("not a number");
  if (unitKind_ == Unit::kPercent) return formatPercent(value, 1);
  if (unitKind_ == Unit::kBytes) return formatBytes(value);
  if (unitKind_ == Unit::kByteRate) return formatRate(value);
  if (std::abs(value) >= 1000 && std::abs(value) < 1e9) return formatCount(std::llround(value));
  return QLocale().toString(value, 'g', 4);
}

QString PlotView::xText(double x) const {
  if (xAxis_ == XAxis::kTime) return formatDuration(x);
  if (xAxis_ == XAxis::kReal) return QString("%1 %2").arg(shownXTitle(), valueText(x));
  const double there = isScaled() ? scale_->at(x) : x;
  return QString("%1 %2").arg(shownXTitle(), formatCount(std::llround(there)));
}

void PlotView::showMenu(const QPoint& at) {
  auto* menu = new QMenu(this);
  menu->setObjectName("plotMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->addAction(tr("Show all data"), this, &PlotView::showAll)->setObjectName("plotMenuFit");
  QAction* log = menu->addAction(tr("Logarithmic y axis"), logButton_, &QToolButton::toggle);
  log->setCheckable(true);
  log->setChecked(logButton_->isChecked());
  menu->addAction(tr("Show the data as a table"), tableButton_, &QToolButton::toggle);
  menu->addSeparator();
  menu->addAction(tr("Copy picture"), this, &PlotView::copyPicture)->setObjectName("plotMenuCopy");
  const auto save = [&](const char* name, const QString& text, PictureLook look) {
    menu->addAction(text, this, [this, look] { askPicture(this, picture(), look); })
        ->setObjectName(name);
  };
  save("plotMenuSave", tr("Save picture…"), PictureLook::kCurrent);
  save("plotMenuPrint", tr("Save picture for print…"), PictureLook::kLight);
  menu->popup(plot_->mapToGlobal(at));
}

void PlotView::copyPicture() {
  focus_->hide();
  QApplication::clipboard()->setPixmap(grab());
  focus_->setVisible(plot_->hasFocus());
}

}  // namespace lockstep::ui
