// Whether a program's Python is on this node, before anything starts.
#pragma once

#include <map>
#include <string>

#include "engine/base/status.h"
#include "lockstep/spec/v1/workload.pb.h"

namespace lockstep::agent {

// Checks workload.python on this node: that its folder has an interpreter, or that uv and its
// project, or apptainer and its image, are there. `secrets` are the variables of workload.env_from,
// `folder` is that of the code. Errors: kFailedPrecondition with the field workload.python.path;
// kNotFound, kFailedPrecondition of resolveProgram() for uv and apptainer.
Status checkPython(const spec::v1::WorkloadSpec& workload,
                   const std::map<std::string, std::string>& secrets, const std::string& folder);

}  // namespace lockstep::agent
