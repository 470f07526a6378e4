// Words as text for a POSIX shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Returns the text as one word, in single quotes.
std::string shellQuote(std::string_view text);
// Returns the words as a command line; only words that need quotes are quoted.
std::string shellLine(const std::vector<std::string>& words);

}  // namespace lockstep
