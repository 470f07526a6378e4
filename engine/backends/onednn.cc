#include "engine/backends/onednn.h"

#include <algorithm>
#include <cmath>

#include "engine/backends/aligned_floats.h"
#include "engine/backends/attention.h"
#include "engine/backends/compression.h"
#include "engine/backends/cpu/kernels.h"
#include "engine/backends/kernel.h"
#include "engine/backends/onednn_primitives.h"
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

// On several threads each computes some of the columns, or of the rows where columns are few. The sum
// of an element is made in one order whatever the number of threads.
class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(const cpu::Kernels& cpu, const KernelSpec& spec, int threads)
      : cpu_(cpu), shape_(matmulShape(spec)), threads_(worthwhile(threads)) {
    const MatmulShape& s = shape_;
    rows_ = multiples(s.n, s.ta ? 1 : s.k);
    ks_ = multiples(s.k, s.ta ? s.n : 1);
    whole_ = {s.n,          s.k,        s.o,         in(spec, 0),
              rows_.data(), ks_.data(), in(spec, 1), s.tb ? s.k : s.o,
              s.tb,         out(spec),  s.o,         spec.inputs.size() > 2 ? in(spec, 2) : nullptr,
              s.relu,       false};
  }
  void run() override {
    if (threads_ == 1) return cpu_.gemm(whole_);
#pragma omp parallel for num_threads(threads_) schedule(static, 1)
    for (int i = 0; i < threads_; ++i) cpu_.gemm(part(i));
  }
  std::int64_t workspaceBytes() const override {
    return bytesOf(rows_) + bytesOf(ks_);
  }

 private:
  static constexpr std::int64_t kColumns = 64;     // a cut at a multiple leaves no panel in two parts
  static constexpr std::int64_t kLeast = 1 << 20;  // products below are done before a thread wakes

  int worthwhile(int threads) const {
    return shape_.n * shape_.k * shape_.o < kLeast ? 1 : threads;
  }
  cpu::Gemm part(int i) const {
    cpu::Gemm g = whole_;
    if (shape_.o >= threads_ * kColumns) {
      const std::int64_t blocks = (shape_.o + kColumns - 1) / kColumns;
      const std::int64_t from = blocks * i / threads_ * kColumns;
      g.cols = std::min(shape_.o, blocks * (i + 1) / threads_ * kColumns) - from;
      g.b += shape_.tb ? from * g.ldb : from;
      g.c += from;
      if (g.bias != nullptr) g.bias += from;
    } else {
      const std::int64_t from = shape_.n * i / threads_;
      g.rows = shape_.n * (i + 1) / threads_ - from;
      g.rowOffset += from;
      g.c += from * g.ldc;
    }
    return g;
  }

  const cpu::Kernels& cpu_;
  const MatmulShape shape_;
  const int threads_;
  Offsets rows_, ks_;
  cpu::Gemm whole_;
};

// All three convolutions, an image at a time, as products with the image's patches, which are read
// where they lie: pixel p and tap t of a patch are x[pixels[p] + taps[t]]. With padding the image
// is first copied into a frame of zeros. An input gradient of stride 1 is a convolution of dy with the
// filters turned round; of another stride the patches' gradients are added up where they overlap.
class ConvKernel final : public Kernel {
 public:
  ConvKernel(const cpu::Kernels& cpu, const KernelSpec& spec)
      : cpu_(cpu),
        op_(spec.op),
        given_(convShape(spec)),
        turned_(op_ == Op::kConv2dInputGrad && canTurn(given_)),
        s_(turned_ ? turned(given_) : given_),
        frame_(needsFrame() ? frameHeight() * frameWidth() * s_.c : 0),
        patches_(op_ == Op::kConv2dInputGrad && !turned_ ? s_.oh * s_.ow * taps() : 0),
        filters_(turned_ ? taps() * s_.o : 0),
        first_(in(spec, 0)),
        second_(in(spec, 1)),
        bias_(spec.inputs.size() > 2 ? in(spec, 2) : nullptr),
        out_(out(spec)) {
    for (std::int64_t y = 0; y < s_.oh; ++y)
      for (std::int64_t x = 0; x < s_.ow; ++x)
        pixels_.push_back((y * s_.stride * frameWidth() + x * s_.stride) * s_.c);
    for (std::int64_t y = 0; y < s_.kh; ++y)
      for (std::int64_t x = 0; x < s_.kw; ++x)
        for (std::int64_t c = 0; c < s_.c; ++c) taps_.push_back((y * frameWidth() + x) * s_.c + c);
    if (op_ == Op::kConv2dInputGrad && !turned_) {
      gradRows_ = multiples(s_.oh * s_.ow, s_.o);
      gradKs_ = multiples(s_.o, 1);
    }
  }

