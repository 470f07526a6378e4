// Shared by the backends: makes a kernel from a callable, and reads the geometry of an op from its
// spec. Internal to engine/backends.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/backends/backend.h"

namespace lockstep::backends {

template <typename F>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(F function, std::int64_t bytes) : function_(std::move(function)), bytes_(bytes) {}
  void run() override { function_(); }
  std::int64_t workspaceBytes() const override { return bytes_; }

 private:
  F function_;
  std::int64_t bytes_;
};

template <typename F>
std::unique_ptr<Kernel> makeKernel(F function, std::int64_t workspaceBytes = 0) {
  return std::make_unique<FunctionKernel<F>>(std::move(function), workspaceBytes);
}

// out[n×o] = op(a)·op(b); op(a) is n×k.
struct MatmulShape {
  std::int64_t n = 0, k = 0, o = 0;
  bool ta = false, tb = false, relu = false;
};
MatmulShape matmulShape(const KernelSpec& spec);

// x[b×h×w×c], weights[kh×kw×c×o], y[b×oh×ow×o].
struct ConvShape {
  std::int64_t b = 0, h = 0, w = 0, c = 0, kh = 0, kw = 0, o = 0, oh = 0, ow = 0;
  std::int64_t stride = 1, pad = 0;
  bool relu = false;
};
ConvShape convShape(const KernelSpec& spec);  // any of the three conv2d ops

// x[b×h×w×c], y[b×oh×ow×c].
struct PoolShape {
  std::int64_t b = 0, h = 0, w = 0, c = 0, oh = 0, ow = 0, size = 0, stride = 0;
  bool relu = false;
};
PoolShape poolShape(const KernelSpec& spec);  // of kMaxPool2d and its gradient

// qkv[samples·tokens × 3·heads·head], y[samples·tokens × heads·head].
struct AttentionShape {
  std::int64_t samples = 0, tokens = 0, heads = 0, head = 0;
  bool causal = false;
  std::int64_t qkvStride() const { return 3 * heads * head; }
  std::int64_t yStride() const { return heads * head; }
};
AttentionShape attentionShape(const KernelSpec& spec);  // of kAttention and its gradient

// x[samples × pixels × channels]; each group has samples / groups consecutive samples.
struct BatchNormShape {
  std::int64_t samples = 0, pixels = 0, channels = 0, groups = 0;
  std::int64_t groupSamples() const { return samples / groups; }
  std::int64_t groupCount() const { return groupSamples() * pixels * channels; }
};
BatchNormShape batchNormShape(const KernelSpec& spec);  // of an op that reads x

struct AdamOptions {
  double beta1 = 0, beta2 = 0, epsilon = 0, weightDecay = 0;
};
AdamOptions adamOptions(const ir::Attrs& attrs);

// Wraps an optimizer kernel: runs `update` unless operand `norm` is below 0, else copies the
// previous values to the outputs.
std::unique_ptr<Kernel> updateIfFinite(const KernelSpec& spec, std::unique_ptr<Kernel> update);

// Returns the compute dtype of a kernel: that of its first output; f32 if that is not a float, or
// is stored in 16 bits, unless an operand is f64.
DType computeType(const KernelSpec& spec);
// Returns kFailedPrecondition: `backend` has no kernel for the spec.
Error unsupported(std::string_view backend, const KernelSpec& spec);

}  // namespace lockstep::backends
