// HistoryPage: every run there was: search, open, notes, delete, export, and the curves of the
// ticked ones over each other.
#pragma once

#include <QTimer>

#include "ui/pages/page.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QStackedLayout;
class QTableView;

namespace lockstep::ui {

class Card;
class EmptyState;
class PlotGroup;
class PlotView;
class RunTableModel;
class Workspace;

class HistoryPage : public Page {
  Q_OBJECT

 public:
  explicit HistoryPage(Workspace& workspace, QWidget* parent = nullptr);

  QString title() const override { return tr("History"); }
  const char* iconName() const override { return "history"; }
  QVector<InspectorRow> inspectorRows() const override;
  RunTableModel* runs() const { return runs_; }
  PlotView* overlay() const { return plot_; }
  QString selectedRun() const;
  void selectRun(const QString& run);
  void reload();
  void exportTo(const QString& path);          // the selected run, as CSV
  void removeSelected();                       // the run and its file; asked for in the page

 Q_SIGNALS:
  void openRun(const QString& run);
  void rerunWanted(const QString& run);

 protected:
  void retranslate() override;
  void showEvent(QShowEvent* event) override;

 private:
  void refreshOverlay();
  void refreshButtons();
  void askExport();

  Workspace& workspace_;
  RunTableModel* runs_ = nullptr;
  QLabel* heading_ = nullptr;
  QLineEdit* search_ = nullptr;
  QPushButton* open_ = nullptr;
  QPushButton* export_ = nullptr;
  QPushButton* delete_ = nullptr;
  QComboBox* curve_ = nullptr;
  Card* tableCard_ = nullptr;
  Card* plotCard_ = nullptr;
  QTableView* table_ = nullptr;
  EmptyState* empty_ = nullptr;
  QStackedLayout* stack_ = nullptr;
  PlotGroup* group_ = nullptr;
  PlotView* plot_ = nullptr;
  QTimer searchDelay_;
  int generation_ = 0, overlayGeneration_ = 0;
  bool deleteAsked_ = false;
};

}  // namespace lockstep::ui