  void run() override {
    const std::int64_t image = s_.h * s_.w * s_.c, result = s_.oh * s_.ow * s_.o;
    if (turned_) turnFilters();
    const float* weights = turned_ ? filters_.data : second_;
    for (std::int64_t b = 0; b < s_.b; ++b) {
      if (op_ == Op::kConv2d || turned_)
        forward(framed(first_ + b * image), weights, out_ + b * result);
      else if (op_ == Op::kConv2dWeightGrad)
        weightGrad(framed(first_ + b * image), second_ + b * result, b > 0);
      else
        inputGrad(first_ + b * result, out_ + b * image);
    }
  }
  std::int64_t workspaceBytes() const override {
    return frame_.bytes + patches_.bytes + filters_.bytes + bytesOf(pixels_) +
           bytesOf(taps_) + bytesOf(gradRows_) + bytesOf(gradKs_);
  }

 private:
  // Few channels would leave most lanes of a vector empty.
  static bool canTurn(const ConvShape& s) {
    return s.stride == 1 && s.kh == s.kw && s.pad < s.kh && s.c >= 8;
  }
  static ConvShape turned(const ConvShape& s) {
    return {s.b, s.oh, s.ow, s.o, s.kh, s.kw, s.c, s.h, s.w, 1, s.kh - 1 - s.pad, false};
  }
  std::int64_t taps() const { return s_.kh * s_.kw * s_.c; }
  std::int64_t frameHeight() const { return s_.h + 2 * s_.pad; }
  std::int64_t frameWidth() const { return s_.w + 2 * s_.pad; }
  bool needsFrame() const { return s_.pad > 0; }

  // The border of the frame is zero from the start and never written.
  const float* framed(const float* image) {
    if (!needsFrame()) return image;
    for (std::int64_t y = 0; y < s_.h; ++y)
      std::copy_n(image + y * s_.w * s_.c, s_.w * s_.c,
                  frame_.data + ((y + s_.pad) * frameWidth() + s_.pad) * s_.c);
    return frame_.data;
  }
  // [kh×kw×c×o] → [kh×kw×o×c], the taps backwards.
  void turnFilters() {
    const std::int64_t c = given_.c, o = given_.o, last = given_.kh * given_.kw - 1;
    for (std::int64_t t = 0; t <= last; ++t)
      for (std::int64_t i = 0; i < c; ++i)
        for (std::int64_t j = 0; j < o; ++j)
          filters_.data[((last - t) * o + j) * c + i] = second_[(t * c + i) * o + j];
  }
  void forward(const float* x, const float* weights, float* y) {
    cpu_.gemm({s_.oh * s_.ow, taps(), s_.o, x, pixels_.data(), taps_.data(), weights, s_.o, false,
               y, s_.o, bias_, s_.relu, false});
  }
  void weightGrad(const float* x, const float* dy, bool accumulate) {
    cpu_.gemm({taps(), s_.oh * s_.ow, s_.o, x, taps_.data(), pixels_.data(), dy, s_.o, false, out_,
               s_.o, nullptr, false, accumulate});
  }
  // The patches' gradients, added up where the patches overlap.
  void inputGrad(const float* dy, float* dx) {
    cpu_.gemm({s_.oh * s_.ow, s_.o, taps(), dy, gradRows_.data(), gradKs_.data(), second_, s_.o,
               true, patches_.data, taps(), nullptr, false, false});
    float* to = needsFrame() ? frame_.data : dx;
    std::fill_n(to, frameHeight() * frameWidth() * s_.c, 0.0f);
    const std::int64_t line = s_.kw * s_.c;
    for (std::size_t p = 0; p < pixels_.size(); ++p)
      for (std::int64_t ky = 0; ky < s_.kh; ++ky) {
        float* row = to + pixels_[p] + ky * frameWidth() * s_.c;
        const float* patch = patches_.data + static_cast<std::int64_t>(p) * taps() + ky * line;
        for (std::int64_t i = 0; i < line; ++i) row[i] += patch[i];
      }
    if (!needsFrame()) return;
    for (std::int64_t y = 0; y < s_.h; ++y)
      std::copy_n(frame_.data + ((y + s_.pad) * frameWidth() + s_.pad) * s_.c, s_.w * s_.c,
                  dx + y * s_.w * s_.c);
  }

