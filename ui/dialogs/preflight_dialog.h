// PreflightDialog: connects the nodes of a cluster, measures those that are there, and shows what
// is weak: the values, the links as a matrix, and the versions of the nodes. Opening it begins the
// measurement; closing it cancels.
#pragma once

#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "app/cluster/preflight.h"
#include "app/core/time_left.h"
#include "ui/dialogs/dialog.h"
#include "ui/studio/live_cluster.h"

class QComboBox;
class QLabel;
class QProgressBar;
class QStackedWidget;
class QTableView;
class QTabWidget;

namespace lockstep::ui {

class ColorLegend;
class LinkMatrixModel;
class PreflightModel;
class VersionModel;
class Workspace;

class PreflightDialog : public Dialog {
  Q_OBJECT

 public:
  // `name`: the cluster's, under which results are kept. `words`: how the command names it; none:
  // no command is shown.
  PreflightDialog(Workspace& workspace, std::shared_ptr<LiveCluster> cluster, std::string name,
                  QStringList words, QWidget* parent);
  ~PreflightDialog() override;

  bool measuring() const { return measuring_; }
  const PreflightModel& values() const { return *model_; }
  void accept() override;  // measures again

 protected:
  void retranslate() override;

 private:
  QWidget* buildValues();
  QWidget* buildLinks();
  QWidget* buildVersions();
  void connectAndMeasure();
  void nodeChanged(int node);
  void measureWhenConnected();
  void measure();
  void showProgress(int done, int total, const QString& what);
  void take(Result<app::PreflightResult> result);
  void showLinks();
  void showOutcome();

  Workspace& workspace_;
  std::shared_ptr<LiveCluster> cluster_;
  const std::string name_;
  const QStringList words_;
  PreflightModel* model_ = nullptr;
  LinkMatrixModel* links_ = nullptr;
  VersionModel* versions_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  QTableView* table_ = nullptr;
  QComboBox* linkKind_ = nullptr;
  ColorLegend* linkLegend_ = nullptr;
  QTableView* linkTable_ = nullptr;
  QLabel* noLinks_ = nullptr;
  QStackedWidget* linkStack_ = nullptr;
  QTableView* versionTable_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QLabel* outcome_ = nullptr;
  app::TimeLeft left_;  // of the measurement
  std::stop_source stop_;
  std::shared_ptr<void> alive_ = std::make_shared<int>(0);
  bool measuring_ = false;  // or connecting
  bool connecting_ = false;
  std::set<int> awaited_;      // nodes that are being connected
  std::vector<Error> errors_;  // of the last measurement
};

}  // namespace lockstep::ui
