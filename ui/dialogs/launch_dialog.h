// LaunchDialog: where and how a run spec runs, what it is predicted to cost, what exactly will run,
// and the same as a command. Launching goes on inside the dialog, with progress and cancel; an error
// is shown in it. Nothing here blocks.
#pragma once

#include <QTimer>
#include <functional>
#include <memory>
#include <optional>

#include "app/runs/launcher.h"
#include "app/runs/relaunch.h"
#include "ui/dialogs/dialog.h"
#include "ui/studio/live_cluster.h"

class QCheckBox;
class QComboBox;
class QFormLayout;
class QLineEdit;
class QPlainTextEdit;
class QProgressBar;
class QSpinBox;
class QTabWidget;
class QTableView;
class QVBoxLayout;

namespace lockstep::ui {

class BreakdownBars;
class Figure;
class MessagePanel;
class PlacementModel;
class StrategyFields;
class Workspace;

struct LaunchTarget {
  QString title;
  QString file;                                         // "" : nodes on this machine
  std::function<std::string()> yaml;                    // the cluster's text as it stands
  std::function<std::shared_ptr<LiveCluster>()> live;   // its session; null: one is made
};

class LaunchDialog : public Dialog {
  Q_OBJECT

 public:
  // With `again` a run of the history is launched again, on the one target there is: its cluster.
  LaunchDialog(QString specYaml, QString specFile, QVector<LaunchTarget> targets, Workspace& workspace,
               QWidget* parent, std::optional<app::Relaunch> again = {});
  ~LaunchDialog() override;

  void chooseTarget(int index);        // last: this machine
  QString command() const;             // `lockstep run …`, the same launch
  bool ready() const { return preview_.has_value(); }
  const app::Preview* preview() const { return preview_ ? &*preview_ : nullptr; }

 public:
  void accept() override;              // launches; closes when the run has started
  void reject() override;              // cancels a launch under way, else closes

 Q_SIGNALS:
  void launched(const QString& run);

 protected:
  void retranslate() override;

 private:
  struct Inputs;                       // everything the preview depends on, for the background
  void schedule();
  void makePreview();
  void show(const app::Preview& preview);
  void showError(const Error& error);
  QStringList sets() const;
  QStringList ranks() const;           // "node=3", where it is not what the cluster says
  void fillRanks();                    // a number for every node of the chosen cluster
  bool local() const;
  QString progressText(const app::LaunchProgress& progress) const;
  void setBusy(bool busy, const QString& text);
  void dropMeasuring();
  void nodesChanged();
  void launchOn(app::LaunchRequest request, std::shared_ptr<LiveCluster> cluster);

  QString specYaml_, specFile_;
  std::optional<app::Relaunch> again_;
  QVector<LaunchTarget> targets_;
  Workspace& workspace_;
  QComboBox* target_ = nullptr;
  QSpinBox* nodes_ = nullptr;
  StrategyFields* strategy_ = nullptr;
  QSpinBox* batch_ = nullptr;
  QSpinBox* epochs_ = nullptr;
  QComboBox* precision_ = nullptr;
  QComboBox* comm_ = nullptr;
  QCheckBox* measure_ = nullptr;
  QFormLayout* form_ = nullptr;
  QLabel* ranksLabel_ = nullptr;
  QVBoxLayout* ranksArea_ = nullptr;
  QWidget* ranksHolder_ = nullptr;
  struct NodeRanks { QString node; QSpinBox* spin; int written; };
  QVector<NodeRanks> nodeRanks_;
  QVector<QLabel*> labels_;
  Figure* stepTime_ = nullptr;
  Figure* throughput_ = nullptr;
  Figure* memory_ = nullptr;
  Figure* wire_ = nullptr;
  Figure* ranks_ = nullptr;
  QLabel* source_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  QTableView* placement_ = nullptr;
  PlacementModel* placementModel_ = nullptr;
  BreakdownBars* bars_ = nullptr;
  QPlainTextEdit* plan_ = nullptr;
  QLabel* remarks_ = nullptr;
  QLineEdit* command_ = nullptr;
  QPushButton* copy_ = nullptr;
  MessagePanel* message_ = nullptr;
  QProgressBar* busy_ = nullptr;
  QLabel* busyText_ = nullptr;
  QTimer delay_;
  int generation_ = 0;
  std::optional<app::Preview> preview_;
  std::optional<app::LaunchRequest> request_;
  std::shared_ptr<LiveCluster> cluster_, measuredOn_;
  std::unique_ptr<app::MeasuredPreview> measured_;
  std::unique_ptr<app::Launch> launch_;
  int job_ = 0;
};

}  // namespace lockstep::ui
