#include "ui/plots/plot_view.h"

#include "ui/plots/custom_plot.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QStackedLayout>
#include <QTableView>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "ui/plots/frame_clock.h"
#include "ui/plots/legend_bar.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/series_plottable.h"
#include "ui/plots/series_table_model.h"
#include "ui/plots/unit_ticker.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

// "n2" before "n10".
bool naturallyBefore(const QString& a, const QString& b) {
  qsizetype i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].isDigit() && b[j].isDigit()) {
      const auto number = [](const QString& text, qsizetype& at) {
        double value = 0;
        for (; at < text.size() && text[at].isDigit(); ++at)
          value = value * 10 + text[at].digitValue();
        return value;
      };
      const double left = number(a, i), right = number(b, j);
      if (left != right) return left < right;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

QToolButton* plotButton(const char* name, QWidget* parent) {
  auto* button = new QToolButton(parent);
  button->setObjectName(name);
  button->setAutoRaise(true);
  button->setIconSize({14, 14});
  button->setFocusPolicy(Qt::TabFocus);
  return button;
}

}  // namespace

PlotView::PlotView(const QString& name, QWidget* parent) : QWidget(parent) {
  setObjectName(name);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(kSpaceXs / 2);
  makeHead();
  layout->addLayout(head_);
  auto* body = new QWidget(this);
  stack_ = new QStackedLayout(body);
  layout->addWidget(body, 1);
  makeCanvas(body);
  makeTable(body);
  connectParts();
  placeTickers();
  restyle();
  retranslate();
}

void PlotView::makeHead() {
  auto* head = head_ = new QHBoxLayout;
  head->setSpacing(kSpaceXs / 2);
  title_ = new QLabel(this);
  title_->setObjectName("plotTitle");
  title_->setTextFormat(Qt::PlainText);
  title_->setProperty("role", "section");
  legend_ = new LegendBar(this);
  legend_->setObjectName("plotLegend");
  fitButton_ = plotButton("plotFit", this);
  logButton_ = plotButton("plotLogY", this);
  logButton_->setCheckable(true);
  tableButton_ = plotButton("plotTable", this);
  tableButton_->setCheckable(true);
  head->addWidget(title_);
  head->addSpacing(kSpaceM);
  head->addWidget(legend_, 1);
  head->addStretch(0);
  head->addWidget(fitButton_);
  head->addWidget(logButton_);
  head->addWidget(tableButton_);
}

void PlotView::makeCanvas(QWidget* body) {
  plot_ = new QCustomPlot(body);
  plot_->setObjectName("plotCanvas");
  plot_->setFocusPolicy(Qt::StrongFocus);
  plot_->setMinimumHeight(72);
  plot_->setNoAntialiasingOnDrag(true);
  plot_->setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
  // The label of a tick at the right end stays whole.
  plot_->axisRect()->setMinimumMargins(QMargins(15, 15, 24, 15));
  plot_->axisRect()->setRangeDrag(Qt::Horizontal);
  plot_->axisRect()->setRangeZoom(Qt::Horizontal);
  lines_ = new SeriesPlottable(plot_->xAxis, plot_->yAxis);
  plot_->addLayer("crosshair", plot_->layer("overlay"), QCustomPlot::limBelow);
  crosshairLayer_ = plot_->layer("crosshair");
  crosshairLayer_->setMode(QCPLayer::lmBuffered);
  marks_ = new SeriesPlottable(plot_->xAxis, plot_->yAxis);
  marks_->setLayer(crosshairLayer_);
  marks_->setEdged(true);
  crosshair_ = new QCPItemStraightLine(plot_);
  crosshair_->setLayer(crosshairLayer_);
  crosshair_->setSelectable(false);
  crosshair_->setVisible(false);
  cursor_ = new QCPItemStraightLine(plot_);
  cursor_->setLayer(crosshairLayer_);
  cursor_->setSelectable(false);
  cursor_->setVisible(false);
  crosshairText_ = new QCPItemText(plot_);
  crosshairText_->setLayer(crosshairLayer_);
  crosshairText_->setSelectable(false);
  crosshairText_->setVisible(false);
  crosshairText_->setPadding(QMargins(5, 1, 5, 1));
  crosshairText_->position->setTypeY(QCPItemPosition::ptAxisRectRatio);
  connect(plot_->selectionRect(), &QCPSelectionRect::accepted, this, &PlotView::chooseBox);
  plot_->setContextMenuPolicy(Qt::CustomContextMenu);
  connect(plot_, &QCustomPlot::customContextMenuRequested, this, &PlotView::showMenu);
  focus_ = new QFrame(plot_);
  focus_->setObjectName("plotFocus");
  focus_->setAttribute(Qt::WA_TransparentForMouseEvents);
  focus_->hide();
  plot_->installEventFilter(this);
  stack_->addWidget(plot_);
}

