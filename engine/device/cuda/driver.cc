#include "engine/device/cuda/driver.h"

#include <dlfcn.h>

#include "engine/device/cuda/library.h"

namespace lockstep::device::cuda {
namespace {

constexpr const char* kFile = "libcuda.so.1";

Error missing(Message what, Message why, Message next) {
  Error error = makeError(Code::kFailedPrecondition, "{}", what);
  error.why = std::move(why);
  error.next = std::move(next);
  return error;
}

const std::string& newDriver() {
  static const std::string text =
      fmt::format("install an NVIDIA driver for CUDA {} or later", versionText(kLeastDriver));
  return text;
}

// Fills `table`. Returns the first symbol that the library lacks, or "".
std::string resolve(void* handle, Driver& table) {
  std::string absent;
  const auto find = [&](auto& field, const char* name) {
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(dlsym(handle, name));
    if (field == nullptr && absent.empty()) absent = name;
  };
#define LOCKSTEP_NAME_OF(name) #name
#define LOCKSTEP_FIND(name) find(table.name, LOCKSTEP_NAME_OF(name));
  LOCKSTEP_DRIVER_CALLS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
#undef LOCKSTEP_NAME_OF
  return absent;
}

FoundDriver find() {
  FoundDriver out;
  out.library.name = "driver";
  out.library.expected = fmt::format("CUDA {} or later", versionText(kLeastDriver));
  const OpenLibrary library = openLibrary(kFile);
  if (library.handle == nullptr) {
    out.library.problem = library.problem;
    out.usable = missing("there is no NVIDIA driver", library.problem, newDriver());
    return out;
  }
  static Driver table;
  int version = 0;
  using GetVersion = decltype(&::cuDriverGetVersion);
  // An old driver lacks symbols; its version is the better message.
  if (const auto get = reinterpret_cast<GetVersion>(dlsym(library.handle, "cuDriverGetVersion"));
      get != nullptr)
    get(&version);
  if (version < kLeastDriver) {
    out.library.problem = fmt::format("it is for CUDA {} ({})", versionText(version), library.path);
    out.usable = missing(message("the NVIDIA driver is for CUDA {}, and Lockstep's module needs {}",
                                 versionText(version), versionText(kLeastDriver)),
                         library.path, newDriver());
    return out;
  }
  if (const std::string absent = resolve(library.handle, table); !absent.empty()) {
    out.library.problem = fmt::format("{} has no {}", library.path, absent);
    out.usable = missing("the NVIDIA driver cannot be used", out.library.problem, newDriver());
    return out;
  }
  out.library.version = versionText(version);
  out.library.found = fmt::format("CUDA {} ({})", out.library.version, library.path);
  out.driver = &table;
  int count = 0;
  const CUresult started = table.cuInit(0);
  const CUresult counted = started == CUDA_SUCCESS ? table.cuDeviceGetCount(&count) : started;
  if (counted == CUDA_ERROR_NO_DEVICE || (counted == CUDA_SUCCESS && count == 0))
    out.usable = missing("the NVIDIA driver sees no GPU", table.text(CUDA_ERROR_NO_DEVICE),
                         "check nvidia-smi, CUDA_VISIBLE_DEVICES and the devices of a container");
  else if (counted != CUDA_SUCCESS)
    out.usable = missing("the NVIDIA driver does not start", table.text(counted),
                         "check nvidia-smi and dmesg");
  return out;
}

}  // namespace

std::string Driver::text(CUresult result) const {
  const char *name = nullptr, *words = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS ||
      cuGetErrorString(result, &words) != CUDA_SUCCESS)
    return fmt::format("CUDA error {}", static_cast<int>(result));
  return fmt::format("{}: {}", name, words);
}

std::string versionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

const FoundDriver& findDriver() {
  static const FoundDriver found = find();
  return found;
}

}  // namespace lockstep::device::cuda
