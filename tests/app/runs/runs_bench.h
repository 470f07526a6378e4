// What tests of runs share: a home of its own with local agents, and what a recorder told.
#pragma once

#include <signal.h>

#include <QDirIterator>
#include <QElapsedTimer>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <optional>

#include "app/cluster/cluster_session.h"
#include "app/history/history.h"
#include "app/runs/launcher.h"
#include "app/runs/recorder.h"
#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

namespace lockstep::test {

using namespace lockstep::app;

inline constexpr int kLimitMs = 90000;

// What is needed of the application, on a home of its own.
struct Bench {
  QTemporaryDir folder;
  Home home{folder.path().toStdString()};
  Inbox inbox;
  ClusterSpecFile cluster;
  std::unique_ptr<ClusterSession> session;
  std::vector<int> agents;

  explicit Bench(int nodes, const std::string& comm = {})
      : cluster(localCluster(nodes, home.root + "/local", comm)) {
    open();
  }
  ~Bench() {
    session.reset();
    // Supervisors stay for a while for late readers; their pids are in the runs' folders.
    std::vector<int> pids = agents;
    QDirIterator files(folder.path(), {"supervisor"}, QDir::Files, QDirIterator::Subdirectories);
    while (files.hasNext()) {
      QFile file(files.next());
      if (!file.open(QIODevice::ReadOnly)) continue;
      if (const int pid = file.readLine().trimmed().toInt(); pid > 0) pids.push_back(pid);
    }
    for (const int pid : pids) ::kill(pid, SIGTERM);
    QElapsedTimer timer;
    timer.start();
    for (const int pid : pids) {
      while (::kill(pid, 0) == 0 && timer.elapsed() < 60000) QTest::qWait(10);
      ::kill(pid, SIGKILL);
    }
  }
  void open() {
    ClusterSessionOptions options;
    options.home = home;
    options.ask = false;
    session = std::make_unique<ClusterSession>(cluster.spec, options, inbox);
  }

  template <typename Done>
  bool until(Done done, int limitMs = kLimitMs) {
    QElapsedTimer timer;
    timer.start();
    while (!done()) {
      if (timer.elapsed() > limitMs) return false;
      inbox.wait(std::chrono::milliseconds(50));
      inbox.drain();
      for (int i = 0; i < session->size(); ++i) {
        const int pid = session->status(i).inventory.agentPid;
        if (pid > 0 && std::find(agents.begin(), agents.end(), pid) == agents.end()) {
          agents.push_back(pid);
        }
      }
    }
    return true;
  }

  Result<LaunchRequest> request(const std::vector<std::string>& sets) const {
    auto spec =
        loadRunSpec(lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml"), sets);
    if (!spec.ok()) return spec.error();
    LaunchRequest request;
    request.spec = spec->spec;
    request.cluster = cluster.spec;
    request.specYaml = spec->yaml;
    request.clusterYaml = cluster.yaml;
    request.measure = false;
    return request;
  }
  Result<std::string> launch(const std::vector<std::string>& sets) {
    const auto asked = request(sets);
    return asked.ok() ? launch(*asked) : asked.error();
  }
  Result<std::string> launch(const LaunchRequest& asked) {
    std::optional<Result<std::string>> outcome;
    Launch launch(asked, *session, home, inbox,
                  {{}, [&](Result<std::string> result) { outcome = std::move(result); }});
    if (!until([&] { return outcome.has_value(); })) {
      return makeError(Code::kDeadlineExceeded, "the launch did not end");
    }
    return *outcome;
  }
};

struct Seen {
  std::vector<double> loss;
  std::vector<double> preview;  // of the loss, while earlier steps are being read
  std::vector<EpochRow> epochs;
  std::vector<Error> errors;
  bool started = false, finished = false;
  bool toldEarly = false;  // a final phase before the last update, or anything after it
  RunRow row;
  RunObserver observer() {
    return [this](const RunUpdate& update) {
      started = started || update.started;
      for (const auto& series : update.series) {
        if (series.name != "loss") continue;
        for (const auto& point : series.points)
          (update.preview ? preview : loss).push_back(point.x);
      }
      epochs.insert(epochs.end(), update.epochs.begin(), update.epochs.end());
      errors.insert(errors.end(), update.errors.begin(), update.errors.end());
      if (update.row) row = *update.row;
      toldEarly = toldEarly || finished || (!update.finished && isFinal(row.phase));
      finished = finished || update.finished;
    };
  }
};

inline bool consecutive(const std::vector<double>& steps, std::size_t count) {
  if (steps.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (steps[i] != static_cast<double>(i + 1)) return false;
  }
  return true;
}

}  // namespace lockstep::test