  const cpu::Kernels& cpu_;
  Op op_;
  const ConvShape given_;
  const bool turned_;
  const ConvShape s_;  // of the convolution that is computed
  AlignedFloats frame_, patches_, filters_;
  const float *first_, *second_, *bias_;
  float* out_;
  Offsets pixels_, taps_, gradRows_, gradKs_;
};

std::unique_ptr<Kernel> bindAdam(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const AdamOptions a = adamOptions(*spec.attrs);
  cpu::Adam base{in(spec, 0),  in(spec, 1),  in(spec, 2),  in(spec, 3),
                 out(spec, 0), out(spec, 1), out(spec, 2), spec.inputs[0].type.count()};
  base.beta1 = static_cast<float>(a.beta1);
  base.beta2 = static_cast<float>(a.beta2);
  const float *norm = in(spec, 4), *lr = in(spec, 5), *t = in(spec, 6);
  // lr·m̂/(√v̂ + ε) = lr·(√c₂/c₁)·m/(√v + ε√c₂), c the bias corrections: one division an element.
  return makeKernel([=, &cpu] {
    cpu::Adam run = base;
    const double steps = static_cast<double>(*t), rate = static_cast<double>(*lr);
    const double correct1 = 1 - std::pow(a.beta1, steps), correct2 = 1 - std::pow(a.beta2, steps);
    run.scale = static_cast<float>(reference::inverseNorm(static_cast<double>(*norm)));
    run.rate = static_cast<float>(rate * std::sqrt(correct2) / correct1);
    run.epsilon = static_cast<float>(a.epsilon * std::sqrt(correct2));
    run.keep = static_cast<float>(1 - rate * a.weightDecay);
    cpu.adam(run);
  });
}

std::unique_ptr<Kernel> bindSgd(const cpu::Kernels& cpu, const KernelSpec& spec) {
  cpu::Sgd base{in(spec, 0),  in(spec, 1),  in(spec, 2),
                out(spec, 0), out(spec, 1), spec.inputs[0].type.count()};
  base.momentum = static_cast<float>(ir::floatAttr(*spec.attrs, "momentum"));
  base.decay = static_cast<float>(ir::floatAttr(*spec.attrs, "weight_decay"));
  const float *norm = in(spec, 3), *lr = in(spec, 4);
  return makeKernel([=, &cpu] {
    cpu::Sgd run = base;
    run.scale = static_cast<float>(reference::inverseNorm(static_cast<double>(*norm)));
    run.lr = *lr;
    cpu.sgd(run);
  });
}

