#include "ui/plots/grid_view.h"

#include <QApplication>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/plots/picture_file.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

constexpr int kTickDistance = 90, kTickLength = 4, kRight = 10;
constexpr int kNameRows = 14, kLongestName = 130;  // pixels
constexpr double kLeastRows = 1;
constexpr double kWheelZoom = 0.85;

// 1, 2 or 5 times a power of ten.
double roundStep(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (least <= factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

}  // namespace

GridView::GridView(const QString& objectName, QWidget* parent) : QWidget(parent) {
  setObjectName(objectName);
  setFocusPolicy(Qt::StrongFocus);
  connect(&Theme::instance(), &Theme::changed, this, &GridView::namesChanged);
}

void GridView::setEmptyText(const QString& text) {
  empty_ = text;
  update();
}

void GridView::markDirty() {
  dirty_ = true;
  update();
}

void GridView::setExtent(const Range& x, int rows) {
  if (all_ || x_ == xAll_) x_ = x;
  xAll_ = x;
  rowsAll_ = rows;
  if (all_) rows_ = {0, static_cast<double>(std::max(rows, 1))};
  namesChanged();
  showAwaited();
}

std::optional<GridView::Zoom> GridView::zoomed() const {
  if (awaited_ || all_) return awaited_;
  return Zoom{x_, rows_};
}

void GridView::restoreZoom(const Zoom& zoom) {
  awaited_ = zoom;
  showAwaited();
}

void GridView::showAwaited() {
  if (!awaited_ || rowsAll_ == 0 || awaited_->rows.end > rowsAll_) return;
  if (awaited_->x.end > xAll_.end + 1e-9 * xAll_.span()) return;
  const Zoom zoom = *std::exchange(awaited_, std::nullopt);
  showPart(zoom.x, zoom.rows.span() > 0 ? zoom.rows : rows_);
}

std::optional<GridView::Range> GridView::xZoom() const {
  if (awaited_) return awaited_->x;
  return x_ == xAll_ ? std::nullopt : std::optional(x_);
}

void GridView::showX(const std::optional<Range>& x) {
  awaited_.reset();
  if (rowsAll_ > 0) showPart(x.value_or(xAll_), rows_);
  if (x && (rowsAll_ == 0 || x->end > xAll_.end)) awaited_ = Zoom{*x, {0, 0}};
}

void GridView::showAll() {
  if (rowsAll_ == 0) return;
  const bool isOther = xZoom().has_value();
  all_ = true;
  awaited_.reset();
  setExtent(xAll_, rowsAll_);
  if (isOther) Q_EMIT xChosen();
}

void GridView::setView(const Range& x, const Range& rows) {
  const Range before = x_;
  showPart(x, rows);
  if (!(x_ == before)) Q_EMIT xChosen();
}

void GridView::showPart(const Range& x, const Range& rows) {
  const auto within = [](Range range, double begin, double end, double least) {
    const double span = std::clamp(range.span(), std::min(least, end - begin), end - begin);
    range.begin = std::clamp(range.begin, begin, end - span);
    range.end = range.begin + span;
    return range;
  };
  x_ = within(x, xAll_.begin, xAll_.end, leastSpan());
  rows_ = within(rows, 0, std::max(rowsAll_, 1), kLeastRows);
  all_ = x_ == xAll_ && rows_.span() >= rowsAll_;
  markDirty();
}

void GridView::namesChanged() {
  const QFontMetrics metrics(Theme::instance().small(this));
  int width = 24;
  // Names are alike: some of them, and the last, which is often the longest.
  const int stride = std::max(1, rowsAll_ / 50);
  for (int row = 0; row < rowsAll_; row += stride)
    width = std::max(width, metrics.horizontalAdvance(rowName(row)));
  if (rowsAll_ > 0) width = std::max(width, metrics.horizontalAdvance(rowName(rowsAll_ - 1)));
  nameWidth_ = std::min(width, kLongestName) + 8;
  markDirty();
}

// Of the labels below the cells.
int GridView::tickRoom() const {
  constexpr int kLeast = 18;
  return std::max(kLeast, QFontMetrics(Theme::instance().small(this)).height() + 2);
}

QRect GridView::cellsRect() const {
  return {nameWidth_, 2, std::max(1, width() - nameWidth_ - kRight),
          std::max(1, height() - tickRoom() - 4)};
}

double GridView::xAt(double pixel) const {
  const QRect cells = cellsRect();
  return x_.begin + (pixel - cells.left()) / cells.width() * x_.span();
}
double GridView::rowAt(double pixel) const {
  const QRect cells = cellsRect();
  return rows_.begin + (pixel - cells.top()) / cells.height() * rows_.span();
}
QPoint GridView::pixelOf(double x, double row) const {
  const QRect cells = cellsRect();
  const auto at = [](double value, const Range& range, int from, int size) {
    return from + static_cast<int>(std::lround(
                      std::clamp((value - range.begin) / range.span(), -1e3, 1e3) * size));
  };
  return {at(x, x_, cells.left(), cells.width()), at(row, rows_, cells.top(), cells.height())};
}

void GridView::zoom(double factor, double x, bool rows, double row) {
  if (rowsAll_ == 0) return;
  if (!rows) awaited_.reset();
  const auto about = [factor](Range range, double fixed) {
    return Range{fixed - (fixed - range.begin) * factor, fixed + (range.end - fixed) * factor};
  };
  if (rows)
    setView(x_, about(rows_, row));
  else
    setView(about(x_, x), rows_);
}

void GridView::bringIntoView(double x, double width, int row) {
  Range toX = x_, toRows = rows_;
  const auto shift = [](Range& range, double begin, double end) {
    if (begin < range.begin) range = {begin, begin + range.span()};
    if (end > range.end) range = {end - range.span(), end};
  };
  shift(toX, x, x + std::min(width, x_.span()));
  shift(toRows, row, row + 1);
  if (!(toX == x_) || !(toRows == rows_)) setView(toX, toRows);
}

void GridView::drawAxes(QPainter& painter) const {
  const Theme& theme = Theme::instance();
  const QRect cells = cellsRect();
  const QFontMetrics metrics(theme.small(this));
  painter.setFont(theme.small(this));
  const double perRow = cells.height() / rows_.span();
  const int nameHeight = std::max(kNameRows, metrics.height() - 2);
  const int stride = std::max(1, static_cast<int>(std::ceil(nameHeight / perRow)));
  const int first = static_cast<int>(rows_.begin) / stride * stride;
  for (int row = first; row < std::min<double>(rowsAll_, rows_.end); row += stride) {
    const double top = cells.top() + (row - rows_.begin) * perRow;
    const double middle = top + std::min(perRow, static_cast<double>(cells.height())) / 2;
    if (middle < cells.top() - 1 || middle > cells.bottom() + 1) continue;
    painter.setPen(theme.color(isMarked(row) ? "accent" : "muted"));
    painter.drawText(QRectF(0, middle - nameHeight, cells.left() - 6, 2 * nameHeight),
                     Qt::AlignVCenter | Qt::AlignRight,
                     metrics.elidedText(rowName(row), Qt::ElideRight, cells.left() - 6));
  }
  const double least = x_.span() * kTickDistance / cells.width();
  const double step = std::max(leastTick(), roundStep(least));
  painter.setPen(theme.color("axis"));
  painter.drawLine(cells.left(), cells.bottom() + 1, cells.right(), cells.bottom() + 1);
  for (double tick = std::ceil(x_.begin / step) * step; tick < x_.end; tick += step) {
    // The middle of a cell one unit wide.
    const int x = pixelOf(tick + leastTick() / 2, 0).x();
    const QString text = tickText(tick, x_.end, step);
    const int half = metrics.horizontalAdvance(text) / 2 + 1;
    painter.setPen(theme.color("axis"));
    painter.drawLine(x, cells.bottom() + 1, x, cells.bottom() + kTickLength);
    painter.setPen(theme.color("muted"));
    const int left = std::clamp(x - half, cells.left() - 8, width() - 2 * half);
    painter.drawText(QRect(left, cells.bottom() + kTickLength, 2 * half, tickRoom()),
                     Qt::AlignTop | Qt::AlignHCenter, text);
  }
}

void GridView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& theme = Theme::instance();
  if (rowsAll_ == 0) {
    painter.setPen(theme.color("muted"));
    painter.drawText(rect().adjusted(kSpaceL, 0, -kSpaceL, 0), Qt::AlignCenter | Qt::TextWordWrap,
                     empty_);
    return;
  }
  const QRect cells = cellsRect();
  const QSize wanted = cells.size() * devicePixelRatio();
  if (dirty_ || image_.size() != wanted || dark_ != theme.isDark()) {
    if (image_.size() != wanted) image_ = QImage(wanted, QImage::Format_RGB32);
    image_.setDevicePixelRatio(devicePixelRatio());
    drawCells(image_);
    dirty_ = false;
    dark_ = theme.isDark();
  }
  painter.drawImage(cells.topLeft(), image_);
  drawAxes(painter);
  painter.save();
  painter.setClipRect(cells.adjusted(-1, -1, 1, 1));
  drawOver(painter);
  painter.restore();
  if (drag_ == Drag::kBox) {
    QColor fill = theme.color("accent");
    painter.setPen(fill);
    fill.setAlpha(40);
    painter.setBrush(fill);
    painter.drawRect(QRect(pressed_, moved_).normalized().intersected(cells));
  }
  if (hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(theme.color("accent"));
    painter.drawRect(cells.adjusted(-1, -1, 0, 0));
  }
}

