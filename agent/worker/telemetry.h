// Telemetry of a worker: from the step loop, which never blocks on it, to the control channel.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/channel.h"
#include "agent/worker/stall_watch.h"
#include "engine/runtime/trainer.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

// Single-producer, single-consumer, lock-free ring. Slot i mod size belongs to the producer while
// head - tail < size, and to the consumer from the release of head until that of tail.
class StepRing {
 public:
  static constexpr std::size_t kSize = 8192;
  bool push(const runtime::StepRecord& record) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) == kSize) return false;
    slots_[head % kSize] = record;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  bool empty() const {
    return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire);
  }
  bool pop(runtime::StepRecord& record) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return false;
    record = slots_[tail % kSize];
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

 private:
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::array<runtime::StepRecord, kSize> slots_;
};

// Detects times in which no thread of this process ran (stopped, throttled by a quota, machine
// suspended), by a thread that sleeps for kTick repeatedly and wakes late.
class FreezeWatch {
 public:
  static constexpr Nanoseconds kTick = 10'000'000;
  static constexpr Nanoseconds kLate = 20'000'000;  // less is a scheduler's ordinary delay
  void slept(Nanoseconds begin, Nanoseconds end);
  Nanoseconds within(Nanoseconds begin, Nanoseconds end) const;
  void forgetBefore(Nanoseconds time);
  bool empty() const { return freezes_.empty(); }

 private:
  struct Freeze {
    Nanoseconds begin = 0, end = 0;
  };
  std::deque<Freeze> freezes_;  // in order
};

// Packs consecutive steps as columns. A gap, left by a full ring, starts a new chunk with the
// number of steps missing before it.
class StepPacker {
 public:
  // `sampleTokens`: of a sample of text; 0: of other data.
  explicit StepPacker(int rank, int sampleTokens = 0) : rank_(rank), sampleTokens_(sampleTokens) {}
  // Returns false if the step does not follow the last one; call take(), then add it again.
  bool add(const runtime::StepRecord& record, const FreezeWatch& freezes = {});
  bool empty() const { return chunk_.loss_size() == 0; }
  int size() const { return chunk_.loss_size(); }
  run::v1::StepChunk take();

 private:
  void addWatched(const runtime::StepRecord& record);

  int rank_, sampleTokens_;
  std::int64_t next_ = -1;  // the step expected; -1 before the first
  Nanoseconds lastBegin_ = 0;
  run::v1::StepChunk chunk_;
};

// Converts the events of one step of one rank for storage and transport.
void writeEvents(const std::vector<plan::Event>& events, run::v1::EventChunk* chunk);

// Observes a trainer and sends its steps on each heartbeat. A step in which the process was frozen
// is sent as soon as it ends. Sent with all their events are four sampled steps a second, four slow
// ones, and all profiled ones.
class Telemetry final : public runtime::TrainerObserver {
 public:
  // `onReady` is called on the trainer's thread and may block. `sampleTokens` as of StepPacker.
  Telemetry(int rank, BlockingChannel& channel, std::function<void(std::int64_t)> onReady,
            StallWatch stalls = {}, int sampleTokens = 0,
            const runtime::StepWindow* profiled = nullptr);
  ~Telemetry() override;
  void finish();  // sends what is left and ends the thread

  void onReady(std::int64_t boundBytes) override { ready_(boundBytes); }
  void onStep(const runtime::StepRecord& record) override { (void)ring_->push(record); }
  void onEvents(const std::vector<plan::Event>& events) override;
  void onSlowStep(const std::vector<plan::Event>& events) override { slow_.put(events); }
  void onEpoch(const runtime::EpochRecord& record) override;
  void onCheckpoint(std::int64_t step, const std::string& folder) override;
  void flush() override;

 private:
  // Hands over the events of one step: owned by the trainer while empty, by the thread while full.
  struct Slot {
    std::vector<plan::Event> events;
    std::atomic<bool> full{false};
    void put(const std::vector<plan::Event>& step);
  };
  void work();
  void sendSteps();
  void sendEvents(Slot& slot, bool slow);
  void takeOthers();  // needs mutex_
  void sendOthers();
  void watchStalls();
  void enqueue(node::v1::FromWorker message);

  int rank_;
  BlockingChannel& channel_;
  std::function<void(std::int64_t)> ready_;
  std::unique_ptr<StepRing> ring_ = std::make_unique<StepRing>();
  // One each: ranks are slow in steps of their own, and tell the sampled ones together.
  Slot sampled_, slow_;
  const runtime::StepWindow* profiled_;
  FreezeWatch freezes_;
  StallWatch stalls_;
  Nanoseconds watched_ = 0;  // when stalls_ was asked last
  StepPacker packer_;
  std::int64_t epoch_ = 0;                  // of the last step packed
  std::deque<node::v1::FromWorker> taken_;  // from others_, to be sent next
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<node::v1::FromWorker> others_;     // mutex_
  bool stop_ = false;                           // mutex_
  std::uint64_t flushAsked_ = 0, flushed_ = 0;  // mutex_; flushes asked for, and done
  std::thread thread_;
};

}  // namespace lockstep::agent
