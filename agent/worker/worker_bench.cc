// Trains for some seconds, and tells how fast.
#include <algorithm>
#include <map>
#include <memory>

#include "agent/host/speed.h"
#include "agent/worker/made_up_data.h"
#include "agent/worker/rank_resources.h"
#include "agent/worker/telemetry.h"
#include "agent/worker/worker_link.h"
#include "engine/backends/backend.h"
#include "engine/base/statistics.h"
#include "engine/runtime/trainer.h"

namespace lockstep::agent {
namespace {

class BenchObserver final : public runtime::TrainerObserver {
 public:
  BenchObserver(const plan::Plan& plan, int rank, WorkerLink& link, double seconds)
      : link_(link), end_(static_cast<Nanoseconds>(seconds * 1e9)) {
    std::map<std::string_view, std::size_t> first;  // a program's first operation
    for (const plan::ScheduleEntry& entry : plan.entriesOf(rank)) {
      const plan::Body& body = *plan.find(entry.program, rank);
      const auto [at, isNew] = first.emplace(entry.program, names_.size());
      for (std::size_t i = 0; i < body.steps.size(); ++i) {
        if (isNew) names_.push_back(body.steps[i].name);
        operation_.push_back(at->second + i);
      }
    }
    sum_.resize(names_.size());
    count_.resize(names_.size());
    windows_.reserve(1 << 14);
  }
  void onReady(std::int64_t) override { link_.awaitStart(); }
  void onStep(const runtime::StepRecord& record) override {
    if (start_ == 0)
      start_ = windowBegin_ = record.end;  // the first step is warm-up
    else
      samples_ += record.samples;
    constexpr Nanoseconds kWindow = 250'000'000;
    stepEnd_ = record.end;
    if (stepEnd_ - windowBegin_ >= kWindow) {
      if (windows_.size() < windows_.capacity()) windows_.push_back(rateOfWindow());
      windowBegin_ = record.end;
      samples_ = 0;
    }
    if (record.end - start_ > end_ && timed_) link_.askStop();
  }
  void onEvents(const std::vector<plan::Event>& events) override {
    timed_ = true;
    last_ = events;
    for (const plan::Event& event : events) {
      if (event.planStep < 0) continue;
      const std::size_t at = operation_[static_cast<std::size_t>(event.planStep)];
      sum_[at] += static_cast<double>(event.end - event.begin) * 1e-6;
      count_[at] += 1;
    }
  }
  void onEpoch(const runtime::EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}

  void reply(node::v1::BenchReply& out) const {
    // The first window is still warming up where there are others.
    std::vector<double> windows(windows_.begin() + (windows_.size() > 2 ? 1 : 0), windows_.end());
    if (windows.empty() && samples_ > 0) windows.push_back(rateOfWindow());  // a short measurement
    for (double one : windows) out.add_windows(one);
    out.set_samples_per_second(median(windows));
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (count_[i] == 0) continue;
      auto* op = out.add_ops();
      op->set_name(names_[i]);
      op->set_milliseconds(sum_[i] / count_[i]);
    }
    writeEvents(last_, out.add_steps());
  }

 private:
  // Samples per second, up to the last step.
  double rateOfWindow() const {
    return static_cast<double>(samples_) / (static_cast<double>(stepEnd_ - windowBegin_) * 1e-9);
  }

  WorkerLink& link_;
  Nanoseconds end_, start_ = 0, windowBegin_ = 0, stepEnd_ = 0;
  bool timed_ = false;                  // the operations of a step
  std::vector<plan::Event> last_;       // of them
  std::vector<std::size_t> operation_;  // by plan step
  std::int64_t samples_ = 0;
  std::vector<double> windows_;
  std::vector<std::string> names_;
  std::vector<double> sum_, count_;
};

// Measures this machine's limits, which results are compared with.
Status measureLimits(backends::Backend& backend, node::v1::BenchReply& out) {
  constexpr std::int64_t kSide = 1024, kArray = 64 << 20;  // bytes
  constexpr double kSeconds = 0.3;
  LOCKSTEP_ASSIGN(const RunTime product, timeProduct(backend, DType::kF32, kSide, kSeconds));
  LOCKSTEP_ASSIGN(const RunTime sum, timeMemory(backend, kMemoryAdd, kArray, kSeconds));
  out.set_flops_per_second(2.0 * kSide * kSide * kSide / product.least);
  out.set_bytes_per_second(static_cast<double>(kMemoryAdd.arrays * kArray) / sum.least);
  return {};
}

}  // namespace

Status runBench(const node::v1::WorkerStart& start, WorkerLink& link) {
  LOCKSTEP_ASSIGN(plan::Plan plan, readPlan(start));
  plan.uncompressedWarmupSteps = 0;  // the first steps are not what a run is made of
  LOCKSTEP_ASSIGN(const auto data, openData(start, true));
  const auto& training = start.spec().training();
  LOCKSTEP_ASSIGN(const RankResources resources, RankResources::open(start, plan, link));
  constexpr std::int64_t kMostSamples = 4'000'000;
  const Repeated repeated(
      *data, std::max<std::int64_t>(1, kMostSamples / std::max<std::int64_t>(1, data->size())));
  LOCKSTEP_ASSIGN(const MadeUp evaluation, madeUpData(plan, start.rank(), 1));
  runtime::TrainerOptions options;
  options.nonFinite = runtime::NonFinite::kTaken;  // it is of made-up data
  options.epochs = 1 << 20;
  options.seed = training.seed();
  options.shuffle = !training.no_shuffle();
  options.augment = augmentOf(start.spec().data());
  options.schedule.peak = training.optimizer().learning_rate();
  options.eventsEvery = 8;
  BenchObserver observer(plan, start.rank(), link, start.seconds());
  LOCKSTEP_TRY(runtime::train(plan, start.rank(), options, repeated, evaluation, *resources.backend,
                              resources.groups, link.stopAsked(), observer)
                   .status());
  node::v1::FromWorker message;
  observer.reply(*message.mutable_benched());
  if (start.rank() == 0)
    LOCKSTEP_TRY(measureLimits(*resources.backend, *message.mutable_benched()));
  link.channel().send(message);
  return {};
}

}  // namespace lockstep::agent
