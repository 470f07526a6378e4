// Test cases of convolution, pooling and batch norm.
#pragma once

#include <vector>

#include "engine/backends/cases.h"

namespace lockstep::backends {

void addImageCases(std::vector<Case>& cases);

}  // namespace lockstep::backends
