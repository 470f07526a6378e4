// Work on data files that clients of a node wait for and watch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/worker/prepare.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// A client that waits for a task.
struct TaskClient {
  // Called at least every half second. Returns false if the client is gone.
  std::function<bool(const node::v1::DataProgress&)> tell;
  std::function<bool()> gone;  // called more often
};

// Runs on a thread of its own from its construction on. Thread-safe. Every client that has joined
// awaits it; the task is cancelled once all of them are gone.
class WatchedTask {
 public:
  using Work = std::function<Status(const DataObserver&)>;
  explicit WatchedTask(Work work);
  // Adds a client. Returns false if the task was cancelled.
  bool join();
  // Returns the status of the work; kCancelled if the client is gone. The last client to go waits
  // for the work to end.
  Status await(const TaskClient& client);
  bool isOver() const;

 private:
  void run(const Work& work);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  node::v1::DataProgress progress_;  // mutex_, like those below
  Status status_;
  int waiting_ = 0;
  bool cancelled_ = false, over_ = false;
  std::jthread thread_;
};

// Tasks by key: clients that ask for the same at the same time wait for one. Thread-safe.
template <typename Reply>
class WatchedTasks {
 public:
  using Work = std::function<Status(Reply&, const DataObserver&)>;
  // Joins the task of this key, or begins it. Fills in `reply`. Errors: the work's; kCancelled.
  Status run(const std::string& key, const Work& work, Reply& reply, const TaskClient& client) {
    for (;;) {
      const std::shared_ptr<Entry> entry = joined(key, work);
      if (!entry) {  // the one before is being cancelled
        if (client.gone()) return makeError(Code::kCancelled, "the launch was cancelled");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      Status status = entry->task->await(client);
      const std::lock_guard lock(mutex_);
      if (!entry->task->isOver()) return status;
      if (const auto at = tasks_.find(key); at != tasks_.end() && at->second == entry)
        tasks_.erase(at);
      reply = entry->reply;
      return status;
    }
  }

 private:
  struct Entry {
    Reply reply;
    std::unique_ptr<WatchedTask> task;  // writes `reply`
  };
  std::shared_ptr<Entry> joined(const std::string& key, const Work& work) {
    const std::lock_guard lock(mutex_);
    auto& entry = tasks_[key];
    if (entry) return entry->task->join() ? entry : nullptr;
    auto made = std::make_shared<Entry>();
    made->task =
        std::make_unique<WatchedTask>([own = made.get(), work](const DataObserver& observer) {
          return work(own->reply, observer);
        });
    (void)made->task->join();
    return entry = std::move(made);
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> tasks_;  // mutex_
};

}  // namespace lockstep::agent
