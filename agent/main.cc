// lockstep-agent: the table of commands with their flags, and main().
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "agent/base/commands.h"

namespace lockstep::agent {
namespace {

constexpr int kUsageError = 2;

struct Command {
  std::string_view name;
  Grammar grammar;
  std::string_view help;
  Result<int> (*run)(const Arguments& arguments);
};

const std::vector<Command> kCommands{
    {"serve",
     {{"workdir=", "detach", "find",
       "idle-exit=", "superseded-exit=", "prepare-seconds=", "batch=", "allow-root"},
      0,
      0,
      "serve [--workdir DIR] [--detach | --find | --batch FILE] [--idle-exit SECONDS] "
      "[--allow-root]"},
     "runs the agent of this node; --find: says which one serves; --batch: in a scheduler's job, "
     "where\n      SIGURG makes FILE, stops the runs and ends it, and SIGTERM makes FILE.term if "
     "it "
     "has runs",
     serveCommand},
    {"bridge",
     {{"socket="}, 0, 0, "bridge --socket PATH", {"socket"}},
     "connects stdin and stdout to a Unix socket",
     bridgeCommand},
    {"leave",
     {{"workdir="}, 0, 0, "leave [--workdir DIR]"},
     "ends the agent if no run is in progress",
     leaveCommand},
    {"metrics",
     {{"listen=", "workdir="}, 0, 0, "metrics --listen ADDRESS:PORT [--workdir DIR]", {"listen"}},
     "serves the load of this node and the states of its runs at http://ADDRESS:PORT/metrics, for "
     "Prometheus",
     metricsCommand},
    {"selftest",
     {{"device=", "quick", "json"}, 0, 0, "selftest [--device cpu|cuda] [--quick] [--json]"},
     "checks the backends and devices of this node",
     selftestCommand},
    {"stacks",
     {{"message"}, 1, 1, "stacks PID"},
     "prints the stacks of all threads of a process",
     stacksCommand},
    {"supervise",
     {{"runtime=", "serve-only", "prepare-seconds=", "lost-seconds=", "absence-seconds=",
       "evaluation-seconds=", "linger-seconds=", "open-files="},
      1,
      1,
      "supervise RUNFOLDER --runtime DIR [--serve-only]",
      {"runtime"}},
     "started by the agent",
     superviseCommand},
    {"forward",
     {{}, 0, 0, "forward"},
     "started by lockstep predict and generate: runs a model on what it reads from stdin",
     forwardCommand},
    {"worker", {{"fd="}, 0, 0, "worker --fd N", {"fd"}}, "started by a supervisor", workerCommand},
};

// These processes hold a run's keys, weights and samples.
void writeNoCores() {
  rlimit cores{};
  if (getrlimit(RLIMIT_CORE, &cores) != 0) return;
  cores.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &cores);
}

bool asks(const std::vector<std::string>& words, std::string_view flag) {
  return std::find(words.begin(), words.end(), flag) != words.end();
}

std::string helpOf(const Command& command) {
  return fmt::format("  lockstep-agent {}\n      {}\n", command.grammar.usage, command.help);
}

int run(const Command& command, const std::vector<std::string>& words) {
  if (asks(words, "--help")) {
    std::fputs(("usage:\n" + helpOf(command)).c_str(), stdout);
    return 0;
  }
  const auto arguments = Arguments::parse(words, command.grammar, "lockstep-agent");
  const Result<int> code = arguments.ok() ? command.run(*arguments) : arguments.error();
  if (code.ok()) return *code;
  std::fputs(fmt::format("lockstep-agent {}: {}\n", command.name, code.error().text()).c_str(),
             stderr);
  return kUsageError;
}

int main(const std::vector<std::string>& words) {
  const std::string name = words.empty() ? "" : words.front();
  for (const Command& command : kCommands)
    if (command.name == name) return run(command, {words.begin() + 1, words.end()});
  if (name == "--version") {
    std::puts("lockstep-agent " LOCKSTEP_VERSION);
    return 0;
  }
  const bool help = name == "--help" || name == "help";
  std::string text = "usage:\n";
  for (const Command& command : kCommands) text += helpOf(command);
  std::fputs(text.c_str(), help ? stdout : stderr);
  return help ? 0 : kUsageError;
}

}  // namespace
}  // namespace lockstep::agent

int main(int argc, char** argv) {
  lockstep::agent::writeNoCores();
  return lockstep::agent::main({argv + 1, argv + argc});
}
