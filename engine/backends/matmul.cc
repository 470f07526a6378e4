#include "engine/backends/matmul.h"

#include <algorithm>

#include "engine/backends/aligned_floats.h"

namespace lockstep::backends {
namespace {

using ir::Op;

const float* in(const KernelSpec& spec, std::size_t i) {
  return static_cast<const float*>(spec.inputs[i].data);
}
float* out(const KernelSpec& spec) { return static_cast<float*>(spec.outputs[0].data); }

constexpr std::int64_t kColumns = 64;  // part boundaries at multiples split no panel

// Part i of a matmul: some of its columns, or of its rows if columns are few.
cpu::Gemm part(cpu::Gemm g, int i, int parts) {
  if (g.cols >= parts * kColumns) {
    const Part columns = partOf(g.cols, i, parts, kColumns);
    g.cols = columns.count;
    g.b += g.transposed ? columns.first * g.ldb : columns.first;
    g.c += columns.first;
    if (g.bias != nullptr) g.bias += columns.first;
  } else {
    const Part rows = partOf(g.rows, i, parts);
    g.rows = rows.count;
    if (g.rowOffset != nullptr) g.rowOffset += rows.first;
    g.a += rows.first * g.rowStride;
    g.c += rows.first * g.ldc;
  }
  return g;
}

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(const Cpu& cpu, const KernelSpec& spec) : kernels_(cpu.kernels) {
    const MatmulShape s = matmulShape(spec);
    parts_ = cpu.parts(s.n * s.k * s.o, kMinMultiplyAdds);
    whole_.rows = s.n, whole_.k = s.k, whole_.cols = s.o;
    whole_.a = in(spec, 0), whole_.rowStride = s.ta ? 1 : s.k, whole_.kStride = s.ta ? s.n : 1;
    whole_.b = in(spec, 1), whole_.ldb = s.tb ? s.k : s.o, whole_.transposed = s.tb;
    whole_.c = out(spec), whole_.ldc = s.o;
    whole_.bias = spec.inputs.size() > 2 ? in(spec, 2) : nullptr;
    whole_.relu = s.relu;
  }
  void run() override {
    forParts(parts_, [&](int i) { kernels_.gemm(part(whole_, i, parts_)); });
  }
  std::int64_t workspaceBytes() const override { return 0; }

 private:
  const cpu::Kernels& kernels_;
  int parts_;
  cpu::Gemm whole_;
};

// All three convolutions, one image at a time, as matmuls with the image's patches, which are read
// in place: pixel p and tap t of a patch are x[pixels[p] + taps[t]]. With padding, the image is
// first copied into a zero-padded frame. An input gradient of stride 1 is a convolution of dy with
// the flipped filters; with other strides the patches' gradients are accumulated. Threads partition
// the images (for a weight gradient, the filters), each with its own frame.
class ConvKernel final : public Kernel {
 public:
  ConvKernel(const Cpu& cpu, const KernelSpec& spec)
      : kernels_(cpu.kernels),
        op_(spec.op),
        given_(convShape(spec)),
        turned_(op_ == Op::kConv2dInputGrad && canTurn(given_)),
        s_(turned_ ? turned(given_) : given_),
        parts_(cpu.parts(s_.b * s_.oh * s_.ow * taps() * s_.o, kMinMultiplyAdds)),
        frameFloats_(needsFrame() ? rounded(frameHeight() * frameWidth() * s_.c) : 0),
        patchFloats_(op_ == Op::kConv2dInputGrad && !turned_ ? rounded(s_.oh * s_.ow * taps()) : 0),
        frames_(parts_ * frameFloats_),
        patches_(parts_ * patchFloats_),
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
  }

  void run() override {
    if (turned_) turnFilters();
    forParts(parts_, [&](int i) { op_ == Op::kConv2dWeightGrad ? weightGrad(i) : images(i); });
  }
  std::int64_t workspaceBytes() const override {
    return frames_.bytes + patches_.bytes + filters_.bytes + bytesOf(pixels_) + bytesOf(taps_);
  }

 private:
  // With few channels most vector lanes would be idle.
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

  static std::int64_t rounded(std::int64_t floats) { return (floats + 15) / 16 * 16; }

