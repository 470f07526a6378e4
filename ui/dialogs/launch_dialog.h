// LaunchDialog: chooses run spec, cluster and options, shows prediction and placement, and the same
// launch as a command. Starts and measures nothing before "Launch" or "Benchmark nodes" is pressed.
// Launching saves unsaved documents, so that it matches the command, and continues in the dialog
// with progress, cancel and errors. Never blocks.
#pragma once

#include <QPointer>
#include <QTimer>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>

#include "app/runs/launcher.h"
#include "app/runs/relaunch.h"
#include "ui/dialogs/dialog.h"
#include "ui/studio/live_cluster.h"

class QCheckBox;
class QComboBox;
class QFormLayout;
class QLayout;
class QLineEdit;
class QProgressBar;
class QSpinBox;
class QToolButton;

namespace lockstep::ui {

class MessagePanel;
class OptionFields;
class PredictionView;
class RankFields;
class RunDocument;
class RunLaunch;
class RunStop;
class StrategyFields;
class Workspace;
struct LaunchInputs;
struct WhatIfSource;

// A document, open or not: a run spec, or a cluster.
struct LaunchModel {
  QString title, file;
  std::function<std::string()> text;  // as it stands
  std::function<bool()> modified;     // not saved as it stands; none: no
  std::function<Status()> save;
};
struct LaunchTarget {
  QString title, file;
  std::function<std::string()> yaml;
  std::function<bool()> modified;
  std::function<Status()> save;
  std::function<std::shared_ptr<LiveCluster>()> connected;  // its session, if there is one
  // its session, created if there is none; null: the dialog creates one
  std::function<std::shared_ptr<LiveCluster>()> live;
};

class LaunchDialog : public Dialog {
  Q_OBJECT

 public:
  // Requires at least one model. This machine is offered after the targets. With `again`, launches
  // a run of the history again: only its spec and cluster are offered.
  LaunchDialog(QVector<LaunchModel> models, QVector<LaunchTarget> targets, Workspace& workspace,
               QWidget* parent, std::optional<app::Relaunch> again = {});
  ~LaunchDialog() override;

  // Of a launch again: searches for the fastest strategies, and launches with other settings alone.
  // A run under way is stopped before it is resumed; null: it has ended.
  void seekFaster(RunDocument* underWay);
  void chooseModel(int index);
  void chooseTarget(int index);  // last: this machine
  void chooseNodes(int nodes);   // of this machine
  QString command() const;       // `lockstep run …`, the same launch
  // `lockstep NAME …` of what is to be launched, with more words; "" where it cannot be told the
  // same.
  QString command(const QString& name, const QStringList& more) const;
  bool ready() const { return preview_ != nullptr; }
  const app::Preview* preview() const { return preview_.get(); }
  bool benchmarking() const { return measured_ != nullptr; }

 public:
  void accept() override;  // launches; closes when the run has started
  void reject() override;  // cancels a stop or launch under way, else closes

 Q_SIGNALS:
  void launched(const QString& run);

 protected:
  void retranslate() override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void makeFields();
  void makeForm();  // puts the fields in rows
  void addRow(QWidget* field);
  QWidget* makeSettings();
  QLayout* makeCommandRow();
  QLayout* makeProgressRow();
  void fillModelsAndTargets();
  void connectFields();
  void connectPrediction();
  LaunchInputs inputs() const;
  QStringList settingWords() const;                // of a command: what is launched where
  QStringList globalWords() const;                 // those of every command
  std::shared_ptr<LiveCluster> connected() const;  // the target's session; null: there is none
  void choose(const QStringList& sets);            // a strategy
  void takeModel();                                // the chosen one's settings
  void retranslateHeading();
  void showKind();  // the fields for a model, or those for a program of the user's own
  void schedule();
  void makePreview();
  std::string chosenKind() const;  // of auto, the one found
  void compare();                  // strategies side by side, where they are looked at
  void showPrediction();
  WhatIfSource predictedStep() const;
  void showError(const Error& error);
  QStringList sets(const std::string& strategy = {}) const;
  void fillRanks();  // a number for every node of the chosen cluster, and what is asked of its job
  // What is asked for in place of what the cluster says.
  std::optional<bool> requeueChange() const;
  int rankCount() const;
  bool local() const;
  const LaunchModel& model() const;
  const LaunchTarget* target() const;  // null: this machine
  void showDetails();                  // which files these are
  void setBusy(bool busy, const QString& text);
  void benchmark(app::Costs costs);
  void preflight();
  void offerMeasuring(bool offered);
  void dropMeasuring();
  void nodesChanged();
  Status saveAll();
  std::shared_ptr<LiveCluster> session();
  bool mayStopFirst() const;  // true if nothing has to be stopped
  bool canLaunch() const;
  void refreshAccept();     // the button
  bool isStarting() const;  // from the button to the run's start
  void stopFirst();         // the run under way
  void start();
  QWidgetList holdFields();  // returns the fields that it has disabled
  void release(const QWidgetList& held);
  void launch(std::shared_ptr<LiveCluster> cluster);  // null: a scheduler allocates the nodes

