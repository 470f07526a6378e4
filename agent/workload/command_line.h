// How a program's command is started: as it is, by uv, or in a container.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/spec/v1/workload.pb.h"

namespace lockstep::agent {

struct CommandLine {
  std::string path;                // of the file that is executed
  std::vector<std::string> words;  // its arguments, from its own name on
};

struct CommandPlace {
  std::string folder;                    // of the code: the command's current folder
  std::vector<std::string> environment;  // its own, "NAME=value"
  std::vector<std::string> folders;      // that it reads or writes besides; a container sees them
  bool gpus = false;                     // the node has GPUs of NVIDIA
};

// Errors: kNotFound and kFailedPrecondition, of the command or of the tool that runs it.
Result<CommandLine> commandLine(const spec::v1::WorkloadSpec& workload, const CommandPlace& place);

// Whether the driver of NVIDIA's GPUs is there.
bool hasNvidiaGpus();

}  // namespace lockstep::agent
