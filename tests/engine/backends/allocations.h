// How often this process has asked the heap for memory, in all its libraries.
#pragma once

#include <cstdint>

namespace lockstep::testing {
std::int64_t allocations();  // always 0 where a sanitizer owns the heap
}
