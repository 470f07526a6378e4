// LayerTableModel: the layers of the spec text, with shapes, parameters, operations and memory per
// sample if the model is valid. Updated in the background as the text changes.
#pragma once

#include <QAbstractTableModel>
#include <QTimer>
#include <vector>

#include "app/specs/spec_text.h"

namespace lockstep::ui {

class SpecDocument;

class LayerTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kName, kKind, kOutput, kParameters, kFlops, kMemory, kStage, kColumns };

  explicit LayerTableModel(SpecDocument* document, QObject* parent = nullptr);

  std::string listPath() const;  // "model.layers" of a run spec, "layers" of a model
  bool modelIsFile() const;      // `model:` names a file: layers are shown, not edited here
  // Returns whether layers are pinned to stages (strategy.pins), so that column kStage is shown.
  bool pinned() const;
  bool described() const { return described_; }
  qint64 parameters() const;
  double flops() const;
  qint64 activationBytes() const;
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;
  // Edits kStage: moves the layer, and those after it on the same stage, to another stage.
  bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;

 Q_SIGNALS:
  void totalsChanged();
  void refused(const lockstep::Error& error);

 private:
  void refresh();
  void describe();

  SpecDocument* document_;
  std::vector<app::LayerRow> rows_;
  bool described_ = false;
  int generation_ = 0;
};

}  // namespace lockstep::ui
