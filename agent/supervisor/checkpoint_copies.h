// CheckpointCopies: copies of other nodes' checkpoint files on this node's disk, so that a run can
// continue after the loss of a node and its disk. Each node copies those files of its sources that
// have something no other node has. A thread fetches them from the sources' supervisors after a
// checkpoint is published; the training does not wait. They are paced (copy_pace.h) unless
// something waits for them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/supervisor/peers.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Returns for each node that keeps copies the nodes whose files these are: a node's files are kept
// by the next nodes on other hosts in the order of the ranks, training.checkpoint.copies of them.
std::map<std::string, std::vector<std::string>> copiedNodes(
    const node::v1::PrepareRequest& request);

// Returns the nodes that keep a copy of the trained model of this node. It lies in the run's folder
// there, also where checkpoints lie in training.checkpoint.path.
std::vector<std::string> modelHolders(const node::v1::PrepareRequest& request,
                                      const std::string& node);

class CheckpointCopies {
 public:
  struct Source {
    std::string node, address;  // host:port of its PeerServer
    std::vector<int> ranks;     // on it
    double link = 0;            // bytes per second from there to here; 0: not known
  };
  struct Handlers {
    std::function<void(std::string line)> say;
    std::function<void(std::int64_t step, const Status&)> onCopied;
    std::function<void(const Status&)> onModelCopied;
  };
  // Of one generation. `folder` has this node's checkpoints, of which the newest `keep` are kept;
  // `model` is the path of a copy of the trained model.
  // Handlers are called on the loop's thread, and not after destruction has begun.
  CheckpointCopies(EventLoop& loop, const node::v1::PrepareRequest& request, int generation,
                   std::string folder, std::string model, int keep, Handlers handlers);
  ~CheckpointCopies();  // waits for a call to the disk
  void end();           // cancels a fetch; no handler is called any more
  bool isOver() const { return over_; }

  // The sources of the current generation; none: nothing is copied.
  void setSources(std::vector<Source> sources);
  // Copies a checkpoint that all nodes have published, then calls onCopied. If it is under way, it
  // goes on with or without its pace.
  void copy(std::int64_t step, bool atOnce);
  // Copies the trained model of this node, then calls onModelCopied; not while a checkpoint is
  // copied.
  void copyModel(Source source);

 private:
  struct Task {
    std::int64_t step = 0;
    std::vector<Source> sources;
    bool model = false;  // of the only source, in place of the checkpoint
  };
  struct Copied {
    int files = 0;
    std::int64_t bytes = 0;
  };
  void work(const std::stop_token& stop);
  Status run(const Task& task, const std::stop_token& stop);
  Status runModel(const Source& source, const std::stop_token& stop);
  node::v1::FetchShardRequest shardRequest(std::int64_t step, const std::string& file) const;
  Result<Copied> copyFrom(const Source& source, std::int64_t step, const std::stop_token& stop);
  void pause(Nanoseconds duration, const std::stop_token& stop);
  void removeOld() const;
  void post(std::function<void()> work);

  EventLoop& loop_;
  const node::v1::PrepareRequest request_;
  const int generation_;
  const std::string folder_, model_;
  const int keep_;
  const Handlers handlers_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // of the loop's thread
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Source> sources_;  // mutex_, as the next
  std::optional<Task> next_;
  std::int64_t current_ = 0;  // step of what is copied; 0: nothing is
  bool atOnce_ = false;
  std::atomic<bool> over_{false};  // the thread has nothing left to do
  std::jthread thread_;
};

}  // namespace lockstep::agent
