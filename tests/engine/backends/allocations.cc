#include "tests/engine/backends/allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {
std::atomic<std::int64_t> count{0};
}

namespace lockstep::testing {
std::int64_t allocations() { return count.load(); }
}  // namespace lockstep::testing

// Interposes glibc's allocator for the executable and every library it loads.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  count.fetch_add(1);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  count.fetch_add(1);
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  count.fetch_add(1);
  return __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count.fetch_add(1);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count.fetch_add(1);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  count.fetch_add(1);
  *result = __libc_memalign(alignment, bytes);
  return *result ? 0 : ENOMEM;
}
}
#pragma GCC visibility pop
