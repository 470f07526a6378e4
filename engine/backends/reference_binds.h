// The kernels of the reference backend by subject, and what they share. T is f32 or f64. For
// reference.cc and reference_*.cc alone.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "engine/backends/kernel.h"

namespace lockstep::backends::reference {

using Bind = Result<std::unique_ptr<Kernel>> (*)(const KernelSpec&);
using Binds = std::unordered_map<ir::Op, Bind>;

// The kernels of a subject, each defined in its file, as elementBinds() in reference_elements.cc.
template <typename T>
Binds elementBinds();
template <typename T>
Binds layerBinds();
template <typename T>
Binds sequenceBinds();
template <typename T>
Binds lossBinds();
template <typename T>
Binds optimizerBinds();
template <typename T>
Binds compressionBinds();

template <typename T>
T* in(const KernelSpec& spec, std::size_t i) {
  return static_cast<T*>(spec.inputs[i].data);
}
template <typename T>
T* out(const KernelSpec& spec, std::size_t i = 0) {
  return static_cast<T*>(spec.outputs[i].data);
}

// y[i] = f(x[i]) and y[i] = f(a[i], b[i]), evaluated in f64.
template <typename T, typename F>
std::unique_ptr<Kernel> unary(const KernelSpec& spec, F f) {
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(f(static_cast<double>(x[i])));
  });
}
template <typename T, typename F>
std::unique_ptr<Kernel> binary(const KernelSpec& spec, F f) {
  const T *a = in<T>(spec, 0), *b = in<T>(spec, 1);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(f(static_cast<double>(a[i]), static_cast<double>(b[i])));
  });
}

}  // namespace lockstep::backends::reference
