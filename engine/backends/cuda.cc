#include "engine/backends/cuda.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/backends/cuda/kernel_binder.h"
#include "engine/backends/narrow_storage.h"

namespace lockstep::backends {

using ir::Op;

namespace cuda {
namespace {

// Full reductions use this many blocks on every GPU, so that results are bit-identical.
constexpr unsigned kSumBlocks = 512;
constexpr Index kRowsOfPart = 256;
// Number of row partitions for a reduction over columns that takes `blocks` blocks.
unsigned partsOf(Index rows, Index blocks) {
  return static_cast<unsigned>(
      std::clamp<Index>(rows / kRowsOfPart, 1, std::max<Index>(kSumBlocks / blocks, 1)));
}
// Whether groups of four elements of the array are aligned.
bool onFours(const void* array, Element type) {
  const std::uintptr_t four = type == Element::kF32 ? 16 : 8;
  return reinterpret_cast<std::uintptr_t>(array) % four == 0;
}
// Number of blocks across columns that a warp's threads share, four at a time with `four`.
unsigned columnBlocks(Index columns, bool four) {
  return ceilDivide(columns, four ? 4 * kWarp : kWarp);
}
// Number of threads per row of a block whose rows have so many columns: a power of two, at most
// kWarp.
unsigned lanesOf(Index columns) {
  return std::bit_ceil(static_cast<unsigned>(std::min<Index>(columns, kWarp)));
}

std::optional<Element> elementOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Element::kF32;
    case DType::kBf16:
      return Element::kBf16;
    case DType::kF16:
      return Element::kF16;
    case DType::kI32:
      return Element::kI32;
    case DType::kU8:
      return Element::kU8;
    default:
      return std::nullopt;
  }
}

}  // namespace

Element KernelBinder::stored(const Operand& operand) {
  return elementOf(operand.type.dtype).value_or(Element::kF32);
}

// Binds an op whose kernels are of f32 on copies of what is stored in 16 bits.
Status KernelBinder::inF32(Bind bind) {
  if (!storesNarrow(spec_)) return bind(*this);
  ir::Attrs attrs = attrs_;
  attrs.erase(std::string(ir::kStored));
  KernelSpec wide = spec_;
  wide.attrs = &attrs;
  const auto copyOf = [&](const Operand& operand) -> Result<Operand> {
    LOCKSTEP_ASSIGN(float* const copy, kernel_.workspace(operand.type.count()));
    return Operand{copy, {DType::kF32, operand.type.shape}};
  };
  for (std::size_t i = 0; i < wide.inputs.size(); ++i) {
    if (!ir::readsNarrow(spec_.op, i) || !ir::isNarrow(spec_.inputs[i].type.dtype)) continue;
    LOCKSTEP_ASSIGN(wide.inputs[i], copyOf(spec_.inputs[i]));
    LOCKSTEP_TRY(castAll(spec_.inputs[i], wide.inputs[i]));
  }
  const bool rounds = ir::isNarrow(spec_.outputs[0].type.dtype);
  if (rounds) {
    LOCKSTEP_ASSIGN(wide.outputs[0], copyOf(spec_.outputs[0]));
  }
  KernelBinder binder(device_, options_, wide, kernel_);
  LOCKSTEP_TRY(bind(binder));
  return rounds ? castAll(wide.outputs[0], spec_.outputs[0]) : Status{};
}
Status KernelBinder::castAll(const Operand& from, const Operand& to) {
  const CastArguments a{*elementOf(from.type.dtype),
                        *elementOf(to.type.dtype),
                        to.type.count(),
                        from.data,
                        to.data,
                        1};
  return kernel_.add("castElements", ceilDivide(a.n, 4 * kCastFours * kThreads), a);
}

Status KernelBinder::elementwise(Function function) {
  ElementwiseArguments a{
      function, count(), nullptr, nullptr, nullptr, nullptr, spec_.outputs[0].data, 0};
  a.yType = storedOut();
  if (!spec_.inputs.empty()) {
    a.a = spec_.inputs[0].data;
    a.aType = storedIn(0);
  }
  if (function == Function::kFill) a.factor = number("value");
  if (function == Function::kScale)
    a.factor = static_cast<float>(ir::floatAttr(attrs_, "factor", 1.0));
  if (function == Function::kScaleByRatio) {
    a.part = in(spec_, 1);
    a.total = in(spec_, 2);
  } else if (spec_.inputs.size() == 2) {
    a.b = spec_.inputs[1].data;
    a.bType = storedIn(1);
  }
  return map(a);
}
Status KernelBinder::map(const ElementwiseArguments& a) {
  if (a.n % 4 == 0 && onFours(a.a, a.aType) && onFours(a.b, a.bType) && onFours(a.y, a.yType))
    return kernel_.add("elementwise4", blocksOf(a.n / 4), a);
  return kernel_.add("elementwise", blocksOf(a.n), a);
}
Status KernelBinder::copy(Index n, const float* x, float* y) {
  if (x == y) return {};
  return map({Function::kCopy, n, x, nullptr, nullptr, nullptr, y, 0});
}
Status KernelBinder::addBoth(Index n, const float* a, const float* b, float* y) {
  return map({Function::kAdd, n, a, b, nullptr, nullptr, y, 0});
}

// ReLU is a separate kernel: the NaN behaviour of library epilogues is unspecified.
Status KernelBinder::rectify(Index n, void* x, Element type) {
  return map({Function::kRelu, n, x, nullptr, nullptr, nullptr, x, 0, type, Element::kF32, type});
}

