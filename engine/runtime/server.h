// Server: what a parameter server does where its workers do not wait for each other. It has a
// conversation with each of them, on a thread of its own, about one step after another: it is told
// which rows of tables are wanted, copies the parameters and gives them, takes the gradient the
// worker made of them, and applies it. Copies and updates are one at a time; what waits for
// messages waits alone.
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
  // Of one step, when the slowest worker has done it: sums over all workers' samples.
  struct Done {
    std::int64_t step = 0;
    Sums sums;  // known to the first server
    // Updates between what a gradient was made of and when it was applied, by others: the mean over
    // the workers, and the most.
    double staleness = 0, worstStaleness = 0;
  };

  // All is borrowed for the server's life. Precondition: the rank is a server, plan.staleness is
  // not 0.
  static Result<std::unique_ptr<Server>> bind(const plan::Plan& plan, int rank,
                                              backends::Backend& backend, const Groups& groups,
                                              StateArena& state);
  ~Server();

  // Steps first … last of every worker, or fewer: where `stop` is set at the first server, or a
  // worker was asked to stop, all workers end after the same step, soon. `done` is called on this
  // thread, in the order of steps. With `finiteOnly` all end likewise, soon, where a worker's loss
  // is not finite. The last step done. Errors: the first of any conversation; the group is then
  // unusable.
  Result<std::int64_t> serve(std::int64_t first, std::int64_t last, const Schedule& rates,
                             const std::atomic<bool>& stop, bool finiteOnly,
                             const std::function<void(const Done&)>& done);
  bool stopped() const { return stopped_; }  // serve() ended because of a stop
  std::int64_t boundBytes() const;

 private:
  struct Conversation;
  Server(const plan::Plan& plan, int rank, const Groups& groups);
  Status talk(Conversation& with, std::int64_t first, std::int64_t last, const Schedule& rates,
              const std::atomic<bool>& stop);
  // Whether it was the last before a stop.
  Result<bool> step(Conversation& with, std::int64_t number, double rate,
                    const std::atomic<bool>& stop);
  std::int64_t slowest() const;

  const plan::Plan& plan_;
  const int rank_;
  const Groups groups_;
  std::vector<std::unique_ptr<Conversation>> conversations_;  // by worker
  // of all below, of the state, and of what conversations say here
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t updates_ = 0;    // applied since the run began
  std::int64_t begun_ = 0;      // the latest step any worker has been given
  std::int64_t stopAfter_ = 0;  // 0: none
  // steps that not all workers have done, or were not told yet
  std::map<std::int64_t, Done> done_;
  std::size_t ended_ = 0;  // conversations
  bool stopped_ = false;
  bool finiteOnly_ = false;
  Status failure_;
};

}  // namespace lockstep::runtime
