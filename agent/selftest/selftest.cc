// selftest: what this node can compute with, and what selftest.h says of every backend and device
// it can use. Text for people, a line a finding; with --json an object a line.
#include "agent/selftest/selftest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "agent/base/commands.h"
#include "agent/host/gpus.h"
#include "engine/backends/case_run.h"
#include "engine/device/module.h"

namespace lockstep::agent {
namespace {

using Json = nlohmann::json;

void print(const Json& object) {
  std::printf("%s\n", object.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

Json toJson(const Error& error) {
  return {{"code", codeName(error.code)},
          {"what", error.what.text()},
          {"why", error.why.text()},
          {"next", error.next.text()}};
}

// Findings that need attention.
std::vector<std::string> attention(const run::v1::GpuSample& gpu) {
  std::vector<std::string> out;
  if (gpu.has_problem()) out.push_back("does not answer: " + gpu.problem().text());
  if (gpu.ecc_uncorrected() > 0)
    out.push_back(fmt::format("{} uncorrected memory errors", gpu.ecc_uncorrected()));
  for (const std::string& word : gpu.throttle()) {
    if (word == "heat") out.push_back("slowed down for heat");
    if (word == "power-brake") out.push_back("slowed down by the power supply");
    if (word == "slowdown") out.push_back("slowed down by its hardware");
  }
  if (gpu.has_pcie_width() && gpu.has_pcie_width_max() && gpu.pcie_width() < gpu.pcie_width_max())
    out.push_back(fmt::format("{} of {} PCIe lanes", gpu.pcie_width(), gpu.pcie_width_max()));
  if (gpu.nvlinks_active() > 0 && gpu.nvlinks_active() < gpu.nvlinks())
    out.push_back(fmt::format("{} of {} NVLinks", gpu.nvlinks_active(), gpu.nvlinks()));
  return out;
}

// A GPU's values as the driver reports them; unknown ones are left out.
Json toJson(const run::v1::GpuSample& gpu) {
  Json out{{"index", gpu.index()}, {"name", gpu.name()}};
  if (gpu.has_problem()) out["problem"] = gpu.problem().text();
  if (gpu.has_memory_total()) out["memory_bytes"] = static_cast<std::int64_t>(gpu.memory_total());
  if (gpu.has_power_limit_w()) out["power_limit_w"] = gpu.power_limit_w();
  if (gpu.has_temperature_c()) out["temperature_c"] = gpu.temperature_c();
  if (gpu.has_sm_clock_max_mhz()) out["sm_clock_max_mhz"] = gpu.sm_clock_max_mhz();
  if (gpu.has_memory_clock_max_mhz()) out["memory_clock_max_mhz"] = gpu.memory_clock_max_mhz();
  if (gpu.throttle_known())
    out["throttle"] = std::vector<std::string>(gpu.throttle().begin(), gpu.throttle().end());
  if (gpu.has_pcie_generation()) out["pcie_generation"] = gpu.pcie_generation();
  if (gpu.has_pcie_generation_max()) out["pcie_generation_max"] = gpu.pcie_generation_max();
  if (gpu.has_pcie_width()) out["pcie_width"] = gpu.pcie_width();
  if (gpu.has_pcie_width_max()) out["pcie_width_max"] = gpu.pcie_width_max();
  if (gpu.has_nvlinks()) out["nvlinks"] = gpu.nvlinks();
  if (gpu.has_nvlinks_active()) out["nvlinks_active"] = gpu.nvlinks_active();
  if (gpu.has_ecc_corrected()) out["ecc_corrected"] = gpu.ecc_corrected();
  if (gpu.has_ecc_uncorrected()) out["ecc_uncorrected"] = gpu.ecc_uncorrected();
  if (const auto all = attention(gpu); !all.empty()) out["attention"] = all;
  return out;
}

std::string text(const run::v1::GpuSample& gpu) {
  std::string out = fmt::format("GPU {}: {}", gpu.index(), gpu.name());
  if (gpu.has_memory_total())
    out += fmt::format(", {:.0f} MiB", std::floor(gpu.memory_total() / (1 << 20)));
  if (gpu.has_power_limit_w()) out += fmt::format(", at most {:.0f} W", gpu.power_limit_w());
  if (gpu.has_temperature_c()) out += fmt::format(", {:.0f} °C", gpu.temperature_c());
  if (gpu.has_pcie_width() && gpu.has_pcie_generation_max())
    out += fmt::format(", PCIe {} x{}", gpu.pcie_generation_max(), gpu.pcie_width());
  if (gpu.has_nvlinks()) out += fmt::format(", {} NVLinks", gpu.nvlinks_active());
  const char* before = "; attention: ";
  for (const std::string& one : attention(gpu)) out += std::exchange(before, ", ") + one;
  return out;
}

// The node's GPUs, and NVIDIA's libraries as it has them. Whether ranks can compute on a GPU here.
bool tellCuda(bool json) {
  const device::Survey node = device::survey();
  const auto managed = gpuMonitor().look(std::chrono::seconds(20));
  if (json) {
    Json names = Json::array();
    for (const run::v1::GpuSample& gpu : managed->gpus) names.push_back(toJson(gpu));
    print({{"event", "nvml"},
           {"driver", managed->driver},
           {"gpus", names},
           {"problem", managed->problem.text()}});
    for (const device::Library& library : node.libraries)
      print({{"event", "library"},
             {"name", library.name},
             {"found", library.found},
             {"expected", library.expected},
             {"problem", library.problem}});
    for (const device::Properties& gpu : node.devices)
      print({{"event", "gpu"},
             {"name", gpu.name},
             {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
             {"multiprocessors", gpu.multiprocessors},
             {"memory_bytes", gpu.memoryBytes}});
    Json usable{{"event", "device"}, {"kind", "cuda"}, {"usable", node.usable.ok()}};
    if (!node.usable.ok()) usable["error"] = toJson(node.usable.error());
    print(usable);
    return node.usable.ok();
  }
  if (!node.usable.ok())
    std::printf("cuda: not to be used: %s\n", node.usable.error().text().c_str());
  for (const device::Properties& gpu : node.devices)
    std::printf("cuda: %s, compute capability %d.%d, %lld MiB\n", gpu.name.c_str(), gpu.major,
                gpu.minor, static_cast<long long>(gpu.memoryBytes >> 20));
  for (const device::Library& library : node.libraries)
    std::printf("  %s: %s; expected: %s\n", library.name.c_str(),
                library.problem.empty() ? library.found.c_str() : library.problem.c_str(),
                library.expected.c_str());
  std::printf("  NVML: %s\n",
              managed->problem.empty()
                  ? fmt::format("driver {}, {} GPUs", managed->driver, managed->gpus.size()).c_str()
                  : managed->problem.text().c_str());
  for (const run::v1::GpuSample& gpu : managed->gpus) std::printf("  %s\n", text(gpu).c_str());
  return node.usable.ok();
}

// A backend on what it computes on, to be put to the test.
struct Subject {
  std::string backend;
  std::string name;  // "onednn", "cuda 0"
  int device = 0;
  std::vector<int> ranks{0, 0};  // the devices of two ranks
  SpeedOptions speed;
};

// A device that hangs never answers: what is being tested then fails, and the process ends.
class Watchdog {
 public:
  explicit Watchdog(bool json) : json_(json), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void begin(std::string what) {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
    ++part_;
    changed_.notify_all();
  }

 private:
  static constexpr std::chrono::seconds kLimit{180};  // of a part
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      const int part = part_;
      if (changed_.wait_for(lock, kLimit, [&] { return ended_ || part_ != part; }) || part == 0)
        continue;
      const std::string why = fmt::format("no answer within {} s", kLimit.count());
      if (json_)
        print({{"event", "selftest"}, {"ok", false}, {"why", what_ + ": " + why}});
      else
        std::printf("%s: FAILED %s\n", what_.c_str(), why.c_str());
      std::fflush(stdout);
      std::_Exit(1);
    }
  }
  const bool json_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  int part_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

bool tellKernels(const Subject& on, const KernelFindings& found, bool json) {
  bool good = found.failed.ok();
  for (const KernelFinding& one : found.ops) {
    good = good && one.why.empty();
    if (json)
      print({{"event", "kernel"},
             {"backend", on.backend},
             {"device", on.device},
             {"name", one.op},
             {"ok", one.why.empty()},
             {"cases", one.cases},
             {"error", std::isfinite(one.error) ? Json(one.error) : Json()},
             {"where", one.where},
             {"why", one.why}});
    else if (one.why.empty())
      std::printf("%s %s: ok, %d %s, largest error %.1e\n", on.name.c_str(), one.op.c_str(),
                  one.cases, one.cases == 1 ? "case" : "cases", one.error);
    else
      std::printf("%s %s: FAILED %s\n", on.name.c_str(), one.op.c_str(), one.why.c_str());
  }
  if (json)
    print({{"event", "kernels"},
           {"backend", on.backend},
           {"device", on.device},
           {"ok", good},
           {"tolerance", backends::kCaseTolerance},
           {"absent", found.absent}});
  else if (!found.absent.empty())
    std::printf("%s has no kernel for: %s\n", on.name.c_str(),
                fmt::format("{}", fmt::join(found.absent, ", ")).c_str());
  return good;
}

// Below this share of its peak, something holds the device back.
constexpr double kSlow = 0.5;

bool tellSpeeds(const Subject& on, const std::vector<SpeedFinding>& found, bool json) {
  bool good = true;
  for (const SpeedFinding& one : found) {
    good = good && one.why.empty();
    const double share = one.peak > 0 ? one.perSecond / one.peak : 0;
    const bool slow = one.why.empty() && one.peak > 0 && share < kSlow;
    if (json) {
      Json line{{"event", "speed"},
                {"backend", on.backend},
                {"device", on.device},
                {"name", one.what},
                {"ok", one.why.empty()},
                {"unit", one.isProduct ? "FLOP/s" : "bytes/s"},
                {"per_second", one.perSecond},
                {"peak", nullptr},
                {"why", one.why}};
      if (one.peak > 0) line["peak"] = one.peak;
      if (one.peak > 0) line["share"] = share;
      if (slow) line["attention"] = {"far below its peak"};
      print(line);
      continue;
    }
    const auto text = [&](double value) {
      if (!one.isProduct) return fmt::format("{:.1f} GB/s", value * 1e-9);
      return value < 1e12 ? fmt::format("{:.1f} GFLOP/s", value * 1e-9)
                          : fmt::format("{:.1f} TFLOP/s", value * 1e-12);
    };
    const std::string peak = one.peak > 0
                                 ? fmt::format("{:.0f} % of {}", share * 100, text(one.peak))
                                 : "peak not known";
    std::printf("%s %s: %s%s\n", on.name.c_str(), one.what.c_str(),
                one.why.empty() ? fmt::format("{}, {}", text(one.perSecond), peak).c_str()
                                : ("FAILED " + one.why).c_str(),
                slow ? "; attention: far below its peak" : "");
  }
  return good;
}

bool tellStep(const Subject& on, const StepFinding& found, bool json) {
  if (json) {
    Json checks = Json::array();
    for (const auto& check : found.checks)
      checks.push_back(
          {{"name", check.name},
           {"difference", std::isfinite(check.difference) ? Json(check.difference) : Json()},
           {"limit", check.limit},
           {"ok", check.holds}});
    print({{"event", "step"},
           {"backend", on.backend},
           {"devices", on.ranks},
           {"ok", found.why.empty()},
           {"checks", checks},
           {"why", found.why}});
    return found.why.empty();
  }
  std::string text;
  for (const auto& check : found.checks)
    text += fmt::format("{}{} {:.0e}", text.empty() ? "" : ", ", check.name, check.difference);
  const std::string where =
      on.backend == "cuda" ? on.ranks[0] == on.ranks[1] ? " on one GPU" : " on two GPUs" : "";
  std::printf(
      "%s two ranks%s against one: %s\n", on.name.c_str(), where.c_str(),
      found.why.empty() ? fmt::format("ok ({})", text).c_str() : ("FAILED " + found.why).c_str());
  return found.why.empty();
}

bool tell(const Subject& on, Watchdog& watchdog, bool quick, bool json) {
  const auto open = [&](int device) {
    return backends::makeBackend(on.backend, {.threads = 1, .device = device});
  };
  auto made = open(on.device);
  if (!made.ok()) {
    if (json)
      print({{"event", "error"},
             {"backend", on.backend},
             {"device", on.device},
             {"error", toJson(made.error())}});
    else
      std::printf("%s: FAILED %s\n", on.name.c_str(), made.error().text().c_str());
    return false;
  }
  watchdog.begin(on.name + " kernels");
  const KernelFindings kernels = testKernels(std::move(*made));
  bool good = tellKernels(on, kernels, json);
  if (!kernels.failed.ok()) return false;  // memory and all that was given to it are lost
  if (quick) return good;
  watchdog.begin(on.name + " speed");
  made = open(on.device);
  good = tellSpeeds(on,
                    made.ok() ? measureSpeeds(**made, on.speed)
                              : std::vector<SpeedFinding>{{.what = "products and copies",
                                                           .why = made.error().text()}},
                    json) &&
         good;
  made = makeError(Code::kAborted, "its memory is given back");
  watchdog.begin(on.name + " two ranks");
  return tellStep(on, testTwoRanks([&](int rank) {
                    return open(on.ranks[static_cast<std::size_t>(rank)]);
                  }),
                  json) &&
         good;
}

std::vector<Subject> subjects(const std::string& kind, bool cuda) {
  std::vector<Subject> out;
  for (const std::string& name : backends::backendNames()) {
    if (name == "reference" || name == "timed") continue;  // timed computes nothing
    if (name != "cuda") {
      if (kind != "cuda") out.push_back({name, name});
      continue;
    }
    if (!cuda) continue;
    const device::Survey node = device::survey();
    const auto managed = gpuMonitor().look(std::chrono::seconds(20));
    const int count = static_cast<int>(node.devices.size());
    for (int i = 0; i < count; ++i) {
      const device::Properties& gpu = node.devices[static_cast<std::size_t>(i)];
      Subject one{name, fmt::format("cuda {}", i), i, {i, (i + 1) % count}};
      one.speed.peaks = knownPeaks(gpu.name);
      constexpr std::int64_t kSide = 8192, kSmallSide = 2048;
      one.speed.side = gpu.memoryBytes >= (std::int64_t{4} << 30) ? kSide : kSmallSide;
      // The k-th of a name is the k-th of that name for the manager.
      const auto named = [&](const auto& other) { return other.name == gpu.name; };
      auto before = std::count_if(node.devices.begin(), node.devices.begin() + i, named);
      if (const auto same = std::find_if(managed->gpus.begin(), managed->gpus.end(),
                                         [&](const run::v1::GpuSample& sample) {
                                           return sample.name() == gpu.name && before-- == 0;
                                         });
          same != managed->gpus.end())
        one.speed.pcie = pcieBytesPerSecond(same->pcie_generation_max(), same->pcie_width());
      out.push_back(std::move(one));
    }
  }
  return out;
}

}  // namespace

Result<int> selftestCommand(const Arguments& arguments) {
  const bool json = arguments.has("json");
  const bool quick = arguments.has("quick");
  const std::string kind = arguments.text("device");
  if (!kind.empty() && kind != "cpu" && kind != "cuda")
    return invalidArgument("--device {}: cpu or cuda was expected", kind);
  const bool cuda = kind != "cpu" && tellCuda(json);
  if (kind == "cuda" && !cuda) return 3;
  Watchdog watchdog(json);
  bool good = true;
  for (const Subject& one : subjects(kind, cuda)) {
    good = tell(one, watchdog, quick, json) && good;
    std::fflush(stdout);
  }
  if (json) print({{"event", "selftest"}, {"ok", good}});
  return good ? 0 : 1;
}

}  // namespace lockstep::agent
