// Whether a program's Python is on this node, before anything starts.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "lockstep/spec/v1/workload.pb.h"

namespace lockstep::agent {

// Checks workload.python on this node: that its folder has an interpreter, or that uv and its
// project, or apptainer and its image, are there. `folder` is that of the code. Errors: kNotFound,
// kFailedPrecondition, with field workload.python.path or the tool that is missing.
Status checkPython(const spec::v1::WorkloadSpec& workload, const std::string& folder);

}  // namespace lockstep::agent
