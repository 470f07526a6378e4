// The list of built-in backends.
#include "engine/backends/backend.h"
#include "engine/backends/cuda.h"
#include "engine/backends/onednn.h"
#include "engine/backends/reference.h"
#include "engine/backends/timed.h"
#include "engine/device/module.h"

namespace lockstep::backends {
namespace {

struct Entry {
  std::string_view name;
  Result<std::unique_ptr<Backend>> (*make)(const BackendOptions& options);
};

constexpr Entry kBackends[] = {
    {"reference",
     [](const BackendOptions&) -> Result<std::unique_ptr<Backend>> { return makeReference(); }},
    {"timed",
     [](const BackendOptions&) -> Result<std::unique_ptr<Backend>> { return makeTimed(); }},
    {"onednn", [](const BackendOptions& options) { return makeOneDnn(options); }},
    {"cuda",
     [](const BackendOptions& options) -> Result<std::unique_ptr<Backend>> {
       LOCKSTEP_ASSIGN(auto device, device::open(options.device));
       return makeCuda(std::move(device));
     }},
};

}  // namespace

std::vector<std::string> backendNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kBackends) names.emplace_back(entry.name);
  return names;
}

Result<std::unique_ptr<Backend>> makeBackend(std::string_view name, const BackendOptions& options) {
  if (options.threads < 1)
    return invalidArgument("threads is {}, expected at least 1", options.threads);
  std::string known;
  for (const Entry& entry : kBackends) {
    if (entry.name == name) return entry.make(options);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  }
  Error error = invalidArgument("there is no backend \"{}\"", name);
  error.next = message("one of {}", known);
  return error;
}

}  // namespace lockstep::backends