Status KernelBinder::random() {
  const Index n = count();
  const RandomArguments a{n,
                          attr("block", std::max<Index>(n, 1)),
                          attr("pitch"),
                          attr("first"),
                          static_cast<std::uint64_t>(attr("key")),
                          ir::textAttr(attrs_, "kind") == "normal",
                          ir::floatAttr(attrs_, "scale", 1.0),
                          out(spec_)};
  return kernel_.add("randomNumbers", blocksOf(n), a);
}

Status KernelBinder::cast() {
  const auto from = elementOf(spec_.inputs[0].type.dtype),
             to = elementOf(spec_.outputs[0].type.dtype);
  if (!from || !to || !isFloat(spec_.outputs[0].type.dtype)) return unsupported("cuda", spec_);
  const CastArguments a{*from,
                        *to,
                        count(),
                        spec_.inputs[0].data,
                        spec_.outputs[0].data,
                        static_cast<float>(ir::floatAttr(attrs_, "scale", 1.0))};
  return kernel_.add("castElements", ceilDivide(a.n, 4 * kCastFours * kThreads), a);
}

Status KernelBinder::dropout() {
  const Index part = spec_.outputs[0].type.shape.back();
  const DropoutArguments a{count(),
                           count() / countIn(1),
                           attr("columns", part),
                           part,
                           attr("first"),
                           static_cast<std::uint64_t>(attr("salt")),
                           ir::floatAttr(attrs_, "rate"),
                           in(spec_, 0),
                           ids(spec_, 1),
                           out(spec_)};
  return kernel_.add("dropout", blocksOf(a.n), a);
}

Status KernelBinder::matmul() {
  const MatmulShape s = matmulShape(spec_);
  const DType operandDtype = spec_.inputs[0].type.dtype;
  const Operand& y = spec_.outputs[0];
  if (ir::isNarrow(y.type.dtype) && y.type.dtype != operandDtype)
    return inF32([](KernelBinder& binder) { return binder.matmul(); });
  device::Matmul product{s.n,
                         s.k,
                         s.o,
                         s.ta,
                         s.tb,
                         operandDtype,
                         spec_.inputs[0].data,
                         spec_.inputs[1].data,
                         nullptr,
                         y.data,
                         operandDtype == DType::kF32 && attr("tf32") != 0};
  product.resultDtype = y.type.dtype;
  if (spec_.inputs.size() > 2) {
    product.bias = spec_.inputs[2].data;
    if (ir::isNarrow(y.type.dtype)) {  // libraries take a bias of the result's type
      product.biasDtype = y.type.dtype;
      LOCKSTEP_ASSIGN(std::uint16_t* const bias, kernel_.workspace<std::uint16_t>(s.o));
      LOCKSTEP_TRY(castAll(spec_.inputs[2], {bias, {y.type.dtype, {s.o}}}));
      product.bias = bias;
    }
  }
  LOCKSTEP_TRY(kernel_.add(product));
  return s.relu ? rectify(s.n * s.o, y.data, storedOut()) : Status{};
}

Status KernelBinder::concat() {
  const Index rows = shapeIn(0)[0], pitch = spec_.outputs[0].type.shape[1];
  Index first = 0;
  for (std::size_t i = 0; i < spec_.inputs.size(); ++i) {
    const Index columns = shapeIn(i)[1];
    LOCKSTEP_TRY(kernel_.add(
        "copyColumns", blocksOf(rows * columns),
        ColumnsArguments{rows, columns, columns, pitch, in(spec_, i), out(spec_) + first}));
    first += columns;
  }
  return {};
}

Status KernelBinder::sum(SumArguments whole) {
  const auto blocks =
      static_cast<unsigned>(std::clamp<Index>(whole.n / (4 * kThreads), 1, kSumBlocks));
  if (blocks == 1) return kernel_.add("sums", 1, whole);
  LOCKSTEP_ASSIGN(float* const parts, kernel_.workspace(blocks));
  float* const y = std::exchange(whole.y, parts);
  LOCKSTEP_TRY(kernel_.add("sums", blocks, whole));
  return kernel_.add("sums", 1, SumArguments{blocks, false, parts, y});
}

Status KernelBinder::columnSums(Index rows, Index columns, const void* x, Element type, float* y) {
  const bool four = columns % 4 == 0 && onFours(x, type);
  const unsigned parts = partsOf(rows, columnBlocks(columns, four));
  if (parts == 1) return addParts(rows, 1, columns, x, y, type);
  LOCKSTEP_ASSIGN(float* const between, kernel_.workspace(parts * columns));
  LOCKSTEP_TRY(addParts(rows, parts, columns, x, between, type));
  return addParts(parts, 1, columns, between, y);
}
// Divides the rows into `parts` and sums each.
Status KernelBinder::addParts(Index rows, Index parts, Index columns, const void* x, float* y,
                              Element type) {
  const bool four = columns % 4 == 0 && onFours(x, type);
  return kernel_.add("columnSums", columnBlocks(columns, four),
                     ColumnSumArguments{rows, columns, parts, four, x, y, type},
                     static_cast<unsigned>(parts));
}

