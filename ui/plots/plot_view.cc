#include "ui/plots/plot_view.h"

#include "ui/plots/custom_plot.h"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMenu>
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
#include "ui/theme/format.h"
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

constexpr int kLeastBox = 5, kLowBox = 14;  // pixels: less is a click; lower is along x alone

// Digits after the point that tell neighbouring ticks apart.
int tickDigits(double step) {
  return step > 0 ? std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6) : 0;
}

// Labels of an axis in the studio's units: no two ticks are labelled alike.
class UnitTicker : public QCPAxisTicker {
 public:
  enum class Unit { kPlain, kCount, kBytes, kRate, kPercent, kTime };
  explicit UnitTicker(Unit unit) : unit_(unit) {}

 protected:
  double getTickStep(const QCPRange& range) override {
    step_ = QCPAxisTicker::getTickStep(range);
    if (unit_ == Unit::kCount || unit_ == Unit::kBytes || unit_ == Unit::kRate)
      step_ = std::max(1.0, std::floor(step_));
    if (unit_ == Unit::kTime) {
      static constexpr double kSteps[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600};
      const auto found = std::lower_bound(std::begin(kSteps), std::end(kSteps), step_ * 0.99);
      step_ = found != std::end(kSteps) ? *found : std::ceil(step_ / 3600) * 3600;
    }
    return step_;
  }
  QString getTickLabel(double tick, const QLocale& locale, QChar, int) override {
    switch (unit_) {
      case Unit::kCount:
        return locale.toString(tick, 'f', 0);
      case Unit::kBytes:
        return scaled(tick, "B", locale);
      case Unit::kRate:
        return scaled(tick, "B/s", locale);
      case Unit::kPercent:
        return formatPercent(tick, tickDigits(step_ * 100));
      case Unit::kTime:
        return formatDuration(tick);
      case Unit::kPlain:
        break;
    }
    const double size = std::abs(tick);
    if (size < step_ * 1e-9) return "0";
    if (size >= 1e-4 && size < 1e6) return locale.toString(tick, 'f', tickDigits(step_));
    return locale.toString(
        tick, 'g', std::clamp(static_cast<int>(std::ceil(std::log10(size / step_))) + 2, 2, 15));
  }

 private:
  QString scaled(double tick, const char* unit, const QLocale& locale) const {
    static const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int prefix = 0;
    double size = 1;
    for (; std::abs(tick) >= size * 999.5 && prefix < 5; ++prefix) size *= 1000;
    return QString("%1 %2%3").arg(locale.toString(tick / size, 'f', tickDigits(step_ / size)),
                                  prefixes[prefix], unit);
  }

  Unit unit_;
  double step_ = 1;
};

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
  setXAxis(XAxis::kNumber);
  setBytes(false);
  restyle();
  retranslate();
}

void PlotView::makeHead() {
  auto* head = head_ = new QHBoxLayout;
  head->setSpacing(kSpaceXs / 2);
  title_ = new QLabel(this);
  title_->setObjectName("plotTitle");
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
  crosshair_ = new QCPItemStraightLine(plot_);
  crosshair_->setLayer(crosshairLayer_);
  crosshair_->setSelectable(false);
  crosshair_->setVisible(false);
  crosshairText_ = new QCPItemText(plot_);
  crosshairText_->setLayer(crosshairLayer_);
  crosshairText_->setSelectable(false);
  crosshairText_->setVisible(false);
  crosshairText_->setPadding(QMargins(5, 1, 5, 1));
  crosshairText_->position->setTypeY(QCPItemPosition::ptAxisRectRatio);
  connect(plot_->selectionRect(), &QCPSelectionRect::accepted, this, &PlotView::chooseBox);
  plot_->setContextMenuPolicy(Qt::CustomContextMenu);
  connect(plot_, &QCustomPlot::customContextMenuRequested, this, &PlotView::showMenu);
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
  tableModel_ = new SeriesTableModel(this);
  table_->setModel(tableModel_);
  stack_->addWidget(table_);

  empty_ = new QLabel(plot_);
  empty_->setObjectName("plotEmpty");
  empty_->setAlignment(Qt::AlignCenter);
  empty_->setWordWrap(true);
  empty_->setProperty("role", "muted");
  empty_->setAttribute(Qt::WA_TransparentForMouseEvents);
}

