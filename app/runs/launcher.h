// Launch: from a request to a running run, in the background: connects what is not connected,
// measures (cached in the history's folder), plans, proves that the nodes reach each other, copies
// the data to nodes that lack it where the run asks for that, prepares every node, commits at the
// first. Nothing half-started stays: on failure or cancel what was prepared expires or is removed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/cluster/cluster_session.h"
#include "app/history/history.h"
#include "app/runs/measure.h"
#include "app/runs/preview.h"
#include "engine/base/status.h"

namespace lockstep::app {

// What a launch is about, and for which nodes it waits; told when a stage begins and every few
// seconds while it lasts.
struct LaunchProgress {
  enum class Stage : std::uint8_t {
    kConnecting,
    kMeasuring,
    kCopying,
    kPreparing,
    kStarting,
    kEnding
  };
  Stage stage = Stage::kConnecting;  // kEnding: what may have begun is ended again
  std::vector<std::string> awaited;  // nodes
  int seconds = 0;                   // since when
  // kCopying: of the data files; no total: none to copy
  std::int64_t bytesDone = 0, bytesTotal = 0;
  std::string text() const;  // "preparing: waiting for n2, n3 since 5 s"
};

struct LaunchObserver {
  std::function<void(const LaunchProgress&)> onProgress;
  std::function<void(Result<std::string>)> onDone;  // run id, or why not. Once.
  // Several nodes: where each is reached by the others, proven. "n1 at 10.0.0.1, n2 at 10.0.0.2".
  std::function<void(const std::string&)> onAddresses;
};

// Threads: the inbox's. The session must outlive it. Destruction cancels and joins, which may take
// as long as taking back what was prepared: a window calls end() and destroys elsewhere.
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

// Preview with costs measured on the session's nodes (cached), in the background. With
// Costs::kEarlier nothing is measured and nothing connected: for nodes that are, with costs
// measured before; kNotFound where there are none.
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
