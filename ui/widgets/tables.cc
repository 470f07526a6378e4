#include "ui/widgets/tables.h"

#include <QEvent>
#include <QHeaderView>
#include <QHelpEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QToolTip>
#include <algorithm>

#include "ui/theme/tool_tip.h"
#include "ui/widgets/delegates.h"

namespace lockstep::ui {
namespace {

class BackgroundDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override {
    if (const QVariant brush = index.data(Qt::BackgroundRole); brush.isValid())
      painter->fillRect(option.rect, brush.value<QBrush>());
    QStyledItemDelegate::paint(painter, option, index);
  }
};

// Shows in the tool tip what a cell has no room for.
class WholeTexts : public QObject {
 public:
  explicit WholeTexts(QTableView* table) : QObject(table), table_(table) {
    table->viewport()->installEventFilter(this);
  }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() != QEvent::ToolTip) return QObject::eventFilter(watched, event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const QModelIndex index = table_->indexAt(help->pos());
    if (!index.isValid() || !isCut(index)) return false;
    const QString text = index.data().toString(), more = index.data(Qt::ToolTipRole).toString();
    const bool isSame = more.isEmpty() || more == text || more == toolTipText(text);
    const QString rest = isSame                      ? QString()
                         : Qt::mightBeRichText(more) ? more
                                                     : wrappedToolTip(more);
    QToolTip::showText(help->globalPos(), wrappedToolTip(text) + rest, table_->viewport(),
                       table_->visualRect(index));
    return true;
  }

 private:
  bool isCut(const QModelIndex& index) const {
    const QVariant font = index.data(Qt::FontRole);
    const QFontMetrics metrics(font.isValid() ? font.value<QFont>().resolve(table_->font())
                                              : table_->font());
    const bool hasIcon = index.data(Qt::DecorationRole).isValid();
    QRect room = table_->visualRect(index).adjusted(kCellPad, 0, -kCellPad, 0);
    if (hasIcon) room.setLeft(room.left() + table_->style()->pixelMetric(QStyle::PM_SmallIconSize));
    const QRect needed = metrics.boundingRect(
        QRect(0, 0, std::max(1, room.width()), 1 << 20),
        table_->wordWrap() ? Qt::TextWordWrap : Qt::TextSingleLine, index.data().toString());
    return needed.width() > room.width() || needed.height() > room.height();
  }

  QTableView* table_;
};

}  // namespace

void applyTableStyle(QTableView* table) {
  new WholeTexts(table);
  table->setShowGrid(false);
  table->setAlternatingRowColors(false);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->setSelectionMode(QAbstractItemView::SingleSelection);
  table->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  table->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  table->setWordWrap(false);
  table->setTabKeyNavigation(false);
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(30);
  table->verticalHeader()->setMinimumSectionSize(22);
  table->horizontalHeader()->setHighlightSections(false);
  table->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  table->horizontalHeader()->setStretchLastSection(true);
  table->horizontalHeader()->setMinimumSectionSize(40);
}

void paintBackgrounds(QTableView* table) { table->setItemDelegate(new BackgroundDelegate(table)); }

void applyMatrixStyle(QTableView* table) {
  constexpr int kCellWidth = 84;
  applyTableStyle(table);
  table->setSelectionBehavior(QAbstractItemView::SelectItems);
  table->verticalHeader()->show();
  table->horizontalHeader()->setStretchLastSection(false);
  table->horizontalHeader()->setDefaultSectionSize(kCellWidth);
  paintBackgrounds(table);
}

void setColumns(QTableView* table, std::initializer_list<int> widths) {
  int column = 0;
  for (int width : widths) table->setColumnWidth(column++, width);
}

ColumnFitter::ColumnFitter(QTableView* table, QVector<int> spare, int last)
    : QObject(table),
      table_(table),
      viewport_(table->viewport()),
      spare_(std::move(spare)),
      last_(last) {
  table_->viewport()->installEventFilter(this);
  fit();
}

void ColumnFitter::fit() {
  const auto show = [this](bool shown) {
    for (const int column : spare_) table_->setColumnHidden(column, !shown);
  };
  const auto wanted = [this] {
    const QHeaderView* header = table_->horizontalHeader();
    int sum = 0, end = header->count() - 1;
    while (end >= 0 && header->isSectionHidden(end)) --end;
    for (int column = 0; column <= end; ++column) {
      const bool shares = header->sectionResizeMode(column) == QHeaderView::Stretch;
      sum += column == end && last_ > 0 ? last_
             : shares                   ? header->sectionSizeHint(column)
                                        : header->sectionSize(column);
    }
    return sum;
  };
  show(true);
  for (const int column : spare_) {
    if (wanted() <= table_->viewport()->width()) return;
    table_->setColumnHidden(column, true);
  }
  if (wanted() > table_->viewport()->width()) show(true);
}

bool ColumnFitter::eventFilter(QObject* watched, QEvent* event) {
  if (watched == viewport_ && event->type() == QEvent::Resize) fit();
  return QObject::eventFilter(watched, event);
}

}  // namespace lockstep::ui
