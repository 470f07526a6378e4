#include "engine/cluster/assumed.h"

namespace lockstep::cluster {
namespace {

// NVIDIA A100 Tensor Core GPU data sheet (2021), A100 80GB SXM: dense matmul without sparsity.
constexpr double kFp32 = 19.5e12, kTf32 = 156e12, kHalf = 312e12;
constexpr double kMemory = 2.039e12;  // bytes per second
constexpr double kNvlink = 300e9;     // per direction, 600 GB/s in total
// DGX A100 data sheet: one 200 Gbit/s HDR adapter per GPU
constexpr double kInfiniband = 25e9;
constexpr std::int64_t kMemoryBytes = 80'000'000'000;
constexpr double kKernelSeconds = 3e-6;  // launch overhead in a captured graph

}  // namespace

DeviceRates assumedRates(std::string_view deviceKind, std::string_view precision) {
  if (deviceKind != "cuda") return {};
  const double flops = precision == "bf16" || precision == "fp16" ? kHalf
                       : precision == "tf32"                      ? kTf32
                                                                  : kFp32;
  return {kReachedShare * flops, kReachedShare * kMemory, kKernelSeconds, kMemoryBytes};
}

Link assumedLink(std::string_view comm, bool betweenHosts) {
  if (comm == "gloo") return {"gloo", 1e-4, 2e9};  // loopback, or a 16 Gbit/s network
  if (comm == "nccl") return {"nccl", 2e-5, kReachedShare * (betweenHosts ? kInfiniband : kNvlink)};
  return {std::string(comm), 5e-6, 5e9};  // host memory
}

}  // namespace lockstep::cluster