void PlotView::connectParts() {
  connect(tableButton_, &QToolButton::toggled, this, &PlotView::showTable);
  connect(logButton_, &QToolButton::toggled, this, &PlotView::setLogY);
  connect(fitButton_, &QToolButton::clicked, this, &PlotView::showAll);
  connect(legend_, &LegendBar::toggled, this, &PlotView::markDirty);
  connect(plot_->xAxis, QOverload<const QCPRange&>::of(&QCPAxis::rangeChanged), this,
          [this](const QCPRange& range) {
            if (!fitting_) rangeChosen(range.lower, range.upper);
          });
  connect(plot_, &QCustomPlot::mouseDoubleClick, this, &PlotView::showAll);
  connect(plot_, &QCustomPlot::mouseMove, this, [this](QMouseEvent* event) {
    const double x = plot_->xAxis->pixelToCoord(event->position().x());
    if (group_) {
      group_->setCrosshair(x, true);
    } else {
      showCrosshair(x, true);
    }
  });
  connect(&FrameClock::instance(), &FrameClock::paint, this, &PlotView::frame);
  connect(&Theme::instance(), &Theme::changed, this, &PlotView::restyle);
}

PlotView::~PlotView() = default;

void PlotView::setTexts(const QString& title, const QString& xTitle, const QString& unit,
                        const QString& empty) {
  title_->setText(unit.isEmpty() ? title : tr("%1 (%2)").arg(title, unit));
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

void PlotView::setXAxis(XAxis kind) {
  xAxis_ = kind;
  plot_->xAxis->setTicker(QSharedPointer<QCPAxisTicker>(
      new UnitTicker(kind == XAxis::kTime ? UnitTicker::Unit::kTime : UnitTicker::Unit::kCount)));
}

void PlotView::setPercent(bool on) {
  percent_ = on;
  plot_->yAxis->setTicker(QSharedPointer<QCPAxisTicker>(
      new UnitTicker(on ? UnitTicker::Unit::kPercent : UnitTicker::Unit::kPlain)));
}

void PlotView::setBytes(bool on) {
  bytes_ = on;
  plot_->yAxis->setTicker(
      QSharedPointer<QCPAxisTicker>(new UnitTicker(!on     ? UnitTicker::Unit::kPlain
                                                   : rate_ ? UnitTicker::Unit::kRate
                                                           : UnitTicker::Unit::kBytes)));
}

void PlotView::setRate(bool on) {
  rate_ = on;
  setBytes(on);
}

void PlotView::addSeries(std::shared_ptr<Series> series) {
  auto& all = lines_->series();
  all.push_back(std::move(series));
  if (sorted_) {
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return naturallyBefore(a->name, b->name);
    });
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->colorIndex = static_cast<int>(i);
  }
  legend_->setSeries(lines_->series());
  tableModel_->setSeries(lines_->series());
  placeLegend();
  markDirty();
}

void PlotView::clearSeries() {
  lines_->series().clear();
  legend_->setSeries({});
  tableModel_->setSeries({});
  markDirty();
}

const std::vector<std::shared_ptr<Series>>& PlotView::series() const { return lines_->series(); }

std::size_t PlotView::sampleCount() const {
  std::size_t count = 0;
  for (const auto& series : lines_->series()) count += series->raw().size();
  return count;
}

void PlotView::markDirty() { dirty_ = true; }

