// The data types of the SSH protocols (RFC 4251, section 5), for reading and writing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::app {

inline std::string wireU32(std::size_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}
inline std::string wireString(std::string_view text) { return wireU32(text.size()).append(text); }

// Takes a number, or a counted string, from the front; nothing where the bytes end before.
inline std::optional<std::uint32_t> takeU32(std::string_view* bytes) {
  if (bytes->size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>((*bytes)[static_cast<std::size_t>(i)]);
  bytes->remove_prefix(4);
  return value;
}
inline std::optional<std::uint64_t> takeU64(std::string_view* bytes) {
  if (bytes->size() < 8) return std::nullopt;
  const std::uint64_t high = *takeU32(bytes);
  return high << 32 | *takeU32(bytes);
}
inline std::optional<std::string_view> takeString(std::string_view* bytes) {
  const auto size = takeU32(bytes);
  if (!size || *size > bytes->size()) return std::nullopt;
  const std::string_view text = bytes->substr(0, *size);
  bytes->remove_prefix(*size);
  return text;
}

}  // namespace lockstep::app
