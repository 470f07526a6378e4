#include "ui/pages/node_leds.h"

#include <QAccessible>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHelpEvent>
#include <QItemSelectionModel>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/models/gpu_text.h"
#include "ui/models/node_table_model.h"
#include "ui/plots/color_map.h"
#include "ui/theme/format.h"

namespace lockstep::ui {
namespace {

constexpr int kMostPitch = 20, kLeastPitch = 2, kMostHeight = 60;  // pixels
constexpr int kRoomForFrame = 10;                                  // of a pitch
constexpr int kNodeMeasures[] = {NodeTableModel::kCpu, NodeTableModel::kMemory,
                                 NodeTableModel::kNetwork, NodeTableModel::kDisk};
constexpr int kGpuMeasures[] = {NodeTableModel::kGpuUse, NodeTableModel::kGpuMemory,
                                NodeTableModel::kGpuTemperature, NodeTableModel::kGpuPower,
                                NodeTableModel::kGpuClock};

}  // namespace

NodeLedGrid::NodeLedGrid(NodeTableModel* nodes, QItemSelectionModel* selection, QWidget* parent)
    : QWidget(parent), nodes_(nodes), selection_(selection), measure_(NodeTableModel::kCpu) {
  setObjectName("nodeLedGrid");
  setFocusPolicy(Qt::StrongFocus);
  setMinimumWidth(4 * kMostPitch);
  connect(nodes_, &QAbstractItemModel::modelReset, this, [this] {
    place();
    changed();
  });
  connect(nodes_, &QAbstractItemModel::dataChanged, this, &NodeLedGrid::changed);
  connect(selection_, &QItemSelectionModel::selectionChanged, this, &NodeLedGrid::changed);
  place();
}

void NodeLedGrid::setMeasure(int column) {
  measure_ = column;
  changed();
}

void NodeLedGrid::changed() {
  const int row = chosen();
  const QString text = row < 0 ? QString() : textOf(row);
  update();
  if (text == accessibleDescription()) return;
  setAccessibleDescription(text);
  QAccessibleEvent event(this, QAccessible::DescriptionChanged);
  QAccessible::updateAccessibility(&event);
}

void NodeLedGrid::place() {
  const int nodes = std::max(1, nodes_->rowCount());
  int lines = 1;
  for (pitch_ = kMostPitch; pitch_ >= kLeastPitch; --pitch_) {
    perLine_ = std::max(1, width() / pitch_);
    lines = (nodes + perLine_ - 1) / perLine_;
    if (lines * pitch_ <= kMostHeight || pitch_ == kLeastPitch) break;
  }
  setFixedHeight(lines * pitch_);
}

QRect NodeLedGrid::ledOf(int row) const {
  const int gap = pitch_ > kRoomForFrame ? 3 : 1;
  return {row % perLine_ * pitch_, row / perLine_ * pitch_, pitch_ - gap, pitch_ - gap};
}

int NodeLedGrid::rowAt(const QPoint& at) const {
  if (at.x() < 0 || at.y() < 0 || at.x() >= perLine_ * pitch_) return -1;
  const int row = at.y() / pitch_ * perLine_ + at.x() / pitch_;
  return row < nodes_->rowCount() ? row : -1;
}

int NodeLedGrid::chosen() const {
  const QModelIndexList rows = selection_->selectedRows();
  return rows.isEmpty() ? -1 : rows.first().row();
}

void NodeLedGrid::choose(int row) {
  selection_->setCurrentIndex(nodes_->index(row, 0),
                              QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
}

QString NodeLedGrid::textOf(int row) const {
  const auto textAt = [&](int column, int role) {
    return nodes_->data(nodes_->index(row, column), role).toString();
  };
  QStringList lines{
      QString::fromUtf8("%1 · %2").arg(textAt(NodeTableModel::kName, Qt::DisplayRole),
                                       textAt(NodeTableModel::kState, Qt::DisplayRole)),
      QString("%1: %2").arg(
          nodes_->headerData(measure_, Qt::Horizontal, Qt::DisplayRole).toString(),
          textAt(measure_, Qt::DisplayRole))};
  if (const QString more = textAt(measure_, Qt::ToolTipRole); !more.isEmpty()) lines << more;
  return lines.join('\n');
}

bool NodeLedGrid::isWrong(int row) const {
  const auto isBad = [](const QVariant& tone) { return tone.toInt() == int(Tone::kBad); };
  const QVariant state =
      nodes_->data(nodes_->index(row, NodeTableModel::kState), NodeTableModel::kToneRole);
  const QVariantList gpus =
      nodes_->data(nodes_->index(row, NodeTableModel::kGpu), NodeTableModel::kTonesRole).toList();
  return (state.isValid() && isBad(state)) || std::any_of(gpus.begin(), gpus.end(), isBad);
}

// White on black is seen on every colour of the map.
void NodeLedGrid::markSlowed(QPainter& painter, int row) const {
  const QVariantList slowed =
      nodes_->data(nodes_->index(row, measure_), NodeTableModel::kSlowedRole).toList();
  const QRect led = ledOf(row);
  const int count = static_cast<int>(slowed.size()), foot = std::max(1, led.height() / 4);
  for (int gpu = 0; gpu < count; ++gpu) {
    if (!slowed[gpu].toBool()) continue;
    const int from = led.width() * gpu / count;
    const int wide = std::max(1, led.width() * (gpu + 1) / count - from);
    const QRect mark(led.x() + from, led.bottom() + 1 - foot, wide, foot);
    if (foot > 1) painter.fillRect(mark.adjusted(0, -1, 0, 0), Qt::black);
    painter.fillRect(mark, Qt::white);
  }
}

void NodeLedGrid::drawLed(QPainter& painter, int row) const {
  const QRect led = ledOf(row);
  const Theme& theme = Theme::instance();
  static const ColorMap colors(ColorMap::Kind::kSequential);
  const QVariantList shares =
      nodes_->data(nodes_->index(row, measure_), NodeTableModel::kLedsRole).toList();
  const int count = static_cast<int>(shares.size()), stripes = std::min(count, led.width());
  for (int i = 0; i < stripes; ++i) {
    float share = std::nanf("");
    for (int gpu = count * i / stripes; gpu < count * (i + 1) / stripes; ++gpu)
      if (shares[gpu].isValid()) share = std::fmax(share, shares[gpu].toFloat());
    if (std::isnan(share)) continue;
    const int from = led.width() * i / stripes, to = led.width() * (i + 1) / stripes;
    painter.fillRect(led.x() + from, led.y(), to - from, led.height(), QColor(colors.at(share)));
  }
  markSlowed(painter, row);
  if (count == 0 || pitch_ > kRoomForFrame) {
    painter.setPen(theme.color("border"));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(led.adjusted(0, 0, -1, -1));
  }
  if (isWrong(row)) {
    painter.setPen(QPen(theme.color("bad"), 2));
    painter.drawLine(led.topLeft(), led.bottomRight());
    painter.drawLine(led.bottomLeft(), led.topRight());
  }
}

void NodeLedGrid::paintEvent(QPaintEvent* event) {
  QPainter painter(this);
  for (int row = 0; row < nodes_->rowCount(); ++row)
    if (event->region().intersects(ledOf(row))) drawLed(painter, row);
  painter.setBrush(Qt::NoBrush);
  if (hasFocus()) {
    painter.setPen(Theme::instance().color("accent"));
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
  }
  const int row = chosen();
  if (row < 0) return;
  // Seen on every colour of the map.
  const QRect box = ledOf(row).adjusted(0, 0, -1, -1);
  painter.setPen(QPen(Qt::black, 3));
  painter.drawRect(box);
  painter.setPen(QPen(Qt::white, 1));
  painter.drawRect(box);
}

void NodeLedGrid::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  place();
}

bool NodeLedGrid::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int row = rowAt(help->pos());
  if (row < 0)
    QToolTip::hideText();
  else
    QToolTip::showText(help->globalPos(), textOf(row), this, ledOf(row));
  return true;
}

