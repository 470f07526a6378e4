#include "engine/backends/image_cases.h"

namespace lockstep::backends {
namespace {

using ir::Op;
using Input = CaseInput;

ir::Attrs conv(std::int64_t stride, std::int64_t pad) { return {{"stride", stride}, {"pad", pad}}; }

void addConv(std::vector<Case>& cases, const std::string& name, Shape x, Shape w,
             std::int64_t stride, std::int64_t pad) {
  const Shape y{x[0], (x[1] + 2 * pad - w[0]) / stride + 1, (x[2] + 2 * pad - w[1]) / stride + 1,
                w[3]};
  ir::Attrs attrs = conv(stride, pad);
  cases.push_back({name, Op::kConv2d, attrs, {{x}, {w}}});
  ir::Attrs relu = attrs;
  relu["act"] = std::string("relu");
  cases.push_back({name + " bias relu", Op::kConv2d, relu, {{x}, {w}, {{w[3]}}}});
  cases.push_back({name + " bias", Op::kConv2d, attrs, {{x}, {w}, {{w[3]}}}});
  attrs["shape"] = x;
  cases.push_back({name, Op::kConv2dInputGrad, attrs, {{y}, {w}}});
  attrs["shape"] = w;
  cases.push_back({name, Op::kConv2dWeightGrad, attrs, {{x}, {y}}});
}

void addPool(std::vector<Case>& cases, const std::string& name, Shape x, std::int64_t size,
             std::int64_t stride) {
  const ir::Attrs attrs{{"size", size}, {"stride", stride}};
  ir::Attrs relu = attrs;
  relu["act"] = std::string("relu");
  const Shape y{x[0], (x[1] - size) / stride + 1, (x[2] - size) / stride + 1, x[3]};
  for (Fill fill :
       {Fill::kNormal, Fill::kFewValues}) {  // among equal ones the first receives the gradient
    cases.push_back({name, Op::kMaxPool2d, attrs, {{x, fill}}});
    cases.push_back({name, Op::kMaxPool2dGrad, attrs, {{x, fill}, {y, Fill::kPooled}, {y}}});
    cases.push_back({name + ", of what relu made",
                     Op::kMaxPool2dGrad,
                     relu,
                     {{x, fill}, {y, Fill::kPooled}, {y}}});
  }
}

void addBatchNorm(std::vector<Case>& cases, const Shape& x, std::int64_t groups) {
  const std::string name = fmt::format("{} in {} groups", shapeText(x), groups);
  const std::int64_t c = x.back();
  const ir::Attrs eps{{"eps", 1e-3}};
  const Input samples{x}, w{{x[0]}, Fill::kPositive}, channels{{c}}, positive{{c}, Fill::kPositive};
  const Input mean{{groups, c}}, variance{{groups, c}, Fill::kPositive}, sums{{groups, 2 * c}};
  const Input moments{{groups, 1 + 2 * c}, Fill::kPositive};
  const Input total{{1 + 2 * c}, Fill::kPositive};
  cases.push_back({name, Op::kBatchMoments, {{"shape", moments.shape}}, {samples, w, channels}});
  cases.push_back({name, Op::kBatchStatistics, {}, {moments, channels}});
  cases.push_back({name, Op::kBatchNorm, eps, {samples, channels, channels, mean, variance}});
  cases.push_back(
      {name, Op::kBatchNorm, eps, {samples, channels, channels, mean, variance, w, moments}});
  cases.push_back({name, Op::kBatchNormWeightGrad, eps, {samples, samples, mean, variance}});
  cases.push_back({name,
                   Op::kBatchNormGrad,
                   eps,
                   {samples, samples, w, channels, moments, mean, variance, sums}});
  cases.push_back({name, Op::kRunningStatistics, {{"momentum", 0.9}}, {channels, positive, total}});
}

}  // namespace

void addImageCases(std::vector<Case>& cases) {
  for (const std::int64_t batch : {1, 21, 22})
    addConv(cases, fmt::format("fashion {}", batch), {batch, 28, 28, 1}, {3, 3, 1, 32}, 1, 0);
  addConv(cases, "channels", {5, 14, 13, 16}, {3, 3, 16, 144}, 1, 1);
  addConv(cases, "same", {2, 9, 7, 1}, {3, 3, 1, 20}, 1, 1);
  addConv(cases, "stride", {3, 11, 8, 3}, {3, 2, 3, 5}, 2, 0);
  addConv(cases, "stride and pad", {2, 10, 12, 4}, {5, 5, 4, 16}, 3, 2);
  addConv(cases, "one tap", {2, 6, 6, 3}, {1, 1, 3, 40}, 1, 0);
  addConv(cases, "deep", {2, 8, 9, 16}, {3, 3, 16, 32}, 1, 1);
  addConv(cases, "deep without padding", {2, 7, 9, 16}, {3, 3, 16, 20}, 1, 0);
  addConv(cases, "one deep tap", {2, 5, 5, 24}, {1, 1, 24, 16}, 1, 0);
  addConv(cases, "one deep tap in a stride", {2, 6, 7, 16}, {1, 1, 16, 32}, 2, 0);
  addConv(cases, "deep stride", {2, 9, 9, 32}, {3, 3, 32, 17}, 2, 1);
  addConv(cases, "eight channels", {5, 6, 5, 8}, {2, 3, 8, 12}, 1, 1);
  addConv(cases, "six channels", {2, 6, 5, 6}, {3, 2, 6, 5}, 1, 0);
  addConv(cases, "far apart", {3, 9, 8, 4}, {2, 2, 4, 6}, 3, 1);
  addPool(cases, "fashion", {6, 26, 26, 32}, 2, 2);
  addPool(cases, "uneven", {2, 7, 9, 5}, 2, 2);
  addPool(cases, "overlapping", {2, 9, 8, 20}, 3, 2);
  addPool(cases, "overlapping in each pixel", {2, 6, 7, 3}, 3, 1);
  addPool(cases, "gaps", {1, 9, 9, 33}, 2, 3);
  addPool(cases, "uneven gaps", {2, 10, 7, 8}, 2, 3);
  for (const Shape& x :
       {Shape{1, 1, 1, 1}, Shape{3, 5, 4, 33}, Shape{32, 7, 7, 16}, Shape{32, 14, 14, 33}}) {
    const Shape pooled{x[0], x[3]};
    cases.push_back({shapeText(x), Op::kMeanPool2d, {}, {{x}}});
    cases.push_back({shapeText(x), Op::kMeanPool2dGrad, {{"shape", x}}, {{pooled}}});
  }
  addBatchNorm(cases, {1, 1}, 1);
  addBatchNorm(cases, {32, 14, 14, 40}, 1);
  addBatchNorm(cases, {6, 5, 3, 33}, 1);
  addBatchNorm(cases, {6, 5, 3, 33}, 3);
  addBatchNorm(cases, {64, 14, 14, 16}, 1);
  addBatchNorm(cases, {32, 9, 8, 6}, 2);
  addBatchNorm(cases, {32, 9, 8, 140}, 2);
  addBatchNorm(cases, {8, 7}, 2);
}

}  // namespace lockstep::backends
