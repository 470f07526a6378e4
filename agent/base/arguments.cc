#include <charconv>

#include "agent/base/commands.h"

namespace lockstep::agent {

bool Arguments::flag(std::string_view name) {
  for (auto at = words_.begin(); at != words_.end(); ++at)
    if (*at == name) {
      words_.erase(at);
      return true;
    }
  return false;
}

std::optional<std::string> Arguments::value(std::string_view name) {
  for (auto at = words_.begin(); at != words_.end(); ++at)
    if (*at == name && at + 1 != words_.end()) {
      std::string out = *(at + 1);
      words_.erase(at, at + 2);
      return out;
    }
  return std::nullopt;
}

double Arguments::number(std::string_view name, double fallback) {
  const auto text = value(name);
  if (!text) return fallback;
  double out = fallback;
  std::from_chars(text->data(), text->data() + text->size(), out);
  return out;
}

std::optional<std::string> Arguments::word() {
  if (words_.empty() || words_.front().starts_with("--")) return std::nullopt;
  std::string out = words_.front();
  words_.erase(words_.begin());
  return out;
}

}  // namespace lockstep::agent
