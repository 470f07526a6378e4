// Checks of UTF-8 (RFC 3629): no overlong forms, surrogates, or code points beyond U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// Offset of the first byte that is not part of well-formed UTF-8; npos: none.
std::size_t firstNotUtf8(std::string_view text);

// The text with '?' for each byte that is not part of well-formed UTF-8.
std::string validUtf8(std::string_view text);

}  // namespace lockstep
