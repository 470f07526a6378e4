// Output of other programs, made fit for a message.
#pragma once

#include <string>

namespace lockstep {

inline std::string withoutLineEnds(std::string text) {
  std::erase(text, '\r');
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace lockstep
