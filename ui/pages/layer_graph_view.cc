#include "ui/pages/layer_graph_view.h"

#include <QAccessible>
#include <QContextMenuEvent>
#include <QHelpEvent>
#include <QItemSelectionModel>
#include <QKeyEvent>
#include <QPainter>
#include <QPainterPath>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/models/layer_table_model.h"
#include "ui/plots/picture_file.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

constexpr QSizeF kLayerSize(272, 62), kEndSize(150, 30);
constexpr double kMargin = 24, kPadding = 9, kStrip = 5;
constexpr double kLeastZoom = 0.002, kMostZoom = 3, kWheelZoom = 1.15, kKeyZoom = 1.25;
constexpr double kNamesFrom = 0.3, kDetailsFrom = 0.5;  // zooms from which texts are drawn
constexpr double kLeastFirstZoom = 0.6;                 // at which a model is first shown

QString shown(const std::string& shape) {
  return QString::fromStdString(shape).replace('x', QString::fromUtf8("×"));
}

void drawArrow(QPainter& painter, const QPointF& tip, const QColor& color) {
  const QPolygonF head{tip, tip + QPointF(-4, -7), tip + QPointF(4, -7)};
  painter.setPen(Qt::NoPen);
  painter.setBrush(color);
  painter.drawPolygon(head);
}

}  // namespace

LayerGraphView::LayerGraphView(LayerTableModel* model, QItemSelectionModel* selection,
                               QWidget* parent)
    : QAbstractScrollArea(parent), model_(model), selection_(selection) {
  setObjectName("layerGraph");
  setFocusPolicy(Qt::StrongFocus);
  setFrameShape(QFrame::NoFrame);
  viewport()->setMouseTracking(true);
  for (QScrollBar* bar : {horizontalScrollBar(), verticalScrollBar()}) bar->setSingleStep(30);
  connect(model_, &LayerTableModel::graphChanged, this, &LayerGraphView::structureChanged);
  connect(model_, &QAbstractItemModel::modelReset, this, &LayerGraphView::structureChanged);
  connect(model_, &QAbstractItemModel::dataChanged, this, [this] {
    for (Edge& edge : edges_)  // shapes may be known now
      if (const int row = layerOf(edge.from); row >= 0 && !edge.tied)
        edge.shape = model_->index(row, LayerTableModel::kOutput).data().toString();
    viewport()->update();
  });
  connect(selection_, &QItemSelectionModel::currentRowChanged, this,
          &LayerGraphView::takeSelection);
  connect(&Theme::instance(), &Theme::changed, viewport(), qOverload<>(&QWidget::update));
  inputs_ = model_->graph().categories.empty() ? 1 : 2;
  takeSelection();
}

void LayerGraphView::structureChanged() {
  stale_ = true;
  inputs_ = model_->graph().categories.empty() ? 1 : 2;
  current_ = -1;  // boxes have other numbers now
  choices_.clear();
  lookAgain();
  takeSelection();
  viewport()->update();
}

int LayerGraphView::boxCount() { return static_cast<int>(layout().boxes.size()); }

int LayerGraphView::layerOf(int box) const {
  const int row = box - inputs_;
  return row >= 0 && row < model_->rowCount() ? row : -1;
}

const LayeredLayout& LayerGraphView::layout() {
  if (stale_) {
    stale_ = false;
    readGraph();
    place();
    placeBars();
  }
  return layout_;
}

// The boxes are the rows of the model, whatever of the text the graph could be read from.
void LayerGraphView::readGraph() {
  const app::LayerGraph& graph = model_->graph();
  const int rows = model_->rowCount();
  const auto boxOf = [&](int end) {
    return end == app::LayerGraph::kInput        ? 0
           : end == app::LayerGraph::kCategories ? 1
                                                 : inputs_ + end;
  };
  edges_.clear();
  for (const auto& [from, to] : graph.edges) {
    if (from >= rows || to >= rows) continue;
    const QString shape = from == app::LayerGraph::kInput ? shown(graph.input)
                          : from == app::LayerGraph::kCategories
                              ? shown(graph.categories)
                              : model_->index(from, LayerTableModel::kOutput).data().toString();
    edges_.push_back({boxOf(from), boxOf(to), shape});
  }
  for (const auto& [table, layer] : graph.ties)
    if (table < rows && layer < rows)
      edges_.push_back({boxOf(table), boxOf(layer), tr("tied weights"), true});
  if (rows > 0)
    edges_.push_back({boxOf(rows - 1), boxOf(rows),
                      model_->index(rows - 1, LayerTableModel::kOutput).data().toString()});
}

