#include "agent/workload/environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/comm/network_address.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {
namespace {

using Variables = std::map<std::string, std::string>;
using node::v1::ProgramPlace;

// What a worker sets for the engine's own threads.
constexpr std::string_view kOwn[] = {"OMP_DYNAMIC",    "OMP_PROC_BIND",        "OMP_WAIT_POLICY",
                                     "GOMP_SPINCOUNT", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                                     "OMP_NUM_THREADS"};

Variables variablesOf(const std::vector<std::string>& entries) {
  Variables out;
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos && equals > 0)
      out[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const std::string_view name : kOwn) out.erase(std::string(name));
  return out;
}

std::string hostAndPort(const ProgramPlace& place) {
  const bool six = place.address().find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", six ? "[" : "", place.address(), six ? "]" : "", place.port());
}

// Where a rank stands among those of its node, and its node among the nodes.
struct Local {
  int rank = 0, world = 0, node = 0, nodes = 0;
  std::vector<int> worlds;  // of each node; nodes in the order of their first ranks
};
Local localOf(const ProgramRank& of) {
  Local out;
  std::vector<std::string> nodes;
  const std::string& own = of.places.places(of.rank).node();
  for (int rank = 0; rank < of.places.places_size(); ++rank) {
    const std::string& node = of.places.places(rank).node();
    const auto at =
        static_cast<std::size_t>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
    if (at == nodes.size()) {
      nodes.push_back(node);
      out.worlds.push_back(0);
    }
    ++out.worlds[at];
    if (node == own && rank < of.rank) ++out.rank;
    if (node == own) out.node = static_cast<int>(at);
  }
  out.nodes = static_cast<int>(nodes.size());
  out.world = out.worlds[static_cast<std::size_t>(out.node)];
  return out;
}

// Numbers as Slurm writes them: 4(x2),3.
std::string slurmCounts(const std::vector<int>& counts) {
  std::string out;
  for (auto at = counts.begin(); at != counts.end();) {
    const auto next = std::find_if(at, counts.end(), [&](int count) { return count != *at; });
    out += fmt::format("{}{}", out.empty() ? "" : ",", *at);
    if (next - at > 1) out += fmt::format("(x{})", next - at);
    at = next;
  }
  return out;
}

// As srun does for a task. What an agent in a job has inherited is its own: srun has started one
// task on each node. What the job has, as SLURM_JOB_ID, stays.
void setSlurm(const ProgramRank& of, Variables& out) {
  const Local local = localOf(of);
  const std::string world = std::to_string(of.places.places_size());
  const std::string nodes = std::to_string(local.nodes), tasks = slurmCounts(local.worlds);
  const std::pair<const char*, std::string> values[] = {
      {"SLURM_PROCID", std::to_string(of.rank)},
      {"SLURM_LOCALID", std::to_string(local.rank)},
      {"SLURM_NODEID", std::to_string(local.node)},
      {"SLURM_NTASKS", world},
      {"SLURM_NPROCS", world},
      {"SLURM_NNODES", nodes},
      {"SLURM_NTASKS_PER_NODE", std::to_string(local.world)},
      {"SLURM_TASKS_PER_NODE", tasks},
      {"SLURM_STEP_NUM_TASKS", world},
      {"SLURM_STEP_NUM_NODES", nodes},
      {"SLURM_STEP_TASKS_PER_NODE", tasks},
  };
  for (const auto& [name, value] : values) out[name] = value;
  // The agent's CPUs are divided among the ranks of its node. Newer Slurm tells them twice, and
  // srun refuses two values.
  out.erase("SLURM_TRES_PER_TASK");
  if (const auto cpus = out.find("SLURM_CPUS_PER_TASK"); cpus != out.end())
    cpus->second = std::to_string(std::max(1, std::atoi(cpus->second.c_str()) / local.world));
}

