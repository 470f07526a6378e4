// The timed backend: computes nothing and takes the predicted time, so that a plan runs in real
// time on a machine that could not compute it. Times under 1 µs are not waited for.
#pragma once

#include "engine/backends/backend.h"

namespace lockstep::backends {

std::unique_ptr<Backend> makeTimed();

}  // namespace lockstep::backends
