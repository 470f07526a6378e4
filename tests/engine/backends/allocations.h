// Counts the heap allocations of this process, in all its libraries.
#pragma once

#include <cstdint>

namespace lockstep::testing {
std::int64_t allocations();  // always 0 where a sanitizer owns the heap
}
