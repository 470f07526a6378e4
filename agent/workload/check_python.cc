#include "agent/workload/check_python.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "agent/workload/command_line.h"
#include "agent/workload/environment.h"
#include "agent/workload/program.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

Error notThere(Message what, Message why, const spec::v1::PythonSpec& python) {
  Error error;
  error.code = Code::kFailedPrecondition;
  error.what = std::move(what);
  error.field = "workload.python.path";
  error.why = std::move(why);
  error.next = python.path().starts_with('/')
                   ? message("create it on the node, or name one that all nodes have")
                   : message(
                         "the path is relative to the node's copy of the code, which lacks what "
                         "git ignores: make it there with workload.setup, or give the absolute "
                         "path of one that all nodes have");
  return error;
}

// Why the file cannot be run; empty if it can.
Message whyNotRun(const std::string& file) {
  std::error_code failed;
  fs::path target = file;
  for (int links = 0; links < 16 && fs::is_symlink(target, failed); ++links)
    target = target.parent_path() / fs::read_symlink(target, failed);
  if (!fs::exists(file, failed))
    return target == file ? message("it has no {}", file)
                          : message("{} is a link to {}, which does not exist", file,
                                    target.lexically_normal().string());
  if (fs::is_directory(file, failed) || access(file.c_str(), X_OK) != 0)
    return message("{} is not executable", file);
  return {};
}

// The first reason counts: the interpreter has one name, and others that stand for it.
Status checkInterpreter(const spec::v1::WorkloadSpec& workload, const std::string& folder) {
  const spec::v1::PythonSpec& python = workload.python();
  const std::string path = pythonPath(python, folder);
  const Message what = message("there is no Python in {} on this node", path);
  std::error_code failed;
  if (!fs::exists(path, failed))
    return notThere(what, message("the folder does not exist"), python);
  if (!fs::is_directory(path, failed))
    return notThere(what, message("it is a file; expected the folder that has the interpreter"),
                    python);
  std::vector<std::string> names{"bin/python", "bin/python3"};
  if (python.kind() == "path") names = {"python3", "python", workload.command(0)};
  Message why;
  for (const std::string& name : names) {
    Message one = whyNotRun(path + "/" + name);
    if (one.empty()) return {};
    if (why.empty()) why = std::move(one);
  }
  return notThere(what, why, python);
}

Status checkTool(const spec::v1::WorkloadSpec& workload, const std::string& folder) {
  CommandPlace place;
  place.folder = folder;
  place.environment = pythonEnvironment(workload, folder, inheritedEnvironment());
  LOCKSTEP_TRY(commandLine(workload, place).status());
  const spec::v1::PythonSpec& python = workload.python();
  const std::string path = pythonPath(python, folder);
  std::error_code failed;
  if (python.kind() == "uv") {
    if (python.path().empty() || fs::exists(path + "/pyproject.toml", failed)) return {};
    return notThere(message("there is no project in {} on this node", path),
                    message("it has no {}", path + "/pyproject.toml"), python);
  }
  const bool isAddress = python.path().find("://") != std::string::npos;
  if (isAddress || fs::exists(path, failed)) return {};
  return notThere(message("there is no image {} on this node", path),
                  message("the file does not exist"), python);
}

}  // namespace

Status checkPython(const spec::v1::WorkloadSpec& workload, const std::string& folder) {
  const std::string& kind = workload.python().kind();
  if (kind == "path" || kind == "venv" || kind == "conda")
    return checkInterpreter(workload, folder);
  if (kind == "uv" || kind == "apptainer") return checkTool(workload, folder);
  return {};
}

}  // namespace lockstep::agent
