// Reads JSON of files that may be damaged. Values nested deeper than 100 are left out: copying or
// writing them recurses, and could take all of the stack.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep::app {

// Returns a discarded value (is_discarded()) where the text is no JSON.
nlohmann::json parseShallow(const std::string& text);
// Returns the member's text; "" where the value is no object, or has no such text.
std::string textOf(const nlohmann::json& value, const char* name);

}  // namespace lockstep::app