// Processes parts of the batch sequentially. A 1×1 window needs no im2col.
Status KernelBinder::convolution() {
  const ConvShape s = convShape(spec_);
  const bool forward = spec_.op == Op::kConv2d, ofInput = spec_.op == Op::kConv2dInputGrad;
  const bool isColumns = s.kh == 1 && s.kw == 1 && s.stride == 1 && s.pad == 0;
  const DType operandDtype = spec_.inputs[0].type.dtype;
  const bool tf32 = operandDtype == DType::kF32 && attr("tf32") != 0;
  constexpr Index kFloat = sizeof(float), kSixteen = 16;
  // element sizes of image and columns
  const auto operand = static_cast<Index>(sizeOf(operandDtype)),
             element = ofInput ? kFloat : operand;
  const Index pixels = s.oh * s.ow, taps = s.kh * s.kw * s.c;
  // Aligns the operand's rows to 16 bytes for the matmul.
  const Index pitch = isColumns || ofInput
                          ? taps
                          : (taps * element + kSixteen - 1) / kSixteen * (kSixteen / element);
  const Index most =
      isColumns ? s.b : std::max<Index>(options_.columnsBytes / (pixels * pitch * element), 1);
  const Index parts = (s.b + most - 1) / most, largest = (s.b + parts - 1) / parts;
  auto* const images = static_cast<std::byte*>((ofInput ? spec_.outputs : spec_.inputs)[0].data);
  auto* const results =
      static_cast<std::byte*>(forward ? spec_.outputs[0].data : spec_.inputs[ofInput ? 0 : 1].data);
  // Unit of copies in bytes: divides a pixel's size and the image's alignment.
  const auto places = static_cast<std::uintptr_t>(s.c * element | kSixteen) |
                      reinterpret_cast<std::uintptr_t>(images);
  const auto unit = static_cast<Index>(places & (~places + 1)), channels = s.c * element / unit;
  const auto toUnsigned = [](Index x) { return static_cast<unsigned>(x); };
  ImageArguments a{0,
                   toUnsigned(s.h),
                   toUnsigned(s.w),
                   toUnsigned(channels),
                   toUnsigned(s.kh),
                   toUnsigned(s.kw),
                   toUnsigned(s.oh),
                   toUnsigned(s.ow),
                   toUnsigned(s.stride),
                   toUnsigned(s.pad),
                   toUnsigned(pitch * element / unit),
                   toUnsigned(unit),
                   nullptr,
                   nullptr};
  std::byte* room = nullptr;
  unsigned blocks = 0;
  if (!isColumns) {
    LOCKSTEP_ASSIGN(blocks, blocksOfShort(largest * channels * std::max(pixels * s.kw, s.h * s.w)));
    LOCKSTEP_ASSIGN(room, kernel_.workspace<std::byte>(largest * pixels * pitch * element));
  }
  for (Index part = 0; part < parts; ++part) {
    const Index first = s.b * part / parts, samples = s.b * (part + 1) / parts - first,
                rows = samples * pixels;
    std::byte* const image = images + first * s.h * s.w * s.c * element;
    std::byte* const result = results + first * pixels * s.o * (forward ? kFloat : operand);
    std::byte* const columns = isColumns ? image : room;
    a.b = toUnsigned(samples);
    a.x = ofInput ? columns : image;
    a.y = ofInput ? image : columns;
    if (!isColumns && !ofInput) LOCKSTEP_TRY(kernel_.add("imageToColumns", blocks, a));
    if (forward) {
      const void* const bias = spec_.inputs.size() > 2 ? spec_.inputs[2].data : nullptr;
      LOCKSTEP_TRY(kernel_.add(device::Matmul{rows, taps, s.o, false, false, operandDtype, columns,
                                              spec_.inputs[1].data, bias, result, tf32, pitch}));
    } else if (ofInput) {
      LOCKSTEP_TRY(kernel_.add(device::Matmul{rows, s.o, taps, false, true, operandDtype, result,
                                              spec_.inputs[1].data, nullptr, columns, tf32}));
    } else {
      LOCKSTEP_TRY(kernel_.add(device::Matmul{taps, rows, s.o, true, false, operandDtype, columns,
                                              result, nullptr, out(spec_), tf32, pitch, part > 0}));
    }
    if (!isColumns && ofInput) LOCKSTEP_TRY(kernel_.add("columnsToImage", blocks, a));
  }
  return s.relu ? rectify(s.b * pixels * s.o, out(spec_), Element::kF32) : Status{};
}

Status KernelBinder::pooling() {
  const PoolShape s = poolShape(spec_);
  const bool forward = spec_.op == Op::kMaxPool2d;
  const auto toUnsigned = [](Index x) { return static_cast<unsigned>(x); };
  PoolArguments a{toUnsigned(s.b),
                  toUnsigned(s.h),
                  toUnsigned(s.w),
                  toUnsigned(s.c),
                  toUnsigned(s.oh),
                  toUnsigned(s.ow),
                  toUnsigned(s.size),
                  toUnsigned(s.stride),
                  s.relu,
                  false,
                  in(spec_, 0),
                  forward ? nullptr : in(spec_, 2),
                  out(spec_),
                  nullptr};
  a.four = s.c % 4 == 0 && onSixteen({a.x, a.dy, a.y});
  if (a.four) a.c /= 4;
  const Index windows = s.b * s.oh * s.ow * a.c;
  if (!forward && s.stride >= s.size) {
    const Index down = ceilDivide(s.h, s.stride), across = ceilDivide(s.w, s.stride);
    LOCKSTEP_ASSIGN(const unsigned blocks, blocksOfShort(s.b * down * across * a.c));
    return kernel_.add("maxPool2dGradApart", blocks, a);
  }
  LOCKSTEP_ASSIGN(const unsigned blocks, blocksOfShort(std::max(windows, s.b * s.h * s.w * a.c)));
  if (forward) return kernel_.add("maxPool2d", blocksOf(windows), a);
  LOCKSTEP_ASSIGN(a.places, kernel_.workspace<std::int32_t>(s.b * s.oh * s.ow * s.c));
  LOCKSTEP_TRY(kernel_.add("maxPool2d", blocksOf(windows), a));
  return kernel_.add("maxPool2dGrad", blocks, a);
}

Status KernelBinder::meanPooling() {
  const bool forward = spec_.op == Op::kMeanPool2d;
  const Shape& image = forward ? shapeIn(0) : spec_.outputs[0].type.shape;
  MeanPoolArguments a{image[0], image[1] * image[2], image[3], false, in(spec_, 0), out(spec_)};
  if (forward) return kernel_.add("meanPool2d", blocksOf(count()), a);
  a.four = a.channels % 4 == 0 && onSixteen({a.x, a.y});
  if (a.four) a.channels /= 4;
  LOCKSTEP_ASSIGN(const unsigned blocks, blocksOfShort(a.samples * a.pixels * a.channels));
  return kernel_.add("meanPool2dGrad", blocks, a);
}