void LayerGraphView::place() {
  LayeredGraph graph;
  const int boxes = inputs_ + model_->rowCount() + 1;
  for (int box = 0; box < boxes; ++box)
    graph.boxes.push_back(layerOf(box) >= 0 ? kLayerSize : kEndSize);
  for (const Edge& edge : edges_) graph.edges.push_back({edge.from, edge.to, edge.tied});
  layout_ = layOut(graph);
}

// ---- Zoom and place.

QPointF LayerGraphView::origin() const {
  const QSizeF content = (layout_.bounds.size() + QSizeF(2 * kMargin, 2 * kMargin)) * zoom_;
  const QSizeF room = viewport()->size();
  const auto at = [&](double size, double space, const QScrollBar* bar) {
    return size < space ? (space - size) / 2 : -static_cast<double>(bar->value());
  };
  // A graph that is less high than the view begins at the top all the same.
  const double top = content.height() < room.height() ? 0 : -verticalScrollBar()->value();
  return QPointF(at(content.width(), room.width(), horizontalScrollBar()), top) +
         QPointF(kMargin, kMargin) * zoom_;
}

QTransform LayerGraphView::toViewport() const {
  const QPointF at = origin();
  return QTransform(zoom_, 0, 0, zoom_, at.x(), at.y());
}

QRectF LayerGraphView::boxRect(int box) {
  const QRectF rect = layout().boxes[static_cast<std::size_t>(box)];
  return toViewport().mapRect(rect);
}

void LayerGraphView::placeBars() {
  if (!shown_ && isVisible() && model_->rowCount() > 0) {  // as wide as the view, not too small
    shown_ = true;
    const double wide = layout_.bounds.width() + 2 * kMargin;
    zoom_ = std::clamp(maximumViewportSize().width() / wide, kLeastFirstZoom, 1.0);
    Q_EMIT zoomChanged();
  }
  const QSizeF content = (layout_.bounds.size() + QSizeF(2 * kMargin, 2 * kMargin)) * zoom_;
  const auto set = [](QScrollBar* bar, double size, int room) {
    bar->setPageStep(room);
    bar->setRange(0, std::max(0, static_cast<int>(std::ceil(size)) - room));
  };
  set(horizontalScrollBar(), content.width(), viewport()->width());
  set(verticalScrollBar(), content.height(), viewport()->height());
}

void LayerGraphView::zoomAbout(double zoom, QPointF fixed) {
  layout();
  shown_ = true;
  zoom = std::clamp(zoom, kLeastZoom, kMostZoom);
  if (zoom == zoom_) return;
  const QPointF point = toViewport().inverted().map(fixed);
  zoom_ = zoom;
  placeBars();
  const QPointF moved = toViewport().map(point) - fixed;
  horizontalScrollBar()->setValue(horizontalScrollBar()->value() +
                                  static_cast<int>(std::lround(moved.x())));
  verticalScrollBar()->setValue(verticalScrollBar()->value() +
                                static_cast<int>(std::lround(moved.y())));
  viewport()->update();
  Q_EMIT zoomChanged();
}

void LayerGraphView::setZoom(double zoom) { zoomAbout(zoom, QRectF(viewport()->rect()).center()); }

void LayerGraphView::fit() {
  layout();
  const QSizeF content = layout_.bounds.size() + QSizeF(2 * kMargin, 2 * kMargin);
  const QSizeF room = maximumViewportSize();
  setZoom(std::min({room.width() / content.width(), room.height() / content.height(), 1.0}));
}

