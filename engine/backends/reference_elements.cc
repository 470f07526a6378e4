// Kernels of the reference backend that compute or move elements, and random numbers.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/backends/reference_binds.h"
#include "engine/backends/reference_kernels.h"
#include "engine/base/random.h"

namespace lockstep::backends::reference {

using ir::Op;

namespace {

template <typename T>
Result<std::unique_ptr<Kernel>> bindRandom(const KernelSpec& spec) {
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  const auto key = static_cast<std::uint64_t>(ir::intAttr(*spec.attrs, "key"));
  const double scale = ir::floatAttr(*spec.attrs, "scale", 1.0);
  const bool normal = ir::textAttr(*spec.attrs, "kind") == "normal";
  const std::int64_t block = ir::intAttr(*spec.attrs, "block", std::max<std::int64_t>(n, 1));
  const std::int64_t pitch = ir::intAttr(*spec.attrs, "pitch");
  const std::int64_t first = ir::intAttr(*spec.attrs, "first");
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto index = static_cast<std::uint64_t>(i / block * pitch + first + i % block);
      const double r = normal ? randomNormal(key, index) : 2 * randomUniform(key, index) - 1;
      y[i] = static_cast<T>(r * scale);
    }
  });
}

template <typename T, double (*f)(double)>
Result<std::unique_ptr<Kernel>> bindUnary(const KernelSpec& spec) {
  return unary<T>(spec, f);
}

template <typename T, double (*f)(double, double)>
Result<std::unique_ptr<Kernel>> bindBinary(const KernelSpec& spec) {
  return binary<T>(spec, f);
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindDropout(const KernelSpec& spec) {
  const T* x = in<T>(spec, 0);
  const std::int32_t* keys = in<std::int32_t>(spec, 1);
  T* y = out<T>(spec);
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.outputs[0].type.count(), samples = spec.inputs[1].type.count();
  const std::int64_t local = spec.outputs[0].type.shape.back();
  const std::int64_t columns = ir::intAttr(attrs, "columns", local);
  const std::int64_t first = ir::intAttr(attrs, "first");
  const std::int64_t rows = n / samples / local;  // per sample
  const auto salt = static_cast<std::uint64_t>(ir::intAttr(attrs, "salt"));
  const double rate = ir::floatAttr(attrs, "rate");
  const T keep = static_cast<T>(1 / (1 - rate));
  // randomUniform(key, e) ≥ rate, without its division.
  const auto bound = static_cast<std::uint64_t>(std::ceil(rate * 0x1.0p53));
  return makeKernel([=] {
    for (std::int64_t b = 0; b < samples; ++b) {
      const std::uint64_t key = randomKey(static_cast<std::uint64_t>(keys[b]), salt);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < local; ++c) {
          const std::int64_t i = (b * rows + r) * local + c;
          const auto e = static_cast<std::uint64_t>(r * columns + first + c);
          y[i] = (randomBits(key, e) >> 11) >= bound ? x[i] * keep : T{0};
        }
    }
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindConcat(const KernelSpec& spec) {
  struct Part {
    const T* x;
    std::int64_t columns;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i)
    parts.push_back({in<T>(spec, i), spec.inputs[i].type.shape[1]});
  T* y = out<T>(spec);
  const Shape shape = spec.outputs[0].type.shape;
  return makeKernel([=, rows = shape[0], columns = shape[1]] {
    std::int64_t first = 0;
    for (const Part& part : parts) {
      for (std::int64_t r = 0; r < rows; ++r)
        std::copy_n(part.x + r * part.columns, part.columns, y + r * columns + first);
      first += part.columns;
    }
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindFill(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  const T value = static_cast<T>(ir::floatAttr(attrs, "value"));
  return makeKernel([=] { std::fill_n(y, n, value); });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindScale(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const double factor = ir::floatAttr(attrs, "factor", 1.0);
  return unary<T>(spec, [factor](double x) { return x * factor; });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindPartialToLocal(const KernelSpec& spec) {
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    if (x != y) std::copy_n(x, n, y);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindScaleByRatio(const KernelSpec& spec) {
  const T *x = in<T>(spec, 0), *own = in<T>(spec, 1), *total = in<T>(spec, 2);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    const T share = *total <= 0 ? T{0} : *own / *total;
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * share;
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSelectIfFinite(const KernelSpec& spec) {
  const T *x = in<T>(spec, 0), *before = in<T>(spec, 1), *norm = in<T>(spec, 2);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count();
  return makeKernel([=] {
    if (const T* from = *norm < 0 ? before : x; from != y) std::copy_n(from, n, y);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindOrderedSum(const KernelSpec& spec) {
  const T *sum = in<T>(spec, 0), *x = in<T>(spec, 1);
  T* y = out<T>(spec);
  const std::int64_t n = spec.outputs[0].type.count(), all = spec.inputs[1].type.count();
  return makeKernel([=] {
    if (y != sum) std::copy_n(sum, n, y);
    for (const T* part = x; part < x + all; part += n)
      for (std::int64_t i = 0; i < n; ++i) y[i] += part[i];
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindColumns(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t from = spec.inputs[0].type.shape[1], first = ir::intAttr(attrs, "first");
  const Shape shape = spec.outputs[0].type.shape;
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=, rows = shape[0], columns = shape[1]] {
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(x + r * from + first, columns, y + r * columns);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindRepeatRows(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.inputs[0].type.count(), times = ir::intAttr(attrs, "times");
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  return makeKernel([=] {
    for (std::int64_t i = 0; i < n; ++i) std::fill_n(y + i * times, times, x[i]);
  });
}

}  // namespace

template <typename T>
Binds elementBinds() {
  return {
      {Op::kFill, bindFill<T>},
      {Op::kRandom, bindRandom<T>},
      {Op::kAdd, bindBinary<T, elementwise::add>},
      {Op::kScale, bindScale<T>},
      {Op::kPartialToLocal, bindPartialToLocal<T>},
      {Op::kScaleByRatio, bindScaleByRatio<T>},
      {Op::kSelectIfFinite, bindSelectIfFinite<T>},
      {Op::kOrderedSum, bindOrderedSum<T>},
      {Op::kRelu, bindUnary<T, elementwise::relu>},
      {Op::kReluGrad, bindBinary<T, elementwise::reluGrad>},
      {Op::kGelu, bindUnary<T, elementwise::gelu>},
      {Op::kGeluGrad, bindBinary<T, elementwise::geluGrad>},
      {Op::kTanh, bindUnary<T, elementwise::tanh>},
      {Op::kTanhGrad, bindBinary<T, elementwise::tanhGrad>},
      {Op::kDropout, bindDropout<T>},
      {Op::kConcat, bindConcat<T>},
      {Op::kColumns, bindColumns<T>},
      {Op::kRepeatRows, bindRepeatRows<T>},
  };
}
template Binds elementBinds<float>();
template Binds elementBinds<double>();

}  // namespace lockstep::backends::reference
