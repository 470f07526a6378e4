// Text for HTML and SVG that is well-formed XML too.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::app {

// Escapes text for content and for attributes in quotes. Control characters, which XML cannot have,
// and characters that reorder the text around them (U+202A to U+202E, U+2066 to U+2069) become
// U+FFFD; bytes that are no UTF-8 become "?".
std::string escaped(std::string_view text);

}  // namespace lockstep::app