std::unique_ptr<Kernel> bindAdagrad(const cpu::Kernels& cpu, const KernelSpec& spec) {
  cpu::Adagrad base{in(spec, 0),  in(spec, 1),  in(spec, 2),
                    out(spec, 0), out(spec, 1), spec.inputs[0].type.count()};
  base.decay = static_cast<float>(ir::floatAttr(*spec.attrs, "weight_decay"));
  base.epsilon = static_cast<float>(ir::floatAttr(*spec.attrs, "eps"));
  const float *norm = in(spec, 3), *lr = in(spec, 4);
  return makeKernel([=, &cpu] {
    cpu::Adagrad run = base;
    run.scale = static_cast<float>(reference::inverseNorm(static_cast<double>(*norm)));
    run.lr = *lr;
    cpu.adagrad(run);
  });
}

// A row is a cache line or two somewhere in a large table: what is waited for is memory.
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

// y = f(a [, b]) over all elements; null for other ops.
std::unique_ptr<Kernel> bindElementwise(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const std::int64_t n = spec.outputs[0].type.count();
  const float* a = spec.inputs.empty() ? nullptr : in(spec, 0);
  const float* b = spec.inputs.size() > 1 ? in(spec, 1) : nullptr;
  float* y = out(spec);
  switch (spec.op) {
    case Op::kRelu:
      return makeKernel([=, &cpu] { cpu.relu(n, a, y); });
    case Op::kReluGrad:
      return makeKernel([=, &cpu] { cpu.reluGrad(n, a, b, y); });
    case Op::kTanhGrad:
      return makeKernel([=, &cpu] { cpu.tanhGrad(n, a, b, y); });
    case Op::kGelu:
      return makeKernel([=, &cpu] { cpu.gelu(n, a, y); });
    case Op::kGeluGrad:
      return makeKernel([=, &cpu] { cpu.geluGrad(n, a, b, y); });
    case Op::kAdd:
      return makeKernel([=, &cpu] { cpu.add(n, a, b, y); });
    case Op::kScale: {
      const auto factor = static_cast<float>(ir::floatAttr(*spec.attrs, "factor", 1.0));
      return makeKernel([=, &cpu] { cpu.scale(n, a, factor, y); });
    }
    default:
      return nullptr;
  }
}

// Over rows of C channels: max-pool and its gradient, bias-add, reduce-rows.
std::unique_ptr<Kernel> bindRows(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const float* x = in(spec, 0);
  float* y = out(spec);
  if (spec.op == Op::kReduceRows || spec.op == Op::kBiasAdd) {
    // What is added or summed may be several rows, repeated.
    const std::int64_t cols =
        (spec.op == Op::kBiasAdd ? spec.inputs[1] : spec.outputs[0]).type.count();
    const std::int64_t rows = cols == 0 ? 0 : spec.inputs[0].type.count() / cols;
    if (spec.op == Op::kReduceRows)
      return makeKernel([=, &cpu] { cpu.reduceRows(rows, cols, x, y); });
    const float* bias = in(spec, 1);
    return makeKernel([=, &cpu] { cpu.biasAdd(rows, cols, x, bias, y); });
  }
  const PoolShape p = poolShape(spec);
  const cpu::Pool pool{p.b, p.h, p.w, p.c, p.oh, p.ow, p.size, p.stride};
  if (spec.op == Op::kMaxPool2d) return makeKernel([=, &cpu] { cpu.maxPool(pool, x, y); });
  const float *top = in(spec, 1), *dy = in(spec, 2);
  return makeKernel([=, &cpu] { cpu.maxPoolGrad(pool, x, top, dy, y); });
}

