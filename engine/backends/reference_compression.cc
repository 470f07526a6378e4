// Kernels of the reference backend of gradient compression.
#include "engine/backends/reference_compression.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/backends/reference_binds.h"

namespace lockstep::backends::reference {

using ir::Op;

namespace {

template <typename T>
Result<std::unique_ptr<Kernel>> bindEncode(const KernelSpec& spec) {
  const CodingShape s = codingShape(spec);
  const T *x = in<T>(spec, 0), *residual = in<T>(spec, 1);
  T* rest = out<T>(spec, 0);
  auto* payload = out<std::byte>(spec, 1);
  const auto n = static_cast<std::size_t>(s.count);
  return makeKernel([=, sent = std::vector<T>(n), t = std::vector<float>(n),
                     order = std::vector<std::uint32_t>(n)]() mutable {
    for (std::int64_t part = 0; part < s.payloads; ++part) {
      const std::int64_t first = part * s.count;
      reference::encode(s, x + first, residual + first, rest + first, payload + part * s.payload,
                        sent, t, order);
    }
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindDecodeSum(const KernelSpec& spec) {
  const CodingShape s = codingShape(spec);
  const auto* payloads = in<std::byte>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=] {
    std::fill_n(y, s.count, T{0});
    for (std::int64_t r = 0; r < s.payloads; ++r)
      reference::addDecoded(s, payloads + r * s.payload, y);
  });
}

}  // namespace

template <typename T>
Binds compressionBinds() {
  return {
      {Op::kEncode, bindEncode<T>},
      {Op::kDecodeSum, bindDecodeSum<T>},
  };
}
template Binds compressionBinds<float>();
template Binds compressionBinds<double>();

}  // namespace lockstep::backends::reference
