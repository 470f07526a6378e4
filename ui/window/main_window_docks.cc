// The docks of the main window: what they hold, where they stand, and how small the window may be.
#include <QDockWidget>
#include <QHeaderView>
#include <QLayout>
#include <QResizeEvent>
#include <QScreen>
#include <QStyle>
#include <QTableView>
#include <QTreeView>
#include <utility>

#include "ui/models/alert_model.h"
#include "ui/models/inspector_model.h"
#include "ui/models/navigator_model.h"
#include "ui/pages/learn_page.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/window/main_window.h"

namespace lockstep::ui {
namespace {

constexpr int kStateVersion = 1;
constexpr int kWide = 1250;  // pixels; room for docks at both sides
constexpr int kNavigatorWidth = 230, kInspectorWidth = 280;
constexpr int kNavigatorLeast = 160, kInspectorLeast = 165;  // nothing to read in less

}  // namespace

void MainWindow::makeDocks() {
  const auto dock = [this](const char* name, QWidget* widget, Qt::DockWidgetArea area) {
    auto* out = new QDockWidget(this);
    out->setObjectName(name);
    out->setWidget(widget);
    addDockWidget(area, out);
    return out;
  };
  navigatorModel_ = new NavigatorModel(this);
  navigator_ = new QTreeView(this);
  navigator_->setObjectName("navigator");
  navigator_->setModel(navigatorModel_);
  navigator_->setHeaderHidden(true);
  navigator_->setItemDelegate(new DetailDelegate(NavigatorModel::kDetailRole, navigator_));
  navigator_->setUniformRowHeights(true);
  navigator_->setIndentation(14);
  navigator_->expandAll();
  navigator_->setMinimumWidth(kNavigatorLeast);
  navigatorDock_ = dock("navigatorDock", navigator_, Qt::LeftDockWidgetArea);
  const auto openIndex = [this](const QModelIndex& index) {
    const QString key = index.data(NavigatorModel::kPageRole).toString();
    if (!key.isEmpty()) openPage(key);
  };
  connect(navigator_, &QTreeView::activated, this, openIndex);
  connect(navigator_, &QTreeView::clicked, this, openIndex);
  connect(navigatorModel_, &QAbstractItemModel::rowsInserted, this,
          [this](const QModelIndex& parent, int row) {
            navigator_->expand(parent);
            const QModelIndex added = navigatorModel_->index(row, 0, parent);
            const Page* page = currentPage();  // of a file just opened, of a run just launched
            if (page && added.data(NavigatorModel::kPageRole).toString() == page->key())
              navigator_->setCurrentIndex(added);
          });

  inspectorModel_ = new InspectorModel(this);
  inspector_ = new QTableView(this);
  inspector_->setObjectName("inspector");
  inspector_->setModel(inspectorModel_);
  applyTableStyle(inspector_);
  inspector_->horizontalHeader()->hide();
  inspector_->setWordWrap(true);  // what went wrong is told whole
  inspector_->setItemDelegate(new WrapDelegate(inspector_));
  inspector_->verticalHeader()->setMinimumSectionSize(26);
  inspector_->verticalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  connect(inspector_->horizontalHeader(), &QHeaderView::sectionResized, inspector_,
          &QTableView::resizeRowsToContents);
  inspector_->setTextElideMode(Qt::ElideMiddle);
  inspector_->setSelectionMode(QAbstractItemView::SingleSelection);
  inspector_->setMinimumWidth(kInspectorLeast);
  inspector_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  inspector_->viewport()->installEventFilter(this);
  inspectorDock_ = dock("inspectorDock", inspector_, Qt::RightDockWidgetArea);
  connect(inspectorModel_, &QAbstractItemModel::modelReset, this, [this] {
    inspector_->clearSpans();
    for (int row = 0; row < inspectorModel_->rowCount(); ++row) {
      if (inspectorModel_->spans(row)) inspector_->setSpan(row, 0, 1, 2);
    }
    fitInspector();
  });

  alertModel_ = new AlertModel(this);
  alerts_ = new QTableView(this);
  alerts_->setObjectName("alerts");
  alerts_->setModel(alertModel_);
  applyTableStyle(alerts_);
  alerts_->verticalHeader()->setDefaultSectionSize(24);
  alerts_->setItemDelegateForColumn(AlertModel::kTime,
                                    new ToneDelegate(AlertModel::kToneRole, alerts_));
  alerts_->setMinimumHeight(60);
  alerts_->horizontalHeader()->setStretchLastSection(false);
  alerts_->horizontalHeader()->setSectionResizeMode(AlertModel::kText, QHeaderView::Stretch);
  setColumns(alerts_, {128, 160, 300, 140});
  messageDock_ = dock("messageDock", alerts_, Qt::BottomDockWidgetArea);
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
}

// The names whole where there is room, and never more than their half.
void MainWindow::fitInspector() {
  int names = 60;
  for (int row = 0; row < inspectorModel_->rowCount(); ++row) {
    if (inspectorModel_->spans(row)) continue;
    names = std::max(names, inspector_->fontMetrics().horizontalAdvance(
                                inspectorModel_->index(row, 0).data().toString()) +
                                26);
  }
  inspector_->setColumnWidth(0, std::min(names, std::max(60, inspector_->viewport()->width() / 2)));
  inspector_->resizeRowsToContents();
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
  if (watched == inspector_->viewport() && event->type() == QEvent::Resize) fitInspector();
  return QMainWindow::eventFilter(watched, event);
}

void MainWindow::restoreDefaultLayout() {
  if (!defaultState_.isEmpty()) restoreDocks(defaultState_);
  for (QDockWidget* dock : {navigatorDock_, inspectorDock_, messageDock_}) {
    dock->setFloating(false);
    dock->show();
  }
  narrow_ = width() < widthForBothSides();
  arrangeDocks();
  resizeDocks({messageDock_}, {110}, Qt::Vertical);
}

void MainWindow::makeRoom() {
  const auto* learn = qobject_cast<LearnPage*>(currentPage());
  const bool wanted = learn != nullptr && learn->onProjector();
  if (!wanted) return showHiddenDocks();
  for (QDockWidget* dock : {navigatorDock_, inspectorDock_, messageDock_}) {
    if (dock->isHidden()) continue;
    dock->hide();
    hiddenDocks_ << dock;
  }
}

void MainWindow::showHiddenDocks() {
  for (QDockWidget* dock : std::exchange(hiddenDocks_, {})) dock->show();
}

QByteArray MainWindow::dockState() const { return saveState(kStateVersion); }
bool MainWindow::restoreDocks(const QByteArray& state) {
  return restoreState(state, kStateVersion);
}

// A small window keeps its width for the documents: the inspector stands under the navigator, and
// goes back to its side when there is room again. Docks put elsewhere by hand stay there.
void MainWindow::arrangeDocks() {
  if (navigatorDock_->isFloating() || inspectorDock_->isFloating() ||
      dockWidgetArea(navigatorDock_) != Qt::LeftDockWidgetArea)
    return;
  const Qt::DockWidgetArea at = dockWidgetArea(inspectorDock_);
  if (narrow_) {
    if (at == Qt::RightDockWidgetArea)
      splitDockWidget(navigatorDock_, inspectorDock_, Qt::Vertical);
    resizeDocks({navigatorDock_}, {kNavigatorWidth}, Qt::Horizontal);
    resizeDocks({navigatorDock_, inspectorDock_}, {1, 1}, Qt::Vertical);
  } else {
    if (at == Qt::LeftDockWidgetArea) addDockWidget(Qt::RightDockWidgetArea, inspectorDock_);
    resizeDocks({navigatorDock_, inspectorDock_}, {kNavigatorWidth, kInspectorWidth},
                Qt::Horizontal);
  }
}

// Width that documents gain when the inspector moves under the navigator.
int MainWindow::widthOfOneSide() const {
  if (navigatorDock_->isHidden() || inspectorDock_->isHidden() || navigatorDock_->isFloating() ||
      inspectorDock_->isFloating()) {
    return 0;
  }
  return std::min(navigatorDock_->minimumSizeHint().width(),
                  inspectorDock_->minimumSizeHint().width()) +
         style()->pixelMetric(QStyle::PM_DockWidgetSeparatorExtent, nullptr, this);
}

int MainWindow::widthForBothSides() const {
  const int least = layout()->totalMinimumSize().width();
  const bool beside = dockWidgetArea(inspectorDock_) == Qt::RightDockWidgetArea;
  return std::max(kWide, beside ? least : least + widthOfOneSide());
}

// The window may be made as narrow as it can be with the docks at one side, in one step: they go
// there.
void MainWindow::fitDocks() {
  const bool narrow = width() < widthForBothSides();
  if (narrow != narrow_) {
    narrow_ = narrow;
    arrangeDocks();
  }
  QSize least = layout()->totalMinimumSize();
  if (!narrow_ && dockWidgetArea(navigatorDock_) == Qt::LeftDockWidgetArea &&
      dockWidgetArea(inspectorDock_) == Qt::RightDockWidgetArea) {
    least.rwidth() -= widthOfOneSide();
  }
  setMinimumSize(least);
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  fitDocks();
}

bool MainWindow::event(QEvent* event) {
  const bool taken = QMainWindow::event(event);
  if (event->type() == QEvent::LayoutRequest) fitDocks();
  return taken;
}

QRect MainWindow::withinScreen(const QRect& window, const QMargins& frame, const QRect& available) {
  const QRect room = available.marginsRemoved(frame);
  QRect out(window.topLeft(), window.size().boundedTo(room.size()));
  if (out.right() > room.right()) out.moveRight(room.right());
  if (out.bottom() > room.bottom()) out.moveBottom(room.bottom());
  if (out.left() < room.left()) out.moveLeft(room.left());
  if (out.top() < room.top()) out.moveTop(room.top());
  return out;
}

void MainWindow::fitToScreen() {
  if (isMaximized() || isFullScreen() || !screen()) return;
  const QRect inner = geometry(), outer = frameGeometry();
  const QMargins frame(inner.left() - outer.left(), inner.top() - outer.top(),
                       outer.right() - inner.right(), outer.bottom() - inner.bottom());
  const QRect fitting = withinScreen(inner, frame, screen()->availableGeometry());
  if (fitting != inner) setGeometry(fitting);
}

}  // namespace lockstep::ui
