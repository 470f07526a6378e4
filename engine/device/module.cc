#include "engine/device/module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace lockstep::device {
namespace {

std::string modulePath() {
  if (const char* given = std::getenv("LOCKSTEP_CUDA_MODULE"); given != nullptr && *given != '\0')
    return given;
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (self.parent_path() / "lib" / "lockstep-cuda.so").string();
}

Result<const Module*> find() {
  const std::string path = modulePath();
  Error error = makeError(Code::kFailedPrecondition, "Lockstep's CUDA module cannot be used");
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    error.why = message("there is no {}", path);
    error.next = "this build has none: build on a machine with the CUDA toolkit to have one";
    return error;
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    error.why = dlerror();
    return error;
  }
  using Entry = const Module* (*)();
  const auto* const contract = static_cast<const char*>(dlsym(library, kModuleContract));
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kModuleEntry));
  const bool same = contract != nullptr && std::string_view(contract) == LOCKSTEP_MODULE_CONTRACT;
  const Module* const module = same && entry != nullptr ? entry() : nullptr;
  if (module == nullptr) {
    error.why = message("{} is of another build", path);
    error.next = "deploy the agent and its module together";
    dlclose(library);
    return error;
  }
  return module;
}

}  // namespace

Result<const Module*> openModule() {
  static const Result<const Module*> module = find();
  return module;
}

Survey survey() {
  const auto module = openModule();
  if (module.ok()) return (*module)->survey();
  Survey out;
  out.usable = module.status();
  return out;
}

Result<std::unique_ptr<Device>> open(int index) {
  LOCKSTEP_ASSIGN(const Module* const module, openModule());
  return module->open(index);
}

}  // namespace lockstep::device
