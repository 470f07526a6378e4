#include "app/report/markup.h"

#include "engine/base/utf8.h"

namespace lockstep::app {
namespace {

constexpr std::string_view kReplacement = "\ufffd";

// Whether a character of several bytes may stand in a report.
bool isFine(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) return byte(0) != 0xc2 || byte(1) >= 0xa0;  // no C1 controls
  if (character.size() != 3) return true;
  const int code = ((byte(0) & 0xf) << 12) | ((byte(1) & 0x3f) << 6) | (byte(2) & 0x3f);
  const bool reorders = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return !reorders && code < 0xfffe;
}

std::string_view entityOf(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escaped(std::string_view raw) {
  const std::string valid = validUtf8(raw);
  std::string_view text = valid;
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    const std::string_view character = text.substr(0, length);
    if (control || !isFine(character))
      out += kReplacement;
    else if (const std::string_view entity = entityOf(text.front()); !entity.empty())
      out += entity;
    else
      out += character;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace lockstep::app