Status KernelBinder::batchNorm() {
  BatchNormArguments a{};
  a.epsilon = number("eps");
  a.y = out(spec_);
  if (spec_.op == Op::kBatchStatistics) {
    a.groups = shapeIn(0)[0];
    a.channels = countIn(1);
    a.moments = in(spec_, 0);
    a.shift = in(spec_, 1);
    a.second = out(spec_, 1);
    a.third = out(spec_, 2);
    return kernel_.add("batchStatistics", blocksOf(a.channels), a);
  }
  const bool gradient = spec_.op == Op::kBatchNormGrad || spec_.op == Op::kBatchNormWeightGrad;
  const bool isSum = spec_.op == Op::kBatchMoments || spec_.op == Op::kBatchNormWeightGrad;
  const Shape& x = shapeIn(gradient ? 1 : 0);
  a.samples = x[0];
  a.channels = x.back();
  a.pixels = elementCount(x) / (a.samples * a.channels);
  if (gradient) a.dy = in(spec_, 0);
  a.x = in(spec_, gradient ? 1 : 0);
  switch (spec_.op) {
    case Op::kBatchMoments:
      a.groups = spec_.outputs[0].type.shape[0];
      a.w = in(spec_, 1);
      a.shift = in(spec_, 2);
      break;
    case Op::kBatchNorm:
      a.gain = in(spec_, 1);
      a.bias = in(spec_, 2);
      a.mean = in(spec_, 3);
      a.variance = in(spec_, 4);
      a.groups = countIn(4) / a.channels;
      break;
    case Op::kBatchNormWeightGrad:
      a.mean = in(spec_, 2);
      a.variance = in(spec_, 3);
      a.groups = countIn(3) / a.channels;
      a.second = out(spec_, 1);
      break;
    default:
      a.w = in(spec_, 2);
      a.gain = in(spec_, 3);
      a.moments = in(spec_, 4);
      a.mean = in(spec_, 5);
      a.variance = in(spec_, 6);
      a.sums = in(spec_, 7);
      a.groups = countIn(6) / a.channels;
  }
  a.four = a.channels % 4 == 0 && onSixteen({a.dy, a.x, isSum ? nullptr : a.y});
  const Index columns = a.four ? a.channels / 4 : a.channels,
              rows = a.samples / a.groups * a.pixels;
  LOCKSTEP_TRY(blocksOfShort(rows * a.groups).status());
  a.lanes = lanesOf(columns);
  const unsigned across = ceilDivide(columns, a.lanes);
  const auto down = [&] { return static_cast<unsigned>(a.groups) * a.parts; };
  if (!isSum) {
    const Index most = std::max<Index>(mostBlocks_ / (across * a.groups), 1);
    a.parts = static_cast<unsigned>(std::clamp<Index>(rows * a.lanes / kThreads, 1, most));
    return kernel_.add(spec_.op == Op::kBatchNorm ? "batchNorm" : "batchNormGrad", across, a,
                       down());
  }
  a.parts = partsOf(rows, across * a.groups);
  const Index sums = (spec_.op == Op::kBatchMoments ? 1 : 0) + 2 * a.channels;
  float* const whole = spec_.op == Op::kBatchMoments ? a.y : out(spec_, 2);
  float* parts = whole;
  if (a.parts > 1) {
    LOCKSTEP_ASSIGN(parts, kernel_.workspace(down() * sums));
  }
  (spec_.op == Op::kBatchMoments ? a.y : a.third) = parts;
  LOCKSTEP_TRY(kernel_.add(spec_.op == Op::kBatchMoments ? "batchMoments" : "batchNormSums", across,
                           a, down()));
  if (a.parts > 1) LOCKSTEP_TRY(addParts(down(), a.groups, sums, parts, whole));
  if (spec_.op == Op::kBatchMoments) return {};
  a.third = whole;
  return kernel_.add("batchNormWeightGrad", blocksOf(a.channels), a);
}

Status KernelBinder::layerNormWeightGrad() {
  const Index rows = shapeIn(0)[0], channels = shapeIn(0)[1];
  const bool four = channels % 4 == 0 && onFours(spec_.inputs[0].data, storedIn(0)) &&
                    onFours(spec_.inputs[1].data, Element::kF32);
  const unsigned across = columnBlocks(channels, four), parts = partsOf(rows, across);
  LayerNormWeightGradArguments a{
      rows,         channels,     parts,         four,          spec_.inputs[0].data, in(spec_, 1),
      in(spec_, 2), in(spec_, 3), out(spec_, 0), out(spec_, 1), storedIn(0)};
  if (parts == 1) return kernel_.add("layerNormWeightGrad", across, a);
  LOCKSTEP_ASSIGN(a.dgain, kernel_.workspace(parts * channels));
  LOCKSTEP_ASSIGN(a.dbias, kernel_.workspace(parts * channels));
  LOCKSTEP_TRY(kernel_.add("layerNormWeightGrad", across, a, parts));
  LOCKSTEP_TRY(addParts(parts, 1, channels, a.dgain, out(spec_, 0)));
  return addParts(parts, 1, channels, a.dbias, out(spec_, 1));
}

Status KernelBinder::embedding() {
  const Shape& table = shapeIn(0);
  return kernel_.add("embedding", blocksOf(count()),
                     EmbeddingArguments{countIn(1), table[1], table[0], attr("first"),
                                        ids(spec_, 1), in(spec_, 0), out(spec_)});
}

