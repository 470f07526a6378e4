// ModelPage: a run spec: its layers with shapes and costs, its fields, and beside them the text,
// the graph of the layers, and samples of the data.
#pragma once

#include "ui/pages/spec_page.h"

class QAction;
class QLabel;
class QMenu;
class QTabWidget;
class QPushButton;
class QStackedWidget;
class QTabBar;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class Card;
class ColumnFitter;
class DataPanel;
class FieldForm;
class FieldModel;
class Figure;
class GraphPanel;
class LayerTableModel;

class ModelPage : public SpecPage {
  Q_OBJECT

 public:
  explicit ModelPage(std::unique_ptr<SpecDocument> document, QWidget* parent = nullptr);

  const char* iconName() const override { return "model"; }
  QVector<InspectorRow> inspectorRows() const override;
  LayerTableModel* layers() const { return layers_; }
  FieldModel* fields() const { return fields_; }
  GraphPanel* graph() const { return graph_; }
  DataPanel* data() const { return data_; }
  enum View { kTextView, kGraphView, kDataView };
  void showView(View view);
  void find() override;  // in the text, or of layers in the graph
  void selectLayer(int row);
  void addLayer(const QString& yaml);  // after the selected one, else at the end
  // Shows a field in the form, if it is there: "training.optimizer.momentum".
  bool showField(const std::string& path);
  void removeLayer();
  void moveLayer(int by);

 Q_SIGNALS:
  void launchWanted();

 protected:
  void retranslate() override;
  void documentChanged() override;

 private:
  void buildHead();
  void buildLayers();
  void buildNoLayers();
  void buildFields();
  void buildViews();
  void buildLayerActions();
  void connectParts();
  void editLayer(int row);  // -1: the model's own fields
  void takeCursor();        // selects the layer that the text's cursor is in
  int currentLayer() const;
  void showLayer();  // the current one: its fields, and where it stands in the text
  void showSection();
  bool isProgram() const;  // the run is of a program of the user's own
  void showKind();         // the parts for a model, or those for a program
  void refreshButtons();
  void fillAddMenu();
  void problemChosen(const app::SpecProblem& problem) override;

  LayerTableModel* layers_ = nullptr;
  FieldModel* fields_ = nullptr;
  QLabel* heading_ = nullptr;
  QPushButton* launch_ = nullptr;
  Figure* parameters_ = nullptr;
  Figure* flops_ = nullptr;
  Figure* activations_ = nullptr;
  Figure* batch_ = nullptr;
  Card* layerCard_ = nullptr;
  Card* fieldCard_ = nullptr;
  QToolButton* add_ = nullptr;
  QMenu* addMenu_ = nullptr;
  QToolButton* remove_ = nullptr;
  QToolButton* up_ = nullptr;
  QToolButton* down_ = nullptr;
  QTableView* table_ = nullptr;
  ColumnFitter* columns_ = nullptr;
  QWidget* noLayers_ = nullptr;
  QLabel* noLayersText_ = nullptr;
  QPushButton* noLayersButton_ = nullptr;
  QStackedWidget* layerStack_ = nullptr;
  QLabel* noLayer_ = nullptr;
  QStackedWidget* fieldStack_ = nullptr;
  QTabBar* sections_ = nullptr;
  FieldForm* form_ = nullptr;
  QTabWidget* views_ = nullptr;
  GraphPanel* graph_ = nullptr;
  DataPanel* data_ = nullptr;
  QAction* editAction_ = nullptr;
  QAction* addAction_ = nullptr;
  QAction* removeAction_ = nullptr;
  QAction* upAction_ = nullptr;
  QAction* downAction_ = nullptr;
};

}  // namespace lockstep::ui
