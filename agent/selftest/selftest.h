// Self-test of a node's backends: every kernel against the reference backend, the speed of matmuls
// and copies, and a training step of two ranks against one rank's. A backend that fails is a
// finding, not an error. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backends/backend.h"

namespace lockstep::agent {

// The result of all cases of an op.
struct KernelFinding {
  std::string op;
  int cases = 0;
  double error = 0;   // the greatest, relative to the largest magnitude of its output
  std::string where;  // in which case that is
  std::string why;    // "": it is right
};
struct KernelFindings {
  std::vector<KernelFinding> ops;   // in the order of the op table; of those that the backend has
  std::vector<std::string> absent;  // computed by no kernel of the backend
  Status failed;                    // what the device said before it was asked for nothing more
};
KernelFindings testKernels(std::unique_ptr<backends::Backend> backend);

// Data sheet figures of a device by its driver name; 0: unknown. Matmul rates are dense, with f32
// accumulation.
struct DevicePeaks {
  double bf16 = 0, f16 = 0, f32 = 0;  // FLOP/s
  double memory = 0;                  // bytes/s
};
DevicePeaks knownPeaks(const std::string& name);
// PCIe bandwidth in one direction, before protocol overhead; 0: unknown.
double pcieBytesPerSecond(int generation, int lanes);

struct SpeedFinding {
  std::string what;  // "product of 8192³ in bf16", "copy in memory"
  bool isProduct = false;
  double perSecond = 0;  // FLOP, or bytes: of a copy in memory read and written
  double peak = 0;       // 0: not known
  std::string why;       // "": it was measured
};
struct SpeedOptions {
  std::int64_t side = 1024;  // of the products' matrices
  std::int64_t copyBytes = 256 << 20;
  double seconds = 0.3;  // of each
  DevicePeaks peaks;
  double pcie = 0;  // bytes/s of the link
};
// For backends with a device, copies to and from the host are included.
std::vector<SpeedFinding> measureSpeeds(backends::Backend& backend, const SpeedOptions& options);

struct StepFinding {
  struct Check {
    std::string name;  // "gradients"
    double difference = 0, limit = 0;
    bool holds = false;
  };
  std::vector<Check> checks;
  std::string why;  // "": it holds
};
// Runs three steps of a small GPT on two ranks, as threads, and on one. `open` opens a rank's
// backend.
StepFinding testTwoRanks(
    const std::function<Result<std::unique_ptr<backends::Backend>>(int rank)>& open);

}  // namespace lockstep::agent
