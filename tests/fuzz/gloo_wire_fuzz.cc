// What a rank of a Gloo group reads of a peer that it has met: preambles, headers, and the farewell
// at the end of a stream. What is accepted fits its buffer and the transfer, and a farewell names,
// and leads to, ranks of the group. An input is the rest of the transfer (8 bytes), a preamble, a
// header, and the end of a stream, whose pieces have the length of its first byte.
#include "engine/comm/gloo_wire.h"

#include <algorithm>
#include <cstring>

#include "engine/comm/blame.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

constexpr int kSize = 4, kPeer = 2;
constexpr Nanoseconds kTimeout = 1'000'000'000;
constexpr comm::MessageHeader::Call kCall{0, 0, 0, 0, 7, 100'000};

// Reads a struct; zeros where the input ends.
template <typename T>
T take(std::string_view& bytes) {
  T out{};
  const std::size_t size = std::min(bytes.size(), sizeof out);
  if (size > 0) std::memcpy(static_cast<void*>(&out), bytes.data(), size);
  bytes.remove_prefix(size);
  return out;
}

template <typename T>
std::string bytesOf(const T& value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), static_cast<const void*>(&value), sizeof value);
  return out;
}

void readStream(std::string_view bytes) {
  comm::FarewellReader whole, pieces;
  whole.add(std::as_bytes(std::span(bytes)));
  const std::size_t length = bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes[0]);
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::string_view part = rest.substr(0, length);
    pieces.add(std::as_bytes(std::span(part)));
    rest.remove_prefix(part.size());
  }
  const auto farewell = whole.farewell(kSize);
  LOCKSTEP_CHECK(farewell.has_value() == pieces.farewell(kSize).has_value());
  if (!farewell) return;
  comm::Farewell own;
  own.cause = kPeer;
  const comm::Blame blame = comm::findBlame(0, own, kTimeout, [&](int peer) {
    return comm::Heard{peer == 3 ? comm::Last::kSilence : comm::Last::kFarewell, *farewell};
  });
  LOCKSTEP_CHECK(!blame.ranks.empty());
  for (const int rank : blame.ranks) LOCKSTEP_CHECK(rank >= 0 && rank < kSize, "{}", rank);
}

}  // namespace

std::vector<std::string> seeds() {
  const auto input = [](std::int64_t left, std::uint64_t slot, std::uint64_t length,
                        std::int32_t awaited) {
    comm::Preamble preamble;
    preamble.slot = slot;
    preamble.length = length;
    comm::MessageHeader header;
    header.call = kCall;
    header.length = static_cast<std::uint32_t>(std::min(comm::kChunkBytes, left));
    comm::Farewell farewell;
    farewell.cause = kPeer;
    farewell.waited = kTimeout;
    farewell.await(awaited);
    return bytesOf(left) + bytesOf(preamble) + bytesOf(header) + std::string(40, '\5') +
           bytesOf(farewell);
  };
  return {input(100'000, comm::kDataSlot, comm::kMessageBytes, 1),
          input(34'464, comm::kDataSlot, sizeof(comm::MessageHeader) + 34'464, 0),
          input(0, comm::kFarewellSlot, sizeof(comm::Farewell), 3)};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  std::string_view rest = fuzz::textOf(bytes, size);
  const auto left = std::clamp<std::int64_t>(fuzz::take<std::int64_t>(rest), 0, fuzz::kCall.total);
  const auto preamble = fuzz::take<comm::Preamble>(rest);
  if (const auto slot = comm::slotOf(preamble)) {
    const std::size_t room =
        *slot == comm::kDataSlot ? comm::kMessageBytes : sizeof(comm::Farewell);
    LOCKSTEP_CHECK(*slot == comm::kDataSlot || *slot == comm::kFarewellSlot, "{}", *slot);
    LOCKSTEP_CHECK(preamble.length <= room && preamble.remoteOffset == 0, "{}", preamble.length);
  }
  const auto header = fuzz::take<comm::MessageHeader>(rest);
  if (comm::isNext(header, fuzz::kCall, 0, left))
    LOCKSTEP_CHECK(header.length <= left && header.length <= comm::kChunkBytes, "{}",
                   header.length);
  fuzz::readStream(rest);
  return 0;
}
