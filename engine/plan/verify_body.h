// Verifies one body of a program.
#pragma once

#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Checks that buffers and steps are in range, that every value is written before it is read, that
// buffers share memory only where they are not in use together, and that types fit. `ranks` run the
// body, all of one stage.
Status verifyBody(const Plan& plan, const Program& program, const Body& body,
                  const std::vector<int>& ranks);

}  // namespace lockstep::plan
