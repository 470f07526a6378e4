#include <fmt/format.h>

#include <string_view>

#include "agent/host/speed.h"
#include "agent/selftest/selftest.h"

namespace lockstep::agent {
namespace {

struct NamedPeaks {
  std::string_view name;  // what the driver's name has in it; the first that fits
  DevicePeaks peaks;
};
// From NVIDIA's data sheets of these products.
constexpr double kTera = 1e12, kGiga = 1e9;
constexpr NamedPeaks kPeaks[] = {
    {"B200", {2250 * kTera, 2250 * kTera, 75 * kTera, 8000 * kGiga}},
    {"GH200 144G", {989.4 * kTera, 989.4 * kTera, 66.9 * kTera, 4900 * kGiga}},
    {"GH200", {989.4 * kTera, 989.4 * kTera, 66.9 * kTera, 4000 * kGiga}},
    {"H200 NVL", {835.5 * kTera, 835.5 * kTera, 60 * kTera, 4800 * kGiga}},
    {"H200", {989.4 * kTera, 989.4 * kTera, 66.9 * kTera, 4800 * kGiga}},
    {"H100 NVL", {835.5 * kTera, 835.5 * kTera, 60 * kTera, 3900 * kGiga}},
    {"H100 PCIe", {756 * kTera, 756 * kTera, 51.2 * kTera, 2000 * kGiga}},
    {"H100 80GB HBM3", {989.4 * kTera, 989.4 * kTera, 66.9 * kTera, 3350 * kGiga}},
    {"A100-SXM4-40GB", {312 * kTera, 312 * kTera, 19.5 * kTera, 1555 * kGiga}},
    {"A100-SXM4-80GB", {312 * kTera, 312 * kTera, 19.5 * kTera, 2039 * kGiga}},
    {"A100-PCIE-40GB", {312 * kTera, 312 * kTera, 19.5 * kTera, 1555 * kGiga}},
    {"A100 80GB PCIe", {312 * kTera, 312 * kTera, 19.5 * kTera, 1935 * kGiga}},
    {"A30", {165 * kTera, 165 * kTera, 10.3 * kTera, 933 * kGiga}},
    {"A40", {149.7 * kTera, 149.7 * kTera, 37.4 * kTera, 696 * kGiga}},
    {"A10G", {0, 0, 0, 600 * kGiga}},
    {"A10", {125 * kTera, 125 * kTera, 31.2 * kTera, 600 * kGiga}},
    {"L40S", {362 * kTera, 362 * kTera, 91.6 * kTera, 864 * kGiga}},
    {"L40", {181 * kTera, 181 * kTera, 90.5 * kTera, 864 * kGiga}},
    {"L4", {121 * kTera, 121 * kTera, 30.3 * kTera, 300 * kGiga}},
    {"Tesla T4", {0, 65 * kTera, 8.1 * kTera, 320 * kGiga}},
    {"RTX 4090", {165.2 * kTera, 165.2 * kTera, 82.6 * kTera, 1008 * kGiga}},
    {"RTX 3090 Ti", {80 * kTera, 80 * kTera, 40 * kTera, 1008 * kGiga}},
    {"RTX 3090", {71 * kTera, 71 * kTera, 35.6 * kTera, 936 * kGiga}},
};

}  // namespace

DevicePeaks knownPeaks(const std::string& name) {
  for (const NamedPeaks& one : kPeaks) {
    const std::size_t at = name.find(one.name);
    if (at == std::string::npos) continue;
    const std::size_t end = at + one.name.size();  // whole words: an L40 is no L4
    if ((at == 0 || name[at - 1] == ' ') &&
        (end == name.size() || name[end] == ' ' || name[end] == '-'))
      return one.peaks;
  }
  return {};
}

double pcieBytesPerSecond(int generation, int lanes) {
  // PCIe lanes by generation: transfers a second, and the share left after encoding.
  constexpr double kLanes[] = {0,
                               2.5e9 * 0.8,
                               5e9 * 0.8,
                               8e9 * 128 / 130,
                               16e9 * 128 / 130,
                               32e9 * 128 / 130,
                               64e9 * 242 / 256};
  if (generation < 1 || generation >= static_cast<int>(std::size(kLanes)) || lanes < 1) return 0;
  return kLanes[generation] / 8 * lanes;
}

std::vector<SpeedFinding> measureSpeeds(backends::Backend& backend, const SpeedOptions& options) {
  std::vector<SpeedFinding> out;
  const auto add = [&](std::string what, bool isProduct, double work, double peak,
                       const Result<RunTime>& time) {
    SpeedFinding finding{std::move(what), isProduct, 0, peak, ""};
    if (time.ok())
      finding.perSecond = work / time->median;
    else
      finding.why = time.error().text();
    out.push_back(std::move(finding));
  };
  const double side = static_cast<double>(options.side),
               size = static_cast<double>(options.copyBytes);
  for (const auto& [type, peak] : {std::pair{DType::kBf16, options.peaks.bf16},
                                   {DType::kF16, options.peaks.f16},
                                   {DType::kF32, options.peaks.f32}})
    add(fmt::format("product of {}³ in {}", options.side, dtypeName(type)), true,
        2 * side * side * side, peak, timeProduct(backend, type, options.side, options.seconds));
  const auto copy = [&](Copied way) {
    return timeCopy(backend, way, options.copyBytes, options.seconds);
  };
  add("copy in memory", false, 2 * size, options.peaks.memory, copy(Copied::kWithin));
  if (backend.device() == nullptr) return out;
  add("copy to the device", false, size, options.pcie, copy(Copied::kToDevice));
  add("copy from the device", false, size, options.pcie, copy(Copied::kFromDevice));
  return out;
}

}  // namespace lockstep::agent
