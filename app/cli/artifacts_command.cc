// artifacts: fetches the files of a run's program that workload.artifacts names.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/run_report.h"
#include "app/cli/terminal.h"
#include "app/runs/artifacts.h"
#include "app/runs/recorder.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

// A run whose files are fetched.
struct Asked {
  RunRow row;
  RunDocuments documents;
  std::int64_t most = 0;  // bytes
};

Result<Asked> askedFor(const History& history, const Arguments& arguments) {
  Asked out;
  LOCKSTEP_ASSIGN(out.row, history.find(arguments.words()[0]));
  LOCKSTEP_ASSIGN(out.documents, history.documents(out.row.run));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(out.row.run));
  if (!artifactsIn(*store).wanted) {
    Error error = makeError(Code::kFailedPrecondition, "run {} names no files", out.row.run);
    error.next = "name them in workload.artifacts.collect, and launch it";
    return error;
  }
  if (!isFinal(out.row.phase))
    return makeError(Code::kFailedPrecondition, "run {} has not ended", out.row.run);
  LOCKSTEP_ASSIGN(const std::int64_t limit, artifactsLimit(out.documents));
  LOCKSTEP_ASSIGN(out.most, arguments.byteSize("max-bytes", limit, 1,
                                               std::numeric_limits<std::int64_t>::max()));
  return out;
}

// What is told while a thread fetches.
class Telling {
 public:
  explicit Telling(bool json) : json_(json) {}
  ArtifactsObserver observer() {
    ArtifactsObserver out;
    out.onBytes = [this](std::int64_t done, std::int64_t total) {
      const auto now = std::chrono::steady_clock::now();
      if (now - told_ < std::chrono::seconds(2)) return;
      told_ = now;
      put(stderr, fmt::format("{} of {} MB\n", done / 1000000, total / 1000000));
    };
    out.onFile = [this](const ArtifactFile& file) {
      if (json_) printArtifacts({.files = {file}});
    };
    return out;
  }

 private:
  const bool json_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

Result<Artifacts> fetch(const Globals& globals, const Asked& asked,
                        const std::shared_ptr<const spec::v1::ClusterSpec>& cluster, bool json) {
  Inbox inbox;
  AskingSession asking(cluster, globals, inbox);
  asking.session.connect();
  LOCKSTEP_ASSIGN(const std::vector<RunNode> nodes,
                  runNodes(asked.documents.nodes, asking.session));
  Telling telling(json);
  std::optional<Result<Artifacts>> result;
  std::atomic<bool> done = false;
  std::jthread thread([&](const std::stop_token& stop) {
    result.emplace(
        fetchArtifacts(asked.row.run, nodes, asked.most, globals.home, telling.observer(), stop));
    done = true;
  });
  if (!drainUntil(inbox, [&] { return done.load(); })) thread.request_stop();
  thread.join();
  return std::move(*result);
}

}  // namespace

int artifactsCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  watchInterrupts();
  const auto fetched = [&]() -> Result<Artifacts> {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_ASSIGN(const Asked asked, askedFor(*history, arguments));
    LOCKSTEP_ASSIGN(const auto cluster, clusterOfRun(*history, asked.row.run));
    LOCKSTEP_ASSIGN(const Artifacts found, fetch(globals, asked, cluster, json));
    LOCKSTEP_ASSIGN(const auto store, history->openRun(asked.row.run));
    LOCKSTEP_TRY(noteArtifacts(*store, found));
    return found;
  }();
  if (!fetched.ok()) {
    report(fetched.error(), json);
    return exitCodeOf(fetched.error());
  }
  if (json) {
    printArtifacts({.found = *fetched});
  } else {
    put(stdout, artifactsText(*fetched) + "\n");
    for (const Message& one : fetched->problems) put(stderr, "not fetched: " + one.text() + "\n");
  }
  return fetched->problems.empty() ? kSucceeded : kNode;
}

}  // namespace lockstep::app::cli
