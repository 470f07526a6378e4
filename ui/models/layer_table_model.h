// LayerTableModel: the layers of the spec text and their graph, with shapes, parameters, operations
// and memory per sample if the model is valid, what is wrong with each, and where a plan places
// them. Updated in the background as the text changes.
#pragma once

#include <QAbstractTableModel>
#include <QTimer>
#include <map>
#include <optional>
#include <vector>

#include "app/runs/layer_plan.h"
#include "app/specs/layer_graph.h"
#include "app/specs/spec_text.h"

namespace lockstep::ui {

class SpecDocument;

class LayerTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kName, kKind, kOutput, kParameters, kFlops, kMemory, kStage, kColumns };
  static constexpr int kProblemRole = Qt::UserRole + 1;  // of a row: what is wrong, a text

  explicit LayerTableModel(SpecDocument* document, QObject* parent = nullptr);

  std::string listPath() const;  // "model.layers" of a run spec, "layers" of a model
  bool modelIsFile() const;      // `model:` names a file: layers are shown, not edited here
  // Returns whether layers are pinned to stages (strategy.pins), so that column kStage is shown.
  bool pinned() const;
  bool described() const { return described_; }
  // As the text was when it was last readable; its layers are the rows.
  const app::LayerGraph& graph() const { return graph_; }
  // The plan of these layers, or why there is none. Dropped when the text changes.
  void setPlan(Result<app::LayerPlan> plan);
  const app::LayerPlan* plan() const;  // null: none, or not of these rows
  // Returns the stage of a row: planned or pinned; -1 where there is one stage only.
  int stageOf(int row) const;
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
  void graphChanged();  // other layers or edges
  void refused(const lockstep::Error& error);

 private:
  void refresh();
  void readRows();
  void readProblems();
  void addProblem(const std::string& path, const Message& what);
  void setGraph(app::LayerGraph graph);
  void rowsChanged();
  void describe();
  QVariant cellText(int row, int column) const;

  SpecDocument* document_;
  std::vector<app::LayerRow> rows_;
  std::vector<int> pinned_;  // stage by row
  app::LayerGraph graph_;
  std::map<int, QString> problems_;  // by row
  std::optional<app::LayerPlan> plan_;
  std::optional<Error> refusal_;  // why there is none
  bool described_ = false;
  int generation_ = 0;
};

}  // namespace lockstep::ui
