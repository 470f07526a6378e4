#include "engine/backends/attention.h"

#include <algorithm>
#include <cmath>

#include "engine/backends/aligned_floats.h"

namespace lockstep::backends {
namespace {

constexpr std::int64_t kBlock = 64;  // tokens

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const cpu::Kernels& cpu, const KernelSpec& spec)
      : cpu_(cpu),
        s_(attentionShape(spec)),
        scale_(1 / std::sqrt(static_cast<float>(s_.head))),
        forward_(spec.op == ir::Op::kAttention),
        scores_(kBlock * s_.tokens),
        grads_(forward_ ? 0 : kBlock * s_.tokens),
        qkvRows_(multiples(s_.tokens, s_.qkvStride())),
        yRows_(multiples(s_.tokens, s_.yStride())),
        scoreRows_(multiples(kBlock, s_.tokens)),
        ones_(multiples(std::max({s_.tokens, s_.head, kBlock}), 1)) {
    const auto input = [&](std::size_t i) { return static_cast<const float*>(spec.inputs[i].data); };
    const auto output = [&](std::size_t i) { return static_cast<float*>(spec.outputs[i].data); };
    if (forward_) {
      qkv_ = input(0);
      yOut_ = output(0);
      lseOut_ = output(1);
    } else {
      dy_ = input(0);
      qkv_ = input(1);
      y_ = input(2);
      lse_ = input(3);
      dqkv_ = output(0);
    }
  }

  void run() override {
    if (!forward_) std::fill_n(dqkv_, s_.samples * s_.tokens * s_.qkvStride(), 0.0f);
    for (std::int64_t b = 0; b < s_.samples; ++b)
      for (std::int64_t h = 0; h < s_.heads; ++h)
        for (std::int64_t first = 0; first < s_.tokens; first += kBlock) {
          const std::int64_t rows = std::min(kBlock, s_.tokens - first);
          (this->*(forward_ ? &AttentionKernel::forward : &AttentionKernel::backward))(
              {b, h, first, rows, s_.causal ? first + rows : s_.tokens});
        }
  }
  std::int64_t workspaceBytes() const override {
    return scores_.bytes + grads_.bytes + bytesOf(qkvRows_) + bytesOf(yRows_) +
           bytesOf(scoreRows_) + bytesOf(ones_);
  }

 private:
  // Tokens [first, first + rows) of a sample and head, which see at most the first `seen`.
  struct Block {
    std::int64_t sample, head, first, rows, seen;
  };
  // Of the sample and head: 0 q, 1 k, 2 v.
  std::int64_t qkvAt(const Block& at, int part) const {
    return at.sample * s_.tokens * s_.qkvStride() + (3 * at.head + part) * s_.head;
  }
  std::int64_t yAt(const Block& at) const {
    return (at.sample * s_.tokens + at.first) * s_.yStride() + at.head * s_.head;
  }
  std::int64_t lseAt(const Block& at, std::int64_t row) const {
    return (at.sample * s_.tokens + at.first + row) * s_.heads + at.head;
  }
  std::int64_t seenBy(const Block& at, std::int64_t row) const {
    return s_.causal ? at.first + row + 1 : s_.tokens;
  }

  // q·kᵀ into scores.
  void score(const Block& at) {
    cpu_.gemm({at.rows, s_.head, at.seen, qkv_ + qkvAt(at, 0) + at.first * s_.qkvStride(),
               qkvRows_.data(), ones_.data(), qkv_ + qkvAt(at, 1), s_.qkvStride(), true,
               scores_.data, s_.tokens, nullptr, false, false});
  }

  void forward(const Block& at) {
    score(at);
    float* y = yOut_ + yAt(at);
    float sums[kBlock];
    for (std::int64_t r = 0; r < at.rows; ++r) {
      float* row = scores_.data + r * s_.tokens;
      const std::int64_t seen = seenBy(at, r);
      const float top = scale_ * cpu_.largest(seen, row);
      sums[r] = cpu_.expRow(seen, row, scale_, top, row);
      std::fill(row + seen, row + at.seen, 0.0f);
      lseOut_[lseAt(at, r)] = top + std::log(sums[r]);
    }
    cpu_.gemm({at.rows, at.seen, s_.head, scores_.data, scoreRows_.data(), ones_.data(),
               qkv_ + qkvAt(at, 2), s_.qkvStride(), false, y, s_.yStride(), nullptr, false, false});
    for (std::int64_t r = 0; r < at.rows; ++r) {
      float* row = y + r * s_.yStride();
      cpu_.scale(s_.head, row, 1 / sums[r], row);
    }
  }

  void backward(const Block& at) {
    const float *dy = dy_ + yAt(at), *y = y_ + yAt(at);
    score(at);
    // dy·vᵀ
    cpu_.gemm({at.rows, s_.head, at.seen, dy, yRows_.data(), ones_.data(), qkv_ + qkvAt(at, 2),
               s_.qkvStride(), true, grads_.data, s_.tokens, nullptr, false, false});
    for (std::int64_t r = 0; r < at.rows; ++r) {
      float *p = scores_.data + r * s_.tokens, *ds = grads_.data + r * s_.tokens;
      const std::int64_t seen = seenBy(at, r);
      float offset = 0;
      for (std::int64_t c = 0; c < s_.head; ++c)
        offset += dy[r * s_.yStride() + c] * y[r * s_.yStride() + c];
      cpu_.expRow(seen, p, scale_, lse_[lseAt(at, r)], p);
      cpu_.softmaxGradRow(seen, p, offset, scale_, ds);
      std::fill(p + seen, p + at.seen, 0.0f);
      std::fill(ds + seen, ds + at.seen, 0.0f);
    }
    // dq = ds·k; dk += dsᵀ·q; dv += pᵀ·dy
    const std::int64_t begin = at.first * s_.qkvStride();
    cpu_.gemm({at.rows, at.seen, s_.head, grads_.data, scoreRows_.data(), ones_.data(),
               qkv_ + qkvAt(at, 1), s_.qkvStride(), false, dqkv_ + qkvAt(at, 0) + begin,
               s_.qkvStride(), nullptr, false, false});
    cpu_.gemm({at.seen, at.rows, s_.head, grads_.data, ones_.data(), scoreRows_.data(),
               qkv_ + qkvAt(at, 0) + begin, s_.qkvStride(), false, dqkv_ + qkvAt(at, 1),
               s_.qkvStride(), nullptr, false, true});
    cpu_.gemm({at.seen, at.rows, s_.head, scores_.data, ones_.data(), scoreRows_.data(), dy,
               s_.yStride(), false, dqkv_ + qkvAt(at, 2), s_.qkvStride(), nullptr, false, true});
  }

  const cpu::Kernels& cpu_;
  AttentionShape s_;
  float scale_;
  bool forward_;
  AlignedFloats scores_, grads_;
  Offsets qkvRows_, yRows_, scoreRows_, ones_;
  const float *qkv_ = nullptr, *dy_ = nullptr, *y_ = nullptr, *lse_ = nullptr;
  float *yOut_ = nullptr, *lseOut_ = nullptr, *dqkv_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> bindAttention(const cpu::Kernels& cpu, const KernelSpec& spec) {
  return std::make_unique<AttentionKernel>(cpu, spec);
}

}  // namespace lockstep::backends
