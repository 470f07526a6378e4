#include "agent/gpus.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "engine/base/status.h"

namespace lockstep::agent {
namespace {

// Of NVML's interface what is asked for. Handles are opaque; 0 is success.
using Handle = void*;
struct MemoryInfo {
  unsigned long long total = 0, free = 0, used = 0;
};
struct Calls {
  int (*start)() = nullptr;
  int (*driverVersion)(char* text, unsigned size) = nullptr;
  int (*count)(unsigned* count) = nullptr;
  int (*handle)(unsigned index, Handle* device) = nullptr;
  int (*name)(Handle device, char* text, unsigned size) = nullptr;
  int (*memory)(Handle device, MemoryInfo* memory) = nullptr;
  const char* (*errorText)(int result) = nullptr;
};

Gpus find() {
  Gpus out;
  const char* const given = std::getenv("LOCKSTEP_NVML");
  const char* const file = given != nullptr && *given != '\0' ? given : "libnvidia-ml.so.1";
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.problem = fmt::format("there is no NVIDIA driver: {}", dlerror());
    return out;
  }
  Calls calls;
  const auto resolve = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(library, name));
    if (call == nullptr && out.problem.empty()) out.problem = fmt::format("{} has no {}", file, name);
  };
  resolve(calls.start, "nvmlInit_v2");
  resolve(calls.driverVersion, "nvmlSystemGetDriverVersion");
  resolve(calls.count, "nvmlDeviceGetCount_v2");
  resolve(calls.handle, "nvmlDeviceGetHandleByIndex_v2");
  resolve(calls.name, "nvmlDeviceGetName");
  resolve(calls.memory, "nvmlDeviceGetMemoryInfo");
  resolve(calls.errorText, "nvmlErrorString");
  if (!out.problem.empty()) return out;
  std::array<char, 96> text{};
  unsigned count = 0;
  int result = calls.start();
  if (result == 0) result = calls.driverVersion(text.data(), static_cast<unsigned>(text.size()));
  if (result == 0) out.driver = text.data();
  if (result == 0) result = calls.count(&count);
  if (result != 0) {
    out.problem = fmt::format("the NVIDIA driver does not answer: {}", calls.errorText(result));
    return out;
  }
  for (unsigned i = 0; i < count; ++i) {
    Handle device = nullptr;
    MemoryInfo memory;
    if (calls.handle(i, &device) != 0) continue;
    if (calls.name(device, text.data(), static_cast<unsigned>(text.size())) != 0) text.fill('\0');
    if (calls.memory(device, &memory) != 0) memory = {};
    out.all.push_back({text.data(), static_cast<std::int64_t>(memory.total)});
  }
  if (out.all.empty()) out.problem = fmt::format("driver {} sees no GPU", out.driver);
  return out;
}

}  // namespace

const Gpus& gpus() {
  static const Gpus found = find();
  return found;
}

}  // namespace lockstep::agent
