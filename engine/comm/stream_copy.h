// Copies to memory that another core reads next.
#pragma once

#include <cstddef>

namespace lockstep::comm {

// As memcpy, but larger blocks bypass this core's caches: with ordinary stores, lines would first
// be fetched from the core that last read them, and then from this one. Measured between two cores
// of a virtual machine: 4–8 GB/s instead of 1.3–4, with less variation between runs. Ordering:
// later stores become visible after the copy.
void streamCopy(void* to, const void* from, std::size_t bytes);

}  // namespace lockstep::comm
