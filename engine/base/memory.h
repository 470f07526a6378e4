// Turns allocation failures into errors, wherever a size follows from user input or from a file.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "engine/base/status.h"

namespace lockstep {

// Returns kResourceExhausted: "out of memory for WHAT: 12.50 GiB". `bytes` 0: unknown size.
Error outOfMemory(const Message& what, std::int64_t bytes = 0);

// Runs `work` and returns its Status or Result; returns outOfMemory() where a container allocation
// or a thread start fails for lack of memory.
template <typename Work>
auto withMemoryFor(const Message& what, std::int64_t bytes, Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {        // of a container: more than any can have
  } catch (const std::system_error& error) {  // of a thread: no memory for its stack
    if (error.code() != std::errc::resource_unavailable_try_again) throw;
  }
  return outOfMemory(what, bytes);
}

}  // namespace lockstep
