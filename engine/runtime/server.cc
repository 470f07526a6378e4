#include "engine/runtime/server.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include "engine/base/memory.h"
#include "engine/base/threads.h"

namespace lockstep::runtime {

struct Server::Session {
  std::unique_ptr<Executor> pullRequest, snapshot, sendParameters, receiveGradients, apply;
  backends::Operand rate, updates;
  backends::Operand control, pushed;  // on the first server
  backends::Operand relayed;          // on other servers: relayed from the first
  std::int64_t done = 0;              // steps completed by the worker
  std::int64_t given = 0;             // number of updates when it was sent parameters
  std::int64_t staleness = 0;         // of its last gradient
};

Server::Server(const plan::Plan& plan, int rank, const Groups& groups)
    : plan_(plan), rank_(rank), groups_(groups) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::bind(const plan::Plan& plan, int rank,
                                             backends::Backend& backend, const Groups& groups,
                                             StateArena& state) {
  auto server = std::unique_ptr<Server>(new Server(plan, rank, groups));
  for (int worker = 0; worker < plan.mesh.workers(); ++worker) {
    auto with = std::make_unique<Session>();
    const std::array executors{&with->pullRequest, &with->snapshot, &with->sendParameters,
                               &with->receiveGradients, &with->apply};
    for (std::size_t part = 0; part < executors.size(); ++part) {
      LOCKSTEP_ASSIGN(*executors[part], Executor::bind(plan, plan::kServerSession[part], rank,
                                                       backend, groups, state, worker));
    }
    with->rate = with->apply->input("lr");
    with->updates = with->apply->input("t");
    with->control = with->snapshot->input("control");
    with->pushed = with->receiveGradients->result("pushed");
    with->relayed = with->receiveGradients->result(fmt::format("control.{}", plan.stageOf(rank)));
    server->sessions_.push_back(std::move(with));
  }
  return server;
}

std::int64_t Server::boundBytes() const {
  std::int64_t bytes = 0;
  for (const auto& with : sessions_) {
    bytes += with->pullRequest->boundBytes() + with->snapshot->boundBytes() +
             with->sendParameters->boundBytes() + with->receiveGradients->boundBytes() +
             with->apply->boundBytes();
  }
  return bytes;
}

std::int64_t Server::slowest() const {
  std::int64_t least = sessions_[0]->done;
  for (const auto& with : sessions_) least = std::min(least, with->done);
  return least;
}

Result<std::int64_t> Server::serve(std::int64_t first, std::int64_t last, const Schedule& rates,
                                   const std::atomic<bool>& stop, bool finiteOnly,
                                   const std::function<void(const Done&)>& done) {
  finiteOnly_ = finiteOnly;
  updates_ = std::max(updates_, (first - 1) * plan_.mesh.workers());
  ended_ = 0;
  endedEarly_ = false;
  stopAfter_ = 0;  // requests that were not yet answered are made again
  begun_ = std::max(begun_, first - 1);
  for (auto& with : sessions_) with->done = first - 1;
  // The first failure ends the other sessions.
  const auto end = [&](Status status, bool inSession) {
    std::unique_lock lock(mutex_);
    const bool failed = !status.ok() && failure_.ok();
    if (failed) failure_ = std::move(status);
    if (inSession) ++ended_;
    changed_.notify_all();
    lock.unlock();
    if (failed) groups_.along(plan_.mesh.messageAxis())->abort();
  };
  std::vector<std::thread> threads;
  Status started = withMemoryFor(
      fmt::format("the threads of {} workers' sessions", sessions_.size()), 0, [&]() -> Status {
        threads.reserve(sessions_.size());
        for (auto& with : sessions_)
          threads.push_back(helperThread(
              "server", [&, &own = *with] { end(talk(own, first, last, rates, stop), true); }));
        return {};
      });
  if (!started.ok()) end(std::move(started), false);
  for (std::unique_lock lock(mutex_); ended_ < threads.size() || !done_.empty();) {
    if (ended_ == threads.size() && !failure_.ok()) break;
    const auto next = done_.begin();
    if (next == done_.end() || next->first > slowest()) {
      changed_.wait(lock);
      continue;
    }
    const Done all = next->second;
    done_.erase(next);
    lock.unlock();
    done(all);
    lock.lock();
  }
  for (std::thread& thread : threads) thread.join();
  LOCKSTEP_TRY(failure_);
  return slowest();
}

Status Server::talk(Session& with, std::int64_t first, std::int64_t last, const Schedule& rates,
                    const std::atomic<bool>& stop) {
  for (std::int64_t number = first; number <= last; ++number) {
    LOCKSTEP_ASSIGN(const bool wasLast, step(with, number, rates.at(number), stop));
    if (wasLast) break;
  }
  return groups_.sender()->drain();
}

Result<bool> Server::step(Session& with, std::int64_t number, double rate,
                          const std::atomic<bool>& stop) {
  // Other sessions end, or fail within the group's timeout, so this wait is bounded.
  const auto mayBegin = [&] {
    return !failure_.ok() || plan_.staleness == plan::Plan::kAnyStaleness ||
           number - 1 - slowest() <= plan_.staleness;
  };
  // A worker may receive the control message as late as after sending its gradient; it must stay
  // unchanged until then.
  LOCKSTEP_TRY(with.sendParameters->awaitSent(number));
  LOCKSTEP_TRY(with.pullRequest->run(number, nullptr));
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, mayBegin);
    LOCKSTEP_TRY(failure_);
    // Workers that already received a later step know of no stop, so all stop after the next one.
    if (stop.load(std::memory_order_relaxed) && stopAfter_ == 0) stopAfter_ = begun_ + 1;
    begun_ = std::max(begun_, number);
    writeFloat(with.control, 0, stopAfter_ > 0 ? static_cast<double>(stopAfter_ - number + 1) : 0);
    writeFloat(with.control, 1, static_cast<double>(with.staleness));
    LOCKSTEP_TRY(with.snapshot->run(number, nullptr));
    with.given = updates_;
  }
  LOCKSTEP_TRY(with.sendParameters->run(number, nullptr));
  LOCKSTEP_TRY(with.receiveGradients->run(number, nullptr));
  const std::lock_guard lock(mutex_);
  with.staleness = updates_ - with.given;
  writeFloat(with.rate, 0, rate);
  writeFloat(with.updates, 0, static_cast<double>(++updates_));
  LOCKSTEP_TRY(with.apply->run(number, nullptr));
  Done& all = done_[number];
  all.step = number;
  // Without a group the server updates nothing.
  if (with.rate.data != nullptr) all.rate = readFloat(with.rate, 0);
  all.staleness += static_cast<double>(with.staleness) / static_cast<double>(sessions_.size());
  all.worstStaleness = std::max(all.worstStaleness, static_cast<double>(with.staleness));
  if (with.pushed.data != nullptr) {
    all.sums.metric.resize(metricSums(with.pushed));
    addTo(all.sums, with.pushed);
    const bool isOver = requested(with.pushed) != Request::kNone ||
                        (finiteOnly_ && !std::isfinite(readFloat(with.pushed, 0)));
    if (isOver && stopAfter_ == 0) stopAfter_ = begun_ + 1;
  }
  with.done = number;
  const bool wasLast =
      readFloat(with.relayed.data != nullptr ? with.relayed : with.control, 0) == 1;
  endedEarly_ = endedEarly_ || wasLast;
  changed_.notify_all();
  return wasLast;
}

}  // namespace lockstep::runtime