  QVector<LaunchModel> models_;
  QVector<LaunchTarget> targets_;
  std::optional<app::Relaunch> again_;
  std::optional<QStringList> unchanged_;  // settingWords() where a faster strategy is sought
  QPointer<RunDocument> underWay_;
  bool stopsFirst_ = false;  // underWay_, which its page may close
  Workspace& workspace_;
  std::string specYaml_;  // of the chosen model
  bool ofProgram_ = false;
  QComboBox* model_ = nullptr;
  QLabel* modelDetail_ = nullptr;
  QComboBox* target_ = nullptr;
  QLabel* targetDetail_ = nullptr;
  QSpinBox* nodes_ = nullptr;
  StrategyFields* strategy_ = nullptr;
  OptionFields* schedule_ = nullptr;  // of the learning rate
  QSpinBox* batch_ = nullptr;
  QSpinBox* epochs_ = nullptr;
  QComboBox* precision_ = nullptr;
  QComboBox* comm_ = nullptr;
  QToolButton* more_ = nullptr;
  bool isScheduled_ = false;      // each run asks a scheduler for its nodes
  QCheckBox* requeue_ = nullptr;  // of such a cluster
  bool isRequeued_ = false;       // what the cluster says
  QCheckBox* measure_ = nullptr;  // not of a program, as the fields above from strategy_ on
  QFormLayout* form_ = nullptr;
  RankFields* ranks_ = nullptr;
  struct Row {
    QLabel* label;
    QWidget* field;
  };
  QVector<Row> rows_;
  PredictionView* prediction_ = nullptr;
  QLabel* unsaved_ = nullptr;
  QLabel* commandLabel_ = nullptr;
  QLineEdit* command_ = nullptr;
  QPushButton* copy_ = nullptr;
  MessagePanel* message_ = nullptr;
  QProgressBar* busy_ = nullptr;
  QLabel* busyText_ = nullptr;
  QTimer delay_;
  int generation_ = 0;
  std::stop_source search_;  // ends the search for a strategy
  bool wanted_ = false;      // Enter was pressed before the prediction was there
  // Once a step time was measured on a target, estimates for it are not shown beside it.
  bool measuredShown_ = false, asked_ = false;
  std::map<std::string, double> benchmarks_;  // by strategy, of the settings at hand
  QStringList benchmarkedSettings_;           // what these are, the strategy's kind aside
  std::shared_ptr<const app::Preview> preview_, estimate_;  // the latter before a benchmark
  std::optional<app::LaunchRequest> request_;
  std::vector<app::HostFacts> hosts_;  // that it was planned for
  std::int64_t samples_ = 0;           // of its training data; 0: not known
  std::shared_ptr<LiveCluster> cluster_, measuredOn_;
  std::string clusterText_;  // that cluster_ was made of, where this dialog made it
  std::unique_ptr<app::MeasuredPreview> measured_;
  RunStop* stop_ = nullptr;
  int stopJob_ = 0;
  RunLaunch* launch_ = nullptr;
};

}  // namespace lockstep::ui
