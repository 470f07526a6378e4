// The backends that compute in this process, for tests that go over all of them.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cuda.h"
#include "engine/backends/hosted.h"
#include "engine/backends/onednn.h"
#include "tests/support/emulated_device.h"
#include "tests/support/sanitizers.h"

namespace lockstep::testing {

struct Named {
  std::string name;
  std::unique_ptr<backends::Backend> backend;
  bool emulated = false;
  // Whether results may depend on alignment; an emulated device's matmul does not.
  bool looksAtAddresses(ir::Op op) const {
    return emulated ? op != ir::Op::kMatmul : name == "cuda";
  }
};

// Backends that support these ops in f32 and whose device is present: "onednn" once per instruction
// set of this machine, and with two threads; "cuda" also emulated on the host.
inline std::vector<Named> computing(std::initializer_list<ir::Op> ops = {}) {
  std::vector<Named> all;
  for (const std::string& name : backends::backendNames()) {
    auto backend = backends::makeBackend(name, {});
    if (name == "timed" || (name == "cuda" && !backend.ok())) continue;
    all.push_back({name, backends::hosted(std::move(backend).value())});
  }
  if (!test::kSanitized)  // emulated threads switch stacks, which sanitizers do not follow
    all.push_back(
        {"cuda on the host", backends::hosted(backends::makeCuda(makeEmulatedDevice())), true});
  for (const auto* kernels : backends::cpu::kAll)
    if (backends::cpu::runnable(*kernels))
      all.push_back(
          {fmt::format("onednn {}", kernels->isa), backends::makeOneDnn({}, *kernels).value()});
  all.push_back({"onednn 2 threads",
                 backends::makeBackend("onednn", {.threads = 2, .barrierCost = 1}).value()});
  all.push_back({"onednn 4 threads",
                 backends::makeBackend("onednn", {.threads = 4, .barrierCost = 1}).value()});
  for (const ir::Op op : ops)
    std::erase_if(all, [op](const Named& one) { return !one.backend->supports(op, DType::kF32); });
  return all;
}

// Returns why "cuda" is not among them; "": it is.
inline std::string whyNoGpu() {
  const auto cuda = backends::makeBackend("cuda", {});
  return cuda.ok() ? "" : "not on a GPU: " + cuda.error().text();
}

}  // namespace lockstep::testing