void GridView::contextMenuEvent(QContextMenuEvent* event) {
  showPictureMenu(this, event->globalPos());
}

void GridView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  markDirty();
}

bool GridView::event(QEvent* event) {
  if (event->type() == QEvent::FontChange) namesChanged();
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const double row = rowAt(help->pos().y());
    const bool inside = row < rowsAll_ && cellsRect().contains(help->pos());
    const QString text = inside ? tipAt(xAt(help->pos().x()), row) : QString();
    if (text.isEmpty())
      QToolTip::hideText();
    else
      QToolTip::showText(help->globalPos(), text, this);
    return true;
  }
  return QWidget::event(event);
}

void GridView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || rowsAll_ == 0) return;
  awaited_.reset();
  pressed_ = moved_ = event->position().toPoint();
  drag_ = event->modifiers() & Qt::ShiftModifier ? Drag::kPan : Drag::kPressed;
}

void GridView::mouseMoveEvent(QMouseEvent* event) {
  const QPoint now = event->position().toPoint();
  if (drag_ == Drag::kPan) {
    const double dx = xAt(moved_.x()) - xAt(now.x()), dy = rowAt(moved_.y()) - rowAt(now.y());
    moved_ = now;
    setView({x_.begin + dx, x_.end + dx}, {rows_.begin + dy, rows_.end + dy});
  } else if (drag_ != Drag::kNone) {
    moved_ = now;
    if ((now - pressed_).manhattanLength() >= QApplication::startDragDistance()) drag_ = Drag::kBox;
    update();
  }
}

