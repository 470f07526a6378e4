// selftest: a few kernels of every built-in backend against the reference backend, on this machine.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/commands.h"
#include "engine/backends/backend.h"
#include "engine/base/random.h"

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

}  // namespace

int selftestCommand(Arguments& arguments) {
  if (!arguments.rest().empty()) {
    std::fputs("usage: lockstep-agent selftest\n", stderr);
    return 2;
  }
  auto reference = backends::makeBackend("reference", {});
  if (!reference.ok()) return 3;
  int failures = 0;
  for (const std::string& name : backends::backendNames()) {
    if (name == "reference" || name == "timed") continue;  // timed computes nothing
    auto backend = backends::makeBackend(name, {});
    if (!backend.ok()) {
      std::printf("%s: %s\n", name.c_str(), backend.error().text().c_str());
      continue;
    }
    for (const Case& one : cases()) {
      if (!(*backend)->supports(one.op, DType::kF32)) continue;
      auto expected = play(one, **reference);
      auto found = play(one, **backend);
      double worst = 0;
      std::string why;
      if (!expected.ok()) why = expected.error().text();
      else if (!found.ok()) why = found.error().text();
      else
        for (std::size_t i = 0; i < expected->size(); ++i) {
          const double want = static_cast<double>((*expected)[i]);
          worst = std::max(worst, std::abs(static_cast<double>((*found)[i]) - want) /
                                      std::max(1.0, std::abs(want)));
        }
      const bool good = why.empty() && worst < 1e-4;
      if (!good) ++failures;
      std::printf("%s %s: %s %s\n", name.c_str(), one.name, good ? "ok" : "FAILED",
                  why.empty() ? fmt::format("(largest relative difference {:.1e})", worst).c_str()
                              : why.c_str());
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace lockstep::agent