void PlotView::makeTable(QWidget* body) {
  table_ = new QTableView(body);
  table_->setObjectName("plotData");
  table_->setAlternatingRowColors(true);
  table_->setShowGrid(false);
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(24);
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setTabKeyNavigation(false);
  tableModel_ = new SeriesTableModel(this);
  table_->setModel(tableModel_);
  stack_->addWidget(table_);

  empty_ = new QLabel(plot_);
  empty_->setObjectName("plotEmpty");
  empty_->setTextFormat(Qt::PlainText);
  empty_->setAlignment(Qt::AlignCenter);
  empty_->setWordWrap(true);
  empty_->setProperty("role", "muted");
  empty_->setAttribute(Qt::WA_TransparentForMouseEvents);
}

void PlotView::connectParts() {
  connect(tableButton_, &QToolButton::toggled, this, &PlotView::showTable);
  connect(logButton_, &QToolButton::toggled, this, &PlotView::setLogY);
  connect(logButton_, &QToolButton::toggled, this, &PlotView::logYChanged);
  connect(fitButton_, &QToolButton::clicked, this, &PlotView::showAll);
  connect(legend_, &LegendBar::clicked, this, &PlotView::clickedLegend);
  connect(plot_->xAxis, QOverload<const QCPRange&>::of(&QCPAxis::rangeChanged), this,
          [this](const QCPRange& range) {
            if (!fitting_) rangeChosen(range.lower, range.upper);
          });
  constexpr int kRestMs = 60;
  rangeRests_.setSingleShot(true);
  rangeRests_.setInterval(kRestMs);
  connect(&rangeRests_, &QTimer::timeout, this, [this] {
    const QCPRange range = plot_->xAxis->range();
    if (isVisible())
      Q_EMIT rangeShown(range.lower, range.upper, plot_->axisRect()->width());
    else
      detailed_ = 0;  // it is told when the plot comes into view
  });
  connect(plot_, &QCustomPlot::afterReplot, this, [this] {
    if (!lines_->isWhole() || !marks_->isWhole()) dirty_ = true;
  });
  connect(plot_, &QCustomPlot::mouseDoubleClick, this, &PlotView::showAll);
  connect(plot_, &QCustomPlot::mouseMove, this,
          [this](QMouseEvent* event) { pointAt(event->position()); });
  connect(&FrameClock::instance(), &FrameClock::paint, this, &PlotView::frame);
  connect(&Theme::instance(), &Theme::changed, this, &PlotView::restyle);
}

PlotView::~PlotView() = default;

void PlotView::setTexts(const QString& title, const QString& xTitle, const QString& unit,
                        const QString& empty) {
  titleText_ = unit.isEmpty() ? title : tr("%1 (%2)").arg(title, unit);
  placeTitle();
  setAccessibleName(title);
  plot_->setAccessibleName(title);
  table_->setAccessibleName(tr("Data of %1").arg(title));
  xTitle_ = xTitle;
  unit_ = unit;
  plot_->xAxis->setLabel(xTitle);
  tableModel_->setXTitle(xTitle);
  empty_->setText(empty);
  markDirty();
}

bool PlotView::isScaled() const {
  return scale_ && xAxis_ == XAxis::kNumber && plot_->xAxis->scaleType() == QCPAxis::stLinear;
}

