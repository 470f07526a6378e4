// SpecDiffModel: in what the specs of some runs differ: a row a field, a column a run.
#pragma once

#include <QAbstractTableModel>
#include <map>
#include <string>
#include <vector>

namespace lockstep::ui {

// Every written field of a run spec with its value: "training.batch" → "64".
std::map<std::string, std::string> specFields(const std::string& yaml);

class SpecDiffModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  // One name and one set of fields a run. Fields that are the same in all are left out.
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
