// Adapts a device backend to operands in host memory: each run copies them to the device and back
// and synchronizes. For tests and kernel benchmarks; training keeps operands on the device.
#pragma once

#include <memory>

#include "engine/backends/backend.h"

namespace lockstep::backends {

// Returns the backend itself if it computes in host memory.
std::unique_ptr<Backend> hosted(std::unique_ptr<Backend> backend);

// Call after a run. Errors: kInternal if it wrote outside its operands; else the device's first
// error. From then on the device is lost, and outputs stay unchanged.
Status failureOf(const Backend& backend);
bool isLost(const Backend& backend);

}  // namespace lockstep::backends
