#include "ui/models/spec_diff_model.h"

#include <algorithm>
#include <set>

#include "app/specs/spec_text.h"

namespace lockstep::ui {
namespace {

void collect(const app::SpecText& spec, const std::string& path, int depth,
             std::map<std::string, std::string>& out) {
  if (depth > 12) return;
  if (!path.empty()) {
    if (const auto value = spec.value(path)) {
      out[path] = *value;
      return;
    }
  }
  if (const auto keys = spec.keys(path); !keys.empty()) {
    for (const std::string& key : keys)
      collect(spec, path.empty() ? key : path + "." + key, depth + 1, out);
    return;
  }
  for (int i = 0; i < spec.count(path); ++i)
    collect(spec, path + "[" + std::to_string(i) + "]", depth + 1, out);
}

}  // namespace

std::map<std::string, std::string> specFields(const std::string& yaml) {
  std::map<std::string, std::string> out;
  const auto spec = app::SpecText::parse(yaml, {}, app::SpecKind::kRun);
  if (spec.readable()) collect(spec, {}, 0, out);
  return out;
}

void SpecDiffModel::setRuns(QStringList names,
                            std::vector<std::map<std::string, std::string>> fields) {
  beginResetModel();
  names_ = std::move(names);
  rows_.clear();
  std::set<std::string> paths;
  for (const auto& run : fields)
    for (const auto& [path, value] : run) paths.insert(path);
  for (const std::string& path : paths) {
    Row row{QString::fromStdString(path), {}};
    for (const auto& run : fields) {
      const auto found = run.find(path);
      row.values << (found == run.end() ? QString() : QString::fromStdString(found->second));
    }
    if (std::any_of(row.values.begin(), row.values.end(),
                    [&](const QString& one) { return one != row.values.front(); }))
      rows_.push_back(std::move(row));
  }
  endResetModel();
}

void SpecDiffModel::retranslate() {
  if (columnCount() > 0) Q_EMIT headerDataChanged(Qt::Horizontal, 0, 0);
}

int SpecDiffModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int SpecDiffModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(names_.size()) + 1;
}

QVariant SpecDiffModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const Row& row = rows_[static_cast<std::size_t>(index.row())];
  if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
  if (index.column() == 0) return row.field;
  const QString& value = row.values[index.column() - 1];
  return value.isEmpty() ? QString(QChar(0x2014)) : value;
}

QVariant SpecDiffModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  return section == 0 ? tr("Field") : names_.value(section - 1);
}

}  // namespace lockstep::ui
