#include "engine/backends/timed.h"

#include <time.h>

#include <cerrno>

#include "engine/backends/kernel.h"
#include "engine/base/clock.h"

namespace lockstep::backends {
namespace {

constexpr Nanoseconds kLeast = 1'000;   // shorter times are not waited for
constexpr Nanoseconds kSpin = 100'000;  // a sleep may wake this late; the rest is spun

void take(Nanoseconds duration) {
  if (duration < kLeast) return;
  const Nanoseconds end = monotonicNow() + duration;
  if (duration > kSpin) {
    const Nanoseconds until = end - kSpin;
    timespec time{static_cast<time_t>(until / 1'000'000'000),
                  static_cast<long>(until % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
    }
  }
  while (monotonicNow() < end) __builtin_ia32_pause();
}

class Timed final : public Backend {
 public:
  std::string_view name() const override { return "timed"; }
  bool supports(ir::Op op, DType) const override { return hasKernel(op); }
  Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) override {
    if (!hasKernel(spec.op)) return unsupported(name(), spec);
    const auto duration = static_cast<Nanoseconds>(spec.predictedSeconds * 1e9);
    return makeKernel([duration] { take(duration); });
  }
  device::Device* device() override { return nullptr; }
};

}  // namespace

std::unique_ptr<Backend> makeTimed() { return std::make_unique<Timed>(); }

}  // namespace lockstep::backends
