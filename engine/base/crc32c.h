// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected; RFC 3720 B.4). Detects every error burst of
// up to 32 bits, and other errors with probability 1 − 2⁻³². Guards against corruption, not against
// forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

// Returns the checksum of `bytes`. With `before`, the checksum of preceding bytes, returns that of
// the concatenation. Uses the processor's CRC instruction where available (memory-bound), else
// tables (under 1 GB/s).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

// Table-driven implementation; exposed for tests.
std::uint32_t crc32cByTables(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace lockstep
