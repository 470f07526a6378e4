#include "app/core/shallow_json.h"

#include <nlohmann/json.hpp>

namespace lockstep::app {

nlohmann::json parseShallow(const std::string& text) {
  using nlohmann::json;
  constexpr int kDeepest = 100;  // as of protobuf, which reads messages that are kept so
  const auto isShallow = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
  return json::parse(text, isShallow, false);
}

}  // namespace lockstep::app
