// Recorder: follows a run on all its nodes, keeps what they say in the history, and tells an
// observer. Where another process records the run already, it reads the history instead and takes
// over when that process ends. It may start at any time: what was missed is filled in from the
// nodes' spools.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/cluster/cluster_session.h"
#include "app/core/home.h"
#include "app/core/inbox.h"
#include "app/runs/run_update.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Threads: the inbox's. The session (of the run's own cluster) must outlive it; nodes that are not
// connected are waited for. Destruction ends recording, never the run, and waits for threads: a
// window calls end() and destroys elsewhere.
class Recorder {
 public:
  Recorder(const std::string& run, ClusterSession& session, const Home& home, Inbox& inbox,
           RunObserver observer);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Ends recording. From here on nothing is called, and the destructor may be on any thread.
  void end();

  // All ranks finish an agreed step, write a checkpoint, leave. `done` says whether the request
  // arrived; the end of the run comes as an update.
  void stop(std::function<void(Status)> done = {});
  void kill(std::function<void(Status)> done = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A run that has ended has a model its node may still have: a recorder of it fetches that, and
// tells only the end.
bool lacksModel(const RunRow& row);

// The cluster a recorded run ran on, for a session to reach it again.
Result<std::shared_ptr<const spec::v1::ClusterSpec>> clusterOfRun(const History& history,
                                                                  const std::string& run);

}  // namespace lockstep::app
