#include "agent/worker/telemetry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "agent/base/heartbeat.h"
#include "engine/base/log.h"
#include "engine/base/threads.h"

namespace lockstep::agent {
namespace {
constexpr Nanoseconds kEventsInterval = 2 * kHeartbeat;
constexpr std::size_t kMaxFreezes = 1024;
constexpr int kMaxChunk = 4096;
constexpr float kLeastReading = 1e-4f;  // seconds; less holds up no step
}  // namespace

void FreezeWatch::slept(Nanoseconds begin, Nanoseconds end) {
  if (end - begin < kTick + kLate) return;
  freezes_.push_back({begin + kTick, end});
  if (freezes_.size() > kMaxFreezes) freezes_.pop_front();
}

Nanoseconds FreezeWatch::within(Nanoseconds begin, Nanoseconds end) const {
  Nanoseconds sum = 0;
  for (const Freeze& freeze : freezes_)
    sum += std::max<Nanoseconds>(std::min(end, freeze.end) - std::max(begin, freeze.begin), 0);
  return sum;
}

void FreezeWatch::forgetBefore(Nanoseconds time) {
  while (!freezes_.empty() && freezes_.front().end <= time) freezes_.pop_front();
}

// What was not measured in a step is NaN; a column of that alone is left out.
void StepPacker::addWatched(const runtime::StepRecord& record) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  if (!std::isnan(record.learningRate) || chunk_.learning_rate_size() > 0) {
    chunk_.mutable_learning_rate()->Resize(size() - 1, kNone);
    chunk_.add_learning_rate(record.learningRate);
  }
  chunk_.set_samples_seen(record.samplesSeen);
  chunk_.set_sample_tokens(sampleTokens_);
  if (rank_ != 0) return;  // they are the same on all ranks that have them
  if (!std::isnan(record.gradientNorm) || chunk_.gradient_norm_size() > 0) {
    chunk_.mutable_gradient_norm()->Resize(size() - 1, kNone);
    chunk_.add_gradient_norm(record.gradientNorm);
  }
  if (!std::isnan(record.updateRatio) || chunk_.update_ratio_size() > 0) {
    chunk_.mutable_update_ratio()->Resize(size() - 1, kNone);
    chunk_.add_update_ratio(record.updateRatio);
  }
}

bool StepPacker::add(const runtime::StepRecord& record, const FreezeWatch& freezes) {
  const bool follows = next_ < 0 || record.step == next_;
  if (!empty() && !follows) return false;
  if (empty()) {
    chunk_.set_rank(rank_);
    chunk_.set_first_step(record.step);
    if (!follows && record.step > next_)
      chunk_.set_dropped(static_cast<std::uint64_t>(record.step - next_));
    lastBegin_ = 0;
  }
  chunk_.set_epoch(record.epoch);
  chunk_.add_begin_ns(record.begin - lastBegin_);
  lastBegin_ = record.begin;
  chunk_.add_duration_ns(record.end - record.begin);
  chunk_.add_loss(record.loss);
  chunk_.add_metric(static_cast<float>(record.metric));
  chunk_.add_data(record.data);
  chunk_.add_forward(record.forward);
  chunk_.add_backward(record.backward);
  chunk_.add_communication(record.communication);
  chunk_.add_optimizer(record.optimizer);
  chunk_.add_arrival_ns(record.collectiveBegin > 0 ? record.collectiveBegin - record.begin : 0);
  chunk_.add_samples(static_cast<std::int32_t>(record.samples));
  const Nanoseconds frozen = freezes.within(record.begin, record.end);
  if (frozen > 0 || chunk_.frozen_size() > 0) {
    const Nanoseconds arrived =
        record.collectiveBegin > 0 ? freezes.within(record.collectiveBegin, record.end) : 0;
    chunk_.mutable_frozen()->Resize(size() - 1, 0);
    chunk_.mutable_frozen_arrived()->Resize(size() - 1, 0);
    chunk_.add_frozen(static_cast<float>(frozen) * 1e-9f);
    chunk_.add_frozen_arrived(static_cast<float>(arrived) * 1e-9f);
  }
  if (record.staleness > 0 || chunk_.staleness_size() > 0) {
    chunk_.mutable_staleness()->Resize(size() - 1, 0);
    chunk_.add_staleness(record.staleness);
  }
  const float reading = record.reading < kLeastReading ? 0 : record.reading;
  if (reading > 0 || chunk_.reading_size() > 0) {
    chunk_.mutable_reading()->Resize(size() - 1, 0);
    chunk_.add_reading(reading);
  }
  if (record.lossScale > 0) chunk_.add_loss_scale(record.lossScale);
  if (record.skipped > 0 || chunk_.skipped_size() > 0) {
    chunk_.mutable_skipped()->Resize(size() - 1, 0);
    chunk_.add_skipped(record.skipped);
  }
  addWatched(record);
  next_ = record.step + 1;
  return true;
}

run::v1::StepChunk StepPacker::take() {
  run::v1::StepChunk out;
  out.Swap(&chunk_);
  return out;
}

void writeEvents(const std::vector<plan::Event>& events, run::v1::EventChunk* chunk) {
  if (events.empty()) return;
  chunk->set_rank(events.front().rank);
  chunk->set_step(events.front().step);
  for (const plan::Event& event : events) {
    chunk->add_plan_step(event.planStep);
    chunk->add_kind(static_cast<int>(event.kind));
    chunk->add_phase(static_cast<int>(event.phase));
    chunk->add_begin_ns(event.begin);
    chunk->add_end_ns(event.end);
    chunk->add_bytes(event.bytes);
  }
}