void PlotView::setXScale(std::optional<SeriesScale> scale, const QString& title) {
  scale_ = std::move(scale);
  scaleTitle_ = title;
  placeTickers();
}

void PlotView::setXAxis(XAxis kind) {
  xAxis_ = kind;
  placeTickers();
}

void PlotView::setUnit(Unit unit) {
  unitKind_ = unit;
  placeTickers();
}

void PlotView::placeTickers() {
  using Label = UnitTicker::Unit;
  const auto ofUnit = [](QCPAxis* axis, Label label) -> QCPAxisTicker* {
    if (axis->scaleType() == QCPAxis::stLogarithmic) return new LogTicker(label);
    return new UnitTicker(label);
  };
  const auto place = [](QCPAxis* axis, QCPAxisTicker* ticker) {
    axis->setTicker(QSharedPointer<QCPAxisTicker>(ticker));
  };
  place(plot_->xAxis, isScaled() ? new ScaleTicker(*scale_)
                                 : ofUnit(plot_->xAxis, xAxis_ == XAxis::kTime   ? Label::kTime
                                                        : xAxis_ == XAxis::kReal ? Label::kPlain
                                                                                 : Label::kCount));
  place(plot_->yAxis, ofUnit(plot_->yAxis, unitKind_ == Unit::kPercent    ? Label::kPercent
                                           : unitKind_ == Unit::kBytes    ? Label::kBytes
                                           : unitKind_ == Unit::kByteRate ? Label::kRate
                                                                          : Label::kPlain));
  markDirty();
}

void PlotView::addSeries(std::shared_ptr<Series> series) {
  if (group_ && group_->smoothing() >= 0) series->setSmoothing(group_->smoothing());
  auto& all = lines_->series();
  const auto place = sorted_ ? std::upper_bound(all.begin(), all.end(), series,
                                                [](const auto& a, const auto& b) {
                                                  return naturallyBefore(a->name, b->name);
                                                })
                             : all.end();
  all.insert(place, std::move(series));
  if (sorted_)
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->colorIndex = static_cast<int>(i);
  linesChanged_ = true;
  markDirty();
}

void PlotView::clearSeries() {
  lines_->series().clear();
  linesChanged_ = true;
  markDirty();
}

const std::vector<std::shared_ptr<Series>>& PlotView::series() const { return lines_->series(); }

std::size_t PlotView::sampleCount() const {
  std::size_t count = 0;
  for (const auto& series : lines_->series()) count += series->raw().size();
  return count;
}

void PlotView::markDirty() { dirty_ = true; }
void PlotView::lookForData() { mayHaveData_ = true; }

// A card in a scroll area may be visible and out of sight.
bool PlotView::isSeen() const { return isVisible() && !visibleRegion().isEmpty(); }

PlotView::Content PlotView::content() const {
  Content out;
  const auto add = [&](const Series& series) {
    out.samples += series.raw().size();
    out.replaced += series.replaced() + series.thinnings();
    out.revisions += series.revision();
  };
  for (const auto& series : lines_->series()) add(*series);
  if (scale_) add(scale_->series());
  return out;
}

void PlotView::frame() {
  if (!(dirty_ || mayHaveData_) || awaitsTurn_ || !isSeen()) return;
  if (std::exchange(mayHaveData_, false) && content() != painted_) dirty_ = true;
  if (!dirty_) return;
  awaitsTurn_ = true;
  FrameClock::instance().await(this, [this] {
    awaitsTurn_ = false;
    paintAgain();
  });
}

void PlotView::paintAgain() {
  if (!dirty_ || !isSeen()) return;
  dirty_ = false;
  painted_ = content();
  const bool areOthers = linesChanged_;
  if (areOthers) refreshLegend();
  lines_->regroup();
  if (spreadParts() != legend_->parts()) nameLines();  // lines were hidden or shown
  refreshEmpty();
  if (stack_->currentWidget() == table_) {
    if (areOthers)
      tableModel_->setSeries(lines_->series());
    else
      tableModel_->refresh();
    return;
  }
  fit();
  askForDetail();
  plot_->replot(QCustomPlot::rpQueuedRefresh);  // drawn now: the clock measures it
}

