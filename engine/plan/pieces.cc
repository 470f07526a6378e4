#include "engine/plan/pieces.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace lockstep::plan {
namespace {

using Member = StateSlot::Member;

// Smaller pieces are written by only one of the ranks that hold them.
constexpr std::int64_t kLeastCut = 64 << 10;

// How a piece's elements lie in the whole tensor: runs of `run` elements, one in each `row`.
struct Layout {
  std::int64_t row = 0, run = 0;
  explicit Layout(const Piece& piece) {
    row = elementCount(piece.tensor.shape);
    for (int d = 0; d < piece.dim && piece.parts > 1; ++d)
      row /= std::max<std::int64_t>(1, piece.tensor.shape[static_cast<std::size_t>(d)]);
    run = row / piece.parts;
  }
};

// The ranks that hold what a rank holds of a member and write to the same folder: their number, and
// how many of them come before it. Equal for all members that lie along the same axes.
class Holders {
 public:
  Holders(const Plan& plan, int rank, std::span<const int> folders)
      : plan_(plan), rank_(rank), folders_(folders) {}

  struct Count {
    std::int64_t all = 0, before = 0;
  };
  const Count& of(const StateSlot& slot, const Member& member) {
    const auto [entry, isNew] = known_.try_emplace({slot.stage, slot.axis, member.axis});
    Count& count = entry->second;
    for (int other = 0; isNew && other < plan_.mesh.size(); ++other) {
      bool holds = folderOf(other) == folderOf(rank_) && plan_.stageOf(other) == slot.stage;
      for (const std::string& axis : {slot.axis, member.axis})
        holds = holds && (axis.empty() ||
                          plan_.mesh.coordinate(other, axis) == plan_.mesh.coordinate(rank_, axis));
      if (!holds) continue;
      ++count.all;
      if (other < rank_) ++count.before;
    }
    return count;
  }

 private:
  int folderOf(int rank) const { return folders_[static_cast<std::size_t>(rank)]; }
  const Plan& plan_;
  const int rank_;
  const std::span<const int> folders_;
  std::map<std::tuple<int, std::string, std::string>, Count> known_;
};

}  // namespace

std::string tensorName(const StateSlot& slot, const Member& member) {
  return fmt::format("{}/{}", slot.kind(), member.name);
}

TensorInfo Piece::stored() const {
  if (isWhole()) return tensor;
  std::string name = tensor.name + "[";
  if (parts > 1) name += fmt::format("part {} of {} of dimension {}, ", part, parts, dim);
  name += fmt::format("elements {} to {}]", begin, end);
  return {std::move(name), tensor.dtype, {end - begin}};
}

std::vector<HeldPiece> piecesHeldBy(const Plan& plan, int rank) {
  std::vector<HeldPiece> out;
  std::int64_t number = -1;
  for (const StateSlot& slot : plan.state) {
    const auto size = static_cast<std::int64_t>(sizeOf(slot.type.dtype));
    const std::int64_t count = slot.type.count();
    const std::int64_t held = slot.axis.empty() ? 0 : plan.mesh.coordinate(rank, slot.axis) * count;
    for (const Member& member : slot.members) {
      ++number;
      if (slot.stage != plan.stageOf(rank)) continue;
      const std::int64_t first = std::max(member.element, held);
      const std::int64_t last = std::min(member.element + plan.memberCount(member), held + count);
      if (first >= last) continue;
      HeldPiece& one = out.emplace_back();
      one.slot = &slot;
      one.member = &member;
      one.number = number;
      one.offset = slot.offset + (first - held) * size;
      one.piece.tensor = {tensorName(slot, member), slot.type.dtype, member.shape};
      if (!member.axis.empty()) {
        one.piece.dim = member.dim;
        one.piece.part = plan.mesh.coordinate(rank, member.axis);
        one.piece.parts = plan.mesh.axisSize(member.axis);
      }
      const std::int64_t before =
          member.rows == 0 ? 0 : member.firstRow * (elementCount(member.shape) / member.shape[0]);
      one.piece.begin = before + first - member.element;
      one.piece.end = before + last - member.element;
    }
  }
  return out;
}

