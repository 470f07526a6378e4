// Progress of work on many bytes, and its cancellation.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/status.h"

namespace lockstep {

// Called by the work at least once per megabyte, on its thread, with the bytes done so far. Returns
// false to cancel it: the work then fails with kCancelled and leaves nothing behind. May be empty.
using Progress = std::function<bool(std::int64_t done, std::int64_t total)>;

// Calls `progress` unless it is empty. Errors: kCancelled.
inline Status report(const Progress& progress, std::int64_t done, std::int64_t total) {
  if (!progress || progress(done, total)) return {};
  return makeError(Code::kCancelled, "reading the data was cancelled");
}

}  // namespace lockstep
