#include "agent/workload/command_line.h"

#include <unistd.h>

#include <filesystem>

#include "agent/workload/environment.h"
#include "agent/workload/program.h"

namespace lockstep::agent {
namespace {

using Words = std::vector<std::string>;

// The program that runs the command, which has to be on the path.
Result<CommandLine> toolLine(const std::string& tool, Words words, const CommandPlace& place,
                             const spec::v1::WorkloadSpec& workload) {
  CommandLine out;
  auto path = resolveProgram(tool, valueIn(place.environment, "PATH"), place.folder);
  if (!path.ok()) {
    path.error().next = message(
        "install {} on the node, add its folder to workload.env.PATH, or choose another "
        "workload.python.kind",
        tool);
    return path.error();
  }
  out.path = std::move(*path);
  out.words = std::move(words);
  out.words.insert(out.words.end(), workload.command().begin(), workload.command().end());
  return out;
}

// With the versions of uv.lock: they are those on all nodes.
Result<CommandLine> uvLine(const spec::v1::WorkloadSpec& workload, const CommandPlace& place) {
  Words words{"uv", "run", "--locked"};
  if (!workload.python().path().empty())
    words.insert(words.end(), {"--project", pythonPath(workload.python(), place.folder)});
  words.emplace_back("--");
  return toolLine("uv", std::move(words), place, workload);
}

// An image is a file, or has the address of a registry.
Result<CommandLine> apptainerLine(const spec::v1::WorkloadSpec& workload,
                                  const CommandPlace& place) {
  const std::string& image = workload.python().path();
  Words words{"apptainer", "exec"};
  if (place.gpus) words.emplace_back("--nv");
  Words bound{place.folder};
  bound.insert(bound.end(), place.folders.begin(), place.folders.end());
  bound.insert(bound.end(), workload.python().binds().begin(), workload.python().binds().end());
  for (const std::string& folder : bound) {
    if (folder.find_first_of(":,") != std::string::npos)
      return makeError(Code::kFailedPrecondition,
                       "the container cannot see the folder {}, whose path has a colon or a comma",
                       folder);
    words.insert(words.end(), {"--bind", folder});
  }
  words.insert(words.end(), {"--pwd", place.folder});
  words.push_back(
      image.find("://") == std::string::npos ? pythonPath(workload.python(), place.folder) : image);
  return toolLine("apptainer", std::move(words), place, workload);
}

}  // namespace

Result<CommandLine> commandLine(const spec::v1::WorkloadSpec& workload, const CommandPlace& place) {
  if (workload.python().kind() == "uv") return uvLine(workload, place);
  if (workload.python().kind() == "apptainer") return apptainerLine(workload, place);
  CommandLine out;
  out.words.assign(workload.command().begin(), workload.command().end());
  LOCKSTEP_ASSIGN(out.path, resolveProgram(out.words.front(), valueIn(place.environment, "PATH"),
                                           place.folder));
  // Where "python" is python3. Python looks for its libraries beside the program of this name.
  if (out.words.front() == "python") out.words.front() = std::filesystem::path(out.path).filename();
  return out;
}

bool hasNvidiaGpus() { return access("/dev/nvidiactl", F_OK) == 0; }

}  // namespace lockstep::agent
