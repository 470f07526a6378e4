#include "app/cluster/node_debug.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "app/core/idle_timeout.h"
#include "app/core/rpc.h"
#include "app/kubernetes/kubectl.h"
#include "app/ssh/ssh_config.h"
#include "engine/base/find_program.h"
#include "engine/specs/placement.h"
#include "engine/specs/protocol.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kConnectLimit{15}, kReplyLimit{10};

Error notConnected(const std::string& node) {
  Error error = makeError(Code::kUnavailable, "the node is not connected");
  error.node = node;
  error.next = "connect the cluster first";
  return error;
}

// The agent of a node that is connected, and can do this.
Result<std::unique_ptr<node::v1::Agent::Stub>> agentOf(NodeAccess& node,
                                                       const std::stop_token& stop) {
  const IdleTimeout limit(stop, kConnectLimit);
  const auto inventory = node.waitConnected(limit.stop());
  if (!inventory.ok()) {
    if (!limit.ended() || stop.stop_requested()) return inventory.error();
    return notConnected(node.name());
  }
  if (Status able = specs::checkFeature("the agent", inventory->agentSpeaks, specs::kNodeDebugging);
      !able.ok()) {
    able.error().node = node.name();
    able.error().next = "deploy this version to the node: lockstep cluster deploy";
    return able.error();
  }
  LOCKSTEP_ASSIGN(const auto channel, node.agent());
  return node::v1::Agent::NewStub(channel);
}

NodeProcess fromProto(const node::v1::NodeProcess& from) {
  const auto bounded = [](double value) { return value > 0 && value < 1e9 ? value : 0; };
  NodeProcess out;
  out.pid = from.pid();
  out.parent = from.parent();
  out.user = from.user();
  out.cores = bounded(from.cores());
  out.memoryBytes = std::max<std::int64_t>(0, from.memory_bytes());
  out.threads = std::max(0, from.threads());
  out.state = from.state();
  out.ageSeconds = bounded(from.age_seconds());
  out.command = from.command();
  out.part = from.part();
  out.run = from.run();
  if (from.has_rank()) out.rank = std::max(-1, from.rank());
  return out;
}

// How terminal programs are told what to run; others know -e, as xterm does.
struct TerminalProgram {
  const char* name;
  std::vector<std::string> before;  // the command's words
};
const std::vector<TerminalProgram>& terminals() {
  static const std::vector<TerminalProgram> all = {
      {"x-terminal-emulator", {"-e"}},
      {"gnome-terminal", {"--"}},
      {"kgx", {"--"}},
      {"ptyxis", {"--"}},
      {"konsole", {"-e"}},
      {"xfce4-terminal", {"-x"}},
      {"mate-terminal", {"-x"}},
      {"kitty", {}},
      {"alacritty", {"-e"}},
      {"foot", {}},
      {"wezterm", {"start", "--"}},
      {"xterm", {"-e"}},
  };
  return all;
}

}  // namespace

Result<NodeProcesses> listProcesses(NodeAccess& node, const ProcessQuery& query,
                                    std::stop_token stop) {
  LOCKSTEP_ASSIGN(const auto agent, agentOf(node, stop));
  grpc::ClientContext context;
  setLimit(context, kReplyLimit + std::chrono::milliseconds(static_cast<int>(
                                      1000 * std::clamp(query.seconds, 0.0, 10.0))));
  const CancelOnStop cancel(context, stop);
  node::v1::ListProcessesRequest request;
  request.set_seconds(query.seconds);
  request.set_most(query.most);
  node::v1::ListProcessesReply reply;
  LOCKSTEP_TRY(rpcStatus(agent->ListProcesses(&context, request, &reply),
                         "the node's processes cannot be listed", node.name()));
  return processesOf(reply);
}

NodeProcesses processesOf(const node::v1::ListProcessesReply& reply) {
  NodeProcesses out;
  for (const auto& process : reply.processes()) out.processes.push_back(fromProto(process));
  out.total = reply.total();
  out.othersHidden = reply.others_hidden();
  out.seconds = std::isfinite(reply.seconds()) ? reply.seconds() : 0;
  return out;
}

std::string_view kernelLevelName(int level) {
  constexpr std::array<std::string_view, 8> kNames{"emergency", "alert",  "critical", "error",
                                                   "warning",   "notice", "info",     "debug"};
  return kNames[static_cast<std::size_t>(std::clamp(level, 0, 7))];
}

