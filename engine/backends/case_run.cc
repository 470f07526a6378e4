#include "engine/backends/case_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "engine/backends/hosted.h"
#include "engine/backends/reference.h"
#include "engine/base/random.h"

namespace lockstep::backends {
namespace {

using ir::Op;

// Operands are perturbed by kDisturbance times Cauchy-distributed numbers. Sums of these are Cauchy
// too, Σ a·c with scale Σ|a|, so one run measures a sum of magnitudes (Indyk 2006), and the maximum
// of a few runs rarely underestimates it much.
constexpr double kDisturbance = 0x1p-40;
constexpr std::uint64_t kDisturbances = 3;

DType dtypeOf(Fill fill, DType compute) {
  if (fill == Fill::kBf16 && compute == DType::kF32) return DType::kBf16;
  if (fill == Fill::kF16 && compute == DType::kF32) return DType::kF16;
  if (fill == Fill::kLabels || fill == Fill::kIds || fill == Fill::kManyIds ||
      fill == Fill::kOwnIds)
    return DType::kI32;
  return fill == Fill::kBytes || fill == Fill::kCoded ? DType::kU8 : compute;
}

void disturb(CaseTensor& x, std::uint64_t key) {
  for (std::int64_t i = 0; i < x.type().count(); ++i)
    x.set(i,
          x.at(i) * (1 + kDisturbance *
                             std::tan(std::numbers::pi *
                                      (randomUniform(key, static_cast<std::uint64_t>(i)) - 0.5))));
}

// Writes the maxima of x's windows.
void pool(const Case& one, CaseTensor& x, CaseTensor& out) {
  makeReference()
      ->bind({Op::kMaxPool2d, one.name, &one.attrs, {x.operand()}, {out.operand()}})
      .value()
      ->run();
}

void code(const Case& one, CaseTensor& out) {
  ir::Attrs attrs = one.attrs;
  const std::int64_t count = std::get<Shape>(attrs.at("shape"))[0];
  attrs.erase("shape");
  attrs.erase("dtype");
  const auto kept = attrs.contains("kept") ? std::get<std::int64_t>(attrs.at("kept")) : 0;
  const std::int64_t bytes =
      ir::payloadBytes(*ir::codingFromName(std::get<std::string>(attrs.at("coding"))), count, kept);
  const auto reference = makeReference();
  for (std::int64_t rank = 0; rank * bytes < out.type().bytes(); ++rank) {
    CaseTensor gradient({DType::kF32, {count}}), left({DType::kF32, {count}});
    gradient.setFilled(Fill::kFewValues, 200 + static_cast<std::uint64_t>(rank));
    left.fill(0);
    Operand payload{out.bytes().data() + rank * bytes, {DType::kU8, {bytes}}};
    reference
        ->bind({Op::kEncode,
                one.name,
                &attrs,
                {gradient.operand(), left.operand()},
                {left.operand(), payload}})
        .value()
        ->run();
  }
}

}  // namespace

bool chooses(Op op, std::size_t operand) {
  return (op == Op::kMaxPool2dGrad && operand < 2) || (op == Op::kReluGrad && operand == 1) ||
         (op == Op::kCountCorrect && operand == 0) || (op == Op::kScoreHistogram && operand == 0);
}

bool canBeInPlace(Op op) {
  const std::vector<int>& places = ir::info(op).inPlace;
  return std::any_of(places.begin(), places.end(), [](int i) { return i >= 0; });
}

CaseOutcome runCase(Backend& backend, const Case& one, const CaseOptions& options) {
  CaseOutcome outcome;
  ir::Attrs attrs = one.attrs;
  if (attrs.contains("dtype")) attrs["dtype"] = std::string(dtypeName(options.compute));
  if (options.compute == DType::kF64)
    attrs.erase(std::string(ir::kStored));  // what is rounded then
  const auto past = [&](std::size_t operand) {
    return options.alignment == CaseAlignment::kDifferent ? static_cast<std::int64_t>(operand)
           : options.alignment == CaseAlignment::kSixteen ? 0
                                                          : 1;
  };
  std::vector<CaseTensor> inputs;
  std::vector<ir::TensorType> types;
  for (const CaseInput& input : one.inputs) {
    types.push_back({dtypeOf(input.fill, options.compute), input.shape});
    inputs.emplace_back(types.back(), past(inputs.size()));
  }
  const ir::OpInfo& info = ir::info(one.op);
  auto inferred = ir::inferTypes(one.op, types, attrs);
  if (!inferred.ok()) return {{}, inferred.error().text()};
  for (const ir::TensorType& type : *inferred)
    outcome.outputs.emplace_back(type, past(inputs.size() + outcome.outputs.size()));

  KernelSpec spec;
  spec.op = one.op;
  spec.name = one.name;
  spec.attrs = &attrs;
  for (CaseTensor& input : inputs) spec.inputs.push_back(input.operand());
  auto shared = [&](std::size_t i) {
    const int input = options.inPlace ? info.inPlace[i] : -1;
    const bool alike =
        input >= 0 && types[static_cast<std::size_t>(input)].bytes() == (*inferred)[i].bytes();
    return alike ? input : -1;
  };
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i)
    spec.outputs.push_back(shared(i) < 0 ? outcome.outputs[i].operand()
                                         : inputs[static_cast<std::size_t>(shared(i))].operand());
  auto kernel = backend.bind(spec);
  if (!kernel.ok()) return {{}, kernel.error().text()};
  for (int run = options.disturbed == 0 ? 0 : 1; run < 2; ++run) {
    for (CaseTensor& output : outcome.outputs)
      output.fill(std::numeric_limits<double>::quiet_NaN());
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (one.inputs[k].fill == Fill::kPooled)
        pool(one, inputs[k - 1], inputs[k]);
      else if (one.inputs[k].fill == Fill::kCoded)
        code(one, inputs[k]);
      else
        inputs[k].setFilled(one.inputs[k].fill, 100 + k);
      for (std::int64_t i = 0; options.magnitudes && i < inputs[k].type().count(); ++i)
        inputs[k].set(i, std::abs(inputs[k].at(i)));
      if (options.planted && options.planted->operand == k)
        inputs[k].set(options.planted->element, options.planted->value);
      if (options.disturbed != 0 && isFloat(types[k].dtype) && !chooses(one.op, k))
        disturb(inputs[k], options.disturbed * 1000 + k);
    }
    const std::int64_t before = options.allocations != nullptr ? options.allocations() : 0;
    (*kernel)->run();
    outcome.allocations = (options.allocations != nullptr ? options.allocations() : 0) - before;
    if (const Status failed = failureOf(backend); !failed.ok()) return {{}, failed.error().text()};
  }
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i)
    if (shared(i) >= 0) outcome.outputs[i] = inputs[static_cast<std::size_t>(shared(i))];
  for (const CaseTensor& output : outcome.outputs)
    if (!output.fenced()) outcome.problem = "wrote outside its output";
  for (const CaseTensor& input : inputs)
    if (!input.fenced()) outcome.problem = "wrote outside its output";
  if (one.op == Op::kCombineRows) outcome.outputs.pop_back();  // scratch
  if (backend.name() == "cuda") outcome.rounding = one.rounding;
  return outcome;
}