std::unique_ptr<Kernel> bindLayerNorm(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const bool forward = spec.op == Op::kLayerNorm, weights = spec.op == Op::kLayerNormWeightGrad;
  const Shape& shape = spec.inputs[0].type.shape;
  cpu::LayerNorm a{};
  a.rows = shape[0];
  a.channels = shape[1];
  if (forward) {
    a.epsilon = static_cast<float>(ir::floatAttr(*spec.attrs, "eps"));
    a.x = in(spec, 0), a.gain = in(spec, 1), a.bias = in(spec, 2);
    a.y = out(spec, 0), a.mean = out(spec, 1), a.rstd = out(spec, 2);
    return makeKernel([=, &cpu] { cpu.layerNorm(a); });
  }
  a.dy = in(spec, 0), a.x = in(spec, 1);
  if (!weights) a.gain = in(spec, 2);
  a.mean = in(spec, weights ? 2 : 3), a.rstd = in(spec, weights ? 3 : 4);
  if (weights) {
    a.dgain = out(spec, 0), a.dbias = out(spec, 1);
    return makeKernel([=, &cpu] { cpu.layerNormWeights(a); });
  }
  a.dx = out(spec);
  return makeKernel([=, &cpu] { cpu.layerNormGrad(a); });
}

std::unique_ptr<Kernel> bindMeanPool(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const bool forward = spec.op == Op::kMeanPool2d;
  const Shape image = (forward ? spec.inputs[0] : spec.outputs[0]).type.shape;
  const auto run = forward ? cpu.meanPool : cpu.meanPoolGrad;
  const float* from = in(spec, 0);
  float* to = out(spec);
  return makeKernel([=, b = image[0], n = image[1] * image[2], c = image[3]] {
    run(b, n, c, from, to);
  });
}

// Batch norm's passes over x, a group at a time; what is done once a channel is prepared here.
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const cpu::Kernels& cpu, const KernelSpec& spec)
      : cpu_(cpu),
        op_(spec.op),
        s_(batchNormShape(spec)),
        epsilon_(ir::floatAttr(*spec.attrs, "eps")),
        channels_(3 * s_.channels) {
    for (const Operand& operand : spec.inputs)
      inputs_.push_back(static_cast<const float*>(operand.data));
    for (const Operand& operand : spec.outputs) outputs_.push_back(static_cast<float*>(operand.data));
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
      a.channels = c;
      switch (op_) {
        case Op::kBatchMoments: moments(a, g); break;
        case Op::kBatchNorm: normalise(a, g); break;
        case Op::kBatchNormWeightGrad: weightGrad(a, g); break;
        default: inputGrad(a, g);
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
    cpu_.batchMoments(a);
  }
  void normalise(cpu::BatchNorm& a, std::int64_t g) {
    const float* variance = channels(4, g);
    float* scale = channels_.data;
    for (std::int64_t c = 0; c < s_.channels; ++c)
      scale[c] = static_cast<float>(static_cast<double>(inputs_[1][c]) *
                                    inverseDeviation(variance, c));
    a.x = samples(0, g);
    a.mean = channels(3, g);
    a.scale = scale;
    a.offset = inputs_[2];
    a.y = outputs_[0] + g * s_.groupCount();
    cpu_.batchNorm(a);
  }
  void weightGrad(cpu::BatchNorm& a, std::int64_t g) {
    const float* variance = channels(3, g);
    a.dy = samples(0, g);
    a.x = samples(1, g);
    a.mean = channels(2, g);
    a.first = outputs_[2] + g * 2 * s_.channels;
    a.second = a.first + s_.channels;
    cpu_.batchNormSums(a);
    for (std::int64_t c = 0; c < s_.channels; ++c) {
      a.first[c] = static_cast<float>(static_cast<double>(a.first[c]) *
                                      inverseDeviation(variance, c));
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
    cpu_.batchNormGrad(a);
  }

  const cpu::Kernels& cpu_;
  Op op_;
  BatchNormShape s_;
  double epsilon_;
  AlignedFloats channels_;
  std::vector<const float*> inputs_;
  std::vector<float*> outputs_;
};

std::unique_ptr<Kernel> bindSoftmaxXent(const KernelSpec& spec) {
  const Shape& shape = spec.inputs[0].type.shape;
  const std::int64_t rows = shape[0], k = shape[1];
  const float *logits = in(spec, 0), *w = in(spec, 2);
  const auto* label = static_cast<const std::int32_t*>(spec.inputs[1].data);
  float *loss = out(spec, 0), *probs = out(spec, 1);
  return makeKernel([=] {
    double total = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* x = logits + r * k;
      float* p = probs + r * k;
      const float top = *std::max_element(x, x + k);
      float sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += p[i] = std::exp(x[i] - top);
      total += static_cast<double>(w[r] * (std::log(sum) + top - x[label[r]]));
      const float inverse = 1 / sum;
      for (std::int64_t i = 0; i < k; ++i) p[i] *= inverse;
    }
    *loss = static_cast<float>(total);
  });
}

