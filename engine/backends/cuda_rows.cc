// The CUDA backend: row-sparse gradients and gradient compression.
#include <algorithm>
#include <array>
#include <bit>

#include "engine/backends/cuda/kernel_binder.h"

namespace lockstep::backends::cuda {

using ir::Op;

namespace {

constexpr Index kSortTile = 4096;  // minimum keys per block
constexpr Index kMostTiles = 128;
constexpr Index kTopKRange = 8192;  // minimum elements per block
constexpr Index kMostRanges = 512;

// Bits of keys up to `most`, followed by −1.
unsigned bitsOf(Index most) {
  return static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(most)));
}
const std::uint32_t* keysOf(const std::int32_t* ids) {
  return reinterpret_cast<const std::uint32_t*>(ids);
}

CodingArguments codingArguments(const CodingShape& s) {
  static_assert(kScaleGroup == ir::kScaledTogether && kScaleGroup == kThreads);
  static_assert(static_cast<int>(Coding::kFp16) == static_cast<int>(ir::Coding::kFp16) &&
                static_cast<int>(Coding::kTopK) == static_cast<int>(ir::Coding::kTopK));
  CodingArguments a{};
  a.coding = static_cast<Coding>(s.coding);
  a.count = s.count;
  a.parts = s.payloads;
  a.payload = s.payload;
  a.values = s.valueAt(0);
  return a;
}

}  // namespace

Result<KernelBinder::Sorted> KernelBinder::sort(Index n, const std::uint32_t* keys, unsigned bits) {
  SortArguments a{};
  a.n = n;
  a.tile = std::max(kSortTile, (n + kMostTiles - 1) / kMostTiles);
  a.tiles = ceilDivide(n, a.tile);
  a.keys = keys;
  LOCKSTEP_ASSIGN(a.counts, kernel_.workspace<std::uint32_t>(a.tiles * kSortDigits));
  std::array<std::uint32_t*, 4> lanes{};
  for (std::uint32_t*& lane : lanes) {
    LOCKSTEP_ASSIGN(lane, kernel_.workspace<std::uint32_t>(n));
  }
  for (; a.shift < bits; a.shift += kSortBits) {
    const bool odd = a.shift / kSortBits % 2 != 0;
    a.keysOut = lanes[odd ? 1 : 0];
    a.placesOut = lanes[odd ? 3 : 2];
    LOCKSTEP_TRY(kernel_.add("sortCounts", a.tiles, a));
    LOCKSTEP_TRY(kernel_.add("sortOffsets", 1, a));
    LOCKSTEP_TRY(kernel_.add("sortScatter", a.tiles, a));
    a.keys = a.keysOut;
    a.places = a.placesOut;
  }
  return Sorted{a.keys, a.places};
}

// For a shard of a table, ids may refer to the whole table.
Status KernelBinder::embeddingGrad() {
  const Shape& table = spec_.outputs[0].type.shape;
  const bool whole = attr("first") == 0 && !attrs_.contains("axis");
  LOCKSTEP_ASSIGN(const Sorted sorted,
                  sort(countIn(0), keysOf(ids(spec_, 0)), whole ? bitsOf(table[0]) : 32));
  LOCKSTEP_TRY(map({Function::kFill, count(), nullptr, nullptr, nullptr, nullptr, out(spec_), 0}));
  return kernel_.add("embeddingGrad", blocksOf(countIn(1)),
                     EmbeddingGradArguments{countIn(0), table[1], table[0], attr("first"),
                                            sorted.keys, sorted.places, in(spec_, 1), out(spec_)});
}

Status KernelBinder::unique() {
  const std::vector<Index>& cuts = ir::listAttr(attrs_, "cuts");
  UniqueArguments a{};
  a.n = countIn(0);
  a.most = count(0);
  a.parts = std::ssize(cuts) - 1;
  a.ids = ids(spec_, 0);
  a.each = idsOut(spec_, 0);
  a.counts = idsOut(spec_, 1);
  a.out = idsOut(spec_, 2);
  LOCKSTEP_ASSIGN(a.cuts,
                  kernel_.constants(std::vector<std::int32_t>(cuts.begin(), cuts.end() - 1)));
  for (std::uint32_t** lane : {&a.part, &a.first, &a.number}) {
    LOCKSTEP_ASSIGN(*lane, kernel_.workspace<std::uint32_t>(a.n));
  }
  LOCKSTEP_ASSIGN(Sorted sorted, sort(a.n, keysOf(a.ids), bitsOf(cuts.back())));
  a.keys = sorted.keys;
  a.places = sorted.places;
  LOCKSTEP_TRY(kernel_.add("uniqueParts", blocksOf(a.n), a));
  LOCKSTEP_ASSIGN(sorted, sort(a.n, a.part, bitsOf(a.parts)));
  a.keys = sorted.keys;
  a.places = sorted.places;
  LOCKSTEP_TRY(kernel_.add("uniqueNumbers", blocksOf(std::max(a.most, a.parts)), a));
  return kernel_.add("uniquePlaces", blocksOf(a.n), a);
}

