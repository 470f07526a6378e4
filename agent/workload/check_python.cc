#include "agent/workload/check_python.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "agent/workload/command_line.h"
#include "agent/workload/environment.h"
#include "agent/workload/program.h"
#include "engine/base/list_folder.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

// Why there is no such file: `absent`, or the system's reason. Empty if there is one.
Message whyAbsent(const fs::path& file, Message absent) {
  std::error_code failed;
  if (fs::exists(file, failed)) return {};
  return failed ? message("{}: {}", file.lexically_normal().string(), Message(failed.message()))
                : std::move(absent);
}

// `path` is that of `python` on this node.
Error notThere(Message what, Message why, const spec::v1::PythonSpec& python,
               const std::string& path) {
  Error error;
  error.code = Code::kFailedPrecondition;
  error.what = std::move(what);
  error.field = "workload.python.path";
  error.why = std::move(why);
  std::error_code failed;
  error.next = nextWhereAbsent(!python.path().starts_with('/') && !fs::exists(path, failed));
  return error;
}

// Why the file cannot be run; empty if it can.
Message whyNotRun(const std::string& file) {
  std::error_code failed;
  fs::path target = file;
  for (int links = 0; links < 16 && fs::is_symlink(target, failed); ++links)
    target = target.parent_path() / fs::read_symlink(target, failed);
  Message absent =
      whyAbsent(target, target == file ? message("it has no {}", file)
                                       : message("{} is a link to {}, which does not exist", file,
                                                 target.lexically_normal().string()));
  if (!absent.empty()) return absent;
  if (fs::is_directory(file, failed) || access(file.c_str(), X_OK) != 0)
    return message("{} is not executable", file);
  return {};
}

// The names that an interpreter in this folder may have, the usual one first. What runs the command
// stands for one.
std::vector<std::string> interpreterNames(const spec::v1::WorkloadSpec& workload,
                                          const std::string& folder) {
  if (workload.python().kind() != "path") return {"bin/python", "bin/python3"};
  std::vector<std::string> out{"python3", "python"};
  if (workload.command(0).find('/') == std::string::npos) out.push_back(workload.command(0));
  for (const fs::path& entry : listFolder(folder))
    if (entry.filename().string().starts_with("python")) out.push_back(entry.filename().string());
  return out;
}

// Of several reasons the first is told, of the interpreter's usual name.
Status checkInterpreter(const spec::v1::WorkloadSpec& workload, const std::string& folder) {
  const spec::v1::PythonSpec& python = workload.python();
  const std::string path = pythonPath(python, folder);
  const Message what = message("there is no Python in {} on this node", path);
  Message why = whyAbsent(path, message("the folder does not exist"));
  if (!why.empty()) return notThere(what, why, python, path);
  std::error_code failed;
  if (!fs::is_directory(path, failed))
    return notThere(what, message("it is a file; expected the folder that has the interpreter"),
                    python, path);
  for (const std::string& name : interpreterNames(workload, path)) {
    Message one = whyNotRun(path + "/" + name);
    if (one.empty()) return {};
    if (why.empty()) why = std::move(one);
  }
  return notThere(what, why, python, path);
}

Status checkTool(const spec::v1::WorkloadSpec& workload,
                 const std::map<std::string, std::string>& secrets, const std::string& folder) {
  CommandPlace place;
  place.folder = folder;
  place.environment = setupEnvironment(workload, secrets, folder, inheritedEnvironment());
  LOCKSTEP_TRY(commandLine(workload, place).status());
  const spec::v1::PythonSpec& python = workload.python();
  const std::string path = pythonPath(python, folder);
  if (python.kind() == "uv") {
    if (python.path().empty()) return {};
    const std::string project = path + "/pyproject.toml";
    const Message why = whyAbsent(project, message("it has no {}", project));
    if (why.empty()) return {};
    return notThere(message("there is no project in {} on this node", path), why, python, path);
  }
  if (python.path().find("://") != std::string::npos) return {};
  const Message why = whyAbsent(path, message("the file does not exist"));
  if (why.empty()) return {};
  return notThere(message("there is no image {} on this node", path), why, python, path);
}

}  // namespace

Status checkPython(const spec::v1::WorkloadSpec& workload,
                   const std::map<std::string, std::string>& secrets, const std::string& folder) {
  const std::string& kind = workload.python().kind();
  if (kind == "path" || kind == "venv" || kind == "conda")
    return checkInterpreter(workload, folder);
  if (kind == "uv" || kind == "apptainer") return checkTool(workload, secrets, folder);
  return {};
}

}  // namespace lockstep::agent
