#include "engine/runtime/server.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include "engine/base/memory.h"
#include "engine/base/threads.h"

namespace lockstep::runtime {

struct Server::Conversation {
  std::unique_ptr<Executor> ask, fetch, give, take, apply;
  backends::Operand rate, updates;
  backends::Operand control, pushed;  // of the first server
  backends::Operand relayed;          // of others: what the first one said
  std::int64_t done = 0;              // steps of the worker
  std::int64_t given = 0;             // updates there were when it was given parameters
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
    auto with = std::make_unique<Conversation>();
    const std::array executors{&with->ask, &with->fetch, &with->give, &with->take, &with->apply};
    for (std::size_t part = 0; part < executors.size(); ++part) {
      LOCKSTEP_ASSIGN(*executors[part], Executor::bind(plan, plan::kConversation[part], rank,
                                                       backend, groups, state, worker));
    }
    with->rate = with->apply->input("lr");
    with->updates = with->apply->input("t");
    with->control = with->fetch->input("control");
    with->pushed = with->take->result("pushed");
    with->relayed = with->take->result(fmt::format("control.{}", plan.stageOf(rank)));
    server->conversations_.push_back(std::move(with));
  }
  return server;
}

std::int64_t Server::boundBytes() const {
  std::int64_t bytes = 0;
  for (const auto& with : conversations_) {
    bytes += with->ask->boundBytes() + with->fetch->boundBytes() + with->give->boundBytes() +
             with->take->boundBytes() + with->apply->boundBytes();
  }
  return bytes;
}

std::int64_t Server::slowest() const {
  std::int64_t least = conversations_[0]->done;
  for (const auto& with : conversations_) least = std::min(least, with->done);
  return least;
}

Result<std::int64_t> Server::serve(std::int64_t first, std::int64_t last, const Schedule& rates,
                                   const std::atomic<bool>& stop, bool finiteOnly,
                                   const std::function<void(const Done&)>& done) {
  finiteOnly_ = finiteOnly;
  updates_ = std::max(updates_, (first - 1) * plan_.mesh.workers());
  ended_ = 0;
  for (auto& with : conversations_) with->done = first - 1;
  // The first failure ends the others.
  const auto end = [&](Status status, bool conversation) {
    std::unique_lock lock(mutex_);
    const bool failed = !status.ok() && failure_.ok();
    if (failed) failure_ = std::move(status);
    if (conversation) ++ended_;
    changed_.notify_all();
    lock.unlock();
    if (failed) groups_.along(plan_.mesh.messageAxis())->abort();
  };
  std::vector<std::thread> threads;
  Status started = withMemoryFor(
      fmt::format("the threads of {} workers' conversations", conversations_.size()), 0,
      [&]() -> Status {
        threads.reserve(conversations_.size());
        for (auto& with : conversations_)
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

Status Server::talk(Conversation& with, std::int64_t first, std::int64_t last,
                    const Schedule& rates, const std::atomic<bool>& stop) {
  for (std::int64_t number = first; number <= last; ++number) {
    LOCKSTEP_ASSIGN(const bool wasLast, step(with, number, rates.at(number), stop));
    if (wasLast) break;
  }
  return groups_.sender()->drain();
}

Result<bool> Server::step(Conversation& with, std::int64_t number, double rate,
                          const std::atomic<bool>& stop) {
  // Others end, or fail within the group's time limit: nobody waits here for ever.
  const auto mayBegin = [&] {
    return !failure_.ok() || plan_.staleness == plan::Plan::kAnyStaleness ||
           number - 1 - slowest() <= plan_.staleness;
  };
  // A worker may take what it was told of a stop after it has sent what it made: until then it
  // stays as it is.
  LOCKSTEP_TRY(with.give->awaitSent(number));
  LOCKSTEP_TRY(with.ask->play(number, nullptr));
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, mayBegin);
    LOCKSTEP_TRY(failure_);
    // Who has been given a later step knows of no stop; every worker is given the one after it.
    if (stop.load(std::memory_order_relaxed) && stopAfter_ == 0) stopAfter_ = begun_ + 1;
    begun_ = std::max(begun_, number);
    writeFloat(with.control, 0, stopAfter_ > 0 ? static_cast<double>(stopAfter_ - number + 1) : 0);
    writeFloat(with.control, 1, static_cast<double>(with.staleness));
    LOCKSTEP_TRY(with.fetch->play(number, nullptr));
    with.given = updates_;
  }
  LOCKSTEP_TRY(with.give->play(number, nullptr));
  LOCKSTEP_TRY(with.take->play(number, nullptr));
  const std::lock_guard lock(mutex_);
  with.staleness = updates_ - with.given;
  writeFloat(with.rate, 0, rate);
  writeFloat(with.updates, 0, static_cast<double>(++updates_));
  LOCKSTEP_TRY(with.apply->play(number, nullptr));
  Done& all = done_[number];
  all.step = number;
  all.staleness += static_cast<double>(with.staleness) / static_cast<double>(conversations_.size());
  all.worstStaleness = std::max(all.worstStaleness, static_cast<double>(with.staleness));
  if (with.pushed.data != nullptr) {
    all.sums.metric.resize(metricSums(with.pushed));
    addTo(all.sums, with.pushed);
    const bool isOver =
        stopAsked(with.pushed) || (finiteOnly_ && !std::isfinite(readFloat(with.pushed, 0)));
    if (isOver && stopAfter_ == 0) stopAfter_ = begun_ + 1;
  }
  with.done = number;
  const bool wasLast =
      readFloat(with.relayed.data != nullptr ? with.relayed : with.control, 0) == 1;
  stopped_ = stopped_ || wasLast;
  changed_.notify_all();
  return wasLast;
}

}  // namespace lockstep::runtime
