// What Slurm's commands print: names that are accepted are safe in a command.
#include "app/slurm/slurm.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  return {"PENDING|Resources||2026-01-31T12:00:00\n0                   \n",
          "RUNNING|None|n[1-2,7],gpu-3|N/A\n1\n", "17;cluster\n",
          "JobId=2 NodeList=n[1-3]   Nodes=n[1-2] CPU_IDs=0-3,8 Mem=0 GRES=   Nodes=n3 CPU_IDs=0 "
          "Mem=0 GRES=gpu:2(IDX:0-1) MinCPUsNode=1\n",
          "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=n1\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string_view text = fuzz::textOf(bytes, size);
  if (const auto number = app::parseJobNumber(text); number.ok()) LOCKSTEP_CHECK(*number > 0);
  if (const auto job = app::parseJob(text); job.ok() && !job->nodes.empty())
    LOCKSTEP_CHECK(job->nodes.find_first_of(" '\"`$;&|<>()\n\\") == std::string::npos);
  if (const auto groups = app::parseNodeGroups(text); groups.ok())
    for (const auto& group : *groups) LOCKSTEP_CHECK(group.cpus > 0 && !group.nodes.empty());
  if (const auto nodes = app::parseNodes(text); nodes.ok())
    for (const auto& node : *nodes)
      LOCKSTEP_CHECK(fuzz::isSafeWord(node.name) && fuzz::isSafeWord(node.address));
  if (const auto names = app::parseNames(text); names.ok())
    for (const auto& name : *names) LOCKSTEP_CHECK(fuzz::isSafeWord(name));
  return 0;
}
