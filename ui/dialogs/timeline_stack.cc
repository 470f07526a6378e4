#include "ui/dialogs/timeline_stack.h"

#include <QAction>
#include <QHeaderView>
#include <QScopedValueRollback>
#include <QTableView>
#include <QToolButton>
#include <algorithm>

#include "ui/models/timeline_table_model.h"
#include "ui/plots/timeline_view.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

// A letter finds nothing in it: millions of rows would be read for that.
class SpanTable : public QTableView {
 public:
  using QTableView::QTableView;
  void keyboardSearch(const QString&) override {}
};

}  // namespace

TimelineStack::TimelineStack(const QString& name, QWidget* parent)
    : QStackedWidget(parent), view_(new TimelineView(name, this)) {
  addWidget(view_);
  asTable_ = makeToolButton(name + "AsTable", "table", this);
  asTable_->setCheckable(true);
  buildTable();
  setTabOrder(asTable_, view_);
  connect(asTable_, &QToolButton::toggled, this, &TimelineStack::showTable);
  connect(view_, &TimelineView::spanChosen, this, &TimelineStack::takeChosen);
  connect(table_->selectionModel(), &QItemSelectionModel::currentChanged, this,
          &TimelineStack::giveChosen);
  connect(model_, &QAbstractItemModel::layoutChanged, table_, [this] {
    if (table_->currentIndex().isValid()) table_->scrollTo(table_->currentIndex());
  });
}

void TimelineStack::buildTable() {
  model_ = new TimelineTableModel(*view_, this);
  table_ = new SpanTable(this);
  table_->setObjectName(view_->objectName() + "Table");
  table_->setModel(model_);
  applyTableStyle(table_);
  table_->verticalHeader()->setDefaultSectionSize(24);
  table_->horizontalHeader()->setSortIndicator(TimelineTableModel::kRank, Qt::AscendingOrder);
  table_->setSortingEnabled(true);
  setColumns(table_, {110, 160, 250, 110, 100, 110, 90});
  sort_ = new QAction(table_);
  sort_->setObjectName(table_->objectName() + "Sort");
  sort_->setShortcut(Qt::CTRL | Qt::SHIFT | Qt::Key_O);
  sort_->setShortcutContext(Qt::WidgetShortcut);
  connect(sort_, &QAction::triggered, this, &TimelineStack::sortByCurrentColumn);
  table_->addAction(sort_);
  table_->setContextMenuPolicy(Qt::ActionsContextMenu);
  addWidget(table_);
}

void TimelineStack::showTable(bool on) {
  {
    // A table that gets the focus makes its first cell current: that is nobody's choice.
    const QScopedValueRollback<bool> passing(passing_, true);
    setCurrentWidget(on ? static_cast<QWidget*>(table_) : view_);
  }
  takeChosen();
}

void TimelineStack::takeChosen() {
  if (currentWidget() != table_) return;
  model_->refresh();
  if (passing_) return;
  const QScopedValueRollback<bool> passing(passing_, true);
  const int row = view_->chosenSpan() == nullptr ? -1 : model_->rowOf(view_->chosenPlace());
  if (row < 0) return table_->selectionModel()->clear();
  const int column = std::max(0, table_->currentIndex().column());
  table_->setCurrentIndex(model_->index(row, column));
}

void TimelineStack::giveChosen(const QModelIndex& now) {
  if (passing_ || !now.isValid()) return;
  const QScopedValueRollback<bool> passing(passing_, true);
  view_->chooseSpan(model_->placeOf(now.row()));
}

// By the column of the current cell; again: in the other direction.
void TimelineStack::sortByCurrentColumn() {
  const QHeaderView* header = table_->horizontalHeader();
  const int column = std::max(0, table_->currentIndex().column());
  const bool isAgain = header->sortIndicatorSection() == column &&
                       header->sortIndicatorOrder() == Qt::AscendingOrder;
  table_->sortByColumn(column, isAgain ? Qt::DescendingOrder : Qt::AscendingOrder);
}

void TimelineStack::retranslate() {
  setTexts(asTable_, tr("Show the data as a table"));
  table_->setAccessibleName(tr("Data of %1").arg(view_->accessibleName()));
  sort_->setText(tr("Sort by this column"));
  model_->retranslate();
}

}  // namespace lockstep::ui
