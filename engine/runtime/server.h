// Server: an asynchronous parameter server. Runs a session with each worker on a thread of its own,
// step by step: receives the pull request (the table rows wanted), snapshots the parameters and
// sends them, receives the worker's gradient, and applies it. Snapshots and updates are serialized;
// waiting for messages is not.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/plan/plan.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/metric.h"
#include "engine/runtime/schedule.h"

namespace lockstep::runtime {

class Server {
 public:
  // Totals of one step once the slowest worker has completed it: sums over all workers' samples.
  struct Done {
    std::int64_t step = 0;
    Sums sums;  // known to the first server only
    // Staleness: updates by other workers between the snapshot a gradient is based on and its
    // application; mean and maximum over the workers.
    double staleness = 0, worstStaleness = 0;
    double rate = 0;  // the learning rate of its updates
  };

  // All arguments are borrowed for the server's lifetime. Preconditions: the rank is a server;
  // plan.staleness is not 0.
  static Result<std::unique_ptr<Server>> bind(const plan::Plan& plan, int rank,
                                              backends::Backend& backend, const Groups& groups,
                                              StateArena& state);
  ~Server();

  // Serves steps first … last of every worker. If `stop` is set on the first server, or a worker
  // asks for a stop or a checkpoint, all workers end soon, after the same step; likewise with
  // `finiteOnly` when a worker's loss is not finite. `done` is called on this thread, in step
  // order. Returns the last step completed. Errors: the first of any session; the group is then
  // unusable.
  Result<std::int64_t> serve(std::int64_t first, std::int64_t last, const Schedule& rates,
                             const std::atomic<bool>& stop, bool finiteOnly,
                             const std::function<void(const Done&)>& done);
  bool endedEarly() const { return endedEarly_; }  // whether serve() ended for one of these
  std::int64_t boundBytes() const;

 private:
  struct Session;
  Server(const plan::Plan& plan, int rank, const Groups& groups);
  Status talk(Session& with, std::int64_t first, std::int64_t last, const Schedule& rates,
              const std::atomic<bool>& stop);
  // Returns whether it was the last, ahead of time.
  Result<bool> step(Session& with, std::int64_t number, double rate, const std::atomic<bool>& stop);
  std::int64_t slowest() const;

  const plan::Plan& plan_;
  const int rank_;
  const Groups groups_;
  std::vector<std::unique_ptr<Session>> sessions_;  // by worker
  // guards everything below, the state, and what sessions report
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t updates_ = 0;    // applied since the run began
  std::int64_t begun_ = 0;      // the latest step started by any worker
  std::int64_t stopAfter_ = 0;  // where workers end ahead of time; 0: they do not
  // steps not yet completed by all workers, or not yet reported
  std::map<std::int64_t, Done> done_;
  std::size_t ended_ = 0;  // number of ended sessions
  bool endedEarly_ = false;
  bool finiteOnly_ = false;
  Status failure_;
};

}  // namespace lockstep::runtime