void PlotView::frame() {
  if (!dirty_ || !isVisible()) return;
  dirty_ = false;
  refreshEmpty();
  if (stack_->currentWidget() == table_) {
    tableModel_->refresh();
    return;
  }
  fit();
  plot_->replot(QCustomPlot::rpQueuedReplot);
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
  plot_->xAxis->setLabel(plot_->height() > 170 ? xTitle_ : QString());
  plot_->xAxis->ticker()->setTickCount(std::clamp(plot_->width() / 70, 2, 6));
  plot_->yAxis->ticker()->setTickCount(std::clamp(plot_->height() / 34, 2, 6));
  const bool follow = group_ ? group_->following() && !group_->paused() : !chosen_;
  if (follow || refit_) {
    refit_ = false;
    QCPRange range = lines_->xRange();
    if (plot_->xAxis->scaleType() == QCPAxis::stLogarithmic)
      range.lower = std::max(range.lower, 1.0);
    if (range.size() < 1e-9) range.upper = range.lower + 1;
    plot_->xAxis->setRange(range);
  }
  QCPRange values = lines_->yRange(plot_->xAxis->range());
  if (yBox_) {
    values = QCPRange(yBox_->min, yBox_->max);
  } else if (percent_) {
    values = QCPRange(0, 1.02);
  } else if (plot_->yAxis->scaleType() == QCPAxis::stLogarithmic) {
    const double lower = values.lower > 0 ? values.lower : values.upper * 1e-4;
    values = QCPRange(lower > 0 ? lower / 1.15 : 1e-3, values.upper > 0 ? values.upper * 1.15 : 1);
  } else {
    if (fromZero_ && values.lower > 0) values.lower = 0;
    if (bytes_) values.upper = std::max(values.upper, values.lower + 10);  // of an idle link too
    double pad = (values.upper - values.lower) * 0.06;
    if (pad <= 0) pad = values.upper != 0 ? std::abs(values.upper) * 0.1 : 1;
    const bool onZero = values.lower == 0;
    values = QCPRange(onZero ? 0 : values.lower - pad, values.upper + pad);
  }
  plot_->yAxis->setRange(values);
  fitting_ = false;
}