Result<std::vector<KernelLine>> readKernelLog(NodeAccess& node, int lines, std::stop_token stop) {
  LOCKSTEP_ASSIGN(const auto agent, agentOf(node, stop));
  grpc::ClientContext context;
  setLimit(context, kReplyLimit);
  const CancelOnStop cancel(context, stop);
  node::v1::ReadKernelLogRequest request;
  request.set_lines(lines);
  node::v1::ReadKernelLogReply reply;
  LOCKSTEP_TRY(rpcStatus(agent->ReadKernelLog(&context, request, &reply),
                         "the kernel's messages cannot be read", node.name()));
  return kernelLinesOf(reply);
}

std::vector<KernelLine> kernelLinesOf(const node::v1::ReadKernelLogReply& reply) {
  std::vector<KernelLine> out;
  for (const auto& line : reply.lines())
    out.push_back({std::clamp(line.level(), 0, 7), line.boot_ns(), line.wall_ns(), line.text()});
  return out;
}

Result<PreflightResult> benchNode(const std::vector<PreflightNode>& nodes, const std::string& node,
                                  const PreflightOptions& options, const std::stop_token& stop) {
  const auto isIt = [&](const auto& one) { return one.name() == node; };
  if (std::none_of(nodes.begin(), nodes.end(), isIt)) return notConnected(node);
  LOCKSTEP_ASSIGN(PreflightResult result, measureNodes(nodes, options, stop));
  const auto others =
      std::stable_partition(result.values.begin(), result.values.end(),
                            [&](const PreflightValue& value) { return value.node == node; });
  std::stable_partition(result.nodes.begin(), result.nodes.end(),
                        [&](const std::string& one) { return one == node; });
  if (others != result.values.begin()) return result;
  for (const Error& error : result.errors)
    if (error.node == node) return error;
  return makeError(Code::kInternal, "the node could not be measured");
}

Result<std::vector<std::string>> shellCommand(const spec::v1::ClusterSpec& cluster,
                                              const std::string& node,
                                              const std::string& sshConfig) {
  const auto found = std::find_if(cluster.nodes().begin(), cluster.nodes().end(),
                                  [&](const auto& one) { return one.name() == node; });
  if (found == cluster.nodes().end())
    return makeError(Code::kNotFound, "the cluster has no node \"{}\"", node);
  if (specs::isKubernetes(cluster.placement())) return podShell(cluster.placement(), node);
  if (!found->has_ssh()) {
    const char* shell = std::getenv("SHELL");
    return std::vector<std::string>{shell != nullptr && *shell != '\0' ? shell : "/bin/sh"};
  }
  auto arguments = sshArguments(targetOf(found->ssh()), sshConfig);
  if (!arguments.ok()) {
    arguments.error().node = node;
    return arguments.error();
  }
  arguments->insert(arguments->begin(), "ssh");
  return arguments;
}

Result<std::vector<std::string>> terminalCommand(const std::vector<std::string>& command) {
  std::vector<std::string> out;
  const char* chosen = std::getenv("TERMINAL");
  std::vector<std::string> names;
  if (chosen != nullptr && *chosen != '\0') names.emplace_back(chosen);
  for (const TerminalProgram& one : terminals()) names.emplace_back(one.name);
  for (const std::string& name : names) {
    const std::string path = findProgram(name);
    if (path.empty()) continue;
    const std::string base = name.substr(name.rfind('/') + 1);
    const auto known = std::find_if(terminals().begin(), terminals().end(),
                                    [&](const auto& one) { return base == one.name; });
    out.push_back(path);
    const std::vector<std::string> before =
        known == terminals().end() ? std::vector<std::string>{"-e"} : known->before;
    out.insert(out.end(), before.begin(), before.end());
    break;
  }
  if (out.empty()) {
    Error error = makeError(Code::kNotFound, "no terminal program was found on this machine");
    error.next =
        "install one, name yours in the environment variable TERMINAL, or copy the command";
    return error;
  }
  // The window stays until what failed was read.
  out.insert(out.end(),
             {"sh", "-c",
              "\"$@\" || { printf '\\n[%s: exit status %s] ' \"$1\" \"$?\"; read -r _; }", "sh"});
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

}  // namespace lockstep::app
