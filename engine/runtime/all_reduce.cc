#include "engine/runtime/all_reduce.h"

#include <algorithm>
#include <array>

#include "engine/comm/reduce.h"

namespace lockstep::runtime {
namespace {

// Messages are split into pieces, to bound the staging memory and to overlap transfer with
// addition.
constexpr std::int64_t kPieceBytes = 256 << 10;

}  // namespace

Status allReduce(comm::Communicator& group, std::span<const plan::Exchange> exchanges, void* data,
                 DType dtype, comm::ReduceOp op, std::span<std::byte> staging) {
  const auto width = static_cast<std::int64_t>(sizeOf(dtype));
  const std::int64_t piece = kPieceBytes / width;
  auto* const bytes = static_cast<std::byte*>(data);
  for (const plan::Exchange& one : exchanges) {
    std::int64_t sent = one.sent.begin, received = one.received.begin;
    bool sends = one.to >= 0, receives = one.from >= 0;
    while (sends || receives) {
      const std::int64_t out = std::min(piece, one.sent.end - sent);
      const std::int64_t in = std::min(piece, one.received.end - received);
      std::byte* const place = bytes + received * width;
      std::byte* const into = one.reduces ? staging.data() : place;
      const std::byte* const from = bytes + sent * width;
      if (sends && receives) {
        LOCKSTEP_TRY(group.exchange(from, out * width, one.to, into, in * width, one.from, 0));
      } else if (sends) {
        LOCKSTEP_TRY(group.send(from, out * width, one.to, 0));
      } else {
        LOCKSTEP_TRY(group.recv(into, in * width, one.from, 0));
      }
      if (receives && one.reduces && in > 0) {
        const std::array<const std::byte*, 2> inputs{place, into};
        comm::reduceArrays(place, inputs, in, dtype, op);
      }
      if (sends) sent += out;
      if (receives) received += in;
      sends = sends && sent < one.sent.end;
      receives = receives && received < one.received.end;
    }
  }
  return {};
}

std::int64_t stagingBytes(std::span<const plan::Exchange> exchanges, DType dtype) {
  std::int64_t most = 0;
  for (const plan::Exchange& one : exchanges)
    if (one.reduces) most = std::max(most, one.received.end - one.received.begin);
  return std::min(most * static_cast<std::int64_t>(sizeOf(dtype)), kPieceBytes);
}

}  // namespace lockstep::runtime
