// Loaded before the C library by the agents of hosts: a disk that takes as long as a file says to
// keep checkpoints. LOCKSTEP_SLOW_DISK names that file; "<it>.begun" appears when it is waited for.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  const char* control = std::getenv("LOCKSTEP_SLOW_DISK");
  char path[4096] = "", seconds[16] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const bool known = control != nullptr && ::readlink(link.c_str(), path, sizeof path - 1) > 0;
  if (known && std::strstr(path, "/.step-") != nullptr &&
      std::strstr(path, ".safetensors") != nullptr) {
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