std::vector<HeldPiece> piecesWrittenBy(const Plan& plan, int rank, std::span<const int> folders) {
  std::vector<HeldPiece> out;
  Holders holders(plan, rank, folders);
  for (HeldPiece& held : piecesHeldBy(plan, rank)) {
    const auto [all, mine] = holders.of(*held.slot, *held.member);
    Piece& piece = held.piece;
    if (piece.bytes() < kLeastCut) {
      if (held.number % all == mine) out.push_back(std::move(held));
      continue;
    }
    const std::int64_t count = piece.end - piece.begin, begin = piece.begin;
    piece.begin = begin + count * mine / all;
    piece.end = begin + count * (mine + 1) / all;
    held.offset += (piece.begin - begin) * static_cast<std::int64_t>(sizeOf(piece.tensor.dtype));
    out.push_back(std::move(held));
  }
  return out;
}

std::int64_t bytesWrittenBy(const Plan& plan, int rank, std::span<const int> folders) {
  std::int64_t bytes = 0;
  for (const HeldPiece& held : piecesWrittenBy(plan, rank, folders)) bytes += held.piece.bytes();
  return bytes;
}

std::optional<std::vector<std::size_t>> coverOf(std::span<const Piece> pieces,
                                                const Piece& needed) {
  std::vector<std::size_t> out;
  if (pieces.empty()) return needed.begin == needed.end ? std::optional(out) : std::nullopt;
  const Piece& any = pieces.front();
  const bool isSameCut = any.parts == needed.parts && (any.parts == 1 || any.dim == needed.dim);
  const int first = isSameCut ? needed.part : 0, last = isSameCut ? needed.part + 1 : any.parts;
  for (int part = first; part < last; ++part) {
    std::int64_t at = isSameCut ? needed.begin : 0;
    const std::int64_t end = isSameCut ? needed.end : elementCount(any.tensor.shape) / any.parts;
    while (at < end) {  // the piece that leads farthest
      std::size_t best = pieces.size();
      for (std::size_t i = 0; i < pieces.size(); ++i)
        if (pieces[i].part == part && pieces[i].begin <= at && pieces[i].end > at &&
            (best == pieces.size() || pieces[i].end > pieces[best].end))
          best = i;
      if (best == pieces.size()) return std::nullopt;
      out.push_back(best);
      at = pieces[best].end;
    }
  }
  return out;
}

std::int64_t elementInWhole(const Piece& piece, std::int64_t element) {
  const Layout layout(piece);
  return element / layout.run * layout.row + piece.part * layout.run + element % layout.run;
}

void copyCommon(const Piece& from, const std::byte* in, const Piece& to, std::byte* out) {
  const std::size_t size = sizeOf(from.tensor.dtype);
  const Layout source(from), target(to);
  if (source.run == 0 || target.run == 0) return;
  std::int64_t at = from.begin;  // in the source's part
  while (at < from.end) {
    const std::int64_t whole = elementInWhole(from, at);
    // The longest run that is contiguous in both pieces.
    std::int64_t count = std::min(from.end - at, source.run - at % source.run);
    const std::int64_t inRow = whole % target.row;
    count = std::min(count, target.run - inRow % target.run);
    if (inRow / target.run == to.part) {
      const std::int64_t local = whole / target.row * target.run + inRow % target.run;
      const std::int64_t first = std::max(local, to.begin), last = std::min(local + count, to.end);
      if (first < last)
        std::memcpy(out + static_cast<std::size_t>(first - to.begin) * size,
                    in + static_cast<std::size_t>(at - from.begin + first - local) * size,
                    static_cast<std::size_t>(last - first) * size);
    }
    at += count;
  }
}

}  // namespace lockstep::plan
