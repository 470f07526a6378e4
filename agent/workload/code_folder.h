// The files of a program on a node.
#pragma once

#include <string>

#include "agent/base/run_folder.h"
#include "engine/base/status.h"
#include "lockstep/spec/v1/workload.pb.h"

namespace lockstep::agent {

// Writes the files of a message spec::v1::CodeFiles, which is in the file `code`, into the folder
// `to`, which must not exist: it is made under another name (`to`, '.' and six letters) and renamed
// at the end, so that it is whole or not there. Modes are 0700 and 0600, folders 0700. Symbolic
// links are made last, and nothing is ever written through one. Only a process that is killed
// leaves the other name behind. Errors: kDataLoss, the message is damaged; kInvalidArgument, a path
// that is absolute, has a part
// "", "." or ".." or too many parts, comes twice, or is a folder of another; a link that leaves the
// folder, be it by way of other links; kAlreadyExists, `to`; others of the system.
Status writeCode(const std::string& code, const std::string& to);
// Where a run's program runs: in its copy of the code, or in the run's folder if it has none.
std::string programFolder(const RunFolder& folder, const spec::v1::WorkloadSpec& workload);

}  // namespace lockstep::agent
