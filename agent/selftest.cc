// selftest: what this node can compute with, and a few kernels of every backend it can use against the reference
// backend. Text for people, a line a finding; with --json an object a line.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/commands.h"
#include "agent/gpus.h"
#include "engine/backends/backend.h"
#include "engine/backends/hosted.h"
#include "engine/base/random.h"
#include "engine/device/module.h"

namespace lockstep::agent {
namespace {

struct Case {
  const char* name;
  ir::Op op;
  ir::Attrs attrs;
  std::vector<ir::TensorType> inputs;
};

std::vector<Case> cases() {
  const auto f = [](Shape shape) { return ir::TensorType{DType::kF32, std::move(shape)}; };
  const auto attrs = [](std::int64_t ta, std::int64_t tb, const char* act) {
    return ir::Attrs{{"ta", ta}, {"tb", tb}, {"act", std::string(act)}};
  };
  const ir::Attrs conv{{"stride", std::int64_t{1}}, {"pad", std::int64_t{0}}, {"act", std::string("relu")}};
  const ir::Attrs pool{{"size", std::int64_t{2}}, {"stride", std::int64_t{2}}};
  return {{"matmul with bias and relu", ir::Op::kMatmul, attrs(0, 0, "relu"),
           {f({22, 64}), f({64, 48}), f({48})}},
          {"matmul, transposed", ir::Op::kMatmul, attrs(1, 0, ""), {f({22, 64}), f({22, 48})}},
          {"conv2d with bias and relu", ir::Op::kConv2d, conv,
           {f({4, 12, 12, 3}), f({3, 3, 3, 8}), f({8})}},
          {"max-pool", ir::Op::kMaxPool2d, pool, {f({4, 10, 10, 8})}},
          {"layer norm", ir::Op::kLayerNorm, {{"eps", 1e-5}}, {f({9, 70}), f({70}), f({70})}},
          {"causal attention", ir::Op::kAttention,
           {{"tokens", std::int64_t{40}}, {"head", std::int64_t{16}}, {"causal", std::int64_t{1}}}, {f({80, 96})}},
          {"sums of rows", ir::Op::kReduceRows, {}, {f({600, 33})}},
          {"sum of squares", ir::Op::kSumSquares, {}, {f({5000})}},
          {"add", ir::Op::kAdd, {}, {f({100}), f({100})}},
          {"relu", ir::Op::kRelu, {}, {f({100})}}};
}

using Memory = std::unique_ptr<std::byte, void (*)(void*)>;
Memory allocate(std::int64_t bytes) {
  const std::size_t size = (static_cast<std::size_t>(bytes) + 127) / 64 * 64;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, size));
  LOCKSTEP_CHECK(memory != nullptr, "out of memory");
  std::memset(memory, 0, size);
  return {memory, std::free};
}

// The outputs of one case on one backend.
Result<std::vector<float>> play(const Case& one, backends::Backend& backend) {
  backends::KernelSpec spec;
  spec.op = one.op;
  spec.name = one.name;
  spec.attrs = &one.attrs;
  std::vector<Memory> memory;
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    memory.push_back(allocate(one.inputs[i].bytes()));
    auto* values = reinterpret_cast<float*>(memory.back().get());
    for (std::int64_t k = 0; k < one.inputs[i].count(); ++k)
      values[k] = static_cast<float>(randomNormal(i + 1, static_cast<std::uint64_t>(k)));
    spec.inputs.push_back({values, one.inputs[i]});
  }
  LOCKSTEP_ASSIGN(const auto types, ir::info(one.op).infer(one.inputs, one.attrs));
  for (const ir::TensorType& type : types) {
    memory.push_back(allocate(type.bytes()));
    spec.outputs.push_back({memory.back().get(), type});
  }
  LOCKSTEP_ASSIGN(const auto kernel, backend.bind(spec));
  kernel->run();
  std::vector<float> out;
  for (const backends::Operand& operand : spec.outputs) {
    const auto* values = static_cast<const float*>(operand.data);
    out.insert(out.end(), values, values + operand.type.count());
  }
  return out;
}

using Json = nlohmann::json;

