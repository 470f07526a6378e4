#include "engine/backends/onednn.h"

#include <algorithm>
#include <cmath>

#include "engine/backends/attention.h"
#include "engine/backends/cast_operands.h"
#include "engine/backends/compression.h"
#include "engine/backends/cpu/kernels.h"
#include "engine/backends/kernel.h"
#include "engine/backends/matmul.h"
#include "engine/backends/narrow_storage.h"
#include "engine/backends/norms.h"
#include "engine/backends/onednn_primitives.h"
#include "engine/backends/parallel.h"
#include "engine/backends/reference.h"
#include "engine/backends/reference_kernels.h"
#include "engine/backends/rows.h"

namespace lockstep::backends {
namespace {

using ir::Op;

float* in(const KernelSpec& spec, std::size_t i) {
  return static_cast<float*>(spec.inputs[i].data);
}
float* out(const KernelSpec& spec, std::size_t i = 0) {
  return static_cast<float*>(spec.outputs[i].data);
}

constexpr std::int64_t kLanes = 16;  // part boundaries at multiples split no vector

// Part i of an optimizer's elements.
cpu::Adam elementsOf(cpu::Adam a, int i, int parts) {
  const Part part = partOf(a.n, i, parts, kLanes);
  for (const float** each : {&a.p, &a.g, &a.m, &a.v}) *each += part.first;
  for (float** each : {&a.pOut, &a.mOut, &a.vOut}) *each += part.first;
  a.n = part.count;
  return a;
}
cpu::Sgd elementsOf(cpu::Sgd a, int i, int parts) {
  const Part part = partOf(a.n, i, parts, kLanes);
  for (const float** each : {&a.p, &a.g, &a.v}) *each += part.first;
  for (float** each : {&a.pOut, &a.vOut}) *each += part.first;
  a.n = part.count;
  return a;
}
cpu::Adagrad elementsOf(cpu::Adagrad a, int i, int parts) {
  const Part part = partOf(a.n, i, parts, kLanes);
  for (const float** each : {&a.p, &a.g, &a.s}) *each += part.first;
  for (float** each : {&a.pOut, &a.sOut}) *each += part.first;
  a.n = part.count;
  return a;
}

std::unique_ptr<Kernel> bindAdam(const Cpu& cpu, const KernelSpec& spec) {
  const AdamOptions a = adamOptions(*spec.attrs);
  cpu::Adam base{in(spec, 0),  in(spec, 1),  in(spec, 2),  in(spec, 3),
                 out(spec, 0), out(spec, 1), out(spec, 2), spec.inputs[0].type.count()};
  base.beta1 = static_cast<float>(a.beta1);
  base.beta2 = static_cast<float>(a.beta2);
  const float *norm = in(spec, 4), *lr = in(spec, 5), *t = in(spec, 6);
  // lr·m̂/(√v̂ + ε) = lr·(√c₂/c₁)·m/(√v + ε√c₂) with c the bias corrections: one division per
  // element.
  const int parts = cpu.parts(base.n, kMinElements);
  return makeKernel([=, &kernels = cpu.kernels] {
    cpu::Adam run = base;
    const double steps = static_cast<double>(*t), rate = static_cast<double>(*lr);
    const double correct1 = 1 - std::pow(a.beta1, steps), correct2 = 1 - std::pow(a.beta2, steps);
    run.scale = static_cast<float>(reference::inverseNorm(static_cast<double>(*norm)));
    run.rate = static_cast<float>(rate * std::sqrt(correct2) / correct1);
    run.epsilon = static_cast<float>(a.epsilon * std::sqrt(correct2));
    run.keep = static_cast<float>(1 - rate * a.weightDecay);
    forParts(parts, [&](int i) { kernels.adam(elementsOf(run, i, parts)); });
  });
}

std::unique_ptr<Kernel> bindSgd(const Cpu& cpu, const KernelSpec& spec) {
  cpu::Sgd base{in(spec, 0),  in(spec, 1),  in(spec, 2),
                out(spec, 0), out(spec, 1), spec.inputs[0].type.count()};
  base.momentum = static_cast<float>(ir::floatAttr(*spec.attrs, "momentum"));
  base.decay = static_cast<float>(ir::floatAttr(*spec.attrs, "weight_decay"));
  const float *norm = in(spec, 3), *lr = in(spec, 4);
  const int parts = cpu.parts(base.n, kMinElements);
  return makeKernel([=, &kernels = cpu.kernels] {
    cpu::Sgd run = base;
    run.scale = static_cast<float>(reference::inverseNorm(static_cast<double>(*norm)));
    run.lr = *lr;
    forParts(parts, [&](int i) { kernels.sgd(elementsOf(run, i, parts)); });
  });
}

std::unique_ptr<Kernel> bindAdagrad(const Cpu& cpu, const KernelSpec& spec) {
  cpu::Adagrad base{in(spec, 0),  in(spec, 1),  in(spec, 2),
                    out(spec, 0), out(spec, 1), spec.inputs[0].type.count()};
  base.decay = static_cast<float>(ir::floatAttr(*spec.attrs, "weight_decay"));
  base.epsilon = static_cast<float>(ir::floatAttr(*spec.attrs, "eps"));
  const float *norm = in(spec, 3), *lr = in(spec, 4);
  const int parts = cpu.parts(base.n, kMinElements);
  return makeKernel([=, &kernels = cpu.kernels] {
    cpu::Adagrad run = base;
    run.scale = static_cast<float>(reference::inverseNorm(static_cast<double>(*norm)));
    run.lr = *lr;
    forParts(parts, [&](int i) { kernels.adagrad(elementsOf(run, i, parts)); });
  });
}

// Rows are a few cache lines in a large table: latency-bound, hence prefetched.
std::unique_ptr<Kernel> bindAdagradRows(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const float *p = in(spec, 0), *s = in(spec, 1), *g = in(spec, 2);
  const auto* ids = static_cast<const std::int32_t*>(spec.inputs[3].data);
  const float *norm = in(spec, 4), *lr = in(spec, 5);
  float *pOut = out(spec, 0), *sOut = out(spec, 1);
  const std::int64_t elements = spec.inputs[0].type.count(), rows = spec.inputs[3].type.count();
  const std::int64_t channels = spec.inputs[2].type.count() / rows;
  const std::int64_t first = ir::intAttr(*spec.attrs, "first");
  cpu::Adagrad base{};
  base.epsilon = static_cast<float>(ir::floatAttr(*spec.attrs, "eps"));
  return makeKernel([=, &cpu] {
    if (pOut != p) std::copy_n(p, elements, pOut);
    if (sOut != s) std::copy_n(s, elements, sOut);
    cpu::Adagrad run = base;
    run.scale = static_cast<float>(reference::inverseNorm(static_cast<double>(*norm)));
    run.lr = *lr;
    const auto fetch = [&](std::int64_t at) {
      __builtin_prefetch(pOut + at, 1);
      __builtin_prefetch(sOut + at, 1);
    };
    forRows(rows, channels, first, elements, ids, fetch,
            [&](std::int64_t at, std::int64_t from, std::int64_t n) {
              run.p = run.pOut = pOut + at;
              run.s = run.sOut = sOut + at;
              run.g = g + from;
              run.n = n;
              cpu.adagrad(run);
            });
  });
}

std::unique_ptr<Kernel> bindEmbedding(const KernelSpec& spec) {
  const float* table = in(spec, 0);
  const auto* ids = static_cast<const std::int32_t*>(spec.inputs[1].data);
  float* y = out(spec);
  const std::int64_t rows = spec.inputs[1].type.count(), first = ir::intAttr(*spec.attrs, "first");
  const std::int64_t vocabulary = spec.inputs[0].type.shape[0],
                     channels = spec.inputs[0].type.shape[1];
  return makeKernel([=] {
    const auto has = [=](std::int64_t row) { return row >= 0 && row < vocabulary; };
    for (std::int64_t r = 0; r < rows; ++r) {
      if (r + kRowsAhead < rows)
        if (const std::int64_t next = ids[r + kRowsAhead] - first; has(next))
          __builtin_prefetch(table + next * channels);
      const std::int64_t row = ids[r] - first;
      if (has(row))
        std::copy_n(table + row * channels, channels, y + r * channels);
      else
        std::fill_n(y + r * channels, channels, 0.0f);
    }
  });
}

std::unique_ptr<Kernel> bindSgdRows(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const float *p = in(spec, 0), *v = in(spec, 1), *g = in(spec, 2);
  const auto* ids = static_cast<const std::int32_t*>(spec.inputs[3].data);
  const float *norm = in(spec, 4), *lr = in(spec, 5);
  float *pOut = out(spec, 0), *vOut = out(spec, 1);
  const std::int64_t elements = spec.inputs[0].type.count(), rows = spec.inputs[3].type.count();
  const std::int64_t channels = spec.inputs[2].type.count() / rows;
  const std::int64_t first = ir::intAttr(*spec.attrs, "first");
  return makeKernel([=, &cpu] {
    if (pOut != p) std::copy_n(p, elements, pOut);
    if (vOut != v) std::copy_n(v, elements, vOut);
    cpu::Sgd run{};
    run.scale = static_cast<float>(reference::inverseNorm(static_cast<double>(*norm)));
    run.lr = *lr;
    const auto fetch = [&](std::int64_t at) {
      __builtin_prefetch(pOut + at, 1);
      __builtin_prefetch(vOut + at, 1);
    };
    forRows(rows, channels, first, elements, ids, fetch,
            [&](std::int64_t at, std::int64_t from, std::int64_t n) {
              run.p = run.pOut = pOut + at;
              run.v = run.vOut = vOut + at;
              run.g = g + from;
              run.n = n;
              cpu.sgd(run);
            });
  });
}

std::unique_ptr<Kernel> bindSumSquaresOfRows(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const float* x = in(spec, 0);
  const auto* ids = static_cast<const std::int32_t*>(spec.inputs[1].data);
  float* y = out(spec);
  const std::int64_t rows = spec.inputs[1].type.count(),
                     channels = spec.inputs[0].type.count() / rows;
  return makeKernel([=, &cpu] {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      if (ids[r] != -1) sum += cpu.sumSquares(channels, x + r * channels);
    *y = static_cast<float>(sum);
  });
}

// Calls f(first, count) over the parts of n elements.
template <typename F>
std::unique_ptr<Kernel> overElements(const Cpu& cpu, std::int64_t n, F f) {
  const int parts = cpu.parts(n, kMinElements);
  return makeKernel([=] {
    forParts(parts, [&](int i) {
      const Part part = partOf(n, i, parts, kLanes);
      f(part.first, part.count);
    });
  });
}
using Unary = void (*)(std::int64_t, const float*, float*);
using Binary = void (*)(std::int64_t, const float*, const float*, float*);

// Binds y = f(a [, b]) over all elements; null for other ops.
std::unique_ptr<Kernel> bindElementwise(const Cpu& cpu, const KernelSpec& spec) {
  const cpu::Kernels& kernels = cpu.kernels;
  const std::int64_t n = spec.outputs[0].type.count();
  const float* a = spec.inputs.empty() ? nullptr : in(spec, 0);
  const float* b = spec.inputs.size() > 1 ? in(spec, 1) : nullptr;
  float* y = out(spec);
  const auto unary = [&](Unary f) {
    return overElements(cpu, n,
                        [=](std::int64_t i, std::int64_t count) { f(count, a + i, y + i); });
  };
  const auto binary = [&](Binary f) {
    return overElements(cpu, n,
                        [=](std::int64_t i, std::int64_t count) { f(count, a + i, b + i, y + i); });
  };
  switch (spec.op) {
    case Op::kRelu:
      return unary(kernels.relu);
    case Op::kGelu:
      return unary(kernels.gelu);
    case Op::kReluGrad:
      return binary(kernels.reluGrad);
    case Op::kTanhGrad:
      return binary(kernels.tanhGrad);
    case Op::kGeluGrad:
      return binary(kernels.geluGrad);
    case Op::kAdd:
      return binary(kernels.add);
    case Op::kScale: {
      const auto factor = static_cast<float>(ir::floatAttr(*spec.attrs, "factor", 1.0));
      return overElements(cpu, n, [=, f = kernels.scale](std::int64_t i, std::int64_t count) {
        f(count, a + i, factor, y + i);
      });
    }
    default:
      return nullptr;
  }
}

// Binds ops over rows of C channels: bias-add, reduce-rows.
std::unique_ptr<Kernel> bindRows(const Cpu& cpu, const KernelSpec& spec) {
  const cpu::Kernels& kernels = cpu.kernels;
  const float* x = in(spec, 0);
  float* y = out(spec);
  // The bias or the sum may span several repeated rows.
  const std::int64_t cols =
      (spec.op == Op::kBiasAdd ? spec.inputs[1] : spec.outputs[0]).type.count();
  const std::int64_t n = spec.inputs[0].type.count(), rows = cols == 0 ? 0 : n / cols;
  if (spec.op == Op::kReduceRows) {
    const int parts = cols >= 2 * kLanes ? cpu.parts(n, kMinElements) : 1;
    return makeKernel([=, &kernels] {
      forParts(parts, [&](int i) {
        const Part part = partOf(cols, i, parts, 2 * kLanes);
        kernels.reduceRows(rows, part.count, cols, x + part.first, y + part.first);
      });
    });
  }
  const float* bias = in(spec, 1);
  const int parts = cpu.parts(n, kMinElements);
  return makeKernel([=, &kernels] {
    forParts(parts, [&](int i) {
      const Part part = partOf(rows, i, parts);
      kernels.biasAdd(part.count, cols, x + part.first * cols, bias, y + part.first * cols);
    });
  });
}

std::unique_ptr<Kernel> bindMaxPool(const Cpu& cpu, const KernelSpec& spec) {
  const PoolShape s = poolShape(spec);
  const bool forward = spec.op == Op::kMaxPool2d;
  const float *x = in(spec, 0), *top = forward ? nullptr : in(spec, 1),
              *dy = forward ? nullptr : in(spec, 2);
  float* y = out(spec);
  const int parts = cpu.parts(s.b * s.h * s.w * s.c, kMinElements);
  return makeKernel([=, &kernels = cpu.kernels] {
    forParts(parts, [&](int i) {
      const Part part = partOf(s.b, i, parts);
      const cpu::Pool pool{part.count, s.h, s.w, s.c, s.oh, s.ow, s.size, s.stride, s.relu};
      const std::int64_t image = part.first * s.h * s.w * s.c,
                         result = part.first * s.oh * s.ow * s.c;
      if (forward)
        kernels.maxPool(pool, x + image, y + result);
      else
        kernels.maxPoolGrad(pool, x + image, top + result, dy + result, y + image);
    });
  });
}

std::unique_ptr<Kernel> bindMeanPool(const Cpu& cpu, const KernelSpec& spec) {
  const bool forward = spec.op == Op::kMeanPool2d;
  const Shape image = (forward ? spec.inputs[0] : spec.outputs[0]).type.shape;
  const auto run = forward ? cpu.kernels.meanPool : cpu.kernels.meanPoolGrad;
  const float* from = in(spec, 0);
  float* to = out(spec);
  const std::int64_t b = image[0], pixels = image[1] * image[2], c = image[3];
  const int parts = cpu.parts(b * pixels * c, kMinElements);
  return makeKernel([=] {
    forParts(parts, [&](int i) {
      const Part part = partOf(b, i, parts);
      const std::int64_t large = part.first * pixels * c, small = part.first * c;
      run(part.count, pixels, c, from + (forward ? large : small), to + (forward ? small : large));
    });
  });
}

std::unique_ptr<Kernel> bindSoftmaxXent(const Cpu& cpu, const KernelSpec& spec) {
  const cpu::Kernels& kernels = cpu.kernels;
  const Shape& shape = spec.inputs[0].type.shape;
  const std::int64_t rows = shape[0], k = shape[1];
  const float *x = in(spec, 0), *w = in(spec, 2);
  const auto* label = static_cast<const std::int32_t*>(spec.inputs[1].data);
  float* y = out(spec);
  if (spec.op == Op::kSoftmaxXentGrad) {
    const float *lse = in(spec, 3), *dloss = in(spec, 4);
    return makeKernel(
        [=, &kernels] { kernels.softmaxXentGrad(rows, k, x, label, w, lse, *dloss, y); });
  }
  float* lse = out(spec, 1);
  return makeKernel(
      [=, &kernels] { *y = static_cast<float>(kernels.softmaxXent(rows, k, x, label, w, lse)); });
}

// Element e has stream index e / block · pitch + first + e mod block.
std::unique_ptr<Kernel> bindRandom(const Cpu& cpu, const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.outputs[0].type.count();
  const std::int64_t block = ir::intAttr(attrs, "block", std::max<std::int64_t>(n, 1));
  const std::int64_t pitch = ir::intAttr(attrs, "pitch"), first = ir::intAttr(attrs, "first");
  cpu::Random base{};
  base.key = static_cast<std::uint64_t>(ir::intAttr(attrs, "key"));
  base.normal = ir::textAttr(attrs, "kind") == "normal";
  base.scale = ir::floatAttr(attrs, "scale", 1.0);
  float* y = out(spec);
  return overElements(cpu, n, [=, &kernels = cpu.kernels](std::int64_t from, std::int64_t count) {
    cpu::Random run = base;
    for (std::int64_t at = from; at < from + count; at += run.n) {
      run.n = std::min(block - at % block, from + count - at);
      run.first = static_cast<std::uint64_t>(at / block * pitch + first + at % block);
      run.y = y + at;
      kernels.random(run);
    }
  });
}

// Runs `first`, then ReLU in place on its output.
std::unique_ptr<Kernel> rectified(const Cpu& cpu, const KernelSpec& spec,
                                  std::unique_ptr<Kernel> first) {
  float* y = out(spec);
  const std::shared_ptr<Kernel> before = std::move(first),
                                after = overElements(cpu, spec.outputs[0].type.count(),
                                                     [=, relu = cpu.kernels.relu](
                                                         std::int64_t i, std::int64_t count) {
                                                       relu(count, y + i, y + i);
                                                     });
  return makeKernel([=] { before->run(), after->run(); }, before->workspaceBytes());
}

class OneDnn final : public Backend {
 public:
  OneDnn(const BackendOptions& options, const cpu::Kernels& kernels)
      : cpu_{kernels, options.threads, options.barrierCost}, engine_(options.threads) {}
  std::string_view name() const override { return "onednn"; }
  bool supports(Op op, DType dtype) const override {
    return hasKernel(op) && (dtype == DType::kF32 || (op == Op::kCast && sizeOf(dtype) == 2));
  }
  Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) override {
    if (!supports(spec.op, computeType(spec))) return unsupported(name(), spec);
    // Not before: it starts the team, whose threads keep the cores that this one has now.
    if (cpu_.barrierCost == 0) cpu_.barrierCost = measureBarrierCost(cpu_.threads);
    if (storesNarrow(spec)) return bindInF32(spec);
    switch (spec.op) {
      case Op::kMatmul:
      case Op::kConv2d:
      case Op::kConv2dInputGrad:
      case Op::kConv2dWeightGrad:
        if (!has16BitOperands(spec)) return bindMatmulOrConv(spec);
        if (spec.op == Op::kMatmul && spec.inputs[0].type.dtype == DType::kBf16 &&
            cpu_.kernels.adds16)
          return bindMatmul16(cpu_, spec);
        return widening_.bind(cpu_, spec,
                              [&](const KernelSpec& wide) { return bindMatmulOrConv(wide); });
      case Op::kMaxPool2d:
      case Op::kMaxPool2dGrad:
        return bindMaxPool(cpu_, spec);
      case Op::kReduceRows:
      case Op::kBiasAdd:
        return bindRows(cpu_, spec);
      case Op::kLayerNorm:
      case Op::kLayerNormGrad:
      case Op::kLayerNormWeightGrad:
        return bindLayerNorm(cpu_, spec);
      case Op::kMeanPool2d:
      case Op::kMeanPool2dGrad:
        return bindMeanPool(cpu_, spec);
      case Op::kBatchMoments:
      case Op::kBatchNorm:
      case Op::kBatchNormWeightGrad:
      case Op::kBatchNormGrad:
        return bindBatchNorm(cpu_, spec);
      case Op::kAttention:
      case Op::kAttentionGrad:
        return bindAttention(cpu_, spec);
      case Op::kEncode:
      case Op::kDecodeSum:
        return bindCoding(cpu_.kernels, spec);
      case Op::kSoftmaxXent:
      case Op::kSoftmaxXentGrad:
        return bindSoftmaxXent(cpu_, spec);
      case Op::kSumSquares:
        if (spec.inputs.size() > 1) return bindSumSquaresOfRows(cpu_.kernels, spec);
        return makeKernel(
            [n = spec.inputs[0].type.count(), x = in(spec, 0), y = out(spec),
             &kernels = cpu_.kernels] { *y = static_cast<float>(kernels.sumSquares(n, x)); });
      case Op::kRandom:
        return bindRandom(cpu_, spec);
      case Op::kAdam:
        return updateIfFinite(spec, bindAdam(cpu_, spec));
      case Op::kSgd:
        return updateIfFinite(spec, bindSgd(cpu_, spec));
      case Op::kAdagrad:
        return updateIfFinite(spec, bindAdagrad(cpu_, spec));
      case Op::kEmbedding:
        return bindEmbedding(spec);
      case Op::kAdagradRows:
        return updateIfFinite(spec, bindAdagradRows(cpu_.kernels, spec));
      case Op::kSgdRows:
        return updateIfFinite(spec, bindSgdRows(cpu_.kernels, spec));
      case Op::kCast:
        if (spec.inputs[0].type.dtype == DType::kU8 && computeType(spec) == DType::kF32) {
          const auto* x = static_cast<const std::uint8_t*>(spec.inputs[0].data);
          const auto factor = static_cast<float>(ir::floatAttr(*spec.attrs, "scale", 1.0));
          float* y = out(spec);
          const std::int64_t n = spec.outputs[0].type.count();
          return overElements(cpu_, n,
                              [=, &kernels = cpu_.kernels](std::int64_t i, std::int64_t count) {
                                kernels.castU8(count, x + i, factor, y + i);
                              });
        }
        if (auto kernel = bindCastTo16Bits(cpu_, spec)) return kernel;
        return bindReference(spec);
      default:
        if (auto kernel = bindElementwise(cpu_, spec)) return kernel;
        return bindReference(spec);
    }
  }

  device::Device* device() override { return nullptr; }

 private:
  Result<std::unique_ptr<Kernel>> bindInF32(const KernelSpec& spec) {
    const auto bindWide = [this](const KernelSpec& wide) { return bind(wide); };
    return bindWidened(spec, DType::kF32, bindWide, bindWide);
  }
  Result<std::unique_ptr<Kernel>> bindMatmulOrConv(const KernelSpec& spec) {
    if (spec.op != Op::kMatmul) return bindConv(cpu_, spec);
    if (const MatmulShape shape = matmulShape(spec); engine_.wantsMatmul(shape)) {
      LOCKSTEP_ASSIGN(auto primitive, engine_.bindMatmul(spec));
      if (primitive)
        return shape.relu ? rectified(cpu_, spec, std::move(primitive)) : std::move(primitive);
    }
    return bindMatmul(cpu_, spec);
  }

  Cpu cpu_;
  Widening widening_;
  OneDnnEngine engine_;
};

}  // namespace

Result<std::unique_ptr<Backend>> makeOneDnn(const BackendOptions& options,
                                            const cpu::Kernels& kernels) {
  return std::unique_ptr<Backend>(std::make_unique<OneDnn>(options, kernels));
}

}  // namespace lockstep::backends
