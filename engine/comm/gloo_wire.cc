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

void Farewell::await(int peer) {
  const auto place = std::find_if(awaited.begin(), awaited.end(),
                                  [&](int other) { return other == peer || other == -1; });
  if (place != awaited.end()) *place = peer;
}

void FarewellReader::add(std::span<const std::byte> bytes) {
  const std::size_t length = std::min(bytes.size(), last_.size());
  std::memmove(last_.data(), last_.data() + length, last_.size() - length);
  if (length > 0)
    std::memcpy(last_.data() + last_.size() - length, bytes.last(length).data(), length);
}

std::optional<Farewell> FarewellReader::farewell(int size) const {
  Farewell out;
  std::memcpy(static_cast<void*>(&out), last_.data(), sizeof out);
  const bool isValid = out.magic == Farewell::kMagic && out.cause >= 0 && out.cause < size &&
                       std::all_of(out.awaited.begin(), out.awaited.end(),
                                   [&](int peer) { return peer >= -1 && peer < size; });
  return isValid ? std::optional(out) : std::nullopt;
}

}  // namespace lockstep::comm
