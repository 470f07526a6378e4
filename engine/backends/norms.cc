#include "engine/backends/norms.h"

#include <cmath>
#include <vector>

#include "engine/backends/aligned_floats.h"
#include "engine/backends/reference_kernels.h"

namespace lockstep::backends {
namespace {

using ir::Op;

float* in(const KernelSpec& spec, std::size_t i) {
  return static_cast<float*>(spec.inputs[i].data);
}
float* out(const KernelSpec& spec, std::size_t i = 0) {
  return static_cast<float*>(spec.outputs[i].data);
}

constexpr std::int64_t kChannels = 16;  // part boundaries at multiples split no vector

// Part i of the rows.
cpu::LayerNorm rowsOf(cpu::LayerNorm a, int i, int parts) {
  const Part rows = partOf(a.rows, i, parts);
  a.rows = rows.count;
  const std::int64_t at = rows.first * a.channels;
  a.x += at;
  if (a.dy != nullptr) a.dy += at;
  if (a.dx != nullptr) a.dx += at;
  if (a.y != nullptr) a.y += at;
  a.mean += rows.first, a.rstd += rows.first;
  return a;
}
// Part i of the channels.
cpu::LayerNorm channelsOf(cpu::LayerNorm a, int i, int parts) {
  const Part channels = partOf(a.channels, i, parts, kChannels);
  a.channels = channels.count;
  a.x += channels.first, a.dy += channels.first;
  a.dgain += channels.first, a.dbias += channels.first;
  return a;
}

// Batch norm's passes over x, one group at a time; per-channel coefficients are prepared here.
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const Cpu& cpu, const KernelSpec& spec)
      : kernels_(cpu.kernels),
        op_(spec.op),
        s_(batchNormShape(spec)),
        epsilon_(ir::floatAttr(*spec.attrs, "eps")),
        parts_(cpu.parts(s_.groupCount(), kMinElements)),
        channels_(3 * s_.channels) {
    for (const Operand& operand : spec.inputs)
      inputs_.push_back(static_cast<const float*>(operand.data));
    for (const Operand& operand : spec.outputs)
      outputs_.push_back(static_cast<float*>(operand.data));
  }
  void run() override {
    const std::int64_t c = s_.channels;
    if (op_ == Op::kBatchNormWeightGrad) {
      std::fill_n(outputs_[0], c, 0.0f);
      std::fill_n(outputs_[1], c, 0.0f);
    }
    for (std::int64_t g = 0; g < s_.groups; ++g) {
      cpu::BatchNorm a{};
      a.samples = s_.groupSamples();
      a.pixels = s_.pixels;
      a.channels = a.stride = c;
      switch (op_) {
        case Op::kBatchMoments:
          moments(a, g);
          break;
        case Op::kBatchNorm:
          normalise(a, g);
          break;
        case Op::kBatchNormWeightGrad:
          weightGrad(a, g);
          break;
        default:
          inputGrad(a, g);
      }
    }
  }
  std::int64_t workspaceBytes() const override { return channels_.bytes; }

