#include "ui/plots/series_table_model.h"

#include <QLocale>
#include <algorithm>
#include <cmath>

namespace lockstep::ui {

void SeriesTableModel::setSeries(std::vector<std::shared_ptr<Series>> series) {
  std::size_t there = 0;  // of those before, in their order
  for (const auto& one : series)
    if (there < series_.size() && series_[there] == one) ++there;
  if (there == 0 || there < series_.size()) {
    beginResetModel();
    series_ = std::move(series);
    const Series* base = longest();
    rows_ = base ? static_cast<int>(base->raw().size()) : 0;
    endResetModel();
    return;
  }
  const Series* before = longest();
  insertSeries(series);
  refresh();
  Q_EMIT headerDataChanged(Qt::Horizontal, 1, columnCount() - 1);
  if (rows_ > 0 && longest() != before)
    Q_EMIT dataChanged(index(0, 0), index(rows_ - 1, columnCount() - 1));
}

// `series`: those that are here, in their order, with new ones between them.
void SeriesTableModel::insertSeries(const std::vector<std::shared_ptr<Series>>& series) {
  for (std::size_t begin = 0, end = 0; begin < series.size(); begin = end + 1) {
    const std::shared_ptr<Series> next = begin < series_.size() ? series_[begin] : nullptr;
    end = begin;
    while (end < series.size() && series[end] != next) ++end;
    if (begin == end) continue;
    beginInsertColumns({}, static_cast<int>(begin) + 1, static_cast<int>(end));
    const auto from = series.begin();
    series_.insert(series_.begin() + static_cast<std::ptrdiff_t>(begin),
                   from + static_cast<std::ptrdiff_t>(begin),
                   from + static_cast<std::ptrdiff_t>(end));
    endInsertColumns();
  }
}

void SeriesTableModel::setXTitle(const QString& title) {
  xTitle_ = title;
  if (columnCount() > 0) Q_EMIT headerDataChanged(Qt::Horizontal, 0, 0);
}

void SeriesTableModel::refresh() {
  const Series* base = longest();
  const int now = base ? static_cast<int>(base->raw().size()) : 0;
  if (now < rows_) {
    beginResetModel();
    rows_ = now;
    endResetModel();
  } else if (now > rows_) {
    beginInsertRows({}, 0, now - rows_ - 1);
    rows_ = now;
    endInsertRows();
  }
}

const Series* SeriesTableModel::longest() const {
  const auto it = std::max_element(
      series_.begin(), series_.end(),
      [](const auto& a, const auto& b) { return a->raw().size() < b->raw().size(); });
  return it == series_.end() ? nullptr : it->get();
}

int SeriesTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : rows_;
}
int SeriesTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() || series_.empty() ? 0 : static_cast<int>(series_.size()) + 1;
}

QVariant SeriesTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  const Series* base = longest();
  const auto sample = static_cast<std::size_t>(rows_ - 1 - index.row());
  if (!base || sample >= base->raw().size()) return {};
  const double x = base->raw().x(sample);
  const QLocale locale;
  if (index.column() == 0) return locale.toString(x, 'g', 10);
  const Series& series = *series_[static_cast<std::size_t>(index.column() - 1)];
  const auto near = series.raw().nearest(x);
  if (near < 0 || std::abs(series.raw().x(static_cast<std::size_t>(near)) - x) > 0.5) return {};
  return locale.toString(series.raw().y(static_cast<std::size_t>(near)), 'g', 7);
}

QVariant SeriesTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  if (section == 0) return xTitle_;
  if (section > static_cast<int>(series_.size())) return {};
  return series_[static_cast<std::size_t>(section - 1)]->name;
}

}  // namespace lockstep::ui
