// GraphPanel: the layer graph with its search, its zoom, and the plan that its stages and memory
// are of. Plans in the background while it is visible.
#pragma once

#include <QTimer>
#include <QWidget>

#include "app/runs/layer_plan.h"

class QItemSelectionModel;
class QLabel;
class QLineEdit;
class QSpinBox;
class QToolButton;

namespace lockstep::ui {

class ElidedLabel;
class LayerGraphView;
class LayerTableModel;
class SpecDocument;

class GraphPanel : public QWidget {
  Q_OBJECT

 public:
  GraphPanel(SpecDocument* document, LayerTableModel* layers, QItemSelectionModel* selection,
             QWidget* parent);
  LayerGraphView* view() const { return view_; }
  void openSearch();  // gives it the keyboard
  bool isPlanning() const { return planning_; }
  void retranslate();

 protected:
  void showEvent(QShowEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void buildTools();
  void documentChanged();
  void plan();
  void planned(const Result<app::LayerPlan>& made);
  void showStatus();
  void showFound();

  SpecDocument* document_;
  LayerTableModel* layers_;
  LayerGraphView* view_ = nullptr;
  QLineEdit* search_ = nullptr;
  QLabel* found_ = nullptr;
  QToolButton* previous_ = nullptr;
  QToolButton* next_ = nullptr;
  QToolButton* closer_ = nullptr;
  QToolButton* farther_ = nullptr;
  QToolButton* fit_ = nullptr;
  QLabel* zoom_ = nullptr;
  QLabel* ranksLabel_ = nullptr;
  QSpinBox* ranks_ = nullptr;
  ElidedLabel* status_ = nullptr;
  QTimer later_;
  bool chosen_ = false;  // the number of ranks was
  bool planning_ = false, again_ = false;
  Error refusal_;  // of the plan; `what` is empty if there is none
};

}  // namespace lockstep::ui
