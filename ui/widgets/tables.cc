#include "ui/widgets/tables.h"

#include <QHeaderView>
#include <QTableView>

namespace lockstep::ui {

void dressTable(QTableView* table) {
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

void setColumns(QTableView* table, std::initializer_list<int> widths) {
  int column = 0;
  for (int width : widths) table->setColumnWidth(column++, width);
}

}  // namespace lockstep::ui