void GridView::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  const Drag drag = std::exchange(drag_, Drag::kNone);
  if (drag == Drag::kPressed) {
    // A click on a row's name or a tick is one on the nearest cell.
    const double row = rowAt(pressed_.y());
    if (row < rowsAll_) choose(std::clamp(xAt(pressed_.x()), x_.begin, x_.end), std::max(0.0, row));
  } else if (drag == Drag::kBox) {
    const QRect box = QRect(pressed_, moved_).normalized().intersected(cellsRect());
    if (box.isEmpty()) return update();  // beside the cells
    // A flat box zooms along x alone.
    const bool flat = box.height() < kNameRows;
    setView({xAt(box.left()), xAt(box.right() + 1)},
            flat ? rows_ : Range{std::floor(rowAt(box.top())), std::ceil(rowAt(box.bottom()))});
  }
  update();
}

void GridView::mouseDoubleClickEvent(QMouseEvent*) { showAll(); }

void GridView::wheelEvent(QWheelEvent* event) {
  const double notches = event->angleDelta().y() / 120.0;
  if (notches == 0 || rowsAll_ == 0) return;
  zoom(std::pow(kWheelZoom, notches), xAt(event->position().x()),
       event->modifiers() & Qt::ControlModifier, rowAt(event->position().y()));
  event->accept();
}

void GridView::keyPressEvent(QKeyEvent* event) {
  const bool far = event->modifiers() & Qt::ControlModifier;
  const double x = std::isnan(chosenX()) ? (x_.begin + x_.end) / 2 : chosenX();
  const double row = (rows_.begin + rows_.end) / 2;
  switch (event->key()) {
    case Qt::Key_Left:
      return moveChosen(-1, 0, far);
    case Qt::Key_Right:
      return moveChosen(1, 0, far);
    case Qt::Key_Up:
      return moveChosen(0, -1, far);
    case Qt::Key_Down:
      return moveChosen(0, 1, far);
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoom(0.8, x, far, row);
    case Qt::Key_Minus:
      return zoom(1.25, x, far, row);
    case Qt::Key_Home:
      return showAll();
    case Qt::Key_Escape:
      return chooseNothing();
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace lockstep::ui
