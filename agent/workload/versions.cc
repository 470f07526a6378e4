#include "agent/workload/versions.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "agent/workload/environment.h"
#include "agent/workload/program.h"
#include "engine/base/clock.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kLimit = Nanoseconds{10} * 1'000'000'000;
constexpr std::size_t kMostOutput = 16384;

// Without the folder of the code in the path: it may have a platform.py of its own. Packages are
// not imported.
constexpr const char* kScript = R"(
import sys
del sys.path[0]
import platform
print('python', platform.python_version())
try:
    from importlib import metadata
    for name in ('torch', 'nvidia-nccl-cu11', 'nvidia-nccl-cu12', 'nvidia-nccl-cu13', 'tensorflow', 'keras', 'jax',
                 'jaxlib', 'deepspeed', 'transformers', 'accelerate', 'lightning', 'horovod', 'mpi4py', 'numpy'):
        try:
            print(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            pass
except ImportError:
    pass
)";

// The interpreter that the command names, or that of a launcher beside it; "": the command starts
// what it likes.
std::string interpreterOf(const std::string& program) {
  const std::filesystem::path path(program);
  const std::string name = path.filename();
  if (name.starts_with("python")) return program;
  constexpr std::string_view kLaunchers[] = {"torchrun", "accelerate", "deepspeed", "horovodrun"};
  if (std::ranges::find(kLaunchers, name) == std::end(kLaunchers)) return {};
  for (const char* python : {"python3", "python"})
    if (const std::string beside = path.parent_path() / python; access(beside.c_str(), X_OK) == 0)
      return beside;
  return {};
}

// Of uv's project only where it is made already, which may take long; of none in a container.
std::string pythonOf(const spec::v1::WorkloadSpec& workload, const std::string& folder,
                     const std::string& path) {
  const spec::v1::PythonSpec& python = workload.python();
  if (python.kind() == "apptainer") return {};
  if (python.kind() == "uv") {
    const std::filesystem::path project = std::filesystem::path(folder) / python.path();
    const std::string made = project / ".venv/bin/python";
    return access(made.c_str(), X_OK) == 0 ? made : std::string();
  }
  const auto program = resolveProgram(workload.command(0), path, folder);
  return program.ok() ? interpreterOf(*program) : std::string();
}

}  // namespace

std::map<std::string, std::string> pythonVersions(const spec::v1::WorkloadSpec& workload,
                                                  const std::string& folder) {
  Program::Options options;
  options.folder = folder;
  options.environment = pythonEnvironment(workload, folder, inheritedEnvironment());
  options.path = pythonOf(workload, folder, valueIn(options.environment, "PATH"));
  if (options.path.empty()) return {};
  options.words = {options.path, "-c", kScript};
  auto started = Program::start(options);
  if (!started.ok()) return {};
  std::string output;
  const auto take = [&](std::string_view text) {
    if (output.size() < kMostOutput) output += text;
  };
  for (const Nanoseconds end = monotonicNow() + kLimit; started->wait(end - monotonicNow(), take);)
    if (monotonicNow() >= end) return {};
  if (started->status() != 0) return {};
  std::map<std::string, std::string> out;
  std::istringstream lines(output);
  for (std::string name, version; lines >> name >> version;) out[name] = version;
  return out;
}

}  // namespace lockstep::agent
