// What the ranks of a Gloo group send each other once they have met, and how a rank checks it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace lockstep::comm {

// Maximum payload of a message. Four fit the default socket send buffer, so that a socket that
// polls writable accepts one without blocking.
inline constexpr std::int64_t kChunkBytes = 64 << 10;

// Precedes every message. `call` must be equal on both sides of a transfer; otherwise ranks have
// issued different calls.
struct MessageHeader {
  struct Call {
    std::uint8_t operation = 0;
    std::uint8_t dtype = 0;
    std::uint8_t op = 0;
    std::uint8_t reserved = 0;
    std::int32_t tag = 0;    // tag of a message, or root of a collective
    std::int64_t total = 0;  // bytes of the whole transfer
    bool operator==(const Call&) const = default;
  } call;
  std::uint32_t sequence = 0;  // number of messages so far on this pair in this direction
  std::uint32_t length = 0;    // bytes of payload
};
static_assert(sizeof(MessageHeader) == 24);

inline constexpr std::size_t kMessageBytes = sizeof(MessageHeader) + kChunkBytes;

// The last message of a failing rank: why it fails, and for whom it waits. A rank that waits for
// nobody fails for a reason of its own.
struct Farewell {
  static constexpr std::uint64_t kMagic = 0x6c6f636b62796522u;
  static constexpr std::size_t kMostAwaited = 8;
  std::uint64_t magic = kMagic;
  std::int32_t cause = -1;    // the rank that failed first, as far as is known
  std::uint16_t late = 0;     // 1: that rank timed out
  std::uint16_t differs = 0;  // 1: the awaited rank has issued another call
  std::int64_t waited = 0;    // nanoseconds
  std::array<std::int32_t, kMostAwaited> awaited = {-1, -1, -1, -1, -1, -1, -1, -1};  // −1: none
  void await(int peer);  // the first kMostAwaited are kept
  bool awaitsAny() const { return awaited.front() >= 0; }
};
static_assert(sizeof(Farewell) == 56);

// Slots of a pair: the buffers that messages are for.
inline constexpr int kDataSlot = 1;
inline constexpr int kFarewellSlot = 2;

// The header that Gloo sends before each message, in host byte order.
struct Preamble {
  std::uint64_t bytes = 0, opcode = 0, slot = 0, offset = 0, length = 0, remoteOffset = 0;
};

// Returns a farewell as it is sent, with its preamble.
std::string farewellMessage(const Farewell& farewell);

// Returns the slot of the message that follows; nullopt unless it fits the slot's buffer.
std::optional<int> slotOf(const Preamble& preamble);

// Whether this is the header of the next message of a transfer, of which `left` bytes are missing.
bool isNext(const MessageHeader& header, const MessageHeader::Call& call, std::uint32_t sequence,
            std::int64_t left);

// Finds the farewell at the end of what a failing peer has sent, without reading the messages
// before.
class FarewellReader {
 public:
  void add(std::span<const std::byte> bytes);
  // Returns the farewell if the last bytes are one that names only ranks of a group of `size`.
  std::optional<Farewell> farewell(int size) const;

 private:
  std::array<std::byte, sizeof(Farewell)> last_{};
};

}  // namespace lockstep::comm