// Needs more scratch than the op provides (a host's hash table), and leaves that untouched.
Status KernelBinder::combineRows() {
  const Index n = countIn(1);
  LOCKSTEP_ASSIGN(const Sorted sorted, sort(n, keysOf(ids(spec_, 1)), 32));
  const CombineArguments a{n,          countIn(0) / n,  sorted.keys, sorted.places, in(spec_, 0),
                           out(spec_), idsOut(spec_, 1)};
  return kernel_.add("combineRows", blocksOf(countIn(0)), a);
}

Status KernelBinder::updateRows() {
  const Index n = countIn(3);
  const bool adagrad = spec_.op == Op::kAdagradRows;
  const RowsUpdateArguments a{n,
                              countIn(2) / n,
                              attr("first"),
                              countIn(0),
                              adagrad,
                              adagrad ? number("eps") : 0,
                              in(spec_, 2),
                              in(spec_, 4),
                              in(spec_, 5),
                              ids(spec_, 3),
                              out(spec_, 0),
                              out(spec_, 1)};
  LOCKSTEP_TRY(copy(a.elements, in(spec_, 0), a.p));
  LOCKSTEP_TRY(copy(a.elements, in(spec_, 1), a.s));
  return kernel_.add("updateRows", blocksOf(countIn(2)), a);
}

Status KernelBinder::encode() {
  const CodingShape s = codingShape(spec_);
  CodingArguments a = codingArguments(s);
  a.x = in(spec_, 0);
  a.residual = in(spec_, 1);
  a.y = out(spec_);
  a.payloads = static_cast<std::uint8_t*>(spec_.outputs[1].data);
  const auto parts = static_cast<unsigned>(s.payloads);
  switch (s.coding) {
    case ir::Coding::kInt8:
      return kernel_.add("encodeInt8", ceilDivide(s.count, kScaleGroup), a, parts);
    case ir::Coding::kTopK:
      LOCKSTEP_TRY(addBoth(s.count * s.payloads, a.x, a.residual, a.y));
      return topK(s, a.payloads, a.y);
    default:
      return kernel_.add("encode16", blocksOf(ceilDivide(s.count * s.payloads, 4)), a);
  }
}

// Processes all parts at once, with equally many blocks each.
Status KernelBinder::topK(const CodingShape& s, std::uint8_t* payloads, float* t) {
  const auto parts = static_cast<unsigned>(s.payloads);
  TopKArguments a{};
  a.count = s.count;
  a.kept = s.kept;
  a.payload = s.payload;
  a.range = std::max(kTopKRange, (s.count + kMostRanges - 1) / kMostRanges);
  a.t = t;
  a.payloads = payloads;
  const unsigned blocks = ceilDivide(s.count, a.range);
  LOCKSTEP_ASSIGN(a.state, kernel_.workspace<TopKState>(parts));
  LOCKSTEP_ASSIGN(a.counts, kernel_.kept<std::uint32_t>(parts * kTopKDigits));
  LOCKSTEP_ASSIGN(a.above, kernel_.workspace<std::uint32_t>(2 * s.payloads * blocks));
  for (const unsigned shift : {20u, 10u, 0u}) {
    a.shift = shift;
    LOCKSTEP_TRY(kernel_.add("topKCounts", blocks, a, parts));
    LOCKSTEP_TRY(kernel_.add("topKDigit", parts, a));
  }
  LOCKSTEP_TRY(kernel_.add("topKAbove", blocks, a, parts));
  return kernel_.add("topKWrite", blocks, a, parts);
}

Status KernelBinder::decodeSum() {
  const CodingShape s = codingShape(spec_);
  CodingArguments a = codingArguments(s);
  a.y = out(spec_);
  a.payloads = static_cast<std::uint8_t*>(spec_.inputs[0].data);
  if (s.coding != ir::Coding::kTopK) return kernel_.add("decodeSum", blocksOf(s.count), a);
  LOCKSTEP_TRY(map({Function::kFill, s.count, nullptr, nullptr, nullptr, nullptr, a.y, 0}));
  for (Index r = 0; r < s.payloads; ++r)
    LOCKSTEP_TRY(kernel_.add("addKept", blocksOf(s.kept),
                             AddKeptArguments{s.count, s.kept, a.payloads + r * s.payload, a.y}));
  return {};
}

}  // namespace lockstep::backends::cuda
