// PinModel: the pipeline stage of each layer, one row per layer. Editing a stage moves the layer
// and those after it on the same stage, like a pin of the spec.
#pragma once

#include <QAbstractTableModel>
#include <string>
#include <vector>

namespace lockstep::ui {

// Moves the layer at `row`, and those after it up to the next stage, to `stage`.
void moveToStage(std::vector<int>& stages, int row, int stage);

class PinModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kLayer, kStage, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setLayers(std::vector<std::string> layers, std::vector<int> stages);
  void retranslate();
  const std::vector<std::string>& layers() const { return layers_; }
  const std::vector<int>& stages() const { return stages_; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 Q_SIGNALS:
  void edited();

 private:
  std::vector<std::string> layers_;
  std::vector<int> stages_;
};

}  // namespace lockstep::ui
