// Loaded before the C library by agents: SIGUSR1 makes the thread that gets it hang for ever,
// wherever it is; the other threads of the process go on.
#include <signal.h>
#include <unistd.h>

extern "C" __attribute__((visibility("default"), noinline)) void hangHere(int /*signal*/) {
  for (;;) ::pause();
}

namespace {

const bool installed = [] {
  struct sigaction action {};
  action.sa_handler = hangHere;
  ::sigaction(SIGUSR1, &action, nullptr);
  return true;
}();

}  // namespace
