#include "ui/pages/dashboard_card.h"

#include <QApplication>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/run_document.h"

namespace lockstep::ui {
namespace {

constexpr int kGrip = 14;
const QString kBetween = QString::fromUtf8(" · ");

// "n1 · CPU": whose, and what.
std::pair<QString, QString> dividedText(const QString& series) {
  const QString text = metricText(series);
  const auto at = text.lastIndexOf(kBetween);
  return at < 0 ? std::pair{QString(), text}
                : std::pair{text.left(at), text.mid(at + kBetween.size())};
}

QString capitalized(const QString& text) { return text.left(1).toUpper() + text.mid(1); }

}  // namespace

DashboardCard::DashboardCard(const DashboardPlot& plot, RunDocument& document,
                             const PlotGroups& groups, QWidget* parent)
    : Card("dashboardCard", parent), plot_(plot), document_(document), groups_(groups) {
  // However long its title, it is no wider than its columns.
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  view_ = new PlotView("dashboardPlot", this);
  body()->addWidget(view_, 1);
  handle_ = makeToolButton("dashboardMove", "move", this);
  handle_->setCursor(Qt::OpenHandCursor);
  menu_ = makeToolButton("dashboardMenu", "more", this);
  view_->addTool(handle_);
  view_->addTool(menu_);
  title_ = view_->findChild<QLabel*>("plotTitle");
  title_->setCursor(Qt::OpenHandCursor);
  grip_ = new QWidget(this);
  grip_->setObjectName("dashboardGrip");
  grip_->setCursor(Qt::SizeFDiagCursor);
  for (QWidget* part : {static_cast<QWidget*>(handle_), title_, grip_})
    part->installEventFilter(this);
  view_->setSorted(true);
  view_->setLogY(plot_.logY);
  placeAxes(axesInfo());
  nameSeries();
  connect(view_, &PlotView::rangeShown, this, [this](double lower, double upper, int pixels) {
    document_.refine(view_->series(), lower, upper, pixels);
  });
  connect(menu_, &QToolButton::clicked, this, &DashboardCard::showMenu);
  connect(view_, &PlotView::logYChanged, this, [this](bool on) {
    if (on != plot_.logY) Q_EMIT logYChosen(on);
  });
}

void DashboardCard::setPlace(int index, int width, int height) {
  index_ = index;
  plot_.width = width;
  plot_.height = height;
  setObjectName(QString("dashboardCard%1").arg(index));
  view_->setObjectName(QString("dashboardPlot%1").arg(index));
}

void DashboardCard::takeFocus() { handle_->setFocus(Qt::OtherFocusReason); }

// The axes are those of the first series that has a unit of its own, or of the first pattern while
// there is none.
MetricInfo DashboardCard::axesInfo() const {
  if (shown_.empty()) return metricInfo(plot_.patterns.value(0).toStdString());
  const auto sure = std::find_if(shown_.begin(), shown_.end(), [](const Shown& one) {
    return one.info.kind != MetricUnit::kOfMetric;
  });
  return sure != shown_.end() ? sure->info : shown_[0].info;
}

void DashboardCard::placeAxes(const MetricInfo& info) {
  using Unit = PlotView::Unit;
  view_->setXAxis(info.axis == MetricAxis::kTime ? PlotView::XAxis::kTime
                                                 : PlotView::XAxis::kNumber);
  groups_.of(info.axis)->add(view_);
  view_->setFromZero(info.fromZero);
  view_->setUnit(info.kind == MetricUnit::kFraction   ? Unit::kPercent
                 : info.kind == MetricUnit::kBytes    ? Unit::kBytes
                 : info.kind == MetricUnit::kByteRate ? Unit::kByteRate
                                                      : Unit::kNumber);
}

// A series that the plot's axes do not fit is left out.
void DashboardCard::offer(const QString& series) {
  const bool isMine =
      std::any_of(plot_.patterns.begin(), plot_.patterns.end(),
                  [&](const QString& pattern) { return matchesPattern(pattern, series); });
  const bool isThere = std::any_of(shown_.begin(), shown_.end(),
                                   [&](const Shown& one) { return one.series == series; });
  if (!isMine || isThere) return;
  const MetricInfo info = metricInfo(series.toStdString());
  if (std::any_of(shown_.begin(), shown_.end(), [&](const Shown& one) {
        return one.info.axis != info.axis || !shareUnit(one.info, info);
      }))
    return;
  nameSoon();
  if (shown_.size() >= kMostSeries) {
    ++left_;
    return;
  }
  const auto [whose, what] = dividedText(series);
  shown_.push_back({series, info, whose, what, document_.pin(series.toStdString())});
  shown_.back().line->name = metricText(series);  // by which the plot sorts it
  placeAxes(axesInfo());
  view_->addSeries(shown_.back().line);
}

void DashboardCard::nameSoon() {
  if (std::exchange(naming_, true)) return;
  QMetaObject::invokeMethod(
      this,
      [this] {
        if (naming_) nameSeries();
      },
      Qt::QueuedConnection);
}

// Where all are one metric of several nodes or ranks, the title says which, and the legend whose.
void DashboardCard::nameSeries() {
  naming_ = false;
  std::set<QString> what;
  for (const Shown& one : shown_) what.insert(one.what);
  for (const Shown& one : shown_) {
    const bool isShort = what.size() == 1 && shown_.size() > 1 && !one.whose.isEmpty();
    one.line->name = isShort               ? one.whose
                     : one.whose.isEmpty() ? one.what
                                           : one.whose + kBetween + one.what;
    if (!one.whose.isEmpty()) one.line->quantity = one.what;
  }
  const MetricInfo info = axesInfo();
  const QString xTitle = info.axis == MetricAxis::kTime    ? tr("time")
                         : info.axis == MetricAxis::kEpoch ? tr("epoch")
                                                           : tr("step");
  QString name = title();
  if (left_ > 0) name += kBetween + tr("first %1 of %2").arg(kMostSeries).arg(kMostSeries + left_);
  view_->setTexts(name, xTitle,
                  info.kind == MetricUnit::kSeconds ? QString("s") : QString::fromUtf8(info.unit),
                  tr("No series of this run matches %1 yet.").arg(plot_.patterns.join(", ")));
  view_->refreshLegend();
  setAccessibleName(name);
}

QString DashboardCard::title() const {
  if (!plot_.title.isEmpty()) return plot_.title;
  QStringList names;
  const auto add = [&](const QString& name) {
    if (!names.contains(name)) names << name;
  };
  if (shown_.size() == 1) {
    add(capitalized(metricText(shown_[0].series)));
  } else if (!shown_.empty()) {
    for (const Shown& one : shown_) add(capitalized(one.what));
  } else {
    const bool isOne = plot_.patterns.size() == 1;
    for (const QString& one : plot_.patterns)
      add(capitalized(isOne ? metricText(one) : dividedText(one).second));
  }
  constexpr int kMostNames = 3;
  if (names.size() > kMostNames) names = names.mid(0, kMostNames) << QString::fromUtf8("…");
  return names.join(", ");
}

void DashboardCard::retranslate() {
  for (Shown& one : shown_) std::tie(one.whose, one.what) = dividedText(one.series);
  setTexts(handle_, tr("Move %1").arg(title()),
           tr("Drag to move. Arrow keys move too; Shift and arrow keys resize; Delete removes."));
  setTexts(menu_, tr("Options of %1").arg(title()));
  nameSeries();
}

void DashboardCard::showMenu() {
  auto* menu = new QMenu(this);
  menu->setObjectName("dashboardPlotMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const auto add = [&](const char* name, const QString& text, auto action) {
    menu->addAction(text, this, action)->setObjectName(name);
  };
  add("dashboardEdit", tr("Edit…"), [this] { Q_EMIT editWanted(); });
  menu->addSeparator();
  add("dashboardEarlier", tr("Move earlier"), [this] { Q_EMIT moveWanted(-1); });
  add("dashboardLater", tr("Move later"), [this] { Q_EMIT moveWanted(1); });
  add("dashboardWider", tr("Wider"), [this] { Q_EMIT resizeWanted(1, 0); });
  add("dashboardNarrower", tr("Narrower"), [this] { Q_EMIT resizeWanted(-1, 0); });
  add("dashboardHigher", tr("Higher"), [this] { Q_EMIT resizeWanted(0, 1); });
  add("dashboardLower", tr("Lower"), [this] { Q_EMIT resizeWanted(0, -1); });
  menu->addSeparator();
  add("dashboardRemove", tr("Remove"), [this] { Q_EMIT removeWanted(); });
  menu->popup(menu_->mapToGlobal(QPoint(0, menu_->height())));
}

bool DashboardCard::eventFilter(QObject* watched, QEvent* event) {
  if (watched == handle_ && event->type() == QEvent::KeyPress &&
      pressKey(static_cast<QKeyEvent*>(event)))
    return true;
  if (drag(watched, event)) return true;
  return Card::eventFilter(watched, event);
}

bool DashboardCard::pressKey(QKeyEvent* event) {
  const bool resizes = event->modifiers() & Qt::ShiftModifier;
  switch (event->key()) {
    case Qt::Key_Left:
      resizes ? Q_EMIT resizeWanted(-1, 0) : Q_EMIT moveWanted(-1);
      return true;
    case Qt::Key_Right:
      resizes ? Q_EMIT resizeWanted(1, 0) : Q_EMIT moveWanted(1);
      return true;
    case Qt::Key_Up:
      resizes ? Q_EMIT resizeWanted(0, -1) : Q_EMIT moveWanted(-1);
      return true;
    case Qt::Key_Down:
      resizes ? Q_EMIT resizeWanted(0, 1) : Q_EMIT moveWanted(1);
      return true;
    case Qt::Key_Delete:
      Q_EMIT removeWanted();
      return true;
    case Qt::Key_Escape:
      if (dragging_ == nullptr) return false;
      dragging_ = nullptr;
      if (std::exchange(moving_, false)) Q_EMIT dropped({}, false);
      return true;
    default:
      return false;
  }
}

// Of the grip a drag resizes, of handle and title it moves.
bool DashboardCard::drag(QObject* watched, QEvent* event) {
  const QEvent::Type type = event->type();
  if (type != QEvent::MouseButtonPress && type != QEvent::MouseMove &&
      type != QEvent::MouseButtonRelease)
    return false;
  const auto* mouse = static_cast<QMouseEvent*>(event);
  switch (type) {
    case QEvent::MouseButtonPress:
      if (mouse->button() != Qt::LeftButton) return false;
      dragging_ = watched;
      moving_ = false;
      pressed_ = mouse->globalPosition().toPoint();
      handle_->setFocus(Qt::MouseFocusReason);  // whose Escape ends the drag
      return true;
    case QEvent::MouseMove: {
      if (dragging_ != watched) return false;
      const QPoint now = mouse->globalPosition().toPoint();
      moving_ = moving_ || (now - pressed_).manhattanLength() >= QApplication::startDragDistance();
      if (moving_ && watched != grip_) Q_EMIT dragged(now);
      return true;
    }
    case QEvent::MouseButtonRelease: {
      if (dragging_ != watched || mouse->button() != Qt::LeftButton) return false;
      dragging_ = nullptr;
      const QPoint now = mouse->globalPosition().toPoint();
      if (!std::exchange(moving_, false)) return true;
      if (watched != grip_) {
        Q_EMIT dropped(now, true);
        return true;
      }
      const auto steps = [](int by, int size, int count) {
        const double each = static_cast<double>(size) / std::max(count, 1);
        return static_cast<int>(std::lround(by / each));
      };
      Q_EMIT resizeWanted(steps(now.x() - pressed_.x(), width(), plot_.width),
                          steps(now.y() - pressed_.y(), height(), plot_.height));
      return true;
    }
    default:
      return false;
  }
}

void DashboardCard::resizeEvent(QResizeEvent* event) {
  Card::resizeEvent(event);
  grip_->setGeometry(width() - kGrip, height() - kGrip, kGrip, kGrip);
  grip_->raise();
}

}  // namespace lockstep::ui
