// HistoryPage: all runs: filter, open, notes, tags, launch again; export, delete and compare
// selected runs.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "app/history/history.h"
#include "app/runs/energy.h"
#include "app/runs/relaunch.h"
#include "app/runs/run_environment.h"
#include "engine/base/message.h"
#include "ui/dialogs/export_runs.h"
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
  ~HistoryPage() override;

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
  bool canAdvise() const;    // one run is selected, and its strategy may be another
  void reload();
  void exportTo(const QString& path, ExportKind kind = ExportKind::kCsv);  // the selected runs
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
  void buildFilter();
  void buildMenus();
  void buildTable();
  void buildComparison();
  void connectParts();
  void writeNotes(const QString& run, const QString& notes);
  void retranslateOverlay();
  void retranslateMenus();
  void readFilter();
  struct Loaded;  // what a reload reads
  void showRuns(Loaded loaded);
  void say(const QString& text, bool wrong);  // below the search
  void fillFilters();
  void askFilterName();
  void askTags();
  void askWhatIf();
  void change(std::function<Status(app::History&)> work);  // in the background, then reloads
  struct Curve;
  void showOverlay(const std::vector<Curve>& curves, const QString& note);
  void refreshOverlay();  // soon: a selection may go on
  void readOverlay();
  void askWhereTo(ExportKind kind);
  void refreshAxis();
  const app::RunRow* selectedRow() const;  // null: none, or several
  // What the inspector shows of a run that its row does not have.
  struct Details {
    std::string run;
    std::optional<app::RunEnergy> energy;  // none: not known
    std::vector<Message> remarks;          // at the launch
    std::vector<app::EnvironmentField> environment;
  };
  void readDetails();  // of the selected run, unless they are known or being read
  void refreshButtons();
  void selectRuns(const QStringList& runs);
  void askDelete();

  Workspace& workspace_;
  RunTableModel* runs_ = nullptr;
  QLabel* heading_ = nullptr;
  QLineEdit* search_ = nullptr;
  QPushButton* open_ = nullptr;
  QPushButton* export_ = nullptr;
  QPushButton* delete_ = nullptr;
  QPushButton* again_ = nullptr;
  QPushButton* tags_ = nullptr;
  QToolButton* filters_ = nullptr;
  QLabel* said_ = nullptr;
  QMenu* filterMenu_ = nullptr;
  QMenu* exportMenu_ = nullptr;
  QMenu* contextMenu_ = nullptr;
  QMenu* againMenu_ = nullptr;
  QAction* openAction_ = nullptr;
  QAction* tagsAction_ = nullptr;
  QAction* exportCsv_ = nullptr;
  QAction* exportReport_ = nullptr;
  QAction* exportTensorBoard_ = nullptr;
  QAction* exportOtlp_ = nullptr;
  QAction* resume_ = nullptr;
  QAction* rerun_ = nullptr;
  QAction* clone_ = nullptr;
  QAction* whatIf_ = nullptr;
  QAction* faster_ = nullptr;
  QComboBox* curve_ = nullptr;
  QComboBox* axis_ = nullptr;
  QLabel* overlayNote_ = nullptr;
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
  QTimer searchDelay_, overlayDelay_, detailsDelay_;
  std::stop_source overlayStop_, detailsStop_;  // of what is being read
  Details details_;
  struct DetailsSource {
    std::string run;
    bool hasEnded = false;
    double joules = 0;  // as its row has them at its end
    bool operator==(const DetailsSource&) const = default;
  };
  std::optional<DetailsSource> detailsOf_;  // that were read last, or are being read
  bool detailsReading_ = false;
  QElapsedTimer detailsPause_;  // since they were read
  qint64 detailsPauseMs_ = 0;   // until they are read again, while the run is under way
  std::vector<app::SavedFilter> saved_;
  app::RunFilter filter_;
  int generation_ = 0, overlayGeneration_ = 0;
  bool deleteAsked_ = false, restoring_ = false, askingTags_ = false;
  bool wrong_ = false;  // what is typed is no filter
};

}  // namespace lockstep::ui
