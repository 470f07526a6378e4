// SpecDiffModel: the differences between the specs of runs: one row per field, one column per run.
#pragma once

#include <QAbstractTableModel>
#include <map>
#include <string>
#include <vector>

namespace lockstep::ui {

// Returns all written fields of a run spec: "training.batch" → "64".
std::map<std::string, std::string> specFields(const std::string& yaml);

class SpecDiffModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  // Takes the name and fields of each run. Leaves out fields that are equal in all.
  void setRuns(QStringList names, std::vector<std::map<std::string, std::string>> fields);
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Row {
    QString field;
    QStringList values;  // of each run; "": not written
  };
  QStringList names_;
  std::vector<Row> rows_;
};

}  // namespace lockstep::ui
