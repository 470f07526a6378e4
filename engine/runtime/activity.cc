#include "engine/runtime/activity.h"

#include <algorithm>
#include <numeric>

namespace lockstep::runtime {
namespace {

// The stop that is under way or was done last.
const DeviceCourse::Stop& stopAt(const DeviceCourse& course, std::uint64_t count) {
  return course.stops[std::min<std::size_t>((count + 1) / 2, course.stops.size() - 1)];
}

}  // namespace

std::vector<int> coordinatesOf(const plan::Peers& peers) {
  std::vector<int> out(static_cast<std::size_t>(std::max(peers.count, 0)));
  std::iota(out.begin(), out.end(), peers.first);
  return out;
}

Activity::OnDevice::OnDevice(Activity& activity, const DeviceCourse& course,
                             DeviceProgress& progress, std::int64_t trainingStep)
    : activity_(activity), course_(course), progress_(progress), trainingStep_(trainingStep) {
  const std::lock_guard lock(activity_.mutex_);
  progress_.set(0);
  activity_.onDevice_ = this;
  activity_.leave(kTraining);
}

// Adds what the device has noted, so that numbers of changes and of collectives only grow.
Activity::OnDevice::~OnDevice() {
  const std::lock_guard lock(activity_.mutex_);
  const std::uint64_t count = progress_.count();
  activity_.change(kTraining, 1 + count);
  activity_.collectives_.fetch_add(stopAt(course_, count).collectives, std::memory_order_relaxed);
  // sessions of a server, each on a thread, share one
  if (activity_.onDevice_ == this) activity_.onDevice_ = nullptr;
}

void Activity::OnDevice::setBusy(bool busy) {
  busy_.store(busy, std::memory_order_relaxed);
  activity_.change(kTraining, 1);
}

Activity::Position Activity::position() const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t count = onDevice_ != nullptr ? onDevice_->progress_.count() : 0;
  Position out;
  out.changes = count;
  for (const Slot& slot : slots_) out.changes += slot.changes.load(std::memory_order_relaxed);
  out.collectives = collectives_.load(std::memory_order_relaxed);
  if (const plan::Step* step = slots_[kTraining].step.load(std::memory_order_relaxed))
    placeOnHost(*step, out);
  else if (onDevice_ != nullptr)
    placeOnDevice(count, out);
  return out;
}

// A thread that waits for an asynchronous collective waits for those before it too; where they have
// completed it does not wait, but hangs itself.
void Activity::placeOnHost(const plan::Step& step, Position& out) const {
  const plan::Step* const behind = slots_[kCommunication].step.load(std::memory_order_relaxed);
  const bool isAsynchronous = step.stream != plan::kComputeStream;
  out.waits = step.kind == plan::StepKind::kCollective && (!isAsynchronous || behind != nullptr);
  out.step = out.waits && behind != nullptr ? behind : &step;
  out.trainingStep = slots_[kTraining].trainingStep.load(std::memory_order_relaxed);
  if (out.waits) out.peers = coordinatesOf(plan::peersOf(*out.step));
}

// While the training thread is busy, the device may have nothing more to compute.
void Activity::placeOnDevice(std::uint64_t count, Position& out) const {
  const DeviceCourse::Stop& stop = stopAt(onDevice_->course_, count);
  out.collectives += stop.collectives;
  out.waits = count % 2 == 1;
  if (!out.waits && onDevice_->busy_.load(std::memory_order_relaxed)) return;
  out.trainingStep = onDevice_->trainingStep_;
  out.step = out.waits ? stop.step : stop.next;
  out.last = out.waits ? nullptr : stop.last;
  if (out.waits) out.peers = stop.peers;
}

}  // namespace lockstep::runtime
