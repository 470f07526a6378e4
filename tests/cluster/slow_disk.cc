// Loaded before the C library by agents: a disk that is slow with checkpoints.
// LOCKSTEP_SLOW_DISK names a file that says for how many seconds each fsync takes; "<it>.begun"
// appears when one is waited for. LOCKSTEP_DISK_RATE: the bytes per second that a write takes.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool isCheckpoint(int fd) {
  char path[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 &&
         std::strstr(path, "/.step-") != nullptr && std::strstr(path, ".safetensors") != nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  const char* control = std::getenv("LOCKSTEP_SLOW_DISK");
  char seconds[16] = "";
  if (control != nullptr && isCheckpoint(fd)) {
    const int file = ::open(control, O_RDONLY | O_CLOEXEC);
    const bool slow = file >= 0 && ::read(file, seconds, sizeof seconds - 1) > 0;
    if (file >= 0) ::close(file);
    if (slow) {
      ::close(
          ::open((std::string(control) + ".begun").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      ::sleep(static_cast<unsigned>(std::atoi(seconds)));
    }
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

// All ranks of a host share the disk: each is given its part of the rate.
extern "C" __attribute__((visibility("default"))) ssize_t write(int fd, const void* from,
                                                                size_t bytes) {
  const char* rate = std::getenv("LOCKSTEP_DISK_RATE");
  constexpr size_t kMost = 1 << 20;
  if (rate == nullptr || !isCheckpoint(fd)) return ::syscall(SYS_write, fd, from, bytes);
  if (bytes > kMost) bytes = kMost;
  ::usleep(static_cast<useconds_t>(1e6 * static_cast<double>(bytes) / std::atof(rate)));
  return ::syscall(SYS_write, fd, from, bytes);
}
