// RunTableModel: the runs of the history as a table, newest first.
#pragma once

#include <QAbstractTableModel>
#include <QHash>
#include <vector>

#include "app/history/history.h"

namespace lockstep::ui {

class RunTableModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column {
    kName,
    kState,
    kCreated,
    kStrategy,
    kCluster,
    kRanks,
    kSteps,
    kLoss,
    kMetric,
    kThroughput,
    kStepTime,
    kEnergy,
    kTags,
    kNotes,
    kColumns
  };
  static constexpr int kToneRole = Qt::UserRole + 1;
  static constexpr int kRunRole = Qt::UserRole + 2;
  static constexpr int kTagsRole = Qt::UserRole + 3;

  using QAbstractTableModel::QAbstractTableModel;

  void setRuns(std::vector<app::RunRow> runs);
  const std::vector<app::RunRow>& runs() const { return runs_; }
  int find(const QString& run) const;
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role) override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 Q_SIGNALS:
  void notesEdited(const QString& run, const QString& notes);

 private:
  std::vector<app::RunRow> runs_;
  QHash<QString, int> rows_;  // of every run, by its id
};

}  // namespace lockstep::ui