void print(const Json& object) {
  std::printf("%s\n", object.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

Json toJson(const Error& error) {
  return {{"code", codeName(error.code)}, {"what", error.what}, {"why", error.why}, {"next", error.next}};
}

// What somebody has to see to.
std::vector<std::string> attention(const run::v1::GpuSample& gpu) {
  std::vector<std::string> out;
  if (!gpu.problem().empty()) out.push_back("does not answer: " + gpu.problem());
  if (gpu.ecc_uncorrected() > 0) out.push_back(fmt::format("{} uncorrected memory errors", gpu.ecc_uncorrected()));
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

// What the driver says of a GPU, what it does not left out.
Json toJson(const run::v1::GpuSample& gpu) {
  Json out{{"index", gpu.index()}, {"name", gpu.name()}};
  if (!gpu.problem().empty()) out["problem"] = gpu.problem();
  if (gpu.has_memory_total()) out["memory_bytes"] = static_cast<std::int64_t>(gpu.memory_total());
  if (gpu.has_power_limit_w()) out["power_limit_w"] = gpu.power_limit_w();
  if (gpu.has_temperature_c()) out["temperature_c"] = gpu.temperature_c();
  if (gpu.has_sm_clock_max_mhz()) out["sm_clock_max_mhz"] = gpu.sm_clock_max_mhz();
  if (gpu.has_memory_clock_max_mhz()) out["memory_clock_max_mhz"] = gpu.memory_clock_max_mhz();
  if (gpu.throttle_known()) out["throttle"] = std::vector<std::string>(gpu.throttle().begin(), gpu.throttle().end());
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
  if (gpu.has_memory_total()) out += fmt::format(", {:.0f} MiB", std::floor(gpu.memory_total() / (1 << 20)));
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
    print({{"event", "nvml"}, {"driver", managed->driver}, {"gpus", names}, {"problem", managed->problem}});
    for (const device::Library& library : node.libraries)
      print({{"event", "library"}, {"name", library.name}, {"found", library.found},
             {"expected", library.expected}, {"problem", library.problem}});
    for (const device::Properties& gpu : node.devices)
      print({{"event", "gpu"}, {"name", gpu.name}, {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
             {"multiprocessors", gpu.multiprocessors}, {"memory_bytes", gpu.memoryBytes}});
    Json usable{{"event", "device"}, {"kind", "cuda"}, {"usable", node.usable.ok()}};
    if (!node.usable.ok()) usable["error"] = toJson(node.usable.error());
    print(usable);
    return node.usable.ok();
  }
  if (!node.usable.ok()) std::printf("cuda: not to be used: %s\n", node.usable.error().text().c_str());
  for (const device::Properties& gpu : node.devices)
    std::printf("cuda: %s, compute capability %d.%d, %lld MiB\n", gpu.name.c_str(), gpu.major, gpu.minor,
                static_cast<long long>(gpu.memoryBytes >> 20));
  for (const device::Library& library : node.libraries)
    std::printf("  %s: %s; expected: %s\n", library.name.c_str(),
                library.problem.empty() ? library.found.c_str() : library.problem.c_str(), library.expected.c_str());
  std::printf("  NVML: %s\n", managed->problem.empty()
                                  ? fmt::format("driver {}, {} GPUs", managed->driver, managed->gpus.size()).c_str()
                                  : managed->problem.c_str());
  for (const run::v1::GpuSample& gpu : managed->gpus) std::printf("  %s\n", text(gpu).c_str());
  return node.usable.ok();
}

// One kernel of one backend; whether it is right.
bool tellKernel(const std::string& backend, const Case& one, const Result<std::vector<float>>& expected,
                const Result<std::vector<float>>& found, bool json) {
  constexpr double kMost = 1e-4;
  double worst = 0;
  std::string why;
  if (!expected.ok()) why = expected.error().text();
  else if (!found.ok()) why = found.error().text();
  else
    for (std::size_t i = 0; i < expected->size(); ++i) {
      const double want = static_cast<double>((*expected)[i]);
      const double error = std::abs(static_cast<double>((*found)[i]) - want) / std::max(1.0, std::abs(want));
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  const bool good = why.empty() && worst < kMost;
  if (json)
    print({{"event", "kernel"}, {"backend", backend}, {"name", one.name}, {"ok", good}, {"error", worst}, {"why", why}});
  else
    std::printf("%s %s: %s %s\n", backend.c_str(), one.name, good ? "ok" : "FAILED",
                why.empty() ? fmt::format("(largest relative difference {:.1e})", worst).c_str() : why.c_str());
  return good;
}

}  // namespace

int selftestCommand(Arguments& arguments) {
  const bool json = arguments.flag("--json");
  const std::string kind = arguments.value("--device").value_or("");
  if (!arguments.rest().empty() || (!kind.empty() && kind != "cpu" && kind != "cuda")) {
    std::fputs("usage: lockstep-agent selftest [--device cpu|cuda] [--json]\n", stderr);
    return 2;
  }
  const bool cuda = kind != "cpu" && tellCuda(json);
  if (kind == "cuda" && !cuda) return 3;
  auto reference = backends::makeBackend("reference", {});
  if (!reference.ok()) return 3;
  bool good = true;
  for (const std::string& name : backends::backendNames()) {
    if (name == "reference" || name == "timed") continue;  // timed computes nothing
    if (name == "cuda" ? !cuda : kind == "cuda") continue;
    auto made = backends::makeBackend(name, {});
    if (!made.ok()) {
      good = false;
      if (json) print({{"event", "error"}, {"backend", name}, {"error", toJson(made.error())}});
      else std::printf("%s: %s\n", name.c_str(), made.error().text().c_str());
      continue;
    }
    const auto backend = backends::hosted(std::move(*made));
    for (const Case& one : cases())
      if (backend->supports(one.op, DType::kF32))
        good = tellKernel(name, one, play(one, **reference), play(one, *backend), json) && good;
  }
  return good ? 0 : 1;
}

}  // namespace lockstep::agent
