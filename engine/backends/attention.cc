#include "engine/backends/attention.h"

#include <cmath>

#include "engine/backends/aligned_floats.h"

namespace lockstep::backends {
namespace {

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const Cpu& cpu, const KernelSpec& spec)
      : s_(attentionShape(spec)),
        forward_(spec.op == ir::Op::kAttention),
        run_(forward_ ? cpu.kernels.attention : cpu.kernels.attentionGrad),
        parts_(std::min<int>(
            cpu.parts(s_.samples * s_.heads * s_.tokens * s_.tokens * s_.head, kMinMultiplyAdds),
            static_cast<int>(s_.samples * s_.heads))),
        floats_((cpu::attentionFloats(s_.tokens, s_.head, !forward_) + 15) / 16 * 16),
        work_(parts_ * floats_) {
    const auto input = [&](std::size_t i) {
      return static_cast<const float*>(spec.inputs[i].data);
    };
    const auto output = [&](std::size_t i) { return static_cast<float*>(spec.outputs[i].data); };
    whole_.tokens = s_.tokens, whole_.head = s_.head, whole_.causal = s_.causal;
    whole_.scale = 1 / std::sqrt(static_cast<float>(s_.head));
    whole_.qkvStride = s_.qkvStride(), whole_.yStride = s_.yStride(), whole_.lseStride = s_.heads;
    if (forward_) {
      whole_.q = input(0);
      whole_.yOut = output(0), whole_.lseOut = output(1);
    } else {
      whole_.dy = input(0), whole_.q = input(1), whole_.y = input(2), whole_.lse = input(3);
      whole_.dq = output(0);
    }
  }

  void run() override {
    forParts(parts_, [&](int part) {
      const Part heads = partOf(s_.samples * s_.heads, part, parts_);
      for (std::int64_t i = heads.first; i < heads.first + heads.count; ++i)
        run_(of(i / s_.heads, i % s_.heads, work_.data + part * floats_));
    });
  }
  std::int64_t workspaceBytes() const override { return work_.bytes; }

 private:
  cpu::Attention of(std::int64_t sample, std::int64_t head, float* work) const {
    cpu::Attention a = whole_;
    const std::int64_t qkv = sample * s_.tokens * a.qkvStride + 3 * head * s_.head;
    const std::int64_t y = sample * s_.tokens * a.yStride + head * s_.head;
    const std::int64_t lse = sample * s_.tokens * a.lseStride + head;
    a.q += qkv;
    a.k = a.q + s_.head;
    a.v = a.k + s_.head;
    a.work = work;
    if (forward_) {
      a.yOut += y, a.lseOut += lse;
    } else {
      a.dy += y, a.y += y, a.lse += lse;
      a.dq += qkv;
      a.dk = a.dq + s_.head;
      a.dv = a.dk + s_.head;
    }
    return a;
  }

  const AttentionShape s_;
  const bool forward_;
  void (*const run_)(const cpu::Attention&);
  const int parts_;
  const std::int64_t floats_;  // per part
  AlignedFloats work_;
  cpu::Attention whole_{};
};

}  // namespace

std::unique_ptr<Kernel> bindAttention(const Cpu& cpu, const KernelSpec& spec) {
  return std::make_unique<AttentionKernel>(cpu, spec);
}

}  // namespace lockstep::backends
