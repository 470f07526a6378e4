#include <sys/resource.h>

#include <cstdio>
#include <string>
#include <vector>

#include "agent/base/commands.h"

namespace {

// These processes hold a run's keys, weights and samples.
void writeNoCores() {
  rlimit cores{};
  if (getrlimit(RLIMIT_CORE, &cores) != 0) return;
  cores.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &cores);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep::agent;
  writeNoCores();
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words.front();
  if (!words.empty()) words.erase(words.begin());
  Arguments arguments(std::move(words));
  if (command == "serve") return serveCommand(arguments);
  if (command == "supervise") return superviseCommand(arguments);
  if (command == "worker") return workerCommand(arguments);
  if (command == "bridge") return bridgeCommand(arguments);
  if (command == "leave") return leaveCommand(arguments);
  if (command == "selftest") return selftestCommand(arguments);
  if (command == "stacks") return stacksCommand(arguments);
  std::fputs(
      "usage: lockstep-agent serve [--workdir DIR] [--detach] [--idle-exit SECONDS] "
      "[--allow-root]\n"
      "       lockstep-agent bridge --socket PATH\n"
      "       lockstep-agent leave [--workdir DIR]      ends the agent where no run is under way\n"
      "       lockstep-agent selftest [--device cpu|cuda] [--quick] [--json]   what this node "
      "computes with, and how\n"
      "       lockstep-agent stacks PID                 the stacks of all threads of a process\n"
      "       lockstep-agent supervise RUNFOLDER | worker --fd N   (started by the agent)\n",
      stderr);
  return command == "--help" || command == "help" ? 0 : 2;
}