 private:
  const float* samples(std::size_t input, std::int64_t g) const {
    return inputs_[input] + g * s_.groupCount();
  }
  const float* channels(std::size_t input, std::int64_t g) const {
    return inputs_[input] + g * s_.channels;
  }
  double inverseDeviation(const float* variance, std::int64_t c) const {
    return 1 / std::sqrt(static_cast<double>(variance[c]) + epsilon_);
  }
  using Pass = void (*)(const cpu::BatchNorm&);
  void bySamples(Pass pass, const cpu::BatchNorm& whole) {
    forParts(parts_, [&](int i) {
      cpu::BatchNorm a = whole;
      const Part some = partOf(a.samples, i, parts_);
      const std::int64_t at = some.first * a.pixels * a.channels;
      a.samples = some.count;
      a.x += at;
      a.y += at;
      if (a.dy != nullptr) a.dy += at;
      if (a.w != nullptr) a.w += some.first;
      pass(a);
    });
  }
  void byChannels(Pass pass, const cpu::BatchNorm& whole) {
    const int parts = whole.channels > kChannels ? parts_ : 1;
    forParts(parts, [&](int i) {
      cpu::BatchNorm a = whole;
      const Part some = partOf(a.channels, i, parts, kChannels);
      a.channels = some.count;
      a.x += some.first;
      if (a.dy != nullptr) a.dy += some.first;
      a.mean += some.first;
      a.first += some.first;
      a.second += some.first;
      pass(a);
    });
  }
  void moments(cpu::BatchNorm& a, std::int64_t g) {
    float* row = outputs_[0] + g * (1 + 2 * s_.channels);
    a.x = samples(0, g);
    a.w = inputs_[1] + g * s_.groupSamples();
    a.mean = inputs_[2];
    a.first = row + 1;
    a.second = a.first + s_.channels;
    double weight = 0;
    for (std::int64_t i = 0; i < a.samples; ++i) weight += static_cast<double>(a.w[i]);
    row[0] = static_cast<float>(weight * static_cast<double>(a.pixels));
    byChannels(kernels_.batchMoments, a);
  }
  void normalise(cpu::BatchNorm& a, std::int64_t g) {
    const float* variance = channels(4, g);
    float* scale = channels_.data;
    for (std::int64_t c = 0; c < s_.channels; ++c)
      scale[c] =
          static_cast<float>(static_cast<double>(inputs_[1][c]) * inverseDeviation(variance, c));
    a.x = samples(0, g);
    a.mean = channels(3, g);
    a.scale = scale;
    a.offset = inputs_[2];
    a.y = outputs_[0] + g * s_.groupCount();
    bySamples(kernels_.batchNorm, a);
  }
  void weightGrad(cpu::BatchNorm& a, std::int64_t g) {
    const float* variance = channels(3, g);
    a.dy = samples(0, g);
    a.x = samples(1, g);
    a.mean = channels(2, g);
    a.first = outputs_[2] + g * 2 * s_.channels;
    a.second = a.first + s_.channels;
    byChannels(kernels_.batchNormSums, a);
    for (std::int64_t c = 0; c < s_.channels; ++c) {
      a.first[c] =
          static_cast<float>(static_cast<double>(a.first[c]) * inverseDeviation(variance, c));
      outputs_[0][c] += a.first[c];
      outputs_[1][c] += a.second[c];
    }
  }
  void inputGrad(cpu::BatchNorm& a, std::int64_t g) {
    const float *gain = inputs_[3], *variance = channels(6, g);
    const float* sums = inputs_[7] + g * 2 * s_.channels;
    const double share =
        reference::inverseNorm(static_cast<double>(inputs_[4][g * (1 + 2 * s_.channels)]));
    float *scale = channels_.data, *offset = scale + s_.channels, *slope = offset + s_.channels;
    for (std::int64_t c = 0; c < s_.channels; ++c) {
      const double inverse = inverseDeviation(variance, c);
      const double factor = static_cast<double>(gain[c]) * inverse;
      scale[c] = static_cast<float>(factor);
      offset[c] = static_cast<float>(-factor * share * static_cast<double>(sums[s_.channels + c]));
      slope[c] = static_cast<float>(-factor * share * inverse * static_cast<double>(sums[c]));
    }
    a.dy = samples(0, g);
    a.x = samples(1, g);
    a.w = inputs_[2] + g * s_.groupSamples();
    a.mean = channels(5, g);
    a.scale = scale;
    a.offset = offset;
    a.slope = slope;
    a.y = outputs_[0] + g * s_.groupCount();
    bySamples(kernels_.batchNormGrad, a);
  }

  const cpu::Kernels& kernels_;
  Op op_;
  BatchNormShape s_;
  double epsilon_;
  int parts_;
  AlignedFloats channels_;
  std::vector<const float*> inputs_;
  std::vector<float*> outputs_;
};

}  // namespace

std::unique_ptr<Kernel> bindLayerNorm(const Cpu& cpu, const KernelSpec& spec) {
  const bool forward = spec.op == Op::kLayerNorm, weights = spec.op == Op::kLayerNormWeightGrad;
  const Shape& shape = spec.inputs[0].type.shape;
  cpu::LayerNorm a{};
  a.rows = shape[0];
  a.channels = a.stride = shape[1];
  const cpu::Kernels& kernels = cpu.kernels;
  const int parts = cpu.parts(a.rows * a.channels, kMinElements);
  // Runs fn over the parts made by cut().
  const auto kernel = [&](auto fn, auto cut) {
    return makeKernel(
        [fn, cut, parts, a] { forParts(parts, [&](int i) { fn(cut(a, i, parts)); }); });
  };
  if (forward) {
    a.epsilon = static_cast<float>(ir::floatAttr(*spec.attrs, "eps"));
    a.x = in(spec, 0), a.gain = in(spec, 1), a.bias = in(spec, 2);
    a.y = out(spec, 0), a.mean = out(spec, 1), a.rstd = out(spec, 2);
    return kernel(kernels.layerNorm, rowsOf);
  }
  a.dy = in(spec, 0), a.x = in(spec, 1);
  if (!weights) a.gain = in(spec, 2);
  a.mean = in(spec, weights ? 2 : 3), a.rstd = in(spec, weights ? 3 : 4);
  if (weights) {
    a.dgain = out(spec, 0), a.dbias = out(spec, 1);
    return kernel(kernels.layerNormWeights, channelsOf);
  }
  a.dx = out(spec);
  return kernel(kernels.layerNormGrad, rowsOf);
}

std::unique_ptr<Kernel> bindBatchNorm(const Cpu& cpu, const KernelSpec& spec) {
  return std::make_unique<BatchNormKernel>(cpu, spec);
}

}  // namespace lockstep::backends