void setRanks(const ProgramRank& of, Variables& out) {
  const Local local = localOf(of);
  const int world = of.places.places_size();
  const ProgramPlace& head = of.places.places(0);
  const std::pair<const char*, std::string> values[] = {
      {"RANK", std::to_string(of.rank)},
      {"LOCAL_RANK", std::to_string(local.rank)},
      {"WORLD_SIZE", std::to_string(world)},
      {"LOCAL_WORLD_SIZE", std::to_string(local.world)},
      {"GROUP_RANK", std::to_string(local.node)},
      {"GROUP_WORLD_SIZE", std::to_string(local.nodes)},
      {"ROLE_RANK", std::to_string(of.rank)},
      {"ROLE_NAME", "default"},
      {"ROLE_WORLD_SIZE", std::to_string(world)},
      {"MASTER_ADDR", head.address()},
      {"MASTER_PORT", std::to_string(head.port())},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(of.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(of.maxRestarts)},
      {"TORCHELASTIC_RUN_ID", of.run},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},  // rank 0 serves the store
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"CROSS_RANK", std::to_string(local.node)},
      {"CROSS_SIZE", std::to_string(local.nodes)},
      {"LOCAL_SIZE", std::to_string(local.world)},
      {"JAX_COORDINATOR_ADDRESS", hostAndPort(head)},
      {"JAX_NUM_PROCESSES", std::to_string(world)},
      {"JAX_PROCESS_ID", std::to_string(of.rank)},
  };
  for (const auto& [name, value] : values) out[name] = value;
  setSlurm(of, out);
  if (local.world > 1 || of.threads > 1) out["OMP_NUM_THREADS"] = std::to_string(of.threads);
  nlohmann::json workers = nlohmann::json::array();
  for (const ProgramPlace& place : of.places.places()) workers.push_back(hostAndPort(place));
  if (world > 1)
    out["TF_CONFIG"] = nlohmann::json({{"cluster", {{"worker", workers}}},
                                       {"task", {{"type", "worker"}, {"index", of.rank}}}})
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// torchrun's own arguments come before these.
void setTorchrun(const ProgramRank& of, Variables& out) {
  const Local local = localOf(of);
  out["PET_NNODES"] = std::to_string(local.nodes);
  out["PET_NODE_RANK"] = std::to_string(local.node);
  out["PET_MASTER_ADDR"] = of.places.places(0).address();
  out["PET_MASTER_PORT"] = std::to_string(of.places.places(0).port());
  out["PET_NPROC_PER_NODE"] = std::to_string(local.world);
}

// The rest comes from mpirun.
void setMpi(const ProgramRank& of, Variables& out) {
  out["MASTER_ADDR"] = of.places.places(0).address();
  out["MASTER_PORT"] = std::to_string(of.places.places(0).port());
  // Elsewhere programs that look for Slurm before Open MPI would miss the rest of its variables.
  if (out.contains("SLURM_JOB_ID")) setSlurm(of, out);
  if (localOf(of).world > 1 || of.threads > 1) out["OMP_NUM_THREADS"] = std::to_string(of.threads);
  const std::string name = comm::interfaceOf(of.places.places(of.rank).address());
  if (!name.empty() && of.places.places_size() > 1)
    out.emplace("OMPI_MCA_btl_tcp_if_include", name);
}

// Gloo takes one name, NCCL exactly this one where it follows '='. A person's own choice stays.
void setInterface(const ProgramRank& of, Variables& out) {
  const std::string name = comm::interfaceOf(of.places.places(of.rank).address());
  if (name.empty() || of.places.places_size() < 2) return;
  out.emplace("GLOO_SOCKET_IFNAME", name);
  out.emplace("NCCL_SOCKET_IFNAME", "=" + name);
}

// Programs of one node would all listen at RAS's own address. NCCL takes one plug-in: a person's
// own choice stays.
void setNccl(const ProgramRank& of, Variables& out) {
  if (!of.ncclProfiler.empty()) out.emplace("NCCL_PROFILER_PLUGIN", of.ncclProfiler);
  if (of.rasPort > 0) out.emplace("NCCL_RAS_ADDR", fmt::format("127.0.0.1:{}", of.rasPort));
}

void setPython(const spec::v1::PythonSpec& python, const std::string& folder, Variables& out) {
  out.emplace("PYTHONUNBUFFERED", "1");                 // lines come as they are printed
  if (python.kind() == "uv") out.erase("VIRTUAL_ENV");  // it has its project's
  const bool isFolder =
      python.kind() == "path" || python.kind() == "venv" || python.kind() == "conda";
  if (!isFolder || python.path().empty()) return;
  const std::string path = pythonPath(python, folder);
  out["PATH"] = (python.kind() == "path" ? path : path + "/bin") + ":" + out["PATH"];
  out.erase("PYTHONHOME");
  if (python.kind() == "venv") out["VIRTUAL_ENV"] = path;
  if (python.kind() == "conda") out["CONDA_PREFIX"] = path;
}