// For a part that was chosen before its data arrived.
void PlotView::askForDetail() {
  const std::size_t samples = sampleCount();
  const bool isPart = group_ ? !group_->following() : chosen_;
  if (samples == std::exchange(detailed_, samples) || !isPart || rangeRests_.isActive()) return;
  rangeRests_.start();
}

void PlotView::refreshEmpty() {
  const bool empty = sampleCount() == 0;
  empty_->setVisible(empty);
  empty_->setGeometry(plot_->rect().adjusted(kSpaceXl, 0, -kSpaceXl, 0));
  for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis}) {
    axis->setTickLabels(!empty);
    axis->setTicks(!empty);
    axis->grid()->setVisible(!empty);
  }
}

void PlotView::fit() {
  fitting_ = true;
  // A low plot keeps its room for the curve: fewer ticks, no title of the axis.
  plot_->xAxis->setLabel(plot_->height() > 170 ? shownXTitle() : QString());
  plot_->xAxis->ticker()->setTickCount(std::clamp(plot_->width() / 70, 2, 6));
  plot_->yAxis->ticker()->setTickCount(std::clamp(plot_->height() / 34, 2, 6));
  const bool follow = group_ ? group_->following() && !group_->paused() : !chosen_;
  if (follow || refit_) {
    refit_ = false;
    QCPRange range = lines_->xRange();
    if (plot_->xAxis->scaleType() == QCPAxis::stLogarithmic && xAxis_ != XAxis::kReal)
      range.lower = std::max(range.lower, 1.0);
    if (range.size() < 1e-9) range.upper = range.lower + 1;
    plot_->xAxis->setRange(range);
  }
  QCPRange values = lines_->yRange(plot_->xAxis->range());
  if (yBox_) {
    values = QCPRange(yBox_->min, yBox_->max);
  } else if (plot_->yAxis->scaleType() == QCPAxis::stLogarithmic) {
    const double lower = values.lower > 0 ? values.lower : values.upper * 1e-4;
    values = QCPRange(lower > 0 ? lower / 1.15 : 1e-3, values.upper > 0 ? values.upper * 1.15 : 1);
  } else if (unitKind_ == Unit::kPercent) {
    values = QCPRange(0, 1.02);
  } else {
    if (fromZero_ && values.lower > 0) values.lower = 0;
    if (unitKind_ == Unit::kBytes || unitKind_ == Unit::kByteRate)  // of an idle link too
      values.upper = std::max(values.upper, values.lower + 10);
    double pad = (values.upper - values.lower) * 0.06;
    if (pad <= 0) pad = values.upper != 0 ? std::abs(values.upper) * 0.1 : 1;
    const bool onZero = values.lower == 0;
    values = QCPRange(onZero ? 0 : values.lower - pad, values.upper + pad);
  }
  plot_->yAxis->setRange(values);
  fitting_ = false;
}

void PlotView::setLogX(bool on) {
  fitting_ = true;  // no range is chosen by this: a logarithmic axis has none that begins at zero
  plot_->xAxis->setScaleType(on ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
  fitting_ = false;
  placeTickers();
}

void PlotView::setLogY(bool on) {
  logButton_->setChecked(on);
  yBox_.reset();
  plot_->yAxis->setScaleType(on ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
  placeTickers();
}

void PlotView::showTable(bool on) {
  tableButton_->setChecked(on);
  if (linesChanged_) refreshLegend();
  // Out of sight it gets no new columns: its header would measure each of a thousand names.
  if (on) tableModel_->setSeries(lines_->series());
  stack_->setCurrentWidget(on ? static_cast<QWidget*>(table_) : plot_);
  markDirty();
}

void PlotView::addTool(QToolButton* button) {
  button->setAutoRaise(true);
  button->setIconSize(fitButton_->iconSize());
  button->setFocusPolicy(Qt::TabFocus);
  head_->addWidget(button);
  ++tools_;
  placeTitle();
  placeLegend();
}

MinMax PlotView::dataRange() const {
  const QCPRange range = lines_->xRange();
  MinMax out;
  out.add(range.lower);
  out.add(range.upper);
  return out;
}

void PlotView::setSmoothing(double weight) {
  for (const auto& series : lines_->series()) series->setSmoothing(weight);
  markDirty();
}

// Of the axes and the ground, which pictures have too.
void PlotView::applyColors() {
  const Theme& theme = Theme::instance();
  plot_->setBackground(QBrush(theme.color("base")));
  for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis}) {
    axis->setBasePen(QPen(theme.color("border"), 1));
    axis->setTickPen(QPen(theme.color("border"), 1));
    axis->setSubTickPen(Qt::NoPen);
    axis->setTickLength(0, 4);
    axis->setTickLabelColor(theme.color("muted"));
    axis->setLabelColor(theme.color("muted"));
    axis->setTickLabelFont(theme.small(this));
    axis->setLabelFont(theme.small(this));
    axis->grid()->setPen(QPen(theme.color("grid"), 1));
    axis->grid()->setZeroLinePen(Qt::NoPen);
    axis->grid()->setSubGridVisible(false);
  }
  plot_->xAxis->setLabelPadding(2);
}

