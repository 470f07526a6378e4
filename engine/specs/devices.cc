#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/specs/field.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {

using spec::v1::NodeSpec;
using spec::v1::TrainingSpec;

namespace {

cluster::DeviceFigures figuresOf(const spec::v1::DeviceSpec& device) {
  constexpr double kGibi = 1 << 30;
  return {device.model(), device.tflops() * 1e12, device.memory_gb_per_s() * 1e9,
          std::llround(device.memory_gib() * kGibi), std::llround(device.reserved_gib() * kGibi)};
}

}  // namespace

int deviceCount(const NodeSpec& node) {
  std::int64_t count = 0;
  for (const auto& device : node.devices()) count += std::max(1, device.count());
  return static_cast<int>(
      std::clamp<std::int64_t>(count, 1, std::numeric_limits<std::int32_t>::max()));
}

std::string backendOn(std::string_view deviceKind, const TrainingSpec& training) {
  if (!training.backend().empty()) return training.backend();
  if (deviceKind == "cuda") return "cuda";
  return training.precision() == "fp64" ? "reference" : "onednn";
}

std::vector<RankDevice> rankDevices(const NodeSpec& node, const TrainingSpec& training) {
  std::vector<RankDevice> out;
  std::array<int, 2> numbers{};  // next index of cpu and cuda devices
  const auto add = [&](const spec::v1::DeviceSpec& device) {
    RankDevice one;
    one.backend = backendOn(device.kind(), training);
    const bool onGpu = one.backend == "cuda";
    one.kind = onGpu ? "cuda" : "cpu";
    one.threads = std::max(1, device.threads());
    one.figures = figuresOf(device);
    const int count = std::max(1, device.count()),
              devices = onGpu && device.gpus() > 0 ? std::min(device.gpus(), count) : count;
    int& number = numbers[onGpu ? 1 : 0];
    for (int i = 0; i < count; ++i) {
      one.number = number + i * devices / count;
      out.push_back(one);
    }
    number += devices;
  };
  if (node.devices().empty()) add({});
  for (const auto& device : node.devices()) add(device);
  return out;
}

bool allOnGpus(const spec::v1::ClusterSpec& cluster, const spec::v1::RunSpec& run) {
  for (const NodeSpec* node : nodesWithRanks(cluster, run.strategy()))
    for (const RankDevice& rank : rankDevices(*node, run.training()))
      if (rank.kind != "cuda") return false;
  return true;
}

Status checkDevices(const spec::v1::ClusterSpec& cluster, const TrainingSpec& training) {
  if (training.precision() != "fp64") return {};
  for (int n = 0; n < cluster.nodes_size(); ++n)
    for (int d = 0; d < cluster.nodes(n).devices_size(); ++d)
      if (backendOn(cluster.nodes(n).devices(d).kind(), training) == "cuda")
        return wrongField(fmt::format("nodes[{}].devices[{}].kind", n, d),
                          "kind is cuda, which has no fp64; expected cpu, or training.precision "
                          "fp32, tf32, bf16 or fp16",
                          {{{"training.precision", "fp32"}}});
  return {};
}

}  // namespace lockstep::specs
