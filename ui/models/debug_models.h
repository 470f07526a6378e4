// Models of what is seen of a node from afar: the stacks of a rank, processes, kernel messages.
// Texts of the node are shown without control characters.
#pragma once

#include <QAbstractItemModel>
#include <QAbstractTableModel>

#include "app/cluster/node_debug.h"
#include "app/runs/rank_debug.h"

namespace lockstep::ui {

// Returns a text of a node in one line, with '�' for each control character.
QString plainText(const std::string& text);

// Returns a line for each row of a table, with tabs between its columns.
QString tableText(const QAbstractItemModel& model);

// Threads, and below each its frames, innermost first.
class StackModel : public QAbstractItemModel {
  Q_OBJECT

 public:
  enum Column { kFrame, kState, kStopped, kColumns };
  using QAbstractItemModel::QAbstractItemModel;

  void setStacks(app::RankStacks stacks);
  const app::RankStacks& stacks() const { return stacks_; }
  void retranslate();

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& index) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  app::RankStacks stacks_;
};

class ProcessModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kPid, kUser, kCpu, kMemory, kThreads, kState, kPart, kCommand, kColumns };
  static constexpr int kToneRole = Qt::UserRole + 1;
  static constexpr int kSortRole = Qt::UserRole + 2;
  static constexpr int kFractionRole = Qt::UserRole + 3;  // of one core, at most 1
  using QAbstractTableModel::QAbstractTableModel;

  void setProcesses(app::NodeProcesses processes);
  const app::NodeProcesses& processes() const { return list_; }
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  app::NodeProcesses list_;
};

class KernelLogModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kTime, kLevel, kText, kColumns };
  static constexpr int kToneRole = Qt::UserRole + 1;
  using QAbstractTableModel::QAbstractTableModel;

  void setLines(std::vector<app::KernelLine> lines);
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<app::KernelLine> lines_;
};

}  // namespace lockstep::ui
