// cluster hosts, import, add, remove, set: cluster specs as the studio puts them together.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/specs/cluster_edits.h"
#include "app/ssh/config_hosts.h"
#include "engine/base/file.h"

namespace lockstep::app::cli {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

// Its error is what the command ends with.
template <typename Work>
int withReport(const Arguments& arguments, Work work) {
  const Status status = work();
  if (status.ok()) return kSucceeded;
  report(status.error(), arguments.has("json"));
  return exitCodeOf(status.error());
}

Result<std::string> textOf(const std::string& file) {
  if (file != "-") return readFile(file, kMostBytes);
  std::string out(kMostBytes + 1, '\0');
  std::cin.read(out.data(), std::ssize(out));
  out.resize(static_cast<std::size_t>(std::cin.gcount()));
  if (out.size() <= kMostBytes) return out;
  return makeError(Code::kResourceExhausted, "stdin has more than {} bytes", kMostBytes);
}

Status mustBeNew(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  Error error = makeError(Code::kAlreadyExists, "{} exists already", file);
  error.next = "choose another --to, or remove it";
  return error;
}

Result<SpecText> existingCluster(const std::string& file) {
  LOCKSTEP_ASSIGN(std::string text, readFile(file, kMostBytes));
  return SpecText::parse(std::move(text), file, SpecKind::kCluster);
}

// A spec that is there, or a new one.
Result<SpecText> openCluster(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return existingCluster(file);
  const std::filesystem::path path(file);
  if (path.extension() == ".yaml" || path.extension() == ".yml")
    return SpecText::parse(newClusterYaml(path.stem().string()), file, SpecKind::kCluster);
  // `file` may be a host, given by a person who has left out FILE: no spec is made of such a name.
  Error error = makeError(Code::kNotFound, "there is no file '{}'", file);
  error.next = "name a new cluster's file with .yaml at its end";
  return error;
}

// What is written is a cluster, or one without nodes; who may read the file stays.
Status saveCluster(const SpecText& cluster) {
  for (const SpecProblem& problem : cluster.problems())
    if (!problem.missing) return problem.error();
  struct stat info {};
  const bool isThere = stat(cluster.file().c_str(), &info) == 0;
  return writeFileAtomically(cluster.file(), cluster.text(),
                             isThere ? static_cast<int>(info.st_mode & 0777) : 0644);
}

Result<NewNode> nodeOf(const Arguments& arguments) {
  NewNode out{.name = arguments.text("name"),
              .address = arguments.text("address"),
              .user = arguments.text("user"),
              .identityFile = arguments.text("identity"),
              .workdir = arguments.text("workdir")};
  LOCKSTEP_ASSIGN(const std::int64_t port, arguments.integer("port", 0, 1, 65535));
  LOCKSTEP_ASSIGN(const std::int64_t ranks, arguments.integer("ranks", 1, 1, 256));
  const std::string device = arguments.text("device", "cpu");
  if (device != "cpu" && device != "cuda")
    return invalidArgument("--device {}: cpu or cuda was expected", device);
  out.port = static_cast<int>(port);
  out.ranks = static_cast<int>(ranks);
  out.gpus = device == "cuda";
  return out;
}

Result<std::vector<NewNode>> nodesOf(const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const NewNode each, nodeOf(arguments));
  const std::vector<std::string> hosts(arguments.words().begin() + 1, arguments.words().end());
  if (hosts.empty()) {
    if (each.name.empty()) return invalidArgument("HOST is missing; for this machine --name");
    for (const char* flag : {"user", "port", "identity"})
      if (arguments.has(flag)) return invalidArgument("--{} is of a HOST, which is missing", flag);
    return std::vector{each};
  }
  if (hosts.size() > 1)
    for (const char* flag : {"name", "address"})
      if (arguments.has(flag)) return invalidArgument("--{} is of one host", flag);
  std::vector<NewNode> out;
  for (const std::string& host : hosts) {
    if (std::ranges::count(host, ':') == 1)  // no address of IPv6, which has more
      return invalidArgument("HOST is {}: give its port as --port", host);
    NewNode& node = out.emplace_back(each);
    node.host = host;
    if (node.name.empty()) node.name = nodeNameOf(host);
  }
  return out;
}

