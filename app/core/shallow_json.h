// JSON from files that may be damaged. What is nested deeper than anything that is written there is
// left out: to copy or to write it again could take all of the stack.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep::app {

// Returns a discarded value (is_discarded()) where the text is no JSON.
nlohmann::json parseShallow(const std::string& text);

}  // namespace lockstep::app
