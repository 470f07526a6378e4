// RunDocument: one run as it is known: its row, curves, logs, breakdown and slow rank. What the
// history has is read in the background; a recorder adds what happens. Threads: GUI.
#pragma once

#include <QObject>
#include <map>
#include <memory>
#include <optional>

#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/runs/recorder.h"
#include "app/runs/run_model.h"
#include "app/specs/spec_text.h"
#include "ui/models/log_model.h"
#include "ui/plots/series.h"
#include "ui/studio/live_cluster.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

class Workspace;

class RunDocument : public QObject {
  Q_OBJECT

 public:
  RunDocument(QString run, Workspace& workspace, QObject* parent = nullptr);
  ~RunDocument() override;

  const QString& run() const { return run_; }
  const app::RunRow& row() const { return model_.row(); }
  bool loaded() const { return loaded_; }
  bool ending() const { return ending_; }  // its last records are being read
  const app::RunDocuments& documents() const { return documents_; }
  const app::Preview* prediction() const { return prediction_ ? &*prediction_ : nullptr; }
  LogModel* logs() { return logs_; }
  const std::vector<app::StepBreakdown>& breakdown() const { return model_.breakdown(); }
  const std::optional<app::Straggler>& slow() const { return model_.slow(); }
  const std::vector<app::EpochRow>& epochs() const { return model_.epochs(); }
  const app::RunProgress& progress() const { return model_.progress(); }
  std::int64_t lastStep() const { return model_.step(); }
  double elapsedSeconds() const;
  double remainingSeconds() const;  // below 0: not known
  app::Pace pace() const;
  double stalledSeconds() const;  // 0: steps come
  // The line of that name; made when first asked for or told of. Series over time have x in
  // seconds since the run began.
  std::shared_ptr<Series> series(const std::string& name);
  const std::map<std::string, std::shared_ptr<Series>>& allSeries() const { return series_; }
  bool canStop() const;
  bool canRelaunch() const { return loaded_ && model_.over() && !documents_.specYaml.empty(); }
  bool canResume() const;

  void stop();
  void kill();
  // Where the run is out of reach: its recorder ends with it, and ends it on the nodes that answer.
  void giveUp();
  // What has come; also called by tests.
  void take(const app::RunUpdate& update);

 Q_SIGNALS:
  void rowChanged();
  void seriesAdded(const QString& name);
  void dataChanged();
  void breakdownChanged();
  void slowChanged();
  void nodeNote(const QString& node, bool reachable, const QString& detail);
  // of the run, now or as the history has it, or of a request
  void failed(const lockstep::Error& error);
  void warned(const lockstep::Error& warning);  // the run goes on
  void finished();

 private:
  struct Loaded;
  static Loaded readRun(const std::string& folder, const std::string& run);
  void load();
  void takeOver(const std::shared_ptr<Loaded>& loaded);  // in slices that leave the window free
  void follow();
  void append(const app::RunBatch::Series& series);

  QString run_;
  Workspace& workspace_;
  app::RunModel model_;
  app::RunDocuments documents_;
  std::optional<app::Preview> prediction_;
  LogModel* logs_;
  std::map<std::string, std::shared_ptr<Series>> series_;
  std::map<std::string, double> lastX_;
  bool loaded_ = false, ending_ = false;
  std::shared_ptr<LiveCluster> cluster_;
  std::unique_ptr<app::Recorder> recorder_;  // before cluster_ in destruction
};

bool isTimeSeries(const std::string& name);  // x is the wall clock
QString runPhaseText(app::RunPhase phase);
// The phase, or since when the run is out of reach.
QString runStateText(const app::RunRow& row);
// "fashion-cnn · 14:03", with the date where it is not today's: runs of one model can be told
// apart.
QString runTitle(const app::RunRow& row);
Tone runPhaseTone(app::RunPhase phase);
// English, for messageText(): what alerts keep.
std::string runOutcome(app::RunPhase phase);
std::string stragglerHeadline(const app::Straggler& slow);
std::string unreachableText(const std::string& node);

}  // namespace lockstep::ui