void LayerGraphView::bringIntoView(int box) {
  const QRectF rect = boxRect(box).adjusted(-kMargin, -kMargin, kMargin, kMargin);
  const auto move = [](QScrollBar* bar, double begin, double end, int room) {
    if (begin < 0 || end - begin > room)
      bar->setValue(bar->value() + static_cast<int>(std::floor(begin)));
    else if (end > room)
      bar->setValue(bar->value() + static_cast<int>(std::ceil(end - room)));
  };
  move(horizontalScrollBar(), rect.left(), rect.right(), viewport()->width());
  move(verticalScrollBar(), rect.top(), rect.bottom(), viewport()->height());
}

void LayerGraphView::showEvent(QShowEvent* event) {
  QAbstractScrollArea::showEvent(event);
  layout();
  placeBars();
  if (current_ >= 0 && current_ < boxCount()) setCurrent(current_);
}

void LayerGraphView::scrollContentsBy(int, int) { viewport()->update(); }

void LayerGraphView::resizeEvent(QResizeEvent* event) {
  QAbstractScrollArea::resizeEvent(event);
  layout();
  placeBars();
}

// ---- The selection.

void LayerGraphView::takeSelection() {
  const QModelIndex at = selection_->currentIndex();
  if (!at.isValid()) {
    if (layerOf(current_) >= 0 || current_ >= inputs_ + model_->rowCount() + 1) current_ = -1;
    return viewport()->update();
  }
  if (layerOf(current_) != at.row()) choices_.clear();
  const bool moved = current_ != boxOfLayer(at.row()) || stale_;
  current_ = boxOfLayer(at.row());
  if (!isVisible()) return;
  if (moved) bringIntoView(current_);
  setAccessibleDescription(boxText(current_));
  QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
  QAccessible::updateAccessibility(&changed);
  viewport()->update();
  Q_EMIT foundChanged();
}

void LayerGraphView::setCurrent(int box) {
  if (box < 0 || box >= boxCount()) return;
  const QVector<int> choices = choices_;
  const int row = layerOf(box);
  current_ = box;
  if (row >= 0)
    selection_->setCurrentIndex(model_->index(row, 0),
                                QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
  choices_ = choices;
  bringIntoView(box);
  setAccessibleDescription(boxText(box));
  viewport()->update();
  Q_EMIT foundChanged();
}

int LayerGraphView::boxAt(const QPoint& at) {
  const QPointF point = (layout(), toViewport().inverted().map(QPointF(at)));
  for (std::size_t i = 0; i < layout_.boxes.size(); ++i)
    if (layout_.boxes[i].contains(point)) return static_cast<int>(i);
  return -1;
}

// Goes along an edge; the nearest box first, Left and Right then choose another.
void LayerGraphView::follow(bool down) {
  QVector<int> ends;
  for (const Edge& edge : edges_)
    if ((down ? edge.from : edge.to) == current_) ends << (down ? edge.to : edge.from);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.isEmpty()) return;
  const auto rowOf = [&](int box) { return layout_.rows[static_cast<std::size_t>(box)]; };
  const auto nearest = std::min_element(ends.begin(), ends.end(), [&](int a, int b) {
    return down ? rowOf(a) < rowOf(b) : rowOf(a) > rowOf(b);
  });
  const int to = *nearest;
  choices_ = ends.size() > 1 ? ends : QVector<int>();
  setCurrent(to);
}

// Another edge than the one that was followed, else another box of the row.
void LayerGraphView::goAside(int by) {
  QVector<int> among = choices_;
  if (!among.contains(current_)) {
    among.clear();
    choices_.clear();
    for (int box = 0; box < boxCount(); ++box)
      if (layout_.rows[static_cast<std::size_t>(box)] ==
          layout_.rows[static_cast<std::size_t>(current_)])
        among << box;
  }
  std::stable_sort(among.begin(), among.end(), [&](int a, int b) {
    return layout_.boxes[static_cast<std::size_t>(a)].x() <
           layout_.boxes[static_cast<std::size_t>(b)].x();
  });
  const auto at = among.indexOf(current_) + by;
  const bool round = !choices_.isEmpty();
  if (round || (at >= 0 && at < among.size()))
    setCurrent(among[(at + among.size()) % among.size()]);
}