// `node`: empty for the cluster as a whole.
void tell(std::string_view event, const std::string& node, const Arguments& arguments) {
  const std::string& file = arguments.words()[0];
  if (arguments.has("json"))
    JsonLine(event).add("node", node).add("file", file).print();
  else
    put(stdout, fmt::format("{} {}: {}\n", event, node.empty() ? "cluster" : node, file));
}

}  // namespace

int clusterHostsCommand(const Globals& globals, const Arguments& arguments) {
  for (const std::string& host : sshConfigHosts(globals.sshConfig)) {
    if (arguments.has("json"))
      JsonLine("host").add("host", host).print();
    else
      put(stdout, host + "\n");
  }
  return kSucceeded;
}

int clusterImportCommand(const Globals&, const Arguments& arguments) {
  return withReport(arguments, [&]() -> Status {
    const std::string &file = arguments.words()[0], to = arguments.text("to");
    if (!to.empty()) LOCKSTEP_TRY(mustBeNew(to));
    const std::string stem =
        file == "-" ? std::string("cluster") : std::filesystem::path(file).stem().string();
    LOCKSTEP_ASSIGN(const std::string text, textOf(file));
    LOCKSTEP_ASSIGN(const std::string yaml, importCluster(text, arguments.text("name", stem)));
    if (!to.empty()) LOCKSTEP_TRY(writeFileAtomically(to, yaml));
    if (arguments.has("json"))
      JsonLine("imported").add("file", to).add("cluster", yaml).print();
    else if (to.empty())
      putDocument(yaml);
    return {};
  });
}

int clusterAddCommand(const Globals&, const Arguments& arguments) {
  return withReport(arguments, [&]() -> Status {
    LOCKSTEP_ASSIGN(const std::vector<NewNode> nodes, nodesOf(arguments));
    LOCKSTEP_ASSIGN(SpecText cluster, openCluster(arguments.words()[0]));
    for (const NewNode& node : nodes) {
      LOCKSTEP_ASSIGN(std::string text, withNode(cluster, node));
      cluster = SpecText::parse(std::move(text), cluster.file(), SpecKind::kCluster);
    }
    LOCKSTEP_TRY(saveCluster(cluster));
    for (const NewNode& node : nodes) tell("added", node.name, arguments);
    return {};
  });
}

int clusterRemoveCommand(const Globals&, const Arguments& arguments) {
  return withReport(arguments, [&]() -> Status {
    const std::string& file = arguments.words()[0];
    LOCKSTEP_ASSIGN(SpecText cluster, existingCluster(file));
    for (std::size_t i = 1; i < arguments.words().size(); ++i) {
      LOCKSTEP_ASSIGN(std::string left, withoutNode(cluster, arguments.words()[i]));
      cluster = SpecText::parse(std::move(left), file, SpecKind::kCluster);
    }
    LOCKSTEP_TRY(saveCluster(cluster));
    for (std::size_t i = 1; i < arguments.words().size(); ++i)
      tell("removed", arguments.words()[i], arguments);
    return {};
  });
}

int clusterSetCommand(const Globals&, const Arguments& arguments) {
  return withReport(arguments, [&]() -> Status {
    const std::vector<std::string>& words = arguments.words();
    const bool hasNode = words.size() > 1 && words[1].find('=') == std::string::npos;
    const std::string node = hasNode ? words[1] : "";
    FieldValues values;
    for (std::size_t i = hasNode ? 2 : 1; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      if (equals == 0 || equals == std::string::npos)
        return invalidArgument("FIELD=VALUE was expected instead of '{}'", words[i]);
      values.emplace_back(words[i].substr(0, equals), words[i].substr(equals + 1));
    }
    if (values.empty()) return invalidArgument("FIELD=VALUE is missing");
    LOCKSTEP_ASSIGN(const SpecText cluster, existingCluster(words[0]));
    LOCKSTEP_ASSIGN(std::string text, withFields(cluster, node, values));
    LOCKSTEP_TRY(saveCluster(SpecText::parse(std::move(text), words[0], SpecKind::kCluster)));
    tell("changed", node, arguments);
    return {};
  });
}

}  // namespace lockstep::app::cli
