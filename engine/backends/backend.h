// Backend: memory and kernels of one device kind. Backends know kernels and nothing of strategies.
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

// One op on fixed memory. In-place rows of the op table may have an output on an input's memory.
struct KernelSpec {
  ir::Op op{};
  std::string_view name;  // of the plan's step, for messages
  const ir::Attrs* attrs = nullptr;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  double predictedSeconds = 0;  // what the plan predicts; `timed` takes exactly this
};

// A bound kernel: run() allocates nothing, looks nothing up and cannot fail. Of a backend on a
// device it gives the device work, whose failure the device tells. NaN: an output that depends on
// an operand that is NaN is NaN, as in PyTorch: ReLU and maxima keep it. What a comparison alone
// reads does not make NaN of what it chooses (the norm below 0 that skips a step, ReLU's output in
// its gradient, how many steps a loss scale has been good for). Counts (count-correct,
// score-histogram) and finite-norm, which makes −1 of it, have none.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run() = 0;
  virtual std::int64_t workspaceBytes() const = 0;  // its own memory, for bound beside predicted
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // as in backendNames()
  virtual bool supports(ir::Op op, DType dtype) const = 0;
  virtual Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) = 0;
  // In whose memory operands lie; null: in the host's.
  virtual device::Device* device() = 0;
};

struct BackendOptions {
  int threads = 1;  // of the compute thread and its helpers together
  int device = 0;   // which of the node's
  int meeting = 0;  // how long the threads take to meet, in tens of microseconds; 0: measured
};
// What is built in, by the one list in backends.cc.
std::vector<std::string> backendNames();
// Errors: kInvalidArgument for an unknown name, listing the known; kFailedPrecondition where the
// device is absent.
Result<std::unique_ptr<Backend>> makeBackend(std::string_view name, const BackendOptions& options);

}  // namespace lockstep::backends
