#include "engine/base/shell_text.h"

namespace lockstep {

std::string shellQuote(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string shellLine(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,";
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    const bool isPlain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
    out += isPlain ? word : shellQuote(word);
  }
  return out;
}

}  // namespace lockstep
