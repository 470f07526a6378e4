#include "app/specs/cluster_edits.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::app {
namespace {

bool isPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Double-quoted YAML, so that whatever was typed is one scalar.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string itemPath(int item) { return fmt::format("nodes[{}]", item); }

Error noNode(const std::string& name) {
  return makeError(Code::kNotFound, "the cluster has no node \"{}\"", name);
}

// The item of a node, or of a range as it is written.
Result<int> itemOf(const SpecText& cluster, const std::string& name) {
  for (int item = 0; item < cluster.count("nodes"); ++item) {
    const std::string path = itemPath(item) + ".name";
    const std::string written = cluster.value(path).value_or("");
    if (written == name) return item;
    if (std::ranges::count(cluster.nodeNames(path), name) == 0) continue;
    Error error =
        invalidArgument("{} is one of {}, which have their fields together", name, written);
    error.next = message("name them all, or leave {} out and add it as a node of its own", name);
    return error;
  }
  return noNode(name);
}

}  // namespace

std::string nodeNameOf(std::string_view host) {
  host = host.substr(host.rfind('@') + 1);
  if (host.find_first_not_of("0123456789.") == std::string_view::npos) return std::string(host);
  host = host.substr(0, host.find('.'));
  std::string out;
  for (const char c : host) {
    const bool stays = isPlain(c) || c == '_' || c == '-';
    if (stays || !out.ends_with('-')) out += stays ? c : '-';
  }
  return out;
}

bool isNodeName(std::string_view name) {
  return !name.empty() && isPlain(name.front()) && std::ranges::all_of(name, [](char c) {
    return isPlain(c) || c == '_' || c == '.' || c == '-';
  });
}

std::string newClusterYaml(std::string_view name) {
  return fmt::format("version: 1\nname: {}\nnodes: []\n",
                     isNodeName(name) ? std::string(name) : quoted(name));
}

std::string nodeYaml(const NewNode& node) {
  std::vector<std::string> parts{"name: " + quoted(node.name)}, ssh;
  if (!node.host.empty()) {
    const std::size_t at = node.host.rfind('@');
    const bool hasUser = at != std::string::npos;
    ssh.push_back("host: " + quoted(hasUser ? node.host.substr(at + 1) : node.host));
    const std::string user = hasUser ? node.host.substr(0, at) : node.user;
    if (!user.empty()) ssh.push_back("user: " + quoted(user));
    if (node.port > 0) ssh.push_back(fmt::format("port: {}", node.port));
    if (!node.identityFile.empty()) ssh.push_back("identity_file: " + quoted(node.identityFile));
    parts.push_back(fmt::format("ssh: {{{}}}", fmt::join(ssh, ", ")));
  }
  if (!node.address.empty()) parts.push_back("address: " + quoted(node.address));
  if (!node.workdir.empty()) parts.push_back("workdir: " + quoted(node.workdir));
  if (node.gpus || node.ranks > 1)
    parts.push_back(
        fmt::format("devices: [{{kind: {}, count: {}}}]", node.gpus ? "cuda" : "cpu", node.ranks));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::vector<std::string> allNodeNames(const SpecText& cluster) {
  std::vector<std::string> out;
  for (int item = 0; item < cluster.count("nodes"); ++item)
    for (std::string& name : cluster.nodeNames(itemPath(item) + ".name"))
      out.push_back(std::move(name));
  return out;
}

Result<FieldValues> withoutPart(const SpecText& cluster, int item, std::size_t part) {
  FieldValues out;
  for (const char* field : {".name", ".ssh.host", ".address"}) {
    const std::string path = itemPath(item) + field;
    const auto before = cluster.value(path);
    LOCKSTEP_ASSIGN(std::string left, cluster.withoutNode(path, part));
    if (before && left != *before) out.emplace_back(path, std::move(left));
  }
  return out;
}

Result<std::string> withNode(const SpecText& cluster, const NewNode& node) {
  if (!isNodeName(node.name))
    return invalidArgument("'{}' is no name of a node; expected letters, digits, '-', '_' and '.'",
                           node.name);
  if (std::ranges::count(allNodeNames(cluster), node.name) > 0)
    return makeError(Code::kAlreadyExists, "the cluster already has a node {}", node.name);
  LOCKSTEP_ASSIGN(const TextEdit edit,
                  cluster.insertItem("nodes", cluster.count("nodes"), nodeYaml(node)));
  return edit.applied(cluster.text());
}

Result<std::string> withoutNode(const SpecText& cluster, const std::string& name) {
  for (int item = 0; item < cluster.count("nodes"); ++item) {
    const std::vector<std::string> names = cluster.nodeNames(itemPath(item) + ".name");
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) continue;
    if (names.size() == 1) {
      LOCKSTEP_ASSIGN(const TextEdit edit, cluster.removeItem("nodes", item));
      return edit.applied(cluster.text());
    }
    LOCKSTEP_ASSIGN(const FieldValues values,
                    withoutPart(cluster, item, static_cast<std::size_t>(found - names.begin())));
    return withFields(cluster, "", values);
  }
  return noNode(name);
}

Result<std::string> withFields(const SpecText& cluster, const std::string& node,
                               const FieldValues& values) {
  std::string prefix;
  if (!node.empty()) {
    LOCKSTEP_ASSIGN(const int item, itemOf(cluster, node));
    prefix = itemPath(item) + ".";
  }
  SpecText out = cluster;
  for (const auto& [field, value] : values) {
    LOCKSTEP_ASSIGN(const TextEdit edit, out.edit(prefix + field, value));
    out = SpecText::parse(edit.applied(out.text()), out.file(), out.kind());
  }
  return out.text();
}

Result<std::string> importCluster(std::string_view text, std::string_view name) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const bool isJson = first != std::string_view::npos && text[first] == '{';
  return isJson ? importTfConfig(text, name) : importHostfile(text, name);
}

}  // namespace lockstep::app
