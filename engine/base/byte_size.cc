#include "engine/base/byte_size.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace lockstep {
namespace {

constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"KiB", std::int64_t{1} << 10},
    {"MiB", std::int64_t{1} << 20},
    {"GiB", std::int64_t{1} << 30},
    {"TiB", std::int64_t{1} << 40},
};

}  // namespace

std::optional<std::int64_t> parseByteSize(std::string_view text) {
  const std::string_view number = text.substr(0, text.find_first_not_of("0123456789."));
  std::string_view unit = text.substr(number.size());
  if (unit.size() > 1 && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, bytes] : kUnits) {
    if (unit != name) continue;
    const char* const end = number.data() + number.size();
    std::int64_t whole = 0, size = 0;
    if (const auto [stop, failure] = std::from_chars(number.data(), end, whole);
        failure == std::errc() && stop == end)
      return __builtin_mul_overflow(whole, bytes, &size) ? std::nullopt : std::optional(size);
    if (bytes == 1) return std::nullopt;
    double value = 0;
    const auto [stop, failure] = std::from_chars(number.data(), end, value);
    if (failure != std::errc() || stop != end) return std::nullopt;
    value = std::round(value * static_cast<double>(bytes));
    if (!(value < 0x1p63)) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }
  return std::nullopt;
}

}  // namespace lockstep