void LayerGraphView::find(const QString& text) {
  sought_ = text.trimmed();
  lookAgain();
  if (found_.isEmpty() || found_.contains(layerOf(current_))) return;
  goToFound(1);
}

void LayerGraphView::lookAgain() {
  found_.clear();
  for (int row = 0; row < model_->rowCount() && !sought_.isEmpty(); ++row)
    for (const int column : {LayerTableModel::kName, LayerTableModel::kKind})
      if (model_->index(row, column).data().toString().contains(sought_, Qt::CaseInsensitive)) {
        found_ << row;
        break;
      }
  viewport()->update();
  Q_EMIT foundChanged();
}

int LayerGraphView::foundIndex() const {
  return static_cast<int>(found_.indexOf(layerOf(current_)));
}

void LayerGraphView::goToFound(int by) {
  if (found_.isEmpty()) return;
  const int row = layerOf(current_);
  auto next = by > 0 ? std::upper_bound(found_.begin(), found_.end(), row)
                     : std::lower_bound(found_.begin(), found_.end(), row);
  if (by > 0) {
    if (next == found_.end()) next = found_.begin();
  } else {
    if (next == found_.begin()) next = found_.end();
    --next;
  }
  choices_.clear();
  setCurrent(boxOfLayer(*next));
}

// ---- Gestures.

bool LayerGraphView::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const int box = boxAt(help->pos());
    if (box >= 0)
      QToolTip::showText(help->globalPos(), boxText(box), this);
    else
      QToolTip::hideText();
    return true;
  }
  return QAbstractScrollArea::viewportEvent(event);
}

void LayerGraphView::mousePressEvent(QMouseEvent* event) {
  last_ = event->position().toPoint();
  const int box = boxAt(last_);
  if (event->button() == Qt::MiddleButton || (event->button() == Qt::LeftButton && box < 0)) {
    drag_ = Drag::kPan;
    viewport()->setCursor(Qt::ClosedHandCursor);
  } else if (event->button() == Qt::LeftButton || event->button() == Qt::RightButton) {
    choices_.clear();
    if (box >= 0) setCurrent(box);
  }
}

void LayerGraphView::mouseMoveEvent(QMouseEvent* event) {
  const QPoint now = event->position().toPoint();
  if (drag_ == Drag::kPan) {
    horizontalScrollBar()->setValue(horizontalScrollBar()->value() - (now - last_).x());
    verticalScrollBar()->setValue(verticalScrollBar()->value() - (now - last_).y());
    last_ = now;
  } else {
    viewport()->setCursor(boxAt(now) >= 0 ? Qt::PointingHandCursor : Qt::OpenHandCursor);
  }
}

void LayerGraphView::mouseReleaseEvent(QMouseEvent*) {
  drag_ = Drag::kNone;
  viewport()->setCursor(Qt::OpenHandCursor);
}

void LayerGraphView::mouseDoubleClickEvent(QMouseEvent* event) {
  const int box = boxAt(event->position().toPoint());
  if (box >= 0 && event->button() == Qt::LeftButton) Q_EMIT editWanted(layerOf(box));
}

void LayerGraphView::wheelEvent(QWheelEvent* event) {
  if (!(event->modifiers() & Qt::ControlModifier)) return QAbstractScrollArea::wheelEvent(event);
  const double notches = event->angleDelta().y() / 120.0;
  if (notches != 0) zoomAbout(zoom_ * std::pow(kWheelZoom, notches), event->position());
  event->accept();
}

void LayerGraphView::contextMenuEvent(QContextMenuEvent* event) {
  showPictureMenu(this, event->globalPos());
}

