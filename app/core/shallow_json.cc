#include "app/core/shallow_json.h"

#include <nlohmann/json.hpp>

namespace lockstep::app {

nlohmann::json parseShallow(const std::string& text) {
  using nlohmann::json;
  constexpr int kDeepest = 100;  // as of protobuf, which reads messages that are kept so
  const auto isShallow = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
  return json::parse(text, isShallow, false);
}

std::string textOf(const nlohmann::json& value, const char* name) {
  const auto member = value.find(name);
  return member != value.end() && member->is_string() ? member->get<std::string>() : std::string();
}

}  // namespace lockstep::app
