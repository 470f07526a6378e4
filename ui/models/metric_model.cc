#include "ui/models/metric_model.h"

#include <QMap>
#include <algorithm>

#include "ui/studio/metrics.h"

namespace lockstep::ui {

void MetricModel::setSeries(const QStringList& series) {
  series_ = series;
  rebuild();
}

void MetricModel::setChecked(const QStringList& patterns) {
  checked_ = patterns;
  rebuild();
  Q_EMIT checkedChanged();
}

// Patterns of several series, what is checked and is neither, then all series.
void MetricModel::rebuild() {
  QVector<Row> rows, ofRun, ofOthers;
  QMap<QString, int> patterns;
  for (const QString& series : series_) {
    const QString pattern = patternOf(series);
    (pattern == series ? ofRun : ofOthers) << Row{series, 1};
    if (pattern != series) ++patterns[pattern];
  }
  for (auto one = patterns.cbegin(); one != patterns.cend(); ++one)
    if (one.value() > 1) rows << Row{one.key(), one.value()};
  for (const QString& pattern : checked_) {
    if (patterns.value(pattern) > 1 || series_.contains(pattern)) continue;
    const auto count = std::count_if(series_.begin(), series_.end(), [&](const QString& series) {
      return matchesPattern(pattern, series);
    });
    rows << Row{pattern, static_cast<int>(count)};
  }
  rows += ofRun;
  rows += ofOthers;
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

void MetricModel::retranslate() {
  if (rows_.isEmpty()) return;
  Q_EMIT dataChanged(index(0), index(rowCount() - 1));
}

int MetricModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

QVariant MetricModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rows_.size()) return {};
  const Row& row = rows_[index.row()];
  const QString text = metricText(row.pattern);
  const bool several = isPattern(row.pattern);
  switch (role) {
    case Qt::DisplayRole:
      if (row.count == 0) return tr("%1 (not in this run)").arg(text);
      return several ? tr("%1 (%n series)", nullptr, row.count).arg(text) : text;
    case Qt::ToolTipRole:
    case kPatternRole:
      return row.pattern;
    case kSearchRole:
      return text + ' ' + row.pattern;
    case Qt::CheckStateRole:
      return checked_.contains(row.pattern) ? Qt::Checked : Qt::Unchecked;
    default:
      return {};
  }
}

bool MetricModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (role != Qt::CheckStateRole || !index.isValid() || index.row() >= rows_.size()) return false;
  const QString& pattern = rows_[index.row()].pattern;
  checked_.removeAll(pattern);
  if (value.toInt() == Qt::Checked) checked_ << pattern;
  Q_EMIT dataChanged(index, index, {Qt::CheckStateRole});
  Q_EMIT checkedChanged();
  return true;
}

Qt::ItemFlags MetricModel::flags(const QModelIndex& index) const {
  if (!index.isValid()) return Qt::NoItemFlags;
  return Qt::ItemIsEnabled | Qt::ItemIsSelectable | Qt::ItemIsUserCheckable |
         Qt::ItemNeverHasChildren;
}

void MetricFilter::setText(const QString& text) {
  words_ = text.split(' ', Qt::SkipEmptyParts);
  invalidateFilter();
}

bool MetricFilter::filterAcceptsRow(int row, const QModelIndex& parent) const {
  const QString name =
      sourceModel()->index(row, 0, parent).data(MetricModel::kSearchRole).toString();
  return std::all_of(words_.begin(), words_.end(),
                     [&](const QString& word) { return name.contains(word, Qt::CaseInsensitive); });
}

}  // namespace lockstep::ui
