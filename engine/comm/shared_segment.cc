#include "engine/comm/shared_segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/memory.h"

namespace lockstep::comm {

std::int64_t sharedMemoryBytes(int size) {
  constexpr std::int64_t kPage = 65536;  // a multiple of every supported page size
  return (static_cast<std::int64_t>(SegmentLayout(size).bytes) + kPage - 1) / kPage * kPage;
}

Result<int> makeSharedMemory(std::int64_t bytes) {
  const int fd = memfd_create("lockstep-group", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return systemError(errno, "shared memory of a group");
  if (ftruncate(fd, bytes) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    Error error = systemError(errno, "shared memory of a group");
    close(fd);
    return error;
  }
  return fd;
}

Result<std::shared_ptr<Segment>> mapSegment(int fd, std::int64_t offset, int size) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return systemError(errno, "the group's shared memory");
  const int seals = fcntl(fd, F_GET_SEALS);
  const std::int64_t bytes = sharedMemoryBytes(size);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || offset < 0 || info.st_size - offset < bytes) {
    Error error = makeError(Code::kFailedPrecondition, "descriptor {} as shared memory of {} ranks",
                            fd, size);
    error.why = message("expected a sealed memfd of at least {} bytes, found {} bytes{}",
                        offset + bytes, info.st_size, seals < 0 ? ", no memfd" : "");
    return error;
  }
  void* base = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE, fd, offset);
  if (base == MAP_FAILED) return systemError(errno, "mapping the group's shared memory");
  // Pre-faults the collectives' memory. Older kernels do not support this.
  madvise(base, SegmentLayout(size).mailboxes, MADV_POPULATE_WRITE);
  return std::make_shared<Segment>(static_cast<std::byte*>(base), size);
}

Result<std::shared_ptr<Segment>> makeSegment(int size) {
  void* base = mmap(nullptr, static_cast<std::size_t>(sharedMemoryBytes(size)),
                    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return outOfMemory(message("the messages of {} ranks", size), sharedMemoryBytes(size));
  return std::make_shared<Segment>(static_cast<std::byte*>(base), size);
}

}  // namespace lockstep::comm