void NodeLedGrid::mousePressEvent(QMouseEvent* event) {
  const int row = rowAt(event->position().toPoint());
  if (event->button() == Qt::LeftButton && row >= 0) choose(row);
}

void NodeLedGrid::keyPressEvent(QKeyEvent* event) {
  const int last = nodes_->rowCount() - 1, row = chosen();
  if (last < 0) return QWidget::keyPressEvent(event);
  const auto go = [&](int to) { choose(row < 0 ? 0 : std::clamp(to, 0, last)); };
  switch (event->key()) {
    case Qt::Key_Left:
      return go(row - 1);
    case Qt::Key_Right:
      return go(row + 1);
    case Qt::Key_Up:
      return go(row < perLine_ ? row : row - perLine_);
    case Qt::Key_Down:
      return go(row + perLine_ > last ? row : row + perLine_);
    case Qt::Key_Home:
      return choose(0);
    case Qt::Key_End:
      return choose(last);
    default:
      QWidget::keyPressEvent(event);
  }
}

NodeLeds::NodeLeds(NodeTableModel* nodes, QItemSelectionModel* selection, QWidget* parent)
    : QWidget(parent),
      nodes_(nodes),
      measures_(new QComboBox(this)),
      grid_(new NodeLedGrid(nodes, selection, this)),
      legend_(new ColorLegend(this)),
      chosen_(grid_->measure()) {
  setObjectName("nodeLeds");
  measures_->setObjectName("nodeLedMeasure");
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(kSpaceS);
  row->addWidget(measures_);
  row->addWidget(grid_, 1, Qt::AlignVCenter);
  row->addWidget(legend_);
  connect(measures_, &QComboBox::activated, this, [this] {
    chosen_ = measures_->currentData().toInt();
    showMeasure();
  });
  const auto look = [this] {
    if (nodes_->anyGpu() != hasGpus_)
      fillMeasures();
    else
      showScale();
  };
  connect(nodes_, &QAbstractItemModel::modelReset, this, look);
  connect(nodes_, &QAbstractItemModel::dataChanged, this, look);
  retranslate();
}

