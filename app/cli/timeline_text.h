// A simulated step as text.
#pragma once

#include <string>
#include <string_view>

#include "app/cli/terminal.h"
#include "app/runs/preview.h"

namespace lockstep::app::cli {

std::string_view phaseText(const plan::Event& event);  // "forward", "waiting", …
// One row a rank: what it does in one step, as letters over time. Empty without events.
std::string timelineText(const Preview& preview, const Style& style, int columns);

}  // namespace lockstep::app::cli
