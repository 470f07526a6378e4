#include "agent/host/gpus.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/host/nvml.h"
#include "engine/base/clock.h"
#include "engine/base/threads.h"
#include "engine/specs/error_info.h"

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr milliseconds kLeast{90};           // between two readings, however many ask
constexpr Nanoseconds kHangs = 3 * kSecond;  // a reading that takes longer
constexpr seconds kIdle{30};                 // without a wish the library is given back
// until a driver that failed is tried again, twice as long each time
constexpr seconds kAgain{2};
constexpr seconds kAgainMost{60};
constexpr Nanoseconds kReopen = 60 * kSecond;  // where a GPU does not answer
constexpr milliseconds kLeave{1000};

// Readings of GPUs that were there and do not answer now.
GpuReading silent(const std::vector<run::v1::GpuSample>& before, const Message& problem) {
  GpuReading out;
  out.problem = problem;
  for (const run::v1::GpuSample& gpu : before) {
    run::v1::GpuSample& one = out.gpus.emplace_back();
    one.set_index(gpu.index());
    one.set_name(gpu.name());
    *one.mutable_problem() = specs::toText(problem);
  }
  return out;
}

GpuReading of(const Nvml& nvml, const std::vector<run::v1::GpuSample>& before) {
  GpuReading out;
  out.gpus = nvml.samples();
  out.gpuOfProcess = nvml.gpuOfProcess();
  out.driver = nvml.driver();
  const std::size_t seen = out.gpus.size();
  if (seen == 0) out.problem = message("driver {} sees no GPU", out.driver);
  for (std::size_t i = seen; i < before.size(); ++i) {
    run::v1::GpuSample& gone = out.gpus.emplace_back();
    gone.set_index(static_cast<int>(i));
    gone.set_name(before[i].name());
    *gone.mutable_problem() =
        specs::toText(message("the driver sees {} GPUs; there were {}", seen, before.size()));
  }
  return out;
}

}  // namespace

struct GpuMonitor::State {
  explicit State(std::string given) : file(std::move(given)) {}
  const std::string file;
  std::mutex mutex;
  std::condition_variable changed;
  // All below: mutex.
  bool running = false;  // there is a thread
  bool stop = false, wanted = false;
  bool missing = false;               // there is no library
  Nanoseconds begun = 0;              // of the reading under way; 0: none
  std::uint64_t asked = 0, told = 0;  // wishes, and how many the newest reading answers
  std::shared_ptr<const GpuReading> reading = std::make_shared<GpuReading>();
  // The thread's.
  XidCounts xids;
  std::vector<run::v1::GpuSample> before;  // when the driver answered last
};

GpuMonitor::GpuMonitor(std::string file) : state_(std::make_shared<State>(std::move(file))) {}

GpuMonitor::~GpuMonitor() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kLeave, [this] { return !state_->running; });
}

void GpuMonitor::begin() {
  ++state_->asked;
  state_->wanted = true;
  if (!state_->running) {
    state_->running = true;
    state_->missing = false;
    helperThread("gpus", [state = state_] { work(state); }).detach();
  }
  state_->changed.notify_all();
}

std::shared_ptr<const GpuReading> GpuMonitor::known(State& state) {
  const Nanoseconds spent = state.begun == 0 ? 0 : monotonicNow() - state.begun;
  if (spent < kHangs) return state.reading;
  return std::make_shared<GpuReading>(
      silent(state.reading->gpus,
             message("the NVIDIA driver has not answered for {} s", spent / kSecond)));
}

std::shared_ptr<const GpuReading> GpuMonitor::look(milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  begin();
  const std::uint64_t wish = state_->asked;
  state_->changed.wait_for(lock, limit, [&] { return state_->told >= wish || !state_->running; });
  return known(*state_);
}

std::shared_ptr<const GpuReading> GpuMonitor::latest() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->missing) begin();
  return known(*state_);
}

void GpuMonitor::work(const std::shared_ptr<State>& state) {
  std::unique_ptr<Nvml> nvml;
  seconds pause = kAgain;
  Nanoseconds opened = 0;
  std::unique_lock lock(state->mutex);
  while (!state->stop) {
    if (!state->changed.wait_for(lock, kIdle, [&] { return state->stop || state->wanted; })) {
      // Nobody asks: what was read grows old, and others may want to replace the driver.
      state->reading = std::make_shared<const GpuReading>();
      state->begun = monotonicNow();
      lock.unlock();
      nvml.reset();
      lock.lock();
      state->begun = 0;
      if (!state->wanted) break;
    }
    if (state->stop) break;
    state->wanted = false;
    const std::uint64_t wish = state->asked;
    state->begun = monotonicNow();
    lock.unlock();

    if (nvml != nullptr && nvml->anyProblem() && monotonicNow() - opened >= kReopen) nvml.reset();
    Status status;
    if (nvml == nullptr) {
      opened = monotonicNow();
      auto library = Nvml::open(state->file, state->xids);
      if (library.ok())
        nvml = std::move(*library);
      else
        status = library.status();
    }
    if (status.ok()) status = nvml->read();
    GpuReading reading;
    if (status.ok()) {
      reading = of(*nvml, state->before);
      state->before = reading.gpus;
      pause = kAgain;
    } else {
      nvml.reset();
      reading = silent(state->before, status.error().what);
    }

    lock.lock();
    state->begun = 0;
    state->missing = status.code() == Code::kNotFound && state->before.empty();
    state->reading = std::make_shared<const GpuReading>(std::move(reading));
    state->told = wish;
    state->changed.notify_all();
    if (state->missing) {
      if (!state->wanted) break;
    } else if (status.ok()) {
      state->changed.wait_for(lock, kLeast, [&] { return state->stop; });
    } else {
      // Whoever looks meanwhile is told what was found.
      const auto until = std::chrono::steady_clock::now() + pause;
      while (!state->stop && std::chrono::steady_clock::now() < until) {
        state->changed.wait_until(lock, until,
                                  [&] { return state->stop || state->told < state->asked; });
        state->told = state->asked;
        state->changed.notify_all();
      }
      pause = std::min<seconds>(2 * pause, kAgainMost);
    }
  }
  if (nvml != nullptr) {  // asked to stop
    lock.unlock();
    nvml.reset();
    lock.lock();
  }
  state->running = false;
  state->changed.notify_all();
}

GpuMonitor& gpuMonitor() {
  static GpuMonitor monitor([] {
    const char* const given = std::getenv("LOCKSTEP_NVML");
    return std::string(given != nullptr && *given != '\0' ? given : "libnvidia-ml.so.1");
  }());
  return monitor;
}

}  // namespace lockstep::agent
