// Launch: starts a run in the background. Connects nodes, benchmarks them (cached in the home
// folder), plans, checks that the nodes reach each other, copies data to nodes that lack it if the
// run asks for that, sets a program up on all of them, checks the data on all of several nodes
// before any of them starts something, prepares every node and commits at the coordinator. On
// failure or cancel, prepared nodes are cleaned up or expire.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/cluster/cluster_session.h"
#include "app/history/history.h"
#include "app/runs/data_calls.h"
#include "app/runs/measure.h"
#include "app/runs/preview.h"
#include "app/runs/setup_output.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Stage of a launch and the nodes it waits for. Reported when a stage begins and every few seconds.
struct LaunchProgress {
  enum class Stage : std::uint8_t {
    kMakingData,  // of an example; `awaited` names the files
    kConnecting,
    kMeasuring,
    kCopying,
    kFetching,
    kCheckingData,
    kSettingUp,
    kPreparing,
    kStarting,
    kEnding
  };
  Stage stage = Stage::kConnecting;  // kEnding: what may have begun is ended again
  std::vector<std::string> awaited;  // nodes
  int seconds = 0;                   // since when
  // kCopying: bytes of data files; total 0: nothing to copy
  std::int64_t bytesDone = 0, bytesTotal = 0;
  std::vector<DataActivity> data;               // at most one of each node
  std::map<std::string, std::string> commands;  // kSettingUp: under way, by node
  std::string text() const;                     // "preparing: waiting for n2, n3 since 5 s"
};

struct LaunchObserver {
  std::function<void(const LaunchProgress&)> onProgress;
  std::function<void(Result<std::string>)> onDone;  // run id, or why not. Once.
  // Checked addresses of the nodes of a run of several: "n1 at 10.0.0.1, n2 at 10.0.0.2".
  std::function<void(const std::string&)> onAddresses;
  TellSetup onSetup;  // what setting a program up prints, as it comes
};

// What the connected nodes of a session have.
std::vector<HostFacts> hostsOf(const ClusterSession& session);

// Used on the inbox's thread. The session must outlive it. The destructor cancels and joins, which
// may take as long as cleaning up nodes: a window calls end() and destroys it on another thread.
class Launch {
 public:
  Launch(LaunchRequest request, ClusterSession& session, const Home& home, Inbox& inbox,
         LaunchObserver observer);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  void cancel();
  void end();                      // cancels; nothing is called any more, destruction on any thread
  const std::string& run() const;  // the id, known from the start

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string clusterNameOf(const LaunchRequest& request);

// Makes a preview in the background with costs measured on the session's nodes (cached). With
// Costs::kEarlier, connects and measures nothing: uses cached costs of connected nodes, or
// kNotFound.
class MeasuredPreview {
 public:
  MeasuredPreview(LaunchRequest request, ClusterSession& session, const Home& home, Inbox& inbox,
                  std::function<void(Result<Preview>)> onDone, Costs costs = Costs::kBenchmark);
  ~MeasuredPreview();
  void cancel();
  void end();  // as Launch::end()

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::app
