#include "engine/base/utf8.h"

namespace lockstep {

std::size_t firstNotUtf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || i + length > text.size()) return i;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xc0) != 0x80) return i;
    const unsigned char second = byte(i + 1);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f))
      return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string validUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const std::size_t bad = firstNotUtf8(text);
    out.append(text.substr(0, bad));
    if (bad == std::string_view::npos) return out;
    out += '?';
    text.remove_prefix(bad + 1);
  }
}

}  // namespace lockstep
