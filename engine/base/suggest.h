// "Did you mean": the known word nearest to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Levenshtein distance; texts past 64 bytes are cut.
std::size_t editDistance(std::string_view a, std::string_view b);
// The nearest of `known` within a third of the word's length (at least 2 edits), "" where none is;
// of equals the first.
std::string nearest(std::string_view word, std::span<const std::string_view> known);
// "dense, conv2d or add", and after it "; did you mean dense?" where one is near.
std::string expectedOneOf(std::string_view word, std::span<const std::string_view> known);

}  // namespace lockstep
