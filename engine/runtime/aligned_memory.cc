#include "engine/runtime/aligned_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "engine/base/memory.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kLine = 64, kPage = 4096;
constexpr std::size_t kLarge = std::size_t{4} << 20;  // mapped from this size on

std::size_t roundedUp(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// Uses base pages: huge pages are faster only outside of virtual machines whose host reclaims free
// memory, where supplying one takes milliseconds.
std::byte* mapFilled(std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<std::byte*>(at);
#ifdef MADV_POPULATE_WRITE
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return memory;
  if (errno == ENOMEM) {
    munmap(at, bytes);
    return nullptr;
  }
#endif
  for (std::size_t i = 0; i < bytes; i += kPage)
    static_cast<volatile std::byte*>(memory)[i] = std::byte{0};
  return memory;
}

}  // namespace

void FreeDeleter::operator()(std::byte* memory) const {
  if (mapped > 0)
    munmap(memory, mapped);
  else
    std::free(memory);
}

Result<AlignedMemory> allocateAligned(std::int64_t bytes, std::string_view what) {
  const auto size = static_cast<std::size_t>(bytes);
  const bool large = size >= kLarge;
  const std::size_t rounded = size == 0 ? kLine : roundedUp(size, large ? kPage : kLine);
  auto* const memory =
      large ? mapFilled(rounded) : static_cast<std::byte*>(std::aligned_alloc(kLine, rounded));
  if (memory == nullptr) return outOfMemory(what, bytes);
  if (!large) std::memset(memory, 0, rounded);
  return AlignedMemory(memory, FreeDeleter{large ? rounded : 0});
}

}  // namespace lockstep::runtime
