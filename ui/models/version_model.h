// VersionModel: the versions of what each node runs, a row per node.
#pragma once

#include <QAbstractTableModel>
#include <QStringList>
#include <string>
#include <vector>

#include "app/cluster/preflight.h"

namespace lockstep::ui {

class VersionModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  // From kAgent on in the order of app::NodeVersion::Kind.
  enum Column { kNode, kAgent, kKernel, kGpuDriver, kCuda, kNccl, kColumns };
  static constexpr int kToneRole = Qt::UserRole + 1;
  using QAbstractTableModel::QAbstractTableModel;

  void setResult(const app::PreflightResult& result);
  QStringList warnings() const;      // a sentence for each of the first versions that differ
  bool hasColumn(int column) const;  // some node has it: those of GPUs may be absent
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  const app::NodeVersion* at(int row, int column) const;  // null: the node has none

  std::vector<std::string> nodes_;
  std::vector<app::NodeVersion> versions_;
};

}  // namespace lockstep::ui
