#include "engine/comm/gloo_wire.h"

#include <algorithm>
#include <cstring>

namespace lockstep::comm {
namespace {

constexpr std::uint64_t kSendBuffer = 0;  // opcode

}  // namespace

std::optional<int> slotOf(const Preamble& preamble) {
  const std::size_t room = preamble.slot == kDataSlot       ? kMessageBytes
                           : preamble.slot == kFarewellSlot ? sizeof(Farewell)
                                                            : 0;
  const bool fits = preamble.opcode == kSendBuffer && preamble.remoteOffset == 0 &&
                    preamble.length > 0 && preamble.length <= room;
  return fits ? std::optional(static_cast<int>(preamble.slot)) : std::nullopt;
}

std::string farewellMessage(const Farewell& farewell) {
  const Preamble preamble{
      sizeof preamble + sizeof farewell, kSendBuffer, kFarewellSlot, 0, sizeof farewell, 0};
  std::string out(sizeof preamble + sizeof farewell, '\0');
  std::memcpy(out.data(), &preamble, sizeof preamble);
  std::memcpy(out.data() + sizeof preamble, &farewell, sizeof farewell);
  return out;
}

bool isNext(const MessageHeader& header, const MessageHeader::Call& call, std::uint32_t sequence,
            std::int64_t left) {
  return header.call == call && header.sequence == sequence &&
         header.length == std::min(kChunkBytes, left);
}

void FarewellReader::add(std::span<const std::byte> bytes) {
  auto* const last = reinterpret_cast<std::byte*>(&last_);
  const std::size_t length = std::min(bytes.size(), sizeof last_);
  std::memmove(last, last + length, sizeof last_ - length);
  if (length > 0) std::memcpy(last + sizeof last_ - length, bytes.last(length).data(), length);
}

std::optional<int> FarewellReader::accused(int peer, int size) const {
  const bool accuses =
      found() && last_.culprit >= 0 && last_.culprit < size && last_.culprit != peer;
  return accuses ? std::optional(last_.culprit) : std::nullopt;
}

}  // namespace lockstep::comm
