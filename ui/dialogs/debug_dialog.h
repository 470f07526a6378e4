// DebugDialog: a rank or node from afar: stacks, processes, kernel messages, speed beside its
// peers, a debugger, a terminal. Not modal. Closing it cancels what is being read, and detaches the
// debugger.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "app/history/run_row.h"
#include "app/runs/rank_debug.h"
#include "ui/dialogs/dialog.h"
#include "ui/studio/live_cluster.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QProgressBar;
class QStackedWidget;
class QTabWidget;
class QToolButton;

namespace lockstep::ui {

class EmptyState;
class KernelLogModel;
class PreflightModel;
class ProcessModel;
class StackModel;
class StateBadge;
class Workspace;

// What can be chosen in the dialog: the ranks and nodes of a run, or the nodes of a cluster.
struct DebugSubject {
  std::shared_ptr<LiveCluster> cluster;
  app::RunRow run;    // without an id: nodes alone
  std::string nodes;  // RunDocuments::nodes
  int rank = -1;      // chosen at first; -1: `node`
  std::string node;
  std::string clusterFile{};  // without a run, for the command that is shown
};

class DebugDialog : public Dialog {
  Q_OBJECT

 public:
  enum Tab { kStacks, kProcesses, kKernel, kBench, kDebugger, kTabs };

  DebugDialog(Workspace& workspace, DebugSubject subject, QWidget* parent);
  ~DebugDialog() override;

  bool isReading(Tab tab) const { return readings_[tab].busy; }
  const StackModel& stacks() const { return *stackModel_; }
  const ProcessModel& processes() const { return *processModel_; }
  const KernelLogModel& kernel() const { return *kernelModel_; }
  const PreflightModel& bench() const { return *benchModel_; }
  const std::optional<app::DebuggerNews>& debugger() const { return news_; }
  // Reads the shown tab again or cancels that; starts or ends a measurement, or the debugger.
  void accept() override;

 protected:
  void retranslate() override;

 private:
  static constexpr int kKernelLines = 500;

  struct Target {
    int rank;
    std::string node;
  };
  struct Reading {
    std::stop_source stop;
    int ticket = 0;
    bool busy = false, done = false;
    std::optional<Error> error;
  };
  struct View {
    QStackedWidget* stack = nullptr;
    QWidget* data = nullptr;
    EmptyState* empty = nullptr;
  };

  void buildHead();
  void buildTabs();
  QWidget* buildStacks();
  QWidget* buildProcesses();
  QWidget* buildKernel();
  QWidget* buildBench();
  QWidget* buildDebugger();
  QWidget* withEmpty(Tab tab, QWidget* data, const char* name, const char* icon);
  void fillTargets();
  Target target() const;
  Tab tab() const;
  void chooseTarget();
  void showTab();
  void readTab();
  void readStacks();
  void readProcesses();
  void readKernel();
  void readBench();
  template <typename T, typename Work, typename Take>
  void read(Tab tab, Work work, Take take);
  void startDebugger();
  void takeNews(int ticket, const app::DebuggerNews& news);
  void cancel(Tab tab);
  void refresh();
  void refreshView(Tab tab);
  void refreshDebugger();
  void nameCommand();
  QString noteText() const;
  QString benchNote() const;
  void copyShown();
  void openTerminal();
  void copyShell();
  Result<std::vector<std::string>> shell() const;

  Workspace& workspace_;
  const DebugSubject subject_;
  std::vector<Target> targets_;
  std::array<Reading, kTabs> readings_;
  std::array<View, kTabs> views_;
  StackModel* stackModel_ = nullptr;
  ProcessModel* processModel_ = nullptr;
  KernelLogModel* kernelModel_ = nullptr;
  PreflightModel* benchModel_ = nullptr;
  QLabel* targetLabel_ = nullptr;
  QComboBox* targetBox_ = nullptr;
  QPushButton* terminal_ = nullptr;
  QToolButton* copyShell_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  QToolButton* copy_ = nullptr;
  QLabel* note_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QLabel* about_ = nullptr;
  QLabel* debuggerLabel_ = nullptr;
  StateBadge* debuggerState_ = nullptr;
  QLineEdit* command_ = nullptr;
  QToolButton* copyCommand_ = nullptr;
  QLabel* debuggerError_ = nullptr;
  std::optional<app::DebuggerNews> news_;
  QString said_;  // of the terminal
  std::shared_ptr<void> alive_ = std::make_shared<int>(0);
};

}  // namespace lockstep::ui