void LayerGraphView::keyPressEvent(QKeyEvent* event) {
  if (event->modifiers() & Qt::ControlModifier) {
    switch (event->key()) {
      case Qt::Key_0:
        return fit();
      case Qt::Key_1:
        return setZoom(1);
      case Qt::Key_Plus:
      case Qt::Key_Equal:
        return setZoom(zoom_ * kKeyZoom);
      case Qt::Key_Minus:
        return setZoom(zoom_ / kKeyZoom);
      default:
        return QAbstractScrollArea::keyPressEvent(event);
    }
  }
  const int last = boxCount() - 1;
  if (current_ > last) current_ = -1;
  switch (event->key()) {
    case Qt::Key_Down:
      return current_ < 0 ? setCurrent(0) : follow(true);
    case Qt::Key_Up:
      return current_ < 0 ? setCurrent(last) : follow(false);
    case Qt::Key_Left:
      return current_ < 0 ? setCurrent(0) : goAside(-1);
    case Qt::Key_Right:
      return current_ < 0 ? setCurrent(0) : goAside(1);
    case Qt::Key_Home:
      return setCurrent(0);
    case Qt::Key_End:
      return setCurrent(last);
    case Qt::Key_PageDown:
      return verticalScrollBar()->triggerAction(QAbstractSlider::SliderPageStepAdd);
    case Qt::Key_PageUp:
      return verticalScrollBar()->triggerAction(QAbstractSlider::SliderPageStepSub);
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_F2:
      if (current_ >= 0) Q_EMIT editWanted(layerOf(current_));
      return;
    default:
      QAbstractScrollArea::keyPressEvent(event);
  }
}

void LayerGraphView::focusInEvent(QFocusEvent* event) {
  QAbstractScrollArea::focusInEvent(event);
  viewport()->update();
}
void LayerGraphView::focusOutEvent(QFocusEvent* event) {
  QAbstractScrollArea::focusOutEvent(event);
  viewport()->update();
}

// ---- Texts.

QString LayerGraphView::titleOf(int box) const {
  const int row = layerOf(box);
  if (row >= 0) return model_->index(row, LayerTableModel::kName).data().toString();
  const app::LayerGraph& graph = model_->graph();
  if (box == 0) return graph.input.empty() ? tr("input") : tr("input %1").arg(shown(graph.input));
  if (box < inputs_) return tr("categories %1").arg(shown(graph.categories));
  return graph.loss.empty() ? tr("loss") : tr("loss: %1").arg(QString::fromStdString(graph.loss));
}

QString LayerGraphView::detailOf(int row) const {
  const QString kind = model_->index(row, LayerTableModel::kKind).data().toString();
  const QString parameters = model_->index(row, LayerTableModel::kParameters).data().toString();
  if (parameters == "0" || parameters == QString(QChar(0x2014))) return kind;
  return tr("%1 · %2 parameters").arg(kind, parameters);
}

QString LayerGraphView::memoryOf(int row) const {
  const app::LayerPlan* plan = model_->plan();
  if (plan != nullptr && static_cast<std::size_t>(row) < plan->layers.size()) {
    const app::PlannedLayer& layer = plan->layers[static_cast<std::size_t>(row)];
    const QString output = formatBytes(static_cast<double>(layer.outputBytes));
    if (layer.stateBytes == 0) return tr("output %1 per rank").arg(output);
    return tr("state %1 · output %2 per rank")
        .arg(formatBytes(static_cast<double>(layer.stateBytes)), output);
  }
  const QString bytes = model_->index(row, LayerTableModel::kMemory).data().toString();
  return bytes == QString(QChar(0x2014)) ? QString() : tr("output %1 per sample").arg(bytes);
}

QString LayerGraphView::problemOf(int row) const {
  return model_->index(row, 0).data(LayerTableModel::kProblemRole).toString();
}

QString LayerGraphView::boxText(int box) const {
  const int row = layerOf(box);
  if (row < 0) return titleOf(box);
  QStringList lines{titleOf(box), detailOf(row), memoryOf(row)};
  const QString shape = model_->index(row, LayerTableModel::kOutput).data().toString();
  lines << tr("output %1").arg(shape);
  if (const int stage = model_->stageOf(row); stage >= 0) lines << tr("stage %1").arg(stage);
  for (const auto& [table, layer] : model_->graph().ties) {
    if (layer == row)
      lines << tr("takes the table of %1 as its weight").arg(titleOf(boxOfLayer(table)));
    if (table == row) lines << tr("its table is the weight of %1").arg(titleOf(boxOfLayer(layer)));
  }
  lines << problemOf(row);
  lines.removeAll(QString());
  return lines.join('\n');
}

