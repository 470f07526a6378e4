// HistoryPage: all runs: search, open, notes, launch again; export, delete and compare selected
// runs.
#pragma once

#include <QTimer>

#include "app/runs/relaunch.h"
#include "ui/pages/page.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QMenu;
class QPushButton;
class QStackedLayout;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class Card;
class EmptyState;
class PlotGroup;
class PlotView;
class RunTableModel;
class SpecDiffModel;
class Workspace;

class HistoryPage : public Page {
  Q_OBJECT

 public:
  explicit HistoryPage(Workspace& workspace, QWidget* parent = nullptr);

  QString title() const override { return tr("History"); }
  const char* iconName() const override { return "history"; }
  bool canFind() const override { return true; }
  void find() override;
  QVector<InspectorRow> inspectorRows() const override;
  RunTableModel* runs() const { return runs_; }
  PlotView* overlay() const { return plot_; }
  QString selectedRun() const;       // "": none, or several
  QStringList selectedRuns() const;  // in the order of the table
  void selectRun(const QString& run);
  bool canRelaunch() const;  // one run is selected, and it has ended
  void reload();
  // One selected run is exported to a CSV file, several to a folder with a file each.
  void exportTo(const QString& path);
  void removeSelected();  // the runs and their files; asked for in the page

 Q_SIGNALS:
  void openRun(const QString& run);
  void relaunchWanted(const QString& run, lockstep::app::RelaunchKind kind);
  void cloneWanted(const QString& run);

 protected:
  void retranslate() override;
  void showEvent(QShowEvent* event) override;

 private:
  void buildHead();
  void buildRelaunchMenu();
  void buildTable();
  void buildComparison();
  void connectParts();
  void writeNotes(const QString& run, const QString& notes);
  void refreshOverlay();
  void refreshButtons();
  void selectRuns(const QStringList& runs);
  void askExport();
  void askDelete();

  Workspace& workspace_;
  RunTableModel* runs_ = nullptr;
  QLabel* heading_ = nullptr;
  QLineEdit* search_ = nullptr;
  QPushButton* open_ = nullptr;
  QPushButton* export_ = nullptr;
  QPushButton* delete_ = nullptr;
  QPushButton* again_ = nullptr;
  QMenu* againMenu_ = nullptr;
  QAction* resume_ = nullptr;
  QAction* rerun_ = nullptr;
  QAction* clone_ = nullptr;
  QComboBox* curve_ = nullptr;
  Card* tableCard_ = nullptr;
  Card* plotCard_ = nullptr;
  QTableView* table_ = nullptr;
  EmptyState* empty_ = nullptr;
  QStackedLayout* stack_ = nullptr;
  PlotGroup* group_ = nullptr;
  PlotView* plot_ = nullptr;
  QStackedLayout* compareStack_ = nullptr;
  QToolButton* differences_ = nullptr;
  QTableView* diffTable_ = nullptr;
  SpecDiffModel* diff_ = nullptr;
  QTimer searchDelay_;
  int generation_ = 0, overlayGeneration_ = 0;
  bool deleteAsked_ = false, restoring_ = false;
};

}  // namespace lockstep::ui