Status KernelBinder::attention() {
  const AttentionShape s = attentionShape(spec_);
  if (s.head > kLargestHead) {
    Error error = unsupported("cuda", spec_);
    error.why =
        message("a head has {} channels, and its kernels take at most {}", s.head, kLargestHead);
    error.next = "give the model more heads, of fewer channels, or train it on devices of kind cpu";
    return error;
  }
  if (kernel_.device().properties().major >= 8 && !ir::textAttr(attrs_, "operand_dtype").empty())
    return attentionByTensors();
  if (storesNarrow(spec_)) return inF32([](KernelBinder& binder) { return binder.attention(); });
  const bool wide = s.head > kNarrowHead;
  const auto tiles = static_cast<unsigned>(ceilDivide(s.tokens, kQueryTile) * s.samples * s.heads);
  AttentionArguments a{};
  a.samples = s.samples;
  a.tokens = s.tokens;
  a.heads = s.heads;
  a.head = s.head;
  a.causal = s.causal;
  a.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head)));
  if (spec_.op == Op::kAttention) {
    a.qkv = in(spec_, 0);
    a.out = out(spec_, 0);
    a.lseOut = out(spec_, 1);
    return kernel_.add(wide ? "attentionWide" : "attention", tiles, a, 1, kAttentionThreads);
  }
  a.dy = in(spec_, 0);
  a.qkv = in(spec_, 1);
  a.y = in(spec_, 2);
  a.lse = in(spec_, 3);
  const Index rows = s.samples * s.tokens * s.heads;
  LOCKSTEP_ASSIGN(a.out, kernel_.workspace(rows));
  LOCKSTEP_TRY(kernel_.add("attentionOffsets", blocksOf(rows), a));
  a.offsets = a.out;
  a.out = out(spec_);
  LOCKSTEP_TRY(kernel_.add(wide ? "attentionQueryGradWide" : "attentionQueryGrad", tiles, a, 1,
                           kAttentionThreads));
  return kernel_.add(wide ? "attentionKeyGradWide" : "attentionKeyGrad", tiles, a, 1,
                     kAttentionThreads);
}

// Casts operands to 16 bits in a workspace, then multiplies.
Status KernelBinder::attentionByTensors() {
  const AttentionShape s = attentionShape(spec_);
  const bool forward = spec_.op == Op::kAttention, wide = s.head > kNarrowHead;
  const bool isBf16 = ir::textAttr(attrs_, "operand_dtype") == "bf16";
  const std::string_view type = isBf16 ? "Bf16" : "F16";
  const Element operand = isBf16 ? Element::kBf16 : Element::kF16;
  const auto isWide = [&](Element stored) { return stored != operand && stored != Element::kF32; };
  bool mixes = isWide(storedOut());  // what is stored in the other 16-bit type
  for (std::size_t i = 0; i < spec_.inputs.size(); ++i) mixes = mixes || isWide(storedIn(i));
  if (mixes) return inF32([](KernelBinder& binder) { return binder.attention(); });
  const std::string form = fmt::format("{}{}", wide ? "Wide" : "", type);
  const Index pitch = wide ? kLargestHead : kNarrowHead, rows = s.samples * s.tokens,
              terms = rows * s.heads;
  const Index part = terms * pitch;  // of q, of k, of v, of dy
  LOCKSTEP_ASSIGN(std::uint16_t* const operands,
                  kernel_.workspace<std::uint16_t>(part * (forward ? 3 : 4)));
  const std::size_t qkv = forward ? 0 : 1;
  CastHeadsArguments heads{};
  heads.samples = s.samples;
  heads.tokens = s.tokens;
  heads.heads = s.heads;
  heads.head = s.head;
  heads.pitch = static_cast<int>(pitch);
  heads.x = spec_.inputs[qkv].data;
  heads.narrowX = storedIn(qkv) != Element::kF32;
  heads.onSixteen = s.head % 8 == 0 && onSixteen({heads.x});
  heads.to = operands;
  // Few threads that iterate over a row are better than many that are mostly idle in the last
  // round.
  const Index eights = 3 * s.heads * pitch / 8, rounds = ceilDivide(eights, kThreads);
  LOCKSTEP_TRY(kernel_.add(fmt::format("attentionCast{}", type), static_cast<unsigned>(rows), heads,
                           1, threadsOf(ceilDivide(eights, rounds))));

  TensorAttentionArguments a{};
  a.samples = s.samples;
  a.tokens = s.tokens;
  a.heads = s.heads;
  a.head = s.head;
  a.causal = s.causal;
  a.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head)));
  a.q = operands;
  a.k = operands + part;
  a.v = operands + 2 * part;
  a.out = spec_.outputs[0].data;
  a.narrow = storedOut() != Element::kF32;
  a.paired = s.head % 2 == 0 && reinterpret_cast<std::uintptr_t>(a.out) % (a.narrow ? 4 : 8) == 0;
  const unsigned tiles = ceilDivide(s.tokens, wide ? kTensorRowsWide : kTensorRows) *
                         static_cast<unsigned>(s.samples * s.heads);
  if (forward) {
    a.lseOut = out(spec_, 1);
    return kernel_.add("attention" + form, tiles, a, 1, kTensorThreads);
  }
  heads.x = spec_.inputs[0].data;
  heads.y = spec_.inputs[2].data;
  heads.narrowX = storedIn(0) != Element::kF32;
  heads.narrowY = storedIn(2) != Element::kF32;
  heads.lse = in(spec_, 3);
  heads.to = operands + 3 * part;
  LOCKSTEP_ASSIGN(heads.terms, kernel_.workspace<RowTerms>(terms));
  LOCKSTEP_TRY(kernel_.add(fmt::format("attentionTerms{}", type), static_cast<unsigned>(rows),
                           heads, 1, threadsOf(s.heads * kWarp)));
  a.dy = heads.to;
  a.terms = heads.terms;
  LOCKSTEP_TRY(kernel_.add("attentionQueryGrad" + form, tiles, a, 1, kTensorThreads));
  return kernel_.add("attentionKeyGrad" + form, tiles, a, 1, kTensorThreads);
}