void LayerGraphView::retranslate() {
  setAccessibleName(tr("Layer graph"));
  viewport()->setAccessibleName(tr("Layer graph"));
  stale_ = true;
  viewport()->update();
}

// ---- Painting.

void LayerGraphView::paintEvent(QPaintEvent*) {
  layout();
  placeBars();
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), Theme::instance().color("base"));
  painter.setRenderHint(QPainter::Antialiasing);
  const QTransform transform = toViewport();
  const QRectF seen = transform.inverted().mapRect(QRectF(viewport()->rect()));
  painter.setTransform(transform);
  paintEdges(painter, seen);
  for (int box = 0; box < static_cast<int>(layout_.boxes.size()); ++box)
    if (layout_.boxes[static_cast<std::size_t>(box)].adjusted(-4, -4, 4, 4).intersects(seen))
      paintBox(painter, box);
  if (!hasFocus()) return;
  painter.resetTransform();
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setPen(Theme::instance().color("accent"));
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(viewport()->rect().adjusted(0, 0, -1, -1));
}

void LayerGraphView::paintEdges(QPainter& painter, const QRectF& seen) const {
  // Those of the current box last, over the others.
  for (const bool ofCurrent : {false, true})
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if ((edges_[i].from == current_ || edges_[i].to == current_) != ofCurrent) continue;
      const QPolygonF& line = layout_.edges[i];
      const QRectF around(line.boundingRect().adjusted(-8, -1, 100, 1));
      if (around.intersects(seen)) paintEdge(painter, i);
    }
}

void LayerGraphView::paintEdge(QPainter& painter, std::size_t i) const {
  const Theme& theme = Theme::instance();
  const Edge& edge = edges_[i];
  const QPolygonF& line = layout_.edges[i];
  const bool ofCurrent = current_ >= 0 && (edge.from == current_ || edge.to == current_);
  QColor color = theme.color(ofCurrent ? "accent" : edge.tied ? "warning" : "axis");
  QPen pen(color, ofCurrent ? 2 : 1.3);
  if (zoom_ < kNamesFrom) pen.setCosmetic(true);
  if (zoom_ < kNamesFrom) pen.setWidthF(ofCurrent ? 1.5 : 1);
  if (edge.tied) pen.setStyle(Qt::DashLine);
  painter.setPen(pen);
  painter.setBrush(Qt::NoBrush);
  painter.drawPolyline(line);
  if (zoom_ < kNamesFrom) return;
  if (!edge.tied) drawArrow(painter, line.last(), color);
  if (zoom_ < kDetailsFrom || edge.shape.isEmpty()) return;
  // At the middle of the part that leaves the source's row, on a ground of its own.
  const auto part = std::max<qsizetype>(1, std::min<qsizetype>(line.size() - 1, 1));
  const QPointF begin = line[part - 1], end = line[part];
  const double along = line.size() > 2 ? 0.8 : 0.45;
  const QPointF at = begin + (end - begin) * along;
  const QFontMetricsF metrics(theme.small());
  const QRectF text(at + QPointF(5, -metrics.height() / 2),
                    QSizeF(metrics.horizontalAdvance(edge.shape) + 6, metrics.height()));
  QColor ground = theme.color("base");
  ground.setAlpha(220);
  painter.fillRect(text, ground);
  painter.setFont(theme.small());
  painter.setPen(theme.color(edge.tied ? "warning" : "muted"));
  painter.drawText(text, Qt::AlignCenter, edge.shape);
}

