#include "engine/runtime/gather.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/runtime/heartbeat.h"

namespace lockstep::runtime {
namespace {

// Rank 0's file, written on a thread of its own from tensors that are given one after another.
class Handover {
 public:
  explicit Handover(const WriteTensors& write) {
    thread_ = helperThread("checkpoint", [this, &write] {
      Status status = withMemoryFor("what rank 0 writes", 0, [&] {
        return write([this](std::size_t index) { return take(index); });
      });
      const std::lock_guard lock(mutex_);
      result_ = std::move(status);
      ended_ = true;
      changed_.notify_all();
    });
  }
  // Tensors that have not been given by then never will be.
  ~Handover() {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  // Returns when the tensor has been written, or nothing more is.
  Status give(std::span<const std::byte> tensor, Heartbeat& heartbeat) {
    std::unique_lock lock(mutex_);
    tensor_ = tensor;
    ++given_;
    changed_.notify_all();
    return heartbeat.await(lock, changed_, [this] { return asked_ > given_ || ended_; });
  }
  Status awaitEnd(Heartbeat& heartbeat) {
    std::unique_lock lock(mutex_);
    return heartbeat.await(lock, changed_, [this] { return ended_; });
  }
  const Status& result() const { return result_; }  // after the end

 private:
  Result<std::span<const std::byte>> take(std::size_t index) {
    std::unique_lock lock(mutex_);
    asked_ = index + 1;
    changed_.notify_all();
    changed_.wait(lock, [this] { return given_ >= asked_ || abandoned_; });
    if (given_ < asked_) return makeError(Code::kAborted, "the ranks could not gather the state");
    return tensor_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const std::byte> tensor_;
  std::size_t asked_ = 0, given_ = 0;
  bool ended_ = false, abandoned_ = false;
  Status result_;
  std::thread thread_;
};

// Whether other ranks take part in making a whole tensor of it.
bool isGathered(const RankState& state, const Place& place) {
  return state.groups.along(state.plan.mesh.messageAxis()) != nullptr ||
         std::any_of(place.parts.begin(), place.parts.end(), [](const auto& part) {
           return !part.first->axis.empty() || !part.second->axis.empty();
         });
}

}  // namespace

Status gather(const RankState& state, const std::vector<Place>& places, const std::string& task,
              const TakeTensor& take, const WriteTensors& write, Status& written) {
  WholeTensors whole(state);
  Heartbeat heartbeat(state.groups, state.rank, task);
  std::optional<Handover> handover;
  if (state.rank == 0 && write) handover.emplace(write);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (isGathered(state, places[i])) LOCKSTEP_TRY(heartbeat.meet());
    LOCKSTEP_ASSIGN(const std::span<const std::byte> tensor, whole.of(places[i]));
    if (state.rank == 0 && take) take(i, tensor);
    if (handover) LOCKSTEP_TRY(handover->give(tensor, heartbeat));
  }
  if (handover) LOCKSTEP_TRY(handover->awaitEnd(heartbeat));
  LOCKSTEP_TRY(heartbeat.meet());
  if (handover) written = handover->result();
  return {};
}

}  // namespace lockstep::runtime