CaseOutcome expected(const Case& one) {
  const auto reference = makeReference();
  CaseOutcome out = runCase(*reference, one, {.compute = DType::kF64});
  if (isMatmulOrConv(one.op) && out.problem.empty()) {
    const CaseOutcome sums = runCase(*reference, one, {.compute = DType::kF64, .magnitudes = true});
    std::vector<double>& conditioning = out.conditioning.emplace_back();
    for (std::int64_t i = 0; i < sums.outputs[0].type().count(); ++i)
      conditioning.push_back(0x1p-24 * sums.outputs[0].at(i));
    out.relative = 0;
    out.units = kProductUnits;
    return out;
  }
  for (std::uint64_t key = 1; key <= kDisturbances && out.problem.empty(); ++key) {
    const CaseOutcome other = runCase(*reference, one, {.compute = DType::kF64, .disturbed = key});
    out.conditioning.resize(out.outputs.size());
    for (std::size_t k = 0; k < out.outputs.size(); ++k) {
      const CaseTensor &a = out.outputs[k], &b = other.outputs[k];
      std::vector<double>& conditioning = out.conditioning[k];
      conditioning.resize(static_cast<std::size_t>(a.type().count()));
      for (std::int64_t i = 0; i < a.type().count(); ++i) {
        const double off = std::abs(a.at(i) - b.at(i)) * (0x1p-24 / kDisturbance);
        double& most = conditioning[static_cast<std::size_t>(i)];
        if (off > most) most = off;
      }
    }
  }
  return out;
}

namespace {

// The most that rounding to 16 bits changes x: half the distance of two neighbours, as after an
// error of f32 that moves it over the middle between them.
double roundingOf(DType dtype, double x) {
  if (dtype == DType::kBf16) return std::abs(x) * 0x1p-8;
  if (dtype == DType::kF16) return std::max(std::abs(x) * 0x1p-11, 0x1p-25);
  return 0;
}

}  // namespace

CaseDifference difference(const CaseOutcome& want, const CaseOutcome& got) {
  CaseDifference out;
  for (std::size_t k = 0; k < want.outputs.size(); ++k) {
    const CaseTensor &a = want.outputs[k], &b = got.outputs[k];
    double largest = 1e-30;
    for (std::int64_t i = 0; i < a.type().count(); ++i)
      largest = std::max(largest, std::abs(a.at(i)));
    for (std::int64_t i = 0; i < a.type().count(); ++i) {
      const double apart = std::abs(a.at(i) - b.at(i));
      if (apart == 0 || a.at(i) == b.at(i)) continue;  // also for infinities
      const double relative = apart / largest - got.rounding;
      if (!(relative <= out.relative)) out.relative = std::isnan(relative) ? INFINITY : relative;
      double allowed = std::numeric_limits<float>::min() + want.relative * std::abs(a.at(i));
      if (!want.conditioning.empty())
        allowed += want.units * want.conditioning[k][static_cast<std::size_t>(i)];
      allowed = std::min(allowed, kCaseTolerance * largest) + got.rounding * largest;
      allowed += roundingOf(b.type().dtype, a.at(i));
      if (!isFloat(a.type().dtype)) allowed = 0;
      const double share = apart / allowed;
      if (share <= out.share) continue;
      out.share = std::isnan(share) ? INFINITY : share;
      out.where =
          fmt::format("output {} element {}: {} instead of {}, of at most {}; {:.2g} is allowed", k,
                      i, b.at(i), a.at(i), largest, allowed);
    }
  }
  return out;
}

}  // namespace lockstep::backends