// As high as the choice: left to the layout, it is lower.
void NodeLeds::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  setMinimumHeight(measures_->sizeHint().height());
}

void NodeLeds::fillMeasures() {
  hasGpus_ = nodes_->anyGpu();
  measures_->clear();
  const auto add = [this](int column) {
    measures_->addItem(nodes_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString(),
                       column);
  };
  for (const int column : kNodeMeasures) add(column);
  if (hasGpus_)
    for (const int column : kGpuMeasures) add(column);
  measures_->setCurrentIndex(std::max(0, measures_->findData(chosen_)));
  showMeasure();
}

void NodeLeds::showMeasure() {
  grid_->setMeasure(measures_->currentData().toInt());
  showScale();
}

void NodeLeds::showScale() {
  const int column = measures_->currentData().toInt();
  const QString most = column == NodeTableModel::kGpuTemperature ? formatCelsius(100)
                       : column == NodeTableModel::kNetwork      ? formatRate(nodes_->mostTraffic())
                                                                 : formatPercent(1, 0);
  if (most == most_) return;
  most_ = most;
  legend_->setScale(ColorMap::Kind::kSequential, {}, "0", most);
}

void NodeLeds::retranslate() {
  measures_->setAccessibleName(tr("What the grid of nodes shows"));
  measures_->setToolTip(measures_->accessibleName() + '\n' +
                        tr("A GPU that is slowed down has a white foot; a node or GPU with a "
                           "problem is crossed out."));
  grid_->setAccessibleName(tr("Grid of nodes"));
  fillMeasures();
}

}  // namespace lockstep::ui