Variables startOf(const std::vector<std::string>& inherited) {
  Variables out = variablesOf(inherited);
  if (out["PATH"].empty()) out["PATH"] = "/usr/local/bin:/usr/bin:/bin";
  return out;
}

void setOwn(const spec::v1::WorkloadSpec& workload, const std::string& folder, Variables& out) {
  setPython(workload.python(), folder, out);
  for (const auto& [name, value] : workload.env()) out[name] = value;
}

std::vector<std::string> entriesOf(const Variables& variables) {
  std::vector<std::string> out;
  for (const auto& [name, value] : variables) out.push_back(name + "=" + value);
  return out;
}

// First in the path, whatever else a person has there.
void setModule(const spec::v1::WorkloadSpec& workload, const ProgramRank& of, Variables& out) {
  // A run that a program of another run starts does not write to that one's pipes.
  for (const char* name : {"LOCKSTEP_LOCAL_PIPES", "LOCKSTEP_LAUNCHED"}) out.erase(name);
  if (of.pythonFolder.empty()) return;
  std::string& path = out["PYTHONPATH"];
  path = of.pythonFolder + (path.empty() ? "" : ":" + path);
  out["LOCKSTEP_PIPE"] = of.pythonPipe;
  out["LOCKSTEP_HOOKS"] = fmt::format("{}", fmt::join(specs::hooksOf(workload), " "));
  if (workload.launcher() != "torchrun") return;
  out["LOCKSTEP_LOCAL_PIPES"] = of.localPipes;
  out.erase("LOCAL_RANK");  // torchrun is no rank; it sets it for those that it starts
}

}  // namespace

std::vector<std::string> programEnvironment(const spec::v1::WorkloadSpec& workload,
                                            const ProgramRank& rank, const std::string& folder,
                                            const std::vector<std::string>& inherited) {
  Variables variables = startOf(inherited);
  if (workload.launcher() == "torchrun")
    setTorchrun(rank, variables);
  else if (workload.launcher() == "ranks")
    setRanks(rank, variables);
  else if (workload.launcher() == "mpi")
    setMpi(rank, variables);
  setOwn(workload, folder, variables);
  for (const auto& [name, value] : rank.secrets) variables[name] = value;
  setInterface(rank, variables);
  setNccl(rank, variables);
  setModule(workload, rank, variables);
  return entriesOf(variables);
}

std::vector<std::string> pythonEnvironment(const spec::v1::WorkloadSpec& workload,
                                           const std::string& folder,
                                           const std::vector<std::string>& inherited) {
  Variables variables = startOf(inherited);
  setOwn(workload, folder, variables);
  return entriesOf(variables);
}

std::vector<std::string> setupEnvironment(const spec::v1::WorkloadSpec& workload,
                                          const std::map<std::string, std::string>& secrets,
                                          const std::string& folder,
                                          const std::vector<std::string>& inherited) {
  Variables variables = startOf(inherited);
  setOwn(workload, folder, variables);
  for (const auto& [name, value] : secrets) variables[name] = value;
  return entriesOf(variables);
}

std::string pythonPath(const spec::v1::PythonSpec& python, const std::string& folder) {
  return python.path().starts_with('/') ? python.path() : folder + "/" + python.path();
}

Result<node::v1::ProgramPlaces> parsePlaces(const std::string& told, int world) {
  node::v1::ProgramPlaces out;
  if (!out.ParseFromString(told) || out.places_size() != world)
    return makeError(Code::kInternal, "rank 0 did not tell where all ranks are");
  return out;
}

std::string valueIn(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment)
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  return {};
}

Result<FreePort> freePort() {
  FreePort out;
  out.held = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (!out.held || bind(out.held.get(), plain, sizeof address) != 0 ||
      getsockname(out.held.get(), plain, &size) != 0)
    return systemError(errno, "there is no free TCP port");
  out.port = ntohs(address.sin_port);
  return out;
}

}  // namespace lockstep::agent
