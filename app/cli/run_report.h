// RunReport: prints a run as JSON lines, as a live view, or as plain lines.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/alerts/alert_watch.h"
#include "app/cluster/allocation.h"
#include "app/history/history.h"
#include "app/runs/launcher.h"
#include "app/runs/run_model.h"
#include "app/runs/run_progress.h"
#include "app/runs/run_update.h"
#include "app/whatif/steps_without.h"

namespace lockstep::app::cli {

// Facts about a run before its first record.
struct RunContext {
  RunRow row;
  RunDocuments documents;
  RunScope scope;
};
Result<RunContext> contextOf(const History& history, const std::string& run);

struct RunResult {
  std::string status;  // "succeeded", "failed", "stopped"
  RunFigures figures;
  std::string missing;     // what of a run that ended well is not here, as its model; "": nothing
  bool ofProgram = false;  // of the user's own
  double effectiveTime = std::numeric_limits<double>::quiet_NaN();  // see app/history/run_row.h
};
// Result of an ended run, from its row; a run that has not ended counts as failed.
RunResult resultOf(const RunRow& row);

class RunReport {
 public:
  virtual ~RunReport() = default;
  virtual void progress(const std::string& text) = 0;  // of the launch, or of stopping
  virtual void launching(const LaunchProgress& state) { progress(state.text()); }
  virtual void settingUp(const SetupOutput& output);
  virtual void queued(const QueueState& state) { progress(state.text().text()); }
  virtual void allocated(const spec::v1::ClusterSpec& cluster);  // its nodes are those of a job
  virtual void started(const RunContext& context) = 0;
  virtual void update(const RunUpdate& update) = 0;  // may repeat what was told before
  virtual void idle() = 0;                           // about thirty times a second
  virtual void alert(const AlertEvent& event) = 0;   // after the update that raised or ended it
  virtual void failed(const Error& error) = 0;
  // At the end, of a rank that was slow.
  virtual void without(const StragglerRow& slow, const StepsWithout& steps) = 0;
  virtual void files(const ArtifactsUpdate& update);   // of a program, after its end
  virtual void finished(const RunResult& result) = 0;  // last
  virtual const RunModel& model() const = 0;           // what has been told of the run
};

struct ReportOptions {
  bool json = false;
  std::int64_t every = 0;  // every n-th step; 0: at most ten a second
};
std::unique_ptr<RunReport> makeReport(const ReportOptions& options);

// Prints steps, epochs and errors of updates in order, each once. The event of an epoch comes after
// its last step and before the next.
class EventSequencer {
 public:
  struct Step {
    std::int64_t step = 0, epoch = 0;
    double loss = 0;
    // Values of kWatched in this step, where they were measured.
    std::vector<std::pair<std::string_view, double>> watched;
  };
  // Series over steps that are reported beside the loss.
  static constexpr std::array<std::string_view, 3> kWatched{"learning_rate", "gradient_norm",
                                                            "update_ratio"};
  struct Item {
    std::optional<Step> step;  // one of the two
    std::optional<EpochRow> epoch;
    bool evaluation = false;  // of an epoch that was told before without it
  };
  void begin(const RunContext& context);
  std::vector<Item> take(const RunUpdate& update);
  std::vector<Item> rest();  // epochs whose last step never came
  // Reports nodes that became unreachable or reachable again.
  std::vector<std::string> nodeNotes(const RunUpdate& update);
  // What the run still waits for, trained to its end.
  static std::vector<std::string> awaitedNotes(const RunUpdate& update);
  // fp16: skipped steps, and the loss scale.
  static std::vector<std::string> scaleNotes(const RunUpdate& update);
  std::vector<Error> newErrors(const RunUpdate& update);
  std::vector<Error> newWarnings(const RunUpdate& update);
  std::vector<RunRestart> newRestarts(const RunUpdate& update);
  // The same as texts: since when, what has failed, and what is done; then what it has cost.
  std::vector<std::string> restartNotes(const RunUpdate& update);
  const RunModel& model() const { return model_; }

 private:
  void tell(const EpochRow& row, std::vector<Item>& out);
  void noteWatched(const RunUpdate& update);
  RunModel model_;
  std::vector<EpochRow> waiting_;
  static std::vector<Error> notTold(const std::vector<Error>& errors,
                                    std::vector<std::string>& told);
  std::set<std::int64_t> unevaluated_;  // epochs told
  std::vector<std::string> errors_, warnings_;
  std::set<std::string> unreachable_;  // nodes
  std::int64_t lastStep_ = 0, lastEpoch_ = 0;
  // Of steps whose loss has not come: other ranks may report first.
  std::map<std::int64_t, std::vector<std::pair<std::string_view, double>>> watched_;
  int begun_ = 0, restarted_ = 0;  // generations told
};

void printArtifacts(const ArtifactsUpdate& update);  // as JSON, also while it goes on
// What has come of fetching a program's files, in lines; none while that goes on.
std::vector<std::string> artifactLines(const ArtifactsUpdate& update);
std::string artifactsText(const Artifacts& artifacts);  // "3 files, 120 bytes, in FOLDER"

// "alert: … (loss-spike)", or "alert over: …"; "" for what is told anyhow: ends and stragglers.
std::string alertText(const AlertEvent& event);

// Returns a stored run as one update: steps, epochs, errors.
Result<RunUpdate> storedUpdate(const History& history, const std::string& run);

}  // namespace lockstep::app::cli