Telemetry::Telemetry(int rank, BlockingChannel& channel, std::function<void(std::int64_t)> onReady,
                     StallWatch stalls, int sampleTokens, const runtime::StepWindow* profiled)
    : rank_(rank),
      channel_(channel),
      ready_(std::move(onReady)),
      profiled_(profiled),
      stalls_(stalls),
      packer_(rank, sampleTokens),
      thread_(helperThread("telemetry", [this] { work(); })) {}

Telemetry::~Telemetry() { finish(); }

void Telemetry::finish() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Telemetry::enqueue(node::v1::FromWorker message) {
  std::lock_guard lock(mutex_);
  others_.push_back(std::move(message));
}

void Telemetry::onEvents(const std::vector<plan::Event>& events) {
  if (events.empty()) return;
  if (profiled_ != nullptr && profiled_->has(events.front().step)) {
    node::v1::FromWorker message;
    writeEvents(events, message.mutable_events());
    return enqueue(std::move(message));
  }
  sampled_.put(events);
}

void Telemetry::Slot::put(const std::vector<plan::Event>& step) {
  if (step.empty() || full.load(std::memory_order_acquire)) return;
  events.assign(step.begin(), step.end());
  full.store(true, std::memory_order_release);
}

void Telemetry::sendEvents(Slot& slot, bool slow) {
  if (!slot.full.load(std::memory_order_acquire)) return;
  node::v1::FromWorker message;
  writeEvents(slot.events, message.mutable_events());
  message.mutable_events()->set_slow(slow);
  slot.full.store(false, std::memory_order_release);
  channel_.send(message);
}

void Telemetry::onEpoch(const runtime::EpochRecord& record) {
  node::v1::FromWorker message;
  run::v1::EpochInfo* epoch = message.mutable_epoch();
  epoch->set_epoch(record.epoch);
  epoch->set_step(record.step);
  epoch->set_train_loss(record.trainLoss);
  epoch->set_eval_loss(record.evalLoss);
  epoch->set_eval_metric(record.evalMetric);
  enqueue(std::move(message));
}

void Telemetry::onCheckpoint(std::int64_t step, const std::string& folder) {
  node::v1::FromWorker message;
  message.mutable_checkpoint()->set_step(step);
  message.mutable_checkpoint()->set_folder(folder);
  enqueue(std::move(message));
}

void Telemetry::flush() {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = ++flushAsked_;
  changed_.notify_all();
  // A supervisor that is frozen does not hold up the training.
  changed_.wait_for(lock, std::chrono::seconds(1), [&] { return flushed_ >= mine || stop_; });
}

void Telemetry::sendSteps() {
  auto send = [this] {
    node::v1::FromWorker message;
    *message.mutable_steps() = packer_.take();
    channel_.send(message);
  };
  runtime::StepRecord record;
  while (ring_->pop(record)) {
    // An epoch's record stands between its last step and the next one's first.
    if (record.epoch != epoch_) {
      if (!packer_.empty()) send();
      sendOthers();
      epoch_ = record.epoch;
    }
    if (record.skipped > 0 && rank_ == 0)
      logWarning("step {} updates nothing: its gradients are too large for fp16 with loss scale {}",
                 record.step, record.lossScale);
    if (!packer_.add(record, freezes_)) {
      send();
      packer_.add(record, freezes_);
    }
    freezes_.forgetBefore(record.end);
    if (packer_.size() >= kMaxChunk) send();
  }
  if (!packer_.empty()) send();
}

void Telemetry::takeOthers() {
  for (node::v1::FromWorker& message : others_) taken_.push_back(std::move(message));
  others_.clear();
}

void Telemetry::sendOthers() {
  {
    std::lock_guard lock(mutex_);
    takeOthers();
  }
  for (const node::v1::FromWorker& message : taken_) channel_.send(message);
  taken_.clear();
}

void Telemetry::watchStalls() {
  const Nanoseconds now = monotonicNow();
  const auto news = stalls_.look(now, freezes_.within(std::exchange(watched_, now), now));
  if (!news) return;
  node::v1::FromWorker message;
  *message.mutable_stalled() = *news;
  channel_.send(message);
}

void Telemetry::work() {
  Nanoseconds eventsDue = 0, due = monotonicNow();
  for (;;) {
    watchStalls();
    bool stop = false;
    std::uint64_t flush = 0;
    {
      std::unique_lock lock(mutex_);
      const Nanoseconds begin = monotonicNow();
      changed_.wait_for(lock, std::chrono::nanoseconds(FreezeWatch::kTick),
                        [&] { return stop_ || flushAsked_ > flushed_; });
      const Nanoseconds now = monotonicNow();
      freezes_.slept(begin, now);
      const bool early = now < due && freezes_.empty();
      flush = flushAsked_;
      if (!stop_ && flush == flushed_ && (early || (ring_->empty() && others_.empty()))) continue;
      due = nextMultiple(now, kHeartbeat);
      takeOthers();
      stop = stop_;
    }
    // The sample was taken after all steps that are in the ring now or were before.
    sendSteps();
    for (const node::v1::FromWorker& message : taken_) channel_.send(message);
    taken_.clear();
    {
      const std::lock_guard lock(mutex_);
      flushed_ = flush;
      changed_.notify_all();
    }
    if (const Nanoseconds now = monotonicNow(); stop || now >= eventsDue) {
      sendEvents(sampled_, false);
      sendEvents(slow_, true);
      eventsDue = nextMultiple(now, kEventsInterval);
    }
    if (stop) return;
  }
}

}  // namespace lockstep::agent
