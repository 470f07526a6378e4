// Memory that there is not: an error, wherever a size follows from what a person wrote or a file
// holds.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/base/status.h"

namespace lockstep {

// kResourceExhausted: "out of memory for WHAT: 12.50 GiB". `bytes` 0: how many is not known.
Error outOfMemory(std::string_view what, std::int64_t bytes = 0);

// Returns what `work` returns, a Status or a Result; outOfMemory() where a container or a thread in
// it gets none.
template <typename Work>
auto withMemoryFor(std::string_view what, std::int64_t bytes, Work&& work) -> decltype(work()) {
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
