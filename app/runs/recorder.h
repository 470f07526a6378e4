// Recorder: follows a run on all its nodes, writes their records to the history and notifies an
// observer. If another process records the run, reads the history instead and takes over when that
// process ends. May start at any time; earlier records are read from the nodes' spools.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/cluster/cluster_session.h"
#include "app/core/home.h"
#include "app/core/inbox.h"
#include "app/history/history.h"
#include "app/runs/run_nodes.h"
#include "app/runs/run_update.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Used on the inbox's thread. The session (of the run's cluster) must outlive it; nodes that are
// not connected are waited for. The destructor ends the recording, not the run, and joins threads:
// a window calls end() and destroys it on another thread.
class Recorder {
 public:
  Recorder(const std::string& run, ClusterSession& session, const Home& home, Inbox& inbox,
           RunObserver observer);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Ends the recording. Afterwards no callback is called, and the object may be destroyed on any
  // thread.
  void end();

  // `done` reports whether the request arrived; what comes of it comes as an update.
  void ask(const RunRequest& what, std::function<void(Result<RunAnswer>)> done = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the cluster of a recorded run, for a session to reach it.
Result<std::shared_ptr<const spec::v1::ClusterSpec>> clusterOfRun(const History& history,
                                                                  const std::string& run);

}  // namespace lockstep::app
