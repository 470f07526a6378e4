#include "engine/backends/cases.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/backends/image_cases.h"

namespace lockstep::backends {
namespace {

using ir::Op;
using Input = CaseInput;

void addMatmul(std::vector<Case>& cases, std::int64_t n, std::int64_t k, std::int64_t o) {
  for (int form = 0; form < 6; ++form) {
    ir::Attrs attrs;
    const bool ta = form == 1 || form == 3, tb = form == 2 || form == 3;
    if (ta) attrs["ta"] = std::int64_t{1};
    if (tb) attrs["tb"] = std::int64_t{1};
    if (form == 5) attrs["act"] = std::string("relu");
    std::vector<Input> inputs{{ta ? Shape{k, n} : Shape{n, k}}, {tb ? Shape{o, k} : Shape{k, o}}};
    if (form >= 4) inputs.push_back({{o}});
    cases.push_back({fmt::format("{}x{}x{} form {}", n, k, o, form), Op::kMatmul, attrs, inputs});
  }
}

// Elementwise ops, sums and optimizer updates of n elements.
void addArrays(std::vector<Case>& cases) {
  const ir::Attrs floats{{"dtype", std::string("f32")}, {"scale", 1.0 / 255}};
  for (const std::int64_t n : {1, 7, 16, 33, 1000, 70001}) {
    const Shape s{n};
    cases.push_back({"bytes", Op::kCast, floats, {{s, Fill::kBytes}}});
    cases.push_back({"integers", Op::kCast, floats, {{s, Fill::kLabels}}});
    cases.push_back({"floats", Op::kCast, floats, {{s}}});
    cases.push_back({"scale", Op::kScale, {{"factor", -0.3}}, {{s}}});
    for (Op op : {Op::kRelu, Op::kGelu, Op::kTanh, Op::kSumAll, Op::kSumSquares})
      cases.push_back({fmt::format("{}", n), op, {}, {{s}}});
    for (Op op : {Op::kAdd, Op::kReluGrad, Op::kGeluGrad, Op::kTanhGrad})
      cases.push_back({fmt::format("{}", n), op, {}, {{s}, {s}}});
    cases.push_back({fmt::format("{}", n), Op::kPartialToLocal, {}, {{s}}});
    for (const std::int64_t ranks : {1, 3})
      cases.push_back(
          {fmt::format("{} of {} ranks", n, ranks), Op::kOrderedSum, {}, {{s}, {{ranks * n}}}});
    cases.push_back({fmt::format("{}", n),
                     Op::kScaleByRatio,
                     {},
                     {{s}, {{1}, Fill::kPositive}, {{1}, Fill::kPositive}}});
    for (const Fill norm : {Fill::kPositive, Fill::kBelow})
      cases.push_back({fmt::format("{} norm {}", n, draw(norm, 0, 0)),
                       Op::kSelectIfFinite,
                       {},
                       {{s}, {s}, {{1}, norm}}});
    for (double momentum : {0.0, 0.9})
      cases.push_back({fmt::format("{} momentum {}", n, momentum),
                       Op::kSgd,
                       {{"momentum", momentum}, {"weight_decay", 0.01}},
                       {{s}, {s}, {s}, {{1}, Fill::kPositive}, {{1}, Fill::kPositive}}});
    for (double decay : {0.0, 0.1})
      cases.push_back(
          {fmt::format("{} decay {}", n, decay),
           Op::kAdagrad,
           {{"eps", 1e-10}, {"weight_decay", decay}},
           {{s}, {s}, {s, Fill::kPositive}, {{1}, Fill::kPositive}, {{1}, Fill::kPositive}}});
    for (double decay : {0.0, 0.1})
      cases.push_back({fmt::format("{} decay {}", n, decay),
                       Op::kAdam,
                       {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", decay}},
                       {{s},
                        {s},
                        {s},
                        {s, Fill::kPositive},
                        {{1}, Fill::kPositive},
                        {{1}, Fill::kPositive},
                        {{1}, Fill::kPositive}}});
    const ir::Attrs made{{"dtype", std::string("f32")}, {"shape", s}};
    ir::Attrs fill = made, uniform = made, normal = made;
    fill["value"] = 0.25;
    uniform["key"] = normal["key"] = std::int64_t{-77};
    uniform["scale"] = normal["scale"] = 0.05;
    uniform["kind"] = std::string("uniform");
    normal["kind"] = std::string("normal");
    cases.push_back({"fill", Op::kFill, fill, {}});
    cases.push_back({"uniform", Op::kRandom, uniform, {}});
    cases.push_back({"normal", Op::kRandom, normal, {}});
  }
}

void addMatmuls(std::vector<Case>& cases) {
  for (const std::int64_t batch : {1, 2, 21, 22, 32}) {
    addMatmul(cases, batch, 784, 128);
    addMatmul(cases, batch, 128, 10);
    addMatmul(cases, batch, 5, 1);
  }
  addMatmul(cases, 784, 21, 128);  // a weight gradient
  addMatmul(cases, 3, 700, 67);
  addMatmul(cases, 130, 515, 70);
  addMatmul(cases, 256, 300, 256);
  addMatmul(cases, 101, 803, 500);
  for (const Shape& x : {Shape{1, 1}, Shape{3, 10}, Shape{21, 32}, Shape{1000, 33},
                         Shape{1200, 100}, Shape{2, 5, 7, 32}}) {
    const Shape row{x.back()};
    cases.push_back({shapeText(x), Op::kBiasAdd, {}, {{x}, {row}}});
    cases.push_back({shapeText(x), Op::kReduceRows, {}, {{x}}});
  }
  cases.push_back({"periodic", Op::kBiasAdd, {}, {{{12, 33}}, {{4, 33}}}});
  cases.push_back({"periodic", Op::kReduceRows, {{"period", std::int64_t{4}}}, {{{12, 33}}}});
}

// Embeddings, concatenation, columns and dropout.
void addEmbeddings(std::vector<Case>& cases) {
  for (const std::int64_t first : {0, 1}) {
    ir::Attrs attrs{{"first", first}};
    cases.push_back(
        {fmt::format("from {}", first), Op::kEmbedding, attrs, {{{3, 17}}, {{9}, Fill::kLabels}}});
    attrs["shape"] = Shape{3, 17};
    cases.push_back({fmt::format("from {}", first),
                     Op::kEmbeddingGrad,
                     attrs,
                     {{{9}, Fill::kLabels}, {{9, 17}}}});
  }
  cases.push_back({"side by side", Op::kConcat, {}, {{{5, 3}}, {{5, 1}}, {{5, 17}}}});
  cases.push_back({"in the middle",
                   Op::kColumns,
                   {{"first", std::int64_t{2}}, {"count", std::int64_t{18}}},
                   {{{7, 33}}}});
  for (const double rate : {0.0, 0.1, 0.75}) {
    ir::Attrs attrs{{"salt", std::int64_t{-5}}, {"rate", rate}};
    cases.push_back(
        {fmt::format("rate {}", rate), Op::kDropout, attrs, {{{12, 7}}, {{4}, Fill::kLabels}}});
    attrs["columns"] = std::int64_t{20};
    attrs["first"] = std::int64_t{7};
    cases.push_back({fmt::format("part, rate {}", rate),
                     Op::kDropout,
                     attrs,
                     {{{12, 7}}, {{4}, Fill::kLabels}}});
  }
}

// Rows of tables: combination, unique ids and row updates.
void addTableRows(std::vector<Case>& cases) {
  for (const auto& [rows, channels] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {9, 17}, {40, 16}}) {
    const std::string name = fmt::format("{} rows of {}", rows, channels);
    const Input ids{{rows}, Fill::kLabels}, number{{1}, Fill::kPositive};
    cases.push_back({name, Op::kSumSquares, {}, {{{rows, channels}}, {{rows}, Fill::kIds}}});
    cases.push_back({name, Op::kCombineRows, {}, {{{rows, channels}}, ids}});
    for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{0, 3}, {0, 1, 2, 3}})
      cases.push_back({fmt::format("{} ids of {} parts", rows, cuts.size() - 1),
                       Op::kUnique,
                       {{"cuts", cuts}, {"shape", Shape{rows + std::ssize(cuts) % 3}}},
                       {ids}});
    for (const std::int64_t first : {std::int64_t{0}, channels / 2}) {
      const std::int64_t part = std::max<std::int64_t>(2, rows / 2) * channels;
      const Input table{{part}}, sums{{part}, Fill::kPositive}, own{{rows}, Fill::kOwnIds};
      cases.push_back({fmt::format("{} from {}", name, first),
                       Op::kAdagradRows,
                       {{"eps", 1e-10}, {"first", first}},
                       {table, sums, {{rows * channels}}, own, number, number}});
      cases.push_back({fmt::format("{} from {}", name, first),
                       Op::kSgdRows,
                       {{"first", first}},
                       {table, sums, {{rows * channels}}, own, number, number}});
    }
  }
  for (const auto& [rows, fill] :
       {std::pair<std::int64_t, Fill>{33, Fill::kIds}, {9001, Fill::kManyIds}})
    cases.push_back(
        {fmt::format("{} rows of 3", rows), Op::kCombineRows, {}, {{{rows, 3}}, {{rows}, fill}}});
  std::vector<std::int64_t> thin{0};
  for (std::int64_t cut = 300; cut < 1000; cut += 2) thin.push_back(cut);
  thin.push_back(100'000);
  for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{0, 1, 70, 70'000}, thin})
    cases.push_back({fmt::format("9001 ids of {} parts", cuts.size() - 1),
                     Op::kUnique,
                     {{"cuts", cuts}, {"shape", Shape{9010}}},
                     {{{9001}, Fill::kManyIds}}});
}

// Clipping, finiteness and loss scaling.
void addNormsOfGradients(std::vector<Case>& cases) {
  for (const double limit : {0.1, 1000.0})
    for (const Fill norm : {Fill::kPositive, Fill::kBelow})
      cases.push_back({fmt::format("limit {} norm {}", limit, draw(norm, 0, 0)),
                       Op::kClipNorm,
                       {{"limit", limit}},
                       {{{1}, norm}, {{1}, Fill::kPositive}}});
  const Input number{{1}, Fill::kPositive};
  for (const Fill squares : {Fill::kPositive, Fill::kInfinite}) {
    cases.push_back({fmt::format("squares {}", draw(squares, 0, 0)),
                     Op::kFiniteNorm,
                     {},
                     {number, {{1}, squares}}});
    cases.push_back({fmt::format("scaled, squares {}", draw(squares, 0, 0)),
                     Op::kFiniteNorm,
                     {},
                     {number, {{1}, squares}, number}});
  }
  for (const Fill norm : {Fill::kPositive, Fill::kBelow})
    for (const double interval : {1.0, 4.0})
      for (const double limit : {0.0, 1.0})
        cases.push_back(
            {fmt::format("norm {} interval {} limit {}", draw(norm, 0, 0), interval, limit),
             Op::kLossScale,
             {{"interval", interval},
              {"factor", 2.0},
              {"least", limit},
              {"most", limit > 0 ? limit : 8.0}},
             {number, number, number, {{1}, norm}}});
}

void addLayerNorms(std::vector<Case>& cases) {
  cases.push_back({"text", Op::kRepeatRows, {{"times", std::int64_t{5}}}, {{{7}}}});
  for (const Shape& x : {Shape{1, 1}, Shape{6, 33}, Shape{70, 128}, Shape{501, 138}, Shape{5, 768},
                         Shape{520, 1028}}) {
    const Input rows{{x[0]}, Fill::kPositive}, channels{{x[1]}};
    cases.push_back({shapeText(x), Op::kLayerNorm, {{"eps", 1e-5}}, {{x}, channels, channels}});
    cases.push_back({shapeText(x), Op::kLayerNormGrad, {}, {{x}, {x}, channels, rows, rows}});
    cases.push_back({shapeText(x), Op::kLayerNormWeightGrad, {}, {{x}, {x}, rows, rows}});
  }
}

void addAttention(std::vector<Case>& cases) {
  for (const std::int64_t causal : {0, 1})
    for (const auto& [tokens, heads, head] : {std::array<std::int64_t, 3>{1, 1, 1},
                                              {7, 3, 5},
                                              {64, 2, 32},
                                              {299, 1, 20},
                                              {33, 2, 67},
                                              {45, 1, 128}}) {
      const ir::Attrs attrs{{"tokens", tokens}, {"head", head}, {"causal", causal}};
      const std::int64_t rows = 2 * tokens, width = heads * head;
      const std::string name = fmt::format("{} tokens causal {}", tokens, causal);
      cases.push_back({name, Op::kAttention, attrs, {{{rows, 3 * width}}}});
      // lse exceeds every score, as from a softmax: exp(score − lse) stays below 1.
      cases.push_back({name,
                       Op::kAttentionGrad,
                       attrs,
                       {{{rows, width}},
                        {{rows, 3 * width}, Fill::kPositive},
                        {{rows, width}},
                        {{rows, heads}, Fill::kBound}}});
    }
  // Operands have 8 significant bits, so only p and ds are rounded, each by at most 2⁻⁸ (bf16) or
  // 2⁻¹¹ (f16) relative and independently. Sums of them are wrong by that fraction of their terms,
  // of which the largest result has one or several.
  for (const auto& [operandDtype, unit] : {std::pair{"bf16", 0x1p-8}, {"f16", 0x1p-11}})
    for (const std::int64_t causal : {0, 1})
      for (const auto& [samples, tokens, heads, head] : {std::array<std::int64_t, 4>{2, 1, 1, 1},
                                                         {2, 37, 2, 16},
                                                         {1, 70, 1, 32},
                                                         {1, 150, 1, 64},
                                                         {1, 45, 1, 80},
                                                         {1, 70, 1, 128},
                                                         {1, 19, 3, 5}}) {
        const ir::Attrs attrs{{"tokens", tokens},
                              {"head", head},
                              {"causal", causal},
                              {"operand_dtype", std::string(operandDtype)}};
        const std::int64_t rows = samples * tokens, width = heads * head;
        const std::string name = fmt::format("{} tokens, heads of {}, causal {}, operands {}",
                                             tokens, head, causal, operandDtype);
        const Input qkv{{rows, 3 * width}, Fill::kShort}, y{{rows, width}, Fill::kShort};
        cases.push_back({name, Op::kAttention, attrs, {qkv}, 2 * unit});
        // lse is not computed from the scores here: where it is below one of them, p exceeds 1.
        cases.push_back({name,
                         Op::kAttentionGrad,
                         attrs,
                         {y, qkv, y, {{rows, heads}, Fill::kPositive}},
                         2 * unit});
      }
}

void addManyRows(std::vector<Case>& cases) {
  cases.push_back({"many rows", Op::kReduceRows, {}, {{{20000, 32}}}});
  const Input many{{20000, 33}}, each{{20000}, Fill::kPositive};
  cases.push_back({"many rows", Op::kLayerNormWeightGrad, {}, {many, many, each, each}});
}

void addLosses(std::vector<Case>& cases) {
  for (const auto& [batch, classes] :
       {std::pair<std::int64_t, std::int64_t>{1, 10}, {21, 10}, {22, 3}, {64, 257}}) {
    const Shape s{batch, classes}, column{batch};
    const std::string name = shapeText(s);
    for (Fill fill : {Fill::kNormal, Fill::kFewValues}) {
      cases.push_back({name,
                       Op::kSoftmaxXent,
                       {},
                       {{s, fill}, {column, Fill::kLabels}, {column, Fill::kPositive}}});
      cases.push_back({name,
                       Op::kCountCorrect,
                       {},
                       {{s, fill}, {column, Fill::kLabels}, {column, Fill::kPositive}}});
    }
    cases.push_back({name,
                     Op::kSoftmaxXentGrad,
                     {},
                     {{s},
                      {column, Fill::kLabels},
                      {column, Fill::kPositive},
                      {column, Fill::kPositive},
                      {{1}, Fill::kPositive}}});
    const Input weights{column, Fill::kPositive}, one{{1}, Fill::kPositive};
    const Input numbers{column};
    const Input labels{column, Fill::kLabels};
    const Input positive{column, Fill::kPositive};
    cases.push_back({name, Op::kRowMax, {}, {{s}}});
    cases.push_back({name, Op::kXentLoss, {}, {positive, numbers, positive}});
    cases.push_back({name, Op::kXentLossGrad, {}, {positive, positive, {{1}, Fill::kPositive}}});
    for (const std::int64_t first : {0, 1}) {
      const ir::Attrs from{{"first", first}};
      cases.push_back({name, Op::kXentTerms, from, {{s}, labels, numbers}});
      cases.push_back({name, Op::kXentTermsGrad, from, {numbers, numbers, {s}, labels, numbers}});
    }
    cases.push_back({name, Op::kBinaryXent, {}, {{s}, {s, Fill::kFewValues}, weights}});
    cases.push_back({name, Op::kBinaryXentGrad, {}, {{s}, {s, Fill::kFewValues}, weights, one}});
    cases.push_back({name,
                     Op::kScoreHistogram,
                     {{"bins", std::int64_t{20}}},
                     {{{batch, 1}}, {{batch, 1}, Fill::kFewValues}, weights}});
    cases.push_back({name, Op::kMseLoss, {}, {{s}, {s}, {column, Fill::kPositive}}});
    cases.push_back({name,
                     Op::kMseLossGrad,
                     {},
                     {{s}, {s}, {column, Fill::kPositive}, {{1}, Fill::kPositive}}});
  }
  // Rows of more classes than a GPU's block holds in registers; odd ones start at any address.
  for (const std::int64_t classes : {32'000, 50'257}) {
    const Shape s{3, classes};
    const Input labels{{3}, Fill::kLabels}, positive{{3}, Fill::kPositive}, numbers{{3}};
    const std::string name = shapeText(s);
    cases.push_back({name, Op::kSoftmaxXent, {}, {{s}, labels, positive}});
    cases.push_back({name,
                     Op::kSoftmaxXentGrad,
                     {},
                     {{s}, labels, positive, positive, {{1}, Fill::kPositive}}});
    cases.push_back({name, Op::kRowMax, {}, {{s}}});
    cases.push_back({name, Op::kXentTerms, {}, {{s}, labels, numbers}});
    cases.push_back({name, Op::kXentTermsGrad, {}, {numbers, numbers, {s}, labels, numbers}});
  }
  cases.push_back({"many scores",
                   Op::kScoreHistogram,
                   {{"bins", std::int64_t{37}}},
                   {{{2001, 1}}, {{2001, 1}, Fill::kFewValues}, {{2001}, Fill::kPositive}}});
}

// Gradient compression.
void addCodings(std::vector<Case>& cases) {
  for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
    for (const std::int64_t n : {1, 255, 600, 5000, 20'000}) {
      ir::Attrs attrs{{"coding", std::string(coding)}};
      if (coding == std::string_view("top-k")) attrs["kept"] = (n + 29) / 30;
      if (n % 3 == 0) attrs["parts"] = std::int64_t{3};
      cases.push_back({fmt::format("{} of {}", coding, n),
                       Op::kEncode,
                       std::move(attrs),
                       {{{n}, Fill::kFewValues}, {{n}, Fill::kFewValues}}});
    }
  for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
    for (const std::int64_t n : {1, 257, 5000}) {
      ir::Attrs attrs{
          {"coding", std::string(coding)}, {"dtype", std::string("f32")}, {"shape", Shape{n}}};
      const std::int64_t kept = coding == std::string_view("top-k") ? (n + 29) / 30 : 0;
      if (kept > 0) attrs["kept"] = kept;
      cases.push_back(
          {fmt::format("{} of {} from 3 ranks", coding, n),
           Op::kDecodeSum,
           std::move(attrs),
           {{{3 * ir::payloadBytes(*ir::codingFromName(coding), n, kept)}, Fill::kCoded}}});
    }
}

// Repeats matmuls and convolutions with 16-bit operands.
void addNarrowOperands(std::vector<Case>& cases) {
  for (std::size_t i = 0, all = cases.size(); i < all; ++i) {
    if (!isMatmulOrConv(cases[i].op)) continue;
    for (const auto& [name, fill] : {std::pair{" of bf16", Fill::kBf16}, {" of f16", Fill::kF16}}) {
      Case narrow = cases[i];
      narrow.name += name;
      narrow.inputs[0].fill = narrow.inputs[1].fill = fill;
      cases.push_back(std::move(narrow));
    }
  }
}

// Repeats the cases of ops that read or write 16 bits: with such inputs, with such an output, and
// with both, in bf16 and in f16. Large cases are repeated in bf16 alone.
void addNarrowStorage(std::vector<Case>& cases) {
  constexpr std::int64_t kLarge = 20'000;
  for (std::size_t i = 0, all = cases.size(); i < all; ++i) {
    const Case given = cases[i];
    const ir::OpInfo& info = ir::info(given.op);
    const bool large =
        std::any_of(given.inputs.begin(), given.inputs.end(),
                    [](const CaseInput& input) { return elementCount(input.shape) > kLarge; });
    for (const auto& [name, fill] : {std::pair{"bf16", Fill::kBf16}, {"f16", Fill::kF16}}) {
      Case reads = given;
      bool readsAny = false;
      for (std::size_t k = 0; k < reads.inputs.size(); ++k)
        if (ir::readsNarrow(given.op, k) && reads.inputs[k].fill == Fill::kNormal) {
          reads.inputs[k].fill = fill;
          readsAny = true;
        }
      // Of products only operands in the result's type.
      const bool product = isMatmulOrConv(given.op);
      if ((product && given.inputs[0].fill != fill) || (large && fill != Fill::kBf16)) continue;
      reads.name += fmt::format(", stored in {}", name);
      if (readsAny) cases.push_back(reads);
      if (!info.narrowOutput) continue;
      for (Case writes : {given, reads}) {
        writes.name = fmt::format("{}, result in {}", writes.name, name);
        writes.attrs[std::string(ir::kStored)] = std::string(name);
        if (product && writes.inputs.size() > 2)  // a GPU may round the bias alike
          writes.rounding = fill == Fill::kBf16 ? 0x1p-8 : 0x1p-11;
        cases.push_back(writes);
        if (!readsAny) break;
      }
    }
  }
}

// Repeats optimizer updates of steps that are skipped.
void addSkippedUpdates(std::vector<Case>& cases) {
  for (std::size_t i = 0, all = cases.size(); i < all; ++i) {
    const Op op = cases[i].op;
    const bool rows = op == Op::kAdagradRows || op == Op::kSgdRows;
    if (!rows && op != Op::kSgd && op != Op::kAdagrad && op != Op::kAdam) continue;
    Case skipped = cases[i];
    skipped.name += ", skipped";
    skipped.inputs[rows || op == Op::kAdam ? 4 : 3].fill = Fill::kBelow;
    cases.push_back(std::move(skipped));
  }
}

}  // namespace

bool isMatmulOrConv(Op op) {
  return op == Op::kMatmul || op == Op::kConv2d || op == Op::kConv2dInputGrad ||
         op == Op::kConv2dWeightGrad;
}

std::vector<Case> allCases() {
  std::vector<Case> cases;
  for (const auto add : {addArrays, addMatmuls, addEmbeddings, addTableRows, addNormsOfGradients,
                         addLayerNorms, addAttention, addManyRows, addImageCases, addLosses,
                         addCodings, addNarrowOperands, addNarrowStorage, addSkippedUpdates})
    add(cases);
  return cases;
}

}  // namespace lockstep::backends
