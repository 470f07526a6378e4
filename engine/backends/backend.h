// Backend: memory and kernels of one device kind. Independent of parallelism strategies.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/ir/ops.h"

namespace lockstep::backends {

struct Operand {
  void* data = nullptr;  // aligned to 64 bytes, except views into flat groups (element alignment)
  ir::TensorType type;
};

// One op on fixed memory. An output may alias an input where the op table permits in-place
// execution.
struct KernelSpec {
  ir::Op op{};
  std::string_view name;  // of the plan step, for messages
  const ir::Attrs* attrs = nullptr;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  double predictedSeconds =
      0;  // predicted by the plan; the `timed` backend takes exactly this long
};

// A bound kernel. run() allocates nothing, looks nothing up and cannot fail; on a device backend it
// enqueues work, whose errors the device reports.
// NaN: an output that depends on a NaN operand is NaN, as in PyTorch; ReLU and maxima propagate
// NaN. Operands that are only compared do not propagate it (the norm below 0 that skips a step,
// ReLU's output in its gradient, the count of good steps of a loss scale). Exempt: counts
// (count-correct, score-histogram), and finite-norm, which maps NaN to −1.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run() = 0;
  virtual std::int64_t workspaceBytes()
      const = 0;  // workspace, for comparing bound with predicted memory
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // as in backendNames()
  virtual bool supports(ir::Op op, DType dtype) const = 0;
  virtual Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) = 0;
  // Returns the device that holds the operands; null: host memory.
  virtual device::Device* device() = 0;
};

struct BackendOptions {
  int threads = 1;  // the compute thread and its helpers
  int device = 0;   // index among the node's devices
  // cost of a thread-team barrier in units of 10 µs; 0: measured when the first kernel is bound
  int barrierCost = 0;
};
// Returns the built-in backends, as listed in backends.cc.
std::vector<std::string> backendNames();
// Errors: kInvalidArgument for an unknown name, listing the known ones; kFailedPrecondition where
// the device is absent.
Result<std::unique_ptr<Backend>> makeBackend(std::string_view name, const BackendOptions& options);

}  // namespace lockstep::backends
