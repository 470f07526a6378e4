#include "engine/base/message.h"

#include <charconv>

namespace lockstep::detail {

Message makeMessage(fmt::string_view pattern, fmt::format_args arguments,
                    std::span<const Message* const> nested) {
  const std::string_view rest(pattern.data(), pattern.size());
  if (rest == "{}" && nested[0] != nullptr) return *nested[0];
  std::string text, id;
  std::vector<Message> found;
  std::size_t next = 0;  // argument of the next "{}"
  for (std::size_t at = 0; at < rest.size();) {
    const std::size_t brace = std::min(rest.find_first_of("{}", at), rest.size());
    const bool twice = brace + 1 < rest.size() && rest[brace + 1] == rest[brace];
    const std::string_view plain = rest.substr(at, brace + (twice ? 1 : 0) - at);
    text += plain;
    id += plain;
    at = brace + (twice ? 2 : 0);
    if (twice || at == rest.size()) continue;
    const std::size_t end = rest.find('}', at);  // the pattern was checked when it was compiled
    const std::string_view place = rest.substr(at + 1, end - at - 1);
    const std::size_t colon = std::min(place.find(':'), place.size());
    std::size_t index = 0;
    if (colon == 0)
      index = next++;
    else
      std::from_chars(place.data(), place.data() + colon, index);
    if (nested[index] != nullptr) {
      found.push_back(*nested[index]);
    } else {
      found.emplace_back(
          fmt::vformat(fmt::format("{{{}{}}}", index, place.substr(colon)), arguments), "",
          std::vector<Message>());
    }
    text += found.back().text();
    id += fmt::format("%{}", found.size());
    at = end + 1;
  }
  if (found.empty()) return Message(std::move(text));
  return {std::move(text), std::move(id), std::move(found)};
}

}  // namespace lockstep::detail