Status KernelBinder::xent() {
  const Index rows = shapeIn(0)[0], classes = shapeIn(0)[1];
  XentArguments a{};
  a.rows = rows;
  a.classes = classes;
  a.x = spec_.inputs[0].data;
  a.xType = storedIn(0);
  a.label = ids(spec_, 1);
  a.w = in(spec_, 2);
  if (spec_.op == Op::kSoftmaxXentGrad) {
    a.lse = in(spec_, 3);
    a.dloss = in(spec_, 4);
    a.y = spec_.outputs[0].data;
    a.yType = storedOut();
    return kernel_.add("softmaxXentGrad", static_cast<unsigned>(rows), a, 1,
                       threadsOf(ceilDivide(classes, 4)));
  }
  LOCKSTEP_ASSIGN(a.losses, kernel_.workspace(rows));
  if (spec_.op == Op::kSoftmaxXent) {
    a.lseOut = out(spec_, 1);
    LOCKSTEP_TRY(kernel_.add("softmaxXent", static_cast<unsigned>(rows), a, 1,
                             threadsOf(ceilDivide(classes, 4 * kXentFours), kMostThreads)));
  } else {
    LOCKSTEP_TRY(kernel_.add("correctRows", blocksOf(rows), a));
  }
  return sum({rows, false, a.losses, out(spec_, 0)});
}

Status KernelBinder::dividedXent() {
  DividedXentArguments a{};
  a.first = attr("first");
  a.y = out(spec_);
  const auto logits = [&](std::size_t input) {
    a.x = spec_.inputs[input].data;
    a.xType = storedIn(input);
    a.rows = shapeIn(input)[0];
    a.classes = shapeIn(input)[1];
  };
  const auto rowKernel = [&](std::string_view name) {
    return kernel_.add(name, static_cast<unsigned>(a.rows), a, 1,
                       threadsOf(ceilDivide(a.classes, 4)));
  };
  switch (spec_.op) {
    case Op::kRowMax:
      logits(0);
      return rowKernel("rowMax");
    case Op::kXentTerms:
      logits(0);
      a.label = ids(spec_, 1);
      a.m = in(spec_, 2);
      a.second = out(spec_, 1);
      return rowKernel("xentTerms");
    case Op::kXentTermsGrad:
      logits(2);
      a.ds = in(spec_, 0);
      a.dt = in(spec_, 1);
      a.label = ids(spec_, 3);
      a.m = in(spec_, 4);
      a.dx = spec_.outputs[0].data;
      a.dxType = storedOut();
      return rowKernel("xentTermsGrad");
    case Op::kXentLoss: {
      a.rows = countIn(0);
      a.s = in(spec_, 0);
      a.t = in(spec_, 1);
      a.w = in(spec_, 2);
      LOCKSTEP_ASSIGN(a.y, kernel_.workspace(a.rows));
      LOCKSTEP_TRY(kernel_.add("xentLosses", blocksOf(a.rows), a));
      return sum({a.rows, false, a.y, out(spec_)});
    }
    default:
      a.rows = countIn(0);
      a.s = in(spec_, 0);
      a.w = in(spec_, 1);
      a.dloss = in(spec_, 2);
      a.second = out(spec_, 1);
      return kernel_.add("xentLossGrad", blocksOf(a.rows), a);
  }
}

Status KernelBinder::scoreHistogram() {
  HistogramArguments a{countIn(0),   attr("bins"), in(spec_, 0), in(spec_, 1),
                       in(spec_, 2), nullptr,      out(spec_)};
  LOCKSTEP_ASSIGN(a.bin, kernel_.workspace<std::int32_t>(a.rows));
  LOCKSTEP_TRY(kernel_.add("scoreBins", blocksOf(a.rows), a));
  return kernel_.add("scoreHistogram", ceilDivide(a.bins * kWarp, kThreads), a);
}

Status KernelBinder::pairLoss() {
  const bool binary = spec_.op == Op::kBinaryXent || spec_.op == Op::kBinaryXentGrad;
  PairLossArguments a{countIn(0),   shapeIn(0)[1], binary,  in(spec_, 0),
                      in(spec_, 1), in(spec_, 2),  nullptr, out(spec_)};
  if (spec_.inputs.size() == 4) {
    a.dloss = in(spec_, 3);
    return kernel_.add("pairLossGrads", blocksOf(a.n), a);
  }
  LOCKSTEP_ASSIGN(a.y, kernel_.workspace(a.n));
  LOCKSTEP_TRY(kernel_.add("pairLosses", blocksOf(a.n), a));
  return sum({a.n, false, a.y, out(spec_)});
}

Status KernelBinder::optimizer() {
  const bool adam = spec_.op == Op::kAdam;
  const std::size_t norm = adam ? 4 : 3;
  const AdamOptions options = adamOptions(attrs_);
  OptimizerArguments a{};
  a.n = countIn(0);
  a.p = in(spec_, 0);
  a.g = in(spec_, 1);
  a.first = in(spec_, 2);
  a.norm = in(spec_, norm);
  a.lr = in(spec_, norm + 1);
  a.pOut = out(spec_, 0);
  a.firstOut = out(spec_, 1);
  a.momentum = number("momentum");
  a.decay = number("weight_decay");
  a.epsilon = static_cast<float>(options.epsilon);
  a.beta1 = options.beta1;
  a.beta2 = options.beta2;
  if (adam) {
    a.second = in(spec_, 3);
    a.t = in(spec_, norm + 2);
    a.secondOut = out(spec_, 2);
  }
  return kernel_.add(adam                   ? "adam"
                     : spec_.op == Op::kSgd ? "sgd"
                                            : "adagrad",
                     blocksOf(ceilDivide(a.n, 4)), a);
}

