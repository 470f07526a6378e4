#include "tests/gpu/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine/base/clock.h"

namespace lockstep::gpu {
namespace {

constexpr std::size_t kErrorsKept = 4000;

// Whether there may be more.
bool readSome(int fd, std::string& out) {
  std::array<char, 65536> bytes;
  const ssize_t count = read(fd, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  out.append(bytes.data(), static_cast<std::size_t>(count));
  return count > 0;
}

}  // namespace

Child runChild(const std::vector<std::string>& words, double limitSeconds) {
  Child out;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int output[2], errors[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) return out;
  const Nanoseconds begin = monotonicNow();
  const auto seconds = [&] { return static_cast<double>(monotonicNow() - begin) * 1e-9; };
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive who asked for it
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(output[1], 1);
    dup2(errors[1], 2);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(output[1]);
  close(errors[1]);
  bool moreOutput = child > 0, moreErrors = child > 0, over = child < 0;
  // A process that it leaves behind may hold the pipes: what it wrote until its own end counts.
  while (!over || moreOutput || moreErrors) {
    pollfd waiting[2] = {{moreOutput ? output[0] : -1, POLLIN, 0},
                         {moreErrors ? errors[0] : -1, POLLIN, 0}};
    const int ready = poll(waiting, 2, over ? 0 : 100);
    if ((waiting[0].revents & (POLLIN | POLLHUP)) != 0)
      moreOutput = readSome(output[0], out.output);
    if ((waiting[1].revents & (POLLIN | POLLHUP)) != 0)
      moreErrors = readSome(errors[0], out.errors);
    if (over && ready <= 0) break;
    int status = 0;
    if (!over && waitpid(child, &status, WNOHANG) == child) {
      over = true;
      out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (!over && !out.overtime && seconds() > limitSeconds) {
      out.overtime = true;
      kill(-child, SIGKILL);
    }
  }
  close(output[0]);
  close(errors[0]);
  out.seconds = seconds();
  if (out.errors.size() > kErrorsKept) out.errors.erase(0, out.errors.size() - kErrorsKept);
  return out;
}

}  // namespace lockstep::gpu
