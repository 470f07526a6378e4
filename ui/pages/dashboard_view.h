// DashboardView: a dashboard of a run: plots in a grid that the person arranges. An edit is saved
// at once, under its name; an edit of the default dashboard makes a copy of it. All edits can be
// undone.
#pragma once

#include <QUndoStack>
#include <QVector>
#include <QWidget>
#include <functional>

#include "engine/base/status.h"
#include "ui/pages/dashboard_card.h"

class QComboBox;
class QGridLayout;
class QLabel;
class QPushButton;
class QScrollArea;
class QSpinBox;
class QStackedWidget;
class QToolButton;

namespace lockstep::ui {

class EmptyState;
class RunDocument;

class DashboardView : public QWidget {
  Q_OBJECT
 public:
  // Plots join the groups of their x axis.
  DashboardView(RunDocument& document, const PlotGroups& groups, QWidget* parent);
  ~DashboardView() override;

  const Dashboard& dashboard() const { return shown_; }
  QUndoStack* undoStack() { return &stack_; }
  void retranslate();
  // Shows it, and saves it in place of the one shown; for commands of the undo stack.
  void apply(const Dashboard& dashboard);

 Q_SIGNALS:
  void problem(const lockstep::Error& error);  // in the settings

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void makeTools();
  void open(const QString& name);  // "": the default one
  void fillChooser();
  void write();  // the settings; says what is wrong
  void show(const Dashboard& dashboard);
  void lay();
  void edit(const QString& text, Dashboard changed);
  void editPlot(int index, const QString& text, const DashboardPlot& plot);
  void choosePlot(int index);  // −1: a new one
  void move(int from, int to);
  void resizePlot(int index, int columns, int rows);
  void removePlot(int index);
  void showMenu();
  void askName(const QString& heading, const QString& accept, const QString& name,
               const std::function<void(const QString&)>& then);
  int placeAt(const QPoint& global) const;  // the number that a plot dropped there gets
  void showDrop(const QPoint& global);
  void connectCard(DashboardCard* card);
  QString freeName() const;

  RunDocument& document_;
  const PlotGroups groups_;
  Dashboards store_;
  Dashboard shown_;
  bool opened_ = false;
  QUndoStack stack_;
  QComboBox* chooser_ = nullptr;
  QPushButton* add_ = nullptr;
  QLabel* columnsLabel_ = nullptr;
  QSpinBox* columns_ = nullptr;
  QToolButton* menu_ = nullptr;
  QStackedWidget* stacked_ = nullptr;
  EmptyState* empty_ = nullptr;
  QScrollArea* area_ = nullptr;
  QWidget* page_ = nullptr;
  QGridLayout* grid_ = nullptr;
  QWidget* drop_ = nullptr;  // where a dragged plot would go
  QVector<DashboardCard*> cards_;
};

}  // namespace lockstep::ui
