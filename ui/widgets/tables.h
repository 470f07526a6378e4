// How every table of the studio looks.
#pragma once

#include <initializer_list>

class QTableView;

namespace lockstep::ui {

void dressTable(QTableView* table);                              // rows, no grid, quiet header
void setColumns(QTableView* table, std::initializer_list<int> widths);  // the last one stretches

}  // namespace lockstep::ui
