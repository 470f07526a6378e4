// Hexadecimal encoding, two digits per byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

std::string toHex(std::string_view bytes);  // lower case
// Returns nullopt where the text is not pairs of hexadecimal digits.
std::optional<std::string> fromHex(std::string_view text);

}  // namespace lockstep
