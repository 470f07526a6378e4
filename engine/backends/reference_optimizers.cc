// Kernels of the reference backend of optimizers, gradient norms and loss scaling.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/backends/reference_binds.h"
#include "engine/backends/reference_kernels.h"
#include "engine/backends/reference_sequence.h"
#include "engine/backends/rows.h"

namespace lockstep::backends::reference {

using ir::Op;

namespace {

template <typename T>
Result<std::unique_ptr<Kernel>> bindSumSquares(const KernelSpec& spec) {
  const std::int64_t n = spec.inputs[0].type.count();
  const T* x = in<T>(spec, 0);
  T* y = out<T>(spec);
  if (spec.inputs.size() == 1)
    return makeKernel([=] { y[0] = static_cast<T>(reference::dot(n, x, x)); });
  const std::int32_t* ids = in<std::int32_t>(spec, 1);
  const std::int64_t rows = spec.inputs[1].type.count(), c = n / rows;
  return makeKernel([=] {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      if (ids[r] != -1) sum += reference::dot(c, x + r * c, x + r * c);
    y[0] = static_cast<T>(sum);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindFiniteNorm(const KernelSpec& spec) {
  const T *norm = in<T>(spec, 0), *squares = in<T>(spec, 1);
  const T* scale = spec.inputs.size() > 2 ? in<T>(spec, 2) : nullptr;
  T* y = out<T>(spec);
  return makeKernel([=] {
    *y = !std::isfinite(*squares) ? T{-1} : scale != nullptr ? *norm * *scale : *norm;
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindClipNorm(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const double limit = ir::floatAttr(attrs, "limit");
  return binary<T>(spec, [limit](double norm, double squares) {
    if (norm <= 0) return norm;
    const double over = std::sqrt(squares) / (norm * limit);
    return over <= 1 ? norm : norm * over;
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindLossScale(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const T *scale = in<T>(spec, 0), *good = in<T>(spec, 1), *skipped = in<T>(spec, 2),
          *norm = in<T>(spec, 3);
  T *newScale = out<T>(spec, 0), *newGood = out<T>(spec, 1), *newSkipped = out<T>(spec, 2);
  const auto interval = static_cast<T>(ir::floatAttr(attrs, "interval"));
  const auto factor = static_cast<T>(ir::floatAttr(attrs, "factor"));
  const auto least = static_cast<T>(ir::floatAttr(attrs, "least"));
  const auto most = static_cast<T>(ir::floatAttr(attrs, "most"));
  return makeKernel([=] {
    const bool skips = *norm < 0, grows = !skips && *good + 1 >= interval;
    const T now = *scale;
    *newSkipped = *skipped + (skips ? 1 : 0);
    *newGood = skips || grows ? 0 : *good + 1;
    *newScale = skips ? std::max(now / factor, least) : grows ? std::min(now * factor, most) : now;
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSgd(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.inputs[0].type.count();
  const reference::SgdOperands<T> o{in<T>(spec, 0), in<T>(spec, 1),  in<T>(spec, 2), in<T>(spec, 3),
                                    in<T>(spec, 4), out<T>(spec, 0), out<T>(spec, 1)};
  const double momentum = ir::floatAttr(attrs, "momentum");
  const double decay = ir::floatAttr(attrs, "weight_decay");
  return updateIfFinite(spec, makeKernel([=] { reference::sgd(n, o, momentum, decay); }));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindAdagrad(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.inputs[0].type.count();
  const reference::AdagradOperands<T> o{in<T>(spec, 0), in<T>(spec, 1), in<T>(spec, 2),
                                        out<T>(spec, 0), out<T>(spec, 1)};
  const T *norm = in<T>(spec, 3), *lr = in<T>(spec, 4);
  const double epsilon = ir::floatAttr(attrs, "eps");
  const double decay = ir::floatAttr(attrs, "weight_decay");
  return updateIfFinite(spec, makeKernel([=] {
                          reference::adagrad(n, o,
                                             reference::inverseNorm(static_cast<double>(*norm)),
                                             static_cast<double>(*lr), decay, epsilon);
                        }));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindAdagradRows(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const T *p = in<T>(spec, 0), *s = in<T>(spec, 1), *g = in<T>(spec, 2);
  const std::int32_t* ids = in<std::int32_t>(spec, 3);
  const T *norm = in<T>(spec, 4), *lr = in<T>(spec, 5);
  T *pOut = out<T>(spec, 0), *sOut = out<T>(spec, 1);
  const std::int64_t elements = spec.inputs[0].type.count();
  const std::int64_t rows = spec.inputs[3].type.count();
  const std::int64_t channels = spec.inputs[2].type.count() / rows;
  const std::int64_t first = ir::intAttr(attrs, "first");
  const double epsilon = ir::floatAttr(attrs, "eps");
  auto update = makeKernel([=] {
    if (pOut != p) std::copy_n(p, elements, pOut);
    if (sOut != s) std::copy_n(s, elements, sOut);
    const double scale = reference::inverseNorm(static_cast<double>(*norm));
    forRows(
        rows, channels, first, elements, ids, [](std::int64_t) {},
        [&](std::int64_t at, std::int64_t from, std::int64_t n) {
          reference::adagrad<T>(n, {pOut + at, g + from, sOut + at, pOut + at, sOut + at}, scale,
                                static_cast<double>(*lr), 0, epsilon);
        });
  });
  return updateIfFinite(spec, std::move(update));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindSgdRows(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const T *p = in<T>(spec, 0), *v = in<T>(spec, 1), *g = in<T>(spec, 2);
  const std::int32_t* ids = in<std::int32_t>(spec, 3);
  const T *norm = in<T>(spec, 4), *lr = in<T>(spec, 5);
  T *pOut = out<T>(spec, 0), *vOut = out<T>(spec, 1);
  const std::int64_t elements = spec.inputs[0].type.count();
  const std::int64_t rows = spec.inputs[3].type.count();
  const std::int64_t channels = spec.inputs[2].type.count() / rows;
  const std::int64_t first = ir::intAttr(attrs, "first");
  auto update = makeKernel([=] {
    if (pOut != p) std::copy_n(p, elements, pOut);
    if (vOut != v) std::copy_n(v, elements, vOut);
    forRows(
        rows, channels, first, elements, ids, [](std::int64_t) {},
        [&](std::int64_t at, std::int64_t from, std::int64_t n) {
          reference::sgd<T>(n, {pOut + at, g + from, vOut + at, norm, lr, pOut + at, vOut + at}, 0,
                            0);
        });
  });
  return updateIfFinite(spec, std::move(update));
}

template <typename T>
Result<std::unique_ptr<Kernel>> bindAdam(const KernelSpec& spec) {
  const ir::Attrs& attrs = *spec.attrs;
  const std::int64_t n = spec.inputs[0].type.count();
  const reference::AdamOperands<T> o{
      in<T>(spec, 0), in<T>(spec, 1), in<T>(spec, 2),  in<T>(spec, 3),  in<T>(spec, 4),
      in<T>(spec, 5), in<T>(spec, 6), out<T>(spec, 0), out<T>(spec, 1), out<T>(spec, 2)};
  const AdamOptions options = adamOptions(attrs);
  return updateIfFinite(spec, makeKernel([=] { reference::adam(n, o, options); }));
}

}  // namespace

template <typename T>
Binds optimizerBinds() {
  return {
      {Op::kSumSquares, bindSumSquares<T>},
      {Op::kFiniteNorm, bindFiniteNorm<T>},
      {Op::kClipNorm, bindClipNorm<T>},
      {Op::kLossScale, bindLossScale<T>},
      {Op::kSgd, bindSgd<T>},
      {Op::kAdagrad, bindAdagrad<T>},
      {Op::kAdagradRows, bindAdagradRows<T>},
      {Op::kSgdRows, bindSgdRows<T>},
      {Op::kAdam, bindAdam<T>},
  };
}
template Binds optimizerBinds<float>();
template Binds optimizerBinds<double>();

}  // namespace lockstep::backends::reference
