#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

// Returns the bytes of "65536", "256MiB" or "1.5 GB"; fractions of a byte are rounded. Units: B;
// kB, MB, GB, TB (powers of 1000); KiB, MiB, GiB, TiB (powers of 1024). std::nullopt: it is no
// size, is negative, or does not fit.
std::optional<std::int64_t> parseByteSize(std::string_view text);

}  // namespace lockstep