class OneDnn final : public Backend {
 public:
  OneDnn(int threads, const cpu::Kernels& kernels)
      : cpu_(kernels), threads_(std::max(1, threads)), engine_(threads) {}
  std::string_view name() const override { return "onednn"; }
  bool supports(Op op, DType dtype) const override { return dtype == DType::kF32 && hasKernel(op); }
  Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) override {
    if (!supports(spec.op, computeType(spec))) return unsupported(name(), spec);
    switch (spec.op) {
      case Op::kMatmul:
        if (engine_.wantsMatmul(matmulShape(spec))) {
          LOCKSTEP_ASSIGN(auto primitive, engine_.bindMatmul(spec));
          if (primitive) return primitive;
        }
        return std::unique_ptr<Kernel>(std::make_unique<MatmulKernel>(cpu_, spec, threads_));
      case Op::kConv2d:
      case Op::kConv2dInputGrad:
      case Op::kConv2dWeightGrad:
        if (engine_.wantsConv(convShape(spec))) {
          LOCKSTEP_ASSIGN(auto primitive, engine_.bindConv(spec));
          if (primitive) return primitive;
        }
        return std::unique_ptr<Kernel>(std::make_unique<ConvKernel>(cpu_, spec));
      case Op::kMaxPool2d:
      case Op::kMaxPool2dGrad:
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
        return std::unique_ptr<Kernel>(std::make_unique<BatchNormKernel>(cpu_, spec));
      case Op::kAttention:
      case Op::kAttentionGrad:
        return bindAttention(cpu_, spec);
      case Op::kEncode:
      case Op::kDecodeSum:
        return bindCoding(cpu_, spec);
      case Op::kSoftmaxXent:
        return bindSoftmaxXent(spec);
      case Op::kAdam:
        return bindAdam(cpu_, spec);
      case Op::kSgd:
        return bindSgd(cpu_, spec);
      case Op::kAdagrad:
        return bindAdagrad(cpu_, spec);
      case Op::kAdagradRows:
        return bindAdagradRows(cpu_, spec);
      case Op::kSgdRows:
        return bindSgdRows(cpu_, spec);
      case Op::kCast:
        if (spec.inputs[0].type.dtype == DType::kU8) {
          const auto* x = static_cast<const std::uint8_t*>(spec.inputs[0].data);
          const auto factor = static_cast<float>(ir::floatAttr(*spec.attrs, "scale", 1.0));
          float* y = out(spec);
          const std::int64_t n = spec.outputs[0].type.count();
          return makeKernel([=, &cpu = cpu_] { cpu.castU8(n, x, factor, y); });
        }
        return bindReference(spec);
      default:
        if (auto kernel = bindElementwise(cpu_, spec)) return kernel;
        return bindReference(spec);
    }
  }

 private:
  const cpu::Kernels& cpu_;
  const int threads_;
  OneDnnEngine engine_;
};

}  // namespace

Result<std::unique_ptr<Backend>> makeOneDnn(const BackendOptions& options,
                                            const cpu::Kernels& kernels) {
  return std::unique_ptr<Backend>(std::make_unique<OneDnn>(options.threads, kernels));
}

}  // namespace lockstep::backends
