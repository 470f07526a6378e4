#include "engine/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr std::size_t kWord = sizeof(std::uint64_t);

// tables[k][b]: contribution of byte b when followed by k more bytes (Kounavis and Berry, "A
// systematic approach to building high performance software-based CRC generators", 2005).
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, kWord> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < kWord; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
  return tables;
}();

std::uint64_t wordAt(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint32_t addByte(std::uint32_t crc, std::byte byte) {
  return (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
}

#if defined(__x86_64__)

// A block's three parts are computed in parallel: the instruction has a latency of three cycles and
// a throughput of one.
constexpr std::size_t kPart = 1024, kBlock = 3 * kPart;

// The matrix that advances a checksum over kPart zero bytes, by nibbles: its columns are the images
// of single bits.
constexpr auto kOverPart = [] {
  std::array<std::uint32_t, 32> columns{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < kPart; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
    columns[bit] = crc;
  }
  std::array<std::array<std::uint32_t, 16>, 8> nibbles{};
  for (std::size_t n = 0; n < 8; ++n)
    for (std::size_t value = 0; value < 16; ++value)
      for (std::size_t bit = 0; bit < 4; ++bit)
        if ((value >> bit & 1) != 0) nibbles[n][value] ^= columns[4 * n + bit];
  return nibbles;
}();

std::uint32_t overPart(std::uint64_t crc) {
  std::uint32_t out = 0;
  for (std::size_t n = 0; n < 8; ++n) out ^= kOverPart[n][crc >> (4 * n) & 0xf];
  return out;
}

__attribute__((target("sse4.2"))) std::uint32_t byInstruction(std::span<const std::byte> bytes,
                                                              std::uint32_t before) {
  std::uint64_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kBlock; left -= kBlock, at += kBlock) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kPart; i += kWord) {
      crc = _mm_crc32_u64(crc, wordAt(at + i));
      second = _mm_crc32_u64(second, wordAt(at + kPart + i));
      third = _mm_crc32_u64(third, wordAt(at + 2 * kPart + i));
    }
    crc = overPart(overPart(crc) ^ second) ^ third;
  }
  for (; left >= kWord; left -= kWord, at += kWord) crc = _mm_crc32_u64(crc, wordAt(at));
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) rest = addByte(rest, *at);
  return ~rest;
}

#endif

}  // namespace

std::uint32_t crc32cByTables(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kWord; left -= kWord, at += kWord) {
    const std::uint64_t word = wordAt(at) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < kWord; ++k) crc ^= kTables[kWord - 1 - k][word >> (8 * k) & 0xff];
  }
  for (; left > 0; --left, ++at) crc = addByte(crc, *at);
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool hasInstruction = __builtin_cpu_supports("sse4.2");
  if (hasInstruction) return byInstruction(bytes, before);
#endif
  return crc32cByTables(bytes, before);
}

}  // namespace lockstep