Status KernelBinder::orderedSum() {
  return kernel_.add(
      "orderedSum", blocksOf(count()),
      OrderedSumArguments{count(), countIn(1) / count(), in(spec_, 0), in(spec_, 1), out(spec_)});
}
Status KernelBinder::biasAdd() {
  return kernel_.add("biasAdd", blocksOf(count()),
                     BiasAddArguments{count(), countIn(1), in(spec_, 0), in(spec_, 1), out(spec_)});
}
Status KernelBinder::columns() {
  const Shape& y = spec_.outputs[0].type.shape;
  return kernel_.add(
      "copyColumns", blocksOf(count()),
      ColumnsArguments{y[0], y[1], shapeIn(0)[1], y[1], in(spec_, 0) + attr("first"), out(spec_)});
}
Status KernelBinder::reduceRows() {
  return columnSums(countIn(0) / count(), count(), spec_.inputs[0].data, storedIn(0), out(spec_));
}
Status KernelBinder::runningStatistics() {
  return kernel_.add("runningStatistics", blocksOf(countIn(0)),
                     RunningArguments{countIn(0), number("momentum"), in(spec_, 0), in(spec_, 1),
                                      in(spec_, 2), out(spec_, 0), out(spec_, 1)});
}
Status KernelBinder::layerNorm() {
  return kernel_.add("layerNorm", ceilDivide(shapeIn(0)[0] * kWarp, kNormThreads),
                     LayerNormArguments{shapeIn(0)[0], shapeIn(0)[1], number("eps"), in(spec_, 0),
                                        in(spec_, 1), in(spec_, 2), spec_.outputs[0].data,
                                        out(spec_, 1), out(spec_, 2), storedOut()},
                     1, kNormThreads);
}
Status KernelBinder::layerNormGrad() {
  return kernel_.add(
      "layerNormGrad", ceilDivide(shapeIn(0)[0] * kWarp, kNormThreads),
      LayerNormGradArguments{shapeIn(0)[0], shapeIn(0)[1], spec_.inputs[0].data, in(spec_, 1),
                             in(spec_, 2), in(spec_, 3), in(spec_, 4), out(spec_), storedIn(0)},
      1, kNormThreads);
}
Status KernelBinder::repeatRows() {
  return kernel_.add("repeatRows", blocksOf(count()),
                     RepeatArguments{countIn(0), attr("times"), in(spec_, 0), out(spec_)});
}
Status KernelBinder::sumAll() {
  SumArguments whole{countIn(0), spec_.op == Op::kSumSquares, in(spec_, 0), out(spec_)};
  if (spec_.inputs.size() > 1) {
    whole.ids = ids(spec_, 1);
    whole.columns = whole.n / countIn(1);
  }
  return sum(whole);
}
Status KernelBinder::finiteNorm() {
  const float* const scale = spec_.inputs.size() > 2 ? in(spec_, 2) : nullptr;
  return kernel_.add("finiteNorm", 1,
                     FiniteNormArguments{in(spec_, 0), in(spec_, 1), scale, out(spec_)}, 1, kWarp);
}
Status KernelBinder::lossScale() {
  const LossScaleArguments a{number("interval"), number("factor"), number("least"), number("most"),
                             in(spec_, 0),       in(spec_, 1),     in(spec_, 2),    in(spec_, 3),
                             out(spec_, 0),      out(spec_, 1),    out(spec_, 2)};
  return kernel_.add("lossScale", 1, a, 1, kWarp);
}
Status KernelBinder::selectIfFinite() {
  return kernel_.add(
      "selectIfFinite", blocksOf(count()),
      SelectIfFiniteArguments{count(), in(spec_, 0), in(spec_, 1), in(spec_, 2), out(spec_)});
}
Status KernelBinder::clipNorm() {
  const ClipNormArguments a{number("limit"), in(spec_, 0), in(spec_, 1), out(spec_)};
  return kernel_.add("clipNorm", 1, a, 1, kWarp);
}

}  // namespace cuda

