// Loaded before the C library by agents: a disk that is slow with checkpoints, or with tokens.
// LOCKSTEP_SLOW_DISK names a file that says for how many seconds each fsync takes; "<it>.begun"
// appears when one is waited for. "<it>.reads" says whose reads of a file "….tokens" take how many
// milliseconds each, as "/n2/ 40": processes whose working folder has that in its path.
// LOCKSTEP_DISK_RATE: the bytes per second that a write takes.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string pathOf(int fd) {
  char path[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 ? path : "";
}

bool isCheckpoint(int fd) {
  const std::string path = pathOf(fd);
  return path.find("/.step-") != std::string::npos &&
         path.find(".safetensors") != std::string::npos;
}

// Returns the content of a small file; "" if there is none.
std::string contentOf(const std::string& path) {
  char text[64] = "";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  const bool read = ::read(file, text, sizeof text - 1) > 0;
  ::close(file);
  return read ? text : "";
}

void delayRead(int fd) {
  const char* control = std::getenv("LOCKSTEP_SLOW_DISK");
  if (control == nullptr || !pathOf(fd).ends_with(".tokens")) return;
  const std::string who = contentOf(std::string(control) + ".reads");
  const size_t space = who.find(' ');
  char folder[4096] = "";
  if (space == std::string::npos || ::getcwd(folder, sizeof folder) == nullptr ||
      std::string(folder).find(who.substr(0, space)) == std::string::npos)
    return;
  ::usleep(1000 * static_cast<useconds_t>(std::atoi(who.c_str() + space)));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  const char* control = std::getenv("LOCKSTEP_SLOW_DISK");
  const std::string seconds = control != nullptr && isCheckpoint(fd) ? contentOf(control) : "";
  if (!seconds.empty()) {
    ::close(
        ::open((std::string(control) + ".begun").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ::sleep(static_cast<unsigned>(std::atoi(seconds.c_str())));
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" __attribute__((visibility("default"))) ssize_t pread(int fd, void* to, size_t bytes,
                                                                off_t offset) {
  delayRead(fd);
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}
extern "C" __attribute__((visibility("default"))) ssize_t pread64(int fd, void* to, size_t bytes,
                                                                  off64_t offset) {
  return pread(fd, to, bytes, offset);
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
