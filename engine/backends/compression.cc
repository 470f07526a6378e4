#include "engine/backends/compression.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "engine/backends/aligned_floats.h"

namespace lockstep::backends {
namespace {

using ir::Coding;

static_assert(cpu::kScaledTogether == ir::kScaledTogether);
constexpr std::int64_t kBlock = 16 * ir::kScaledTogether;  // fits the first-level cache

struct Encoding {
  const float *x, *residual;
  float* rest;
  std::byte* payload;
};

// Each part of the input is a payload of its own.
class Encode : public Kernel {
 public:
  Encode(const cpu::Kernels& cpu, const KernelSpec& spec)
      : cpu_(cpu),
        shape_(codingShape(spec)),
        all_{static_cast<const float*>(spec.inputs[0].data),
             static_cast<const float*>(spec.inputs[1].data),
             static_cast<float*>(spec.outputs[0].data),
             static_cast<std::byte*>(spec.outputs[1].data)} {}
  void run() final {
    for (std::int64_t part = 0; part < shape_.payloads; ++part) {
      const std::int64_t first = part * shape_.count;
      encode({all_.x + first, all_.residual + first, all_.rest + first,
              all_.payload + part * shape_.payload});
    }
  }

 protected:
  virtual void encode(const Encoding& to) = 0;

  const cpu::Kernels& cpu_;
  const CodingShape shape_;

 private:
  const Encoding all_;
};

// Encodings of 16 or 8 bits per element.
class EncodeDense final : public Encode {
 public:
  EncodeDense(const cpu::Kernels& cpu, const KernelSpec& spec)
      : Encode(cpu, spec), sent_(2 * kBlock) {}
  std::int64_t workspaceBytes() const override { return sent_.bytes; }

 private:
  void encode(const Encoding& to) override {
    const auto coding = static_cast<std::size_t>(shape_.coding);
    for (std::int64_t first = 0; first < shape_.count; first += kBlock) {
      const std::int64_t n = std::min(kBlock, shape_.count - first);
      float *t = sent_.data, *sent = t + kBlock;
      std::byte* const scales = to.payload + shape_.scaleAt(first);
      std::byte* const values = to.payload + shape_.valueAt(first);
      cpu_.add(n, to.x + first, to.residual + first, t);
      cpu_.encode[coding](n, t, scales, values);
      cpu_.decode[coding](n, scales, values, sent);
      cpu_.subtract(n, t, sent, to.rest + first);
    }
    if (shape_.coding == Coding::kInt8) {
      const std::int64_t end = shape_.valueAt(shape_.count);
      std::memset(to.payload + end, 0, static_cast<std::size_t>(shape_.payload - end));
    }
  }

  AlignedFloats sent_;
};

// Finds the `kept` largest by radix selection, eleven or ten bits at a time from the top: the
// histogram tells which digit the last one has.
class EncodeTopK final : public Encode {
 public:
  using Encode::Encode;
  std::int64_t workspaceBytes() const override { return sizeof counts_; }

 private:
  void encode(const Encoding& to) override {
    float* const t = to.rest;
    cpu_.add(shape_.count, to.x, to.residual, t);
    std::int64_t wanted =
        shape_.kept;  // remaining elements among those with the prefix found so far
    std::uint32_t found = 0;
    for (const int shift : {20, 10, 0}) {
      counts_.fill(0);
      const std::uint32_t mask = shift == 20 ? 0x7ff : 0x3ff;
      const int above = shift == 20 ? 31 : shift + 10;
      for (std::int64_t i = 0; i < shape_.count; ++i) {
        const std::uint32_t bits = magnitude(t[i]);
        if (bits >> above == found >> above) ++counts_[bits >> shift & mask];
      }
      std::uint32_t digit = mask;
      while (counts_[digit] < wanted) wanted -= counts_[digit--];
      found |= digit << shift;
    }
    std::byte* value = to.payload;
    std::byte* index = value + shape_.kept * 4;
    for (std::int64_t i = 0; i < shape_.count; ++i) {
      const std::uint32_t bits = magnitude(t[i]);
      if (bits < found || (bits == found && wanted-- <= 0)) continue;
      const auto at = static_cast<std::uint32_t>(i);
      std::memcpy(value, t + i, 4);
      std::memcpy(index, &at, 4);
      value += 4, index += 4;
      t[i] -= t[i];  // a non-finite element leaves no residual
    }
  }
  static std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

  std::array<std::int64_t, 2048> counts_;
};

std::unique_ptr<Kernel> bindDecodeSum(const cpu::Kernels& cpu, const KernelSpec& spec) {
  const CodingShape s = codingShape(spec);
  const auto* payloads = static_cast<const std::byte*>(spec.inputs[0].data);
  float* y = static_cast<float*>(spec.outputs[0].data);
  if (s.coding == Coding::kTopK) {
    return makeKernel([=] {
      std::memset(y, 0, static_cast<std::size_t>(s.count) * sizeof(float));
      for (std::int64_t r = 0; r < s.payloads; ++r) {
        const std::byte *value = payloads + r * s.payload, *index = value + s.kept * 4;
        for (std::int64_t k = 0; k < s.kept; ++k) {
          float sent = 0;
          std::uint32_t at = 0;
          std::memcpy(&sent, value + 4 * k, 4);
          std::memcpy(&at, index + 4 * k, 4);
          if (at < s.count) y[at] += sent;  // untrusted: received from another rank
        }
      }
    });
  }
  auto sent = std::make_unique<AlignedFloats>(kBlock);
  const std::int64_t workspace = sent->bytes;
  return makeKernel(
      [=, &cpu, sent = std::move(sent)] {
        const auto coding = static_cast<std::size_t>(s.coding);
        for (std::int64_t first = 0; first < s.count; first += kBlock) {
          const std::int64_t n = std::min(kBlock, s.count - first);
          for (std::int64_t r = 0; r < s.payloads; ++r) {
            const std::byte* payload = payloads + r * s.payload;
            float* const to = r == 0 ? y + first : sent->data;
            cpu.decode[coding](n, payload + s.scaleAt(first), payload + s.valueAt(first), to);
            if (r > 0) cpu.add(n, y + first, to, y + first);
          }
        }
      },
      workspace);
}

}  // namespace

CodingShape codingShape(const KernelSpec& spec) {
  CodingShape s;
  const bool encodes = spec.op == ir::Op::kEncode;
  const std::int64_t parts = encodes ? ir::intAttr(*spec.attrs, "parts", 1) : 1;
  s.coding = *ir::codingFromName(ir::textAttr(*spec.attrs, "coding"));
  s.kept = ir::intAttr(*spec.attrs, "kept");
  s.count = (encodes ? spec.inputs : spec.outputs)[0].type.count() / parts;
  s.payload = ir::payloadBytes(s.coding, s.count, s.kept);
  s.payloads = encodes ? parts : spec.inputs[0].type.count() / s.payload;
  return s;
}

std::unique_ptr<Kernel> bindCoding(const cpu::Kernels& cpu, const KernelSpec& spec) {
  if (spec.op == ir::Op::kDecodeSum) return bindDecodeSum(cpu, spec);
  if (codingShape(spec).coding == Coding::kTopK) return std::make_unique<EncodeTopK>(cpu, spec);
  return std::make_unique<EncodeDense>(cpu, spec);
}

}  // namespace lockstep::backends
