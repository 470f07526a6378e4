// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected; RFC 3720 B.4): a checksum that finds every
// burst of up to 32 bits, and others with probability 1 - 2⁻³². It guards against damage, not
// against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

// Returns the checksum of the bytes, or of those before, whose checksum is `before`, and these
// after them. Uses the processor's instruction where there is one, then as fast as memory gives
// them, else tables (under 1 GB/s).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

// The same by tables alone; for tests.
std::uint32_t crc32cByTables(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace lockstep