  // Returns image b of x or its substitute, copied into part i's frame if needed. The frame's
  // border is zeroed once and never written.
  const float* framed(std::int64_t b, int i) {
    const float* image = first_ + b * s_.h * s_.w * s_.c;
    if (!needsFrame()) return image;
    float* frame = frames_.data + i * frameFloats_;
    for (std::int64_t y = 0; y < s_.h; ++y)
      std::copy_n(image + y * s_.w * s_.c, s_.w * s_.c,
                  frame + ((y + s_.pad) * frameWidth() + s_.pad) * s_.c);
    return frame;
  }
  // Flips filters: [kh×kw×c×o] → [kh×kw×o×c] with the taps reversed.
  void turnFilters() {
    const std::int64_t c = given_.c, o = given_.o, last = given_.kh * given_.kw - 1;
    for (std::int64_t t = 0; t <= last; ++t)
      for (std::int64_t i = 0; i < c; ++i)
        for (std::int64_t j = 0; j < o; ++j)
          filters_.data[((last - t) * o + j) * c + i] = second_[(t * c + i) * o + j];
  }
  void images(int i) {
    const Part mine = partOf(s_.b, i, parts_);
    const std::int64_t image = s_.h * s_.w * s_.c, result = s_.oh * s_.ow * s_.o;
    for (std::int64_t b = mine.first; b < mine.first + mine.count; ++b) {
      if (op_ == Op::kConv2d || turned_)
        forward(framed(b, i), turned_ ? filters_.data : second_, out_ + b * result);
      else
        inputGrad(first_ + b * result, out_ + b * image, i);
    }
  }
  void forward(const float* x, const float* weights, float* y) {
    cpu::Gemm g;
    g.rows = s_.oh * s_.ow, g.k = taps(), g.cols = s_.o;
    g.a = x, g.rowOffset = pixels_.data(), g.kOffset = taps_.data();
    g.b = weights, g.ldb = s_.o;
    g.c = y, g.ldc = s_.o, g.bias = bias_, g.relu = s_.relu;
    kernels_.gemm(g);
  }
  // Iterates over images in order, whichever part of the filters is computed.
  void weightGrad(int i) {
    cpu::Gemm g;
    g.rows = taps(), g.k = s_.oh * s_.ow, g.cols = s_.o;
    g.rowOffset = taps_.data(), g.kOffset = pixels_.data();
    g.ldb = g.ldc = s_.o;
    g.c = out_;
    for (std::int64_t b = 0; b < s_.b; ++b) {
      g.a = framed(b, i);
      g.b = second_ + b * s_.oh * s_.ow * s_.o;
      g.accumulate = b > 0;
      kernels_.gemm(part(g, i, parts_));
    }
  }
  // Accumulates the patches' gradients where patches overlap.
  void inputGrad(const float* dy, float* dx, int i) {
    float *patches = patches_.data + i * patchFloats_, *frame = frames_.data + i * frameFloats_;
    cpu::Gemm g;
    g.rows = s_.oh * s_.ow, g.k = s_.o, g.cols = taps();
    g.a = dy, g.rowStride = s_.o, g.kStride = 1;
    g.b = second_, g.ldb = s_.o, g.transposed = true;
    g.c = patches, g.ldc = taps();
    kernels_.gemm(g);
    float* to = needsFrame() ? frame : dx;
    std::fill_n(to, frameHeight() * frameWidth() * s_.c, 0.0f);
    const std::int64_t line = s_.kw * s_.c;
    for (std::size_t p = 0; p < pixels_.size(); ++p)
      for (std::int64_t ky = 0; ky < s_.kh; ++ky) {
        float* row = to + pixels_[p] + ky * frameWidth() * s_.c;
        const float* patch = patches + static_cast<std::int64_t>(p) * taps() + ky * line;
        for (std::int64_t j = 0; j < line; ++j) row[j] += patch[j];
      }
    if (!needsFrame()) return;
    for (std::int64_t y = 0; y < s_.h; ++y)
      std::copy_n(frame + ((y + s_.pad) * frameWidth() + s_.pad) * s_.c, s_.w * s_.c,
                  dx + y * s_.w * s_.c);
  }

  const cpu::Kernels& kernels_;
  Op op_;
  const ConvShape given_;
  const bool turned_;
  const ConvShape s_;  // of the convolution actually computed
  const int parts_;
  const std::int64_t frameFloats_, patchFloats_;  // per part
  AlignedFloats frames_, patches_, filters_;
  const float *first_, *second_, *bias_;
  float* out_;
  Offsets pixels_, taps_;
};

}  // namespace

std::unique_ptr<Kernel> bindMatmul(const Cpu& cpu, const KernelSpec& spec) {
  return std::make_unique<MatmulKernel>(cpu, spec);
}
std::unique_ptr<Kernel> bindConv(const Cpu& cpu, const KernelSpec& spec) {
  return std::make_unique<ConvKernel>(cpu, spec);
}

}  // namespace lockstep::backends