void PlotView::setLogX(bool on) {
  plot_->xAxis->setScaleType(on ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
  if (on) {
    plot_->xAxis->setTicker(QSharedPointer<QCPAxisTicker>(new QCPAxisTickerLog));
  } else {
    setXAxis(xAxis_);
  }
  showAll();
}

void PlotView::setLogY(bool on) {
  logButton_->setChecked(on);
  yBox_.reset();
  plot_->yAxis->setScaleType(on ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
  if (on) {
    plot_->yAxis->setTicker(QSharedPointer<QCPAxisTicker>(new QCPAxisTickerLog));
  } else if (percent_) {
    setPercent(true);
  } else {
    setBytes(bytes_);
  }
  markDirty();
}

void PlotView::showTable(bool on) {
  tableButton_->setChecked(on);
  if (on) tableModel_->refresh();
  stack_->setCurrentWidget(on ? static_cast<QWidget*>(table_) : plot_);
  markDirty();
}

bool PlotView::savePng(const QString& path) { return plot_->savePng(path, 0, 0, 2.0); }

MinMax PlotView::dataRange() const {
  const QCPRange range = lines_->xRange();
  MinMax out;
  out.add(range.lower);
  out.add(range.upper);
  return out;
}

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

// By wheel, keys or a drag: within the data, and all of them is following again.
void PlotView::rangeChosen(double lower, double upper) {
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
  menu->addAction(tr("Copy picture"), this,
                  [this] { QApplication::clipboard()->setPixmap(grab()); })
      ->setObjectName("plotMenuCopy");
  menu->addAction(tr("Save picture…"), this, &PlotView::savePicture)->setObjectName("plotMenuSave");
  menu->popup(plot_->mapToGlobal(at));
}

void PlotView::savePicture() {
  auto* dialog = new QFileDialog(this, tr("Save picture"), QString(), tr("Pictures (*.png)"));
  dialog->setObjectName("savePictureDialog");
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix("png");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, this, &PlotView::savePng);
  dialog->open();
}

QString PlotView::xText(double x) const {
  if (xAxis_ == XAxis::kTime) return formatDuration(x);
  return QString("%1 %2").arg(xTitle_, formatCount(std::llround(x)));
}

void PlotView::showXRange(double lower, double upper) {
  fitting_ = true;
  refit_ = false;
  plot_->xAxis->setRange(lower, upper);
  fitting_ = false;
  markDirty();
}

void PlotView::showCrosshair(double x, bool visible) {
  visible = visible && sampleCount() > 0;
  crosshair_->setVisible(visible);
  crosshairText_->setVisible(visible);
  QStringList values;
  double sampleX = x;  // of the sample the values are of
  if (visible) {
    crosshair_->point1->setCoords(x, 0);
    crosshair_->point2->setCoords(x, 1);
    crosshair_->point2->setTypeY(QCPItemPosition::ptAxisRectRatio);
    crosshair_->point1->setTypeY(QCPItemPosition::ptAxisRectRatio);
    std::size_t most = 0;
    for (const auto& series : lines_->series()) {
      const auto at = series->nearest(x);
      if (at >= 0 && series->raw().size() > most) {
        most = series->raw().size();
        sampleX = series->raw().x(static_cast<std::size_t>(at));
      }
      values << (at < 0 ? QString() : valueText(series->shown().y(static_cast<std::size_t>(at))));
    }
  }
  legend_->setValues(values);
  const QCPRange range = plot_->xAxis->range();
  const bool left = x > range.center();
  crosshairText_->setText(xText(sampleX));
  crosshairText_->position->setCoords(x, 0);
  crosshairText_->setPositionAlignment(Qt::AlignTop | (left ? Qt::AlignRight : Qt::AlignLeft));
  if (isVisible()) crosshairLayer_->replot();
}

QString PlotView::valueText(double value) const {
  if (!std::isfinite(value)) return tr("not a number");
  if (percent_) return formatPercent(value, 1);
  if (bytes_) return rate_ ? formatRate(value) : formatBytes(value);
  if (std::abs(value) >= 1000 && std::abs(value) < 1e9) return formatCount(std::llround(value));
  return QLocale().toString(value, 'g', 4);
}

void PlotView::setSmoothing(double weight) {
  for (const auto& series : lines_->series()) series->setSmoothing(weight);
  markDirty();
}

void PlotView::restyle() {
  const Theme& theme = Theme::instance();
  plot_->setBackground(QBrush(theme.color("base")));
  for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis}) {
    axis->setBasePen(QPen(theme.color("border"), 1));
    axis->setTickPen(QPen(theme.color("border"), 1));
    axis->setSubTickPen(Qt::NoPen);
    axis->setTickLength(0, 4);
    axis->setTickLabelColor(theme.color("muted"));
    axis->setLabelColor(theme.color("muted"));
    axis->setTickLabelFont(theme.small());
    axis->setLabelFont(theme.small());
    axis->grid()->setPen(QPen(theme.color("grid"), 1));
    axis->grid()->setZeroLinePen(Qt::NoPen);
    axis->grid()->setSubGridVisible(false);
  }
  plot_->xAxis->setLabelPadding(2);
  crosshair_->setPen(QPen(theme.color("axis"), 1, Qt::DashLine));
  fitButton_->setIcon(theme.icon("fit"));
  crosshairText_->setFont(theme.small());
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
}

void PlotView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) retranslate();
  QWidget::changeEvent(event);
}

void PlotView::placeLegend() {
  auto* column = static_cast<QVBoxLayout*>(layout());
  const int buttons = 3 * fitButton_->sizeHint().width();
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
  head_->setStretch(head_->count() - 4, beside ? 0 : 1);
}

void PlotView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  placeLegend();
}

void PlotView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
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
      plot_->setSelectionRectMode(box ? QCP::srmCustom : QCP::srmNone);
      break;
    }
    case QEvent::KeyPress: {
      // The same without a mouse: arrows pan, plus and minus zoom, Home shows all.
      QCPAxis* axis = plot_->xAxis;
      const double width = axis->range().size();
      switch (static_cast<QKeyEvent*>(event)->key()) {
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
        default:
          break;
      }
      break;
    }
    case QEvent::Resize:
      markDirty();
      break;
    default:
      break;
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace lockstep::ui
