#include "engine/comm/process_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace lockstep::comm {
namespace {

// The state letter in /proc/PID/stat follows the last ')'.
bool zombieOrGone(int pid) {
  const int file = open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return kill(pid, 0) != 0 && errno == ESRCH;
  std::array<char, 512> text{};
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  if (length <= 0) return true;
  const char* end = std::strrchr(text.data(), ')');
  return end != nullptr && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
}

}  // namespace

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool ProcessWatch::ended(int pid) {
  const std::lock_guard lock(mutex_);
  if (pid <= 0) return false;
  if (pid != pid_) {
    if (descriptor_ >= 0) close(descriptor_);
    pid_ = pid;
    descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    ended_ = descriptor_ < 0 && errno == ESRCH;
  }
  if (ended_) return true;
  if (descriptor_ < 0) return ended_ = zombieOrGone(pid);
  pollfd event{descriptor_, POLLIN, 0};
  ended_ = poll(&event, 1, 0) == 1 && (event.revents & POLLIN) != 0;
  return ended_;
}

}  // namespace lockstep::comm
