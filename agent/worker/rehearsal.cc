#include "agent/worker/rehearsal.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "agent/worker/made_up_data.h"
#include "agent/worker/telemetry.h"
#include "engine/base/statistics.h"

namespace lockstep::agent {
namespace {

// Keeps what a trainer says of its steps, and tells it as a run does.
class Recorder final : public runtime::TrainerObserver {
 public:
  Recorder(int rank, BlockingChannel& channel) : telemetry_(rank, channel, [](std::int64_t) {}) {
    steps.reserve(1 << 20);
  }
  void onReady(std::int64_t) override {}
  void onStep(const runtime::StepRecord& record) override {
    if (steps.size() < steps.capacity()) steps.push_back(record);
    telemetry_.onStep(record);
    if (afterStep) afterStep();
  }
  void onEvents(const std::vector<plan::Event>& events) override { telemetry_.onEvents(events); }
  void onEpoch(const runtime::EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}
  void finish() { telemetry_.finish(); }
  std::vector<runtime::StepRecord> steps;
  std::function<void()> afterStep;

 private:
  Telemetry telemetry_;
};

// Sets `stop` when the time is over.
class Deadline {
 public:
  Deadline(double seconds, std::atomic<bool>& stop)
      : thread_([seconds, &stop](const std::stop_token& ended) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any().wait_for(
              lock, ended, std::chrono::duration<double>(seconds), [] { return false; });
          stop = true;
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

Result<std::vector<runtime::StepRecord>> rehearse(const plan::Plan& plan,
                                                  const node::v1::WorkerStart& start,
                                                  WorkerLink& link, backends::Backend& backend,
                                                  const runtime::Groups& groups,
                                                  const data::Dataset* table, double seconds,
                                                  std::int64_t mostSteps) {
  constexpr std::size_t kLeastSteps = 4;          // of which the first is left out
  constexpr std::int64_t kMostSamples = 1 << 18;  // an epoch, which a rehearsal seldom reaches
  const int rank = start.rank();
  const std::int64_t samples = std::max(plan.globalBatch * 8, kMostSamples);
  LOCKSTEP_ASSIGN(const MadeUp madeUp, madeUpData(plan, rank, samples, kManyBytes));
  const Repeated data(table != nullptr ? *table : madeUp,
                      table != nullptr ? samples / table->size() + 1 : 1);
  LOCKSTEP_ASSIGN(const MadeUp tiny, madeUpData(plan, rank, plan.globalBatch));
  runtime::TrainerOptions options;
  options.nonFinite = runtime::NonFinite::kTaken;  // it is of made-up data
  options.epochs = 1 << 20;
  options.maxSteps = mostSteps;
  options.schedule.peak = 1e-4;
  options.eventsEvery = start.events_every();
  std::atomic<bool> stop{false};
  Recorder recorder(rank, link.channel());
  std::optional<Deadline> deadline;
  if (rank == 0)
    recorder.afterStep = [&] {
      if (!deadline) deadline.emplace(10 * seconds, stop);
      const auto& steps = recorder.steps;
      const double spent = static_cast<double>(steps.back().end - steps.front().end) * 1e-9;
      if (spent > seconds && steps.size() > kLeastSteps) stop = true;
    };
  LOCKSTEP_TRY(
      runtime::train(plan, rank, options, data, tiny, backend, groups, stop, recorder).status());
  recorder.finish();
  auto& steps = recorder.steps;
  // the first, where there is another
  const std::size_t few = std::min<std::size_t>(steps.size(), 2) / 2;
  const std::size_t warmUp = std::max(few, steps.size() > 40 ? steps.size() / 8 : steps.size() / 3);
  steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(warmUp));
  return std::move(steps);
}

double medianDuration(const std::vector<runtime::StepRecord>& steps) {
  std::vector<double> durations;
  for (const auto& step : steps)
    durations.push_back(static_cast<double>(step.end - step.begin) * 1e-9);
  return median(durations);
}

}  // namespace lockstep::agent
