// leave: ends the agents of a workdir and the supervisors that only still hand out ended runs.
#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "agent/base/commands.h"
#include "agent/base/run_folder.h"
#include "agent/node/serving_agents.h"

namespace lockstep::agent {
namespace {

// Asks with SIGTERM, forces after five seconds; false where `gone` has not come true after ten.
template <typename Gone>
bool end(int pid, Gone gone) {
  kill(pid, SIGTERM);
  for (int tries = 0; tries < 1000; ++tries) {
    if (gone()) return true;
    if (tries == 500) kill(pid, SIGKILL);
    poll(nullptr, 0, 10);
  }
  return gone();
}

// A run that was prepared and not begun ends by itself where its client is gone: in 30 s, unless
// the agent was told otherwise.
constexpr int kPrepareSeconds = 30;

bool isUnderWay(const RunFolder& folder) {
  return !isFinal(folder.readState()) && isLocked(folder.lock());
}

// False where a run goes on.
bool awaitEnd(const RunFolder& folder) {
  const auto prepared = [&] {
    return isUnderWay(folder) && folder.readState() == run::v1::PREPARED;
  };
  if (prepared())
    std::fprintf(stderr,
                 "lockstep-agent: the run in %s has not begun; waiting until it begins or ends by "
                 "itself, at most %d s\n",
                 folder.path.c_str(), kPrepareSeconds);
  for (int tries = 0; prepared() && tries < 10 * (kPrepareSeconds + 5); ++tries)
    poll(nullptr, 0, 100);
  if (!isUnderWay(folder)) return true;
  std::fprintf(stderr, "lockstep-agent: the run in %s is under way; stop it first\n",
               folder.path.c_str());
  return false;
}

}  // namespace

Result<int> leaveCommand(const Arguments& arguments) {
  const std::string path = arguments.text("workdir");
  if (std::error_code ignored;
      !path.empty() && path[0] == '/' && !std::filesystem::exists(path, ignored))
    return 0;
  const auto workdir = openWorkdir(path);
  if (!workdir.ok()) {
    std::fprintf(stderr, "lockstep-agent: %s\n", workdir.error().text().c_str());
    return 3;
  }
  const std::vector<RunFolder> folders = findRuns(*workdir, "");
  for (const RunFolder& folder : folders)
    if (!awaitEnd(folder)) return 3;
  bool well = true;
  for (const ServingAgent& agent : servingAgents(*workdir))
    well = end(agent.pid, [&] { return !isLocked(agent.lock); }) && well;
  for (const RunFolder& folder : folders)
    if (const auto supervisor = findSupervisor(folder))
      well = end(supervisor->pid, [&] { return !isLocked(folder.lock()); }) && well;
  // Sockets of a workdir that is too deep for them are elsewhere; nobody else removes that folder.
  if (std::error_code ignored; well && !workdir->runtime.starts_with(workdir->path + "/"))
    std::filesystem::remove_all(workdir->runtime, ignored);
  if (!well) std::fputs("lockstep-agent: an agent does not leave\n", stderr);
  return well ? 0 : 3;
}

}  // namespace lockstep::agent