void LayerGraphView::paintBox(QPainter& painter, int box) const {
  const Theme& theme = Theme::instance();
  const QRectF rect = layout_.boxes[static_cast<std::size_t>(box)];
  const int row = layerOf(box);
  const bool isCurrent = box == current_;
  const bool wrong = row >= 0 && !problemOf(row).isEmpty();
  QColor border = theme.color(isCurrent ? "accent" : wrong ? "bad" : "border");
  QPen pen(border, isCurrent || wrong ? 2 : 1);
  if (zoom_ < kNamesFrom) pen.setCosmetic(true);
  painter.setPen(pen);
  painter.setBrush(theme.color(isCurrent ? "selection"
                               : wrong   ? "badSoft"
                               : row < 0 ? "alternate"
                                         : "raised"));
  const double radius = row < 0 ? rect.height() / 2 : 6;
  if (zoom_ < 0.08)
    painter.drawRect(rect);
  else
    painter.drawRoundedRect(rect, radius, radius);
  if (found_.contains(row) && row >= 0) {
    QPen mark(theme.color("warning"), 2, Qt::DotLine);
    mark.setCosmetic(zoom_ < kNamesFrom);
    painter.setPen(mark);
    painter.setBrush(Qt::NoBrush);
    painter.drawRoundedRect(rect.adjusted(-3, -3, 3, 3), radius, radius);
  }
  if (row >= 0) return paintLayer(painter, row, rect);
  if (zoom_ < kNamesFrom) return;
  painter.setFont(theme.small());
  painter.setPen(theme.color("text"));
  const QFontMetricsF metrics(theme.small());
  painter.drawText(rect, Qt::AlignCenter,
                   metrics.elidedText(titleOf(box), Qt::ElideRight, rect.width() - 2 * kPadding));
}

void LayerGraphView::paintLayer(QPainter& painter, int row, const QRectF& rect) const {
  const Theme& theme = Theme::instance();
  const int stage = model_->stageOf(row);
  if (stage >= 0) paintStage(painter, stage, rect);
  if (zoom_ < kNamesFrom) return;
  QRectF line = rect.adjusted(kPadding + kStrip, 5, -kPadding, 0);
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  const double chip = stage >= 0 ? 40 : 0;
  line.setHeight(20);
  painter.setFont(bold);
  painter.setPen(theme.color("text"));
  painter.drawText(line.adjusted(0, 0, -chip, 0), Qt::AlignLeft | Qt::AlignVCenter,
                   QFontMetricsF(bold).elidedText(titleOf(boxOfLayer(row)), Qt::ElideRight,
                                                  line.width() - chip));
  if (zoom_ < kDetailsFrom) return;
  const QString problem = problemOf(row);
  const QFontMetricsF metrics(theme.small());
  painter.setFont(theme.small());
  const auto write = [&](const QString& text, const char* color) {
    line.moveTop(line.bottom());
    line.setHeight(16);
    painter.setPen(theme.color(color));
    painter.drawText(line, Qt::AlignLeft | Qt::AlignVCenter,
                     metrics.elidedText(text, Qt::ElideRight, line.width()));
  };
  write(detailOf(row), "muted");
  write(problem.isEmpty() ? memoryOf(row) : problem, problem.isEmpty() ? "muted" : "bad");
}

// A strip in the stage's colour, and its number.
void LayerGraphView::paintStage(QPainter& painter, int stage, const QRectF& rect) const {
  const Theme& theme = Theme::instance();
  const QColor color = theme.series(stage);
  QPainterPath whole;
  whole.addRoundedRect(rect.adjusted(1, 1, -1, -1), 5, 5);
  painter.save();
  painter.setClipPath(whole, Qt::IntersectClip);
  painter.fillRect(
      QRectF(rect.topLeft(), QSizeF(zoom_ < kNamesFrom ? rect.width() : kStrip + 1, rect.height())),
      color);
  painter.restore();
  if (zoom_ < kNamesFrom) return;
  const QRectF chip(rect.right() - kPadding - 34, rect.top() + 7, 36, 16);
  painter.setPen(Qt::NoPen);
  painter.setBrush(color);
  painter.drawRoundedRect(chip, 8, 8);
  QFont font = theme.small();
  font.setWeight(QFont::DemiBold);
  painter.setFont(font);
  // Dark or light, whichever can be read on the stage's colour.
  painter.setPen(qGray(color.rgb()) > 140 ? QColor(20, 24, 30) : QColor(255, 255, 255));
  painter.drawText(chip, Qt::AlignCenter, tr("S%1", "stage").arg(stage));
}

}  // namespace lockstep::ui