namespace {

using cuda::Function;
using cuda::KernelBinder;

// Supported ops; others are rejected by name.
struct Row {
  Op op;
  Status (*bind)(KernelBinder&);
};
template <Function function>
constexpr Row elementwise(Op op) {
  return {op, [](KernelBinder& binder) { return binder.elementwise(function); }};
}
template <Status (KernelBinder::*bind)()>
constexpr Row row(Op op) {
  return {op, [](KernelBinder& binder) { return (binder.*bind)(); }};
}
// What is stored in 16 bits is widened first.
template <Status (KernelBinder::*bind)()>
constexpr Row inF32(Op op) {
  return {op, [](KernelBinder& binder) {
            return binder.inF32([](KernelBinder& wide) { return (wide.*bind)(); });
          }};
}
constexpr std::array kRows{
    elementwise<Function::kFill>(Op::kFill),
    elementwise<Function::kCopy>(Op::kPartialToLocal),
    elementwise<Function::kAdd>(Op::kAdd),
    elementwise<Function::kScale>(Op::kScale),
    elementwise<Function::kScaleByRatio>(Op::kScaleByRatio),
    elementwise<Function::kRelu>(Op::kRelu),
    elementwise<Function::kReluGrad>(Op::kReluGrad),
    elementwise<Function::kGelu>(Op::kGelu),
    elementwise<Function::kGeluGrad>(Op::kGeluGrad),
    elementwise<Function::kTanh>(Op::kTanh),
    elementwise<Function::kTanhGrad>(Op::kTanhGrad),
    row<&KernelBinder::random>(Op::kRandom),
    row<&KernelBinder::cast>(Op::kCast),
    row<&KernelBinder::orderedSum>(Op::kOrderedSum),
    row<&KernelBinder::dropout>(Op::kDropout),
    row<&KernelBinder::matmul>(Op::kMatmul),
    inF32<&KernelBinder::biasAdd>(Op::kBiasAdd),
    row<&KernelBinder::concat>(Op::kConcat),
    row<&KernelBinder::columns>(Op::kColumns),
    row<&KernelBinder::reduceRows>(Op::kReduceRows),
    row<&KernelBinder::convolution>(Op::kConv2d),
    row<&KernelBinder::convolution>(Op::kConv2dInputGrad),
    row<&KernelBinder::convolution>(Op::kConv2dWeightGrad),
    row<&KernelBinder::pooling>(Op::kMaxPool2d),
    row<&KernelBinder::pooling>(Op::kMaxPool2dGrad),
    row<&KernelBinder::meanPooling>(Op::kMeanPool2d),
    row<&KernelBinder::meanPooling>(Op::kMeanPool2dGrad),
    row<&KernelBinder::batchNorm>(Op::kBatchMoments),
    row<&KernelBinder::batchNorm>(Op::kBatchStatistics),
    row<&KernelBinder::batchNorm>(Op::kBatchNorm),
    row<&KernelBinder::batchNorm>(Op::kBatchNormWeightGrad),
    row<&KernelBinder::batchNorm>(Op::kBatchNormGrad),
    row<&KernelBinder::runningStatistics>(Op::kRunningStatistics),
    row<&KernelBinder::embedding>(Op::kEmbedding),
    row<&KernelBinder::embeddingGrad>(Op::kEmbeddingGrad),
    row<&KernelBinder::layerNorm>(Op::kLayerNorm),
    row<&KernelBinder::layerNormGrad>(Op::kLayerNormGrad),
    row<&KernelBinder::layerNormWeightGrad>(Op::kLayerNormWeightGrad),
    row<&KernelBinder::attention>(Op::kAttention),
    row<&KernelBinder::attention>(Op::kAttentionGrad),
    row<&KernelBinder::repeatRows>(Op::kRepeatRows),
    row<&KernelBinder::xent>(Op::kSoftmaxXent),
    row<&KernelBinder::xent>(Op::kSoftmaxXentGrad),
    row<&KernelBinder::xent>(Op::kCountCorrect),
    row<&KernelBinder::dividedXent>(Op::kRowMax),
    row<&KernelBinder::dividedXent>(Op::kXentTerms),
    row<&KernelBinder::dividedXent>(Op::kXentTermsGrad),
    row<&KernelBinder::dividedXent>(Op::kXentLoss),
    row<&KernelBinder::dividedXent>(Op::kXentLossGrad),
    row<&KernelBinder::scoreHistogram>(Op::kScoreHistogram),
    row<&KernelBinder::pairLoss>(Op::kMseLoss),
    row<&KernelBinder::pairLoss>(Op::kMseLossGrad),
    row<&KernelBinder::pairLoss>(Op::kBinaryXent),
    row<&KernelBinder::pairLoss>(Op::kBinaryXentGrad),
    row<&KernelBinder::sumAll>(Op::kSumAll),
    row<&KernelBinder::sumAll>(Op::kSumSquares),
    row<&KernelBinder::finiteNorm>(Op::kFiniteNorm),
    row<&KernelBinder::clipNorm>(Op::kClipNorm),
    row<&KernelBinder::lossScale>(Op::kLossScale),
    row<&KernelBinder::selectIfFinite>(Op::kSelectIfFinite),
    row<&KernelBinder::optimizer>(Op::kSgd),
    row<&KernelBinder::optimizer>(Op::kAdagrad),
    row<&KernelBinder::optimizer>(Op::kAdam),
    row<&KernelBinder::unique>(Op::kUnique),
    row<&KernelBinder::combineRows>(Op::kCombineRows),
    row<&KernelBinder::updateRows>(Op::kAdagradRows),
    row<&KernelBinder::updateRows>(Op::kSgdRows),
    row<&KernelBinder::encode>(Op::kEncode),
    row<&KernelBinder::decodeSum>(Op::kDecodeSum),
};
const Row* rowOf(Op op) {
  const auto at =
      std::find_if(kRows.begin(), kRows.end(), [op](const Row& row) { return row.op == op; });
  return at == kRows.end() ? nullptr : at;
}

class Cuda final : public Backend {
 public:
  Cuda(std::unique_ptr<device::Device> device, const CudaOptions& options)
      : device_(std::move(device)), options_(options), scratch_(*device_) {}
  std::string_view name() const override { return "cuda"; }
  bool supports(Op op, DType dtype) const override {
    if (op == Op::kCast && sizeOf(dtype) == 2) return true;
    return dtype == DType::kF32 && rowOf(op) != nullptr;
  }
  Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) override {
    if (!supports(spec.op, computeType(spec))) return unsupported(name(), spec);
    auto kernel = std::make_unique<cuda::CudaKernel>(*device_, scratch_);
    KernelBinder binder(*device_, options_, spec, *kernel);
    LOCKSTEP_TRY(rowOf(spec.op)->bind(binder));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }
  device::Device* device() override { return device_.get(); }

 private:
  std::unique_ptr<device::Device> device_;
  const CudaOptions options_;
  cuda::Scratch scratch_;
};

}  // namespace

std::unique_ptr<Backend> makeCuda(std::unique_ptr<device::Device> device,
                                  const CudaOptions& options) {
  return std::make_unique<Cuda>(std::move(device), options);
}

}  // namespace lockstep::backends
