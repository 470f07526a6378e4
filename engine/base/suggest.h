// "Did you mean" suggestions for misspelt words.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/base/message.h"

namespace lockstep {

// Returns the Levenshtein distance; only the first 64 bytes of each text count.
std::size_t editDistance(std::string_view a, std::string_view b);
// Returns the closest of `known` within a third of the word's length (at least 2 edits), else one
// that begins or ends with the word or begins it, "" if there is none; on ties, the first.
std::string nearest(std::string_view word, std::span<const std::string_view> known);
// Returns "dense, conv2d or add", followed by "; did you mean dense?" where one is close.
Message expectedOneOf(std::string_view word, std::span<const std::string_view> known);

}  // namespace lockstep
