// Messages as JSON, for what the studio keeps; see engine/specs/error_info.h.
#pragma once

#include "engine/specs/error_info.h"

namespace lockstep::app {

using specs::messageFromJson;
using specs::toJson;

}  // namespace lockstep::app