void PlotView::restyle() {
  applyColors();
  const Theme& theme = Theme::instance();
  crosshair_->setPen(QPen(theme.color("axis"), 1, Qt::DashLine));
  cursor_->setPen(QPen(theme.color("accent"), 1));
  fitButton_->setIcon(theme.icon("fit"));
  crosshairText_->setFont(theme.small(this));
  crosshairText_->setColor(theme.color("text"));
  crosshairText_->setBrush(theme.color("base"));
  plot_->selectionRect()->setPen(QPen(theme.color("accent"), 1));
  QColor box = theme.color("accent");
  box.setAlpha(40);
  plot_->selectionRect()->setBrush(box);
  logButton_->setIcon(theme.icon("logy"));
  tableButton_->setIcon(theme.icon("table"));
  legend_->update();
  plot_->replot(QCustomPlot::rpQueuedReplot);
  markDirty();
}

void PlotView::retranslate() {
  const auto set = [](QToolButton* button, const QString& text) {
    button->setToolTip(text);
    button->setAccessibleName(text);
  };
  set(fitButton_, tr("Show all data"));
  set(logButton_, tr("Logarithmic y axis"));
  set(tableButton_, tr("Show the data as a table"));
  legend_->setAccessibleName(tr("Legend"));
  plot_->setLocale(QLocale());
  linesChanged_ = true;  // the legend's texts
  markDirty();
}

void PlotView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) retranslate();
  if (event->type() == QEvent::FontChange) {
    restyle();
    placeTitle();
    placeLegend();
  }
  QWidget::changeEvent(event);
}

void PlotView::placeTitle() {
  const int buttons = (3 + tools_) * (fitButton_->sizeHint().width() + head_->spacing());
  const int least = 3 * fitButton_->sizeHint().width();  // of a title; a shorter one is shown whole
  const int room = std::max(width() - buttons - kSpaceM, least);
  const QString text = title_->fontMetrics().elidedText(titleText_, Qt::ElideRight, room);
  title_->setText(text);
  title_->setMinimumWidth(std::min(title_->sizeHint().width(), least));
  title_->setToolTip(text == titleText_ ? QString() : titleText_);
}

void PlotView::placeLegend() {
  auto* column = static_cast<QVBoxLayout*>(layout());
  const int buttons = (3 + tools_) * (fitButton_->sizeHint().width() + head_->spacing());
  const int room = width() - title_->sizeHint().width() - buttons - 2 * kSpaceM;
  const bool beside = legend_->wantedWidth() <= room;
  if (beside == (head_->indexOf(legend_) >= 0)) return;
  if (beside) {
    column->removeWidget(legend_);
    head_->insertWidget(2, legend_, 1);
  } else {
    head_->removeWidget(legend_);
    column->insertWidget(1, legend_);
  }
  head_->setStretch(head_->count() - 4 - tools_, beside ? 0 : 1);
}

void PlotView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  placeTitle();
  placeLegend();
}

void PlotView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  markDirty();
}

}  // namespace lockstep::ui
