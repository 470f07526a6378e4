// A backend on a device for operands in the host's memory: each run copies them there and back and
// waits. For tests and measurements of kernels; training keeps its operands on the device.
#pragma once

#include <memory>

#include "engine/backends/backend.h"

namespace lockstep::backends {

// The backend itself where it computes in the host's memory.
std::unique_ptr<Backend> hosted(std::unique_ptr<Backend> backend);

// To be asked after a run. Errors: kInternal where it wrote outside its operands; what the device
// said of the first that failed, from which on it is lost, and outputs are left as they were.
Status failureOf(const Backend& backend);
bool isLost(const Backend& backend);

}  // namespace lockstep::backends
