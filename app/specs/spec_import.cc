// Clusters from TF_CONFIG and from hostfiles.
#include <algorithm>
#include <charconv>
#include <map>

#include "app/specs/spec_text.h"
#include "app/specs/yaml_tree.h"
#include "engine/base/utf8.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr int kMostSlots = 4096;  // of a host

// Rejects characters that never occur in host names or addresses, and names that ssh rejects.
bool isHost(std::string_view text) {
  constexpr std::string_view kQuotes = "'`\"$\\;&<>|(){}";
  return !text.empty() && !text.ends_with('@') && firstNotUtf8(text) == std::string_view::npos &&
         std::none_of(text.begin(), text.end(), [&](char c) {
           return (c >= 0 && c <= ' ') || c == 0x7f || kQuotes.find(c) != std::string_view::npos;
         });
}

// `login`: a host, or user@host.
spec::v1::NodeSpec* addNode(spec::v1::ClusterSpec& cluster, std::map<std::string, int>& names,
                            const std::string& login) {
  auto* node = cluster.add_nodes();
  const std::size_t at = login.rfind('@');
  if (at != std::string::npos) node->mutable_ssh()->set_user(login.substr(0, at));
  const std::string host = login.substr(at + 1);
  std::string name;
  for (const char c : host) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    name += plain ? c : '-';
  }
  const int n = ++names[name];
  node->set_name(n == 1 ? name : name + "-" + std::to_string(n));
  node->mutable_ssh()->set_host(host);
  node->set_address(host);
  return node;
}

void addDevice(spec::v1::NodeSpec* node, int ranks) {
  auto* device = node->add_devices();
  device->set_kind("cpu");
  device->set_count(ranks);
}

}  // namespace

Result<std::string> importTfConfig(std::string_view json, std::string_view name) {
  YamlNode root;
  YamlFailure failure;
  if (!parseYaml(std::string(json), root, failure)) {
    return invalidArgument("TF_CONFIG:{}:{}: {}, expected JSON", failure.line, failure.column,
                           failure.what);
  }
  const auto* cluster = root.find("cluster");
  if (cluster == nullptr || cluster->node.kind != YamlNode::Kind::kMap) {
    return invalidArgument(
        "TF_CONFIG:{}:{}: no cluster, expected {{\"cluster\": {{\"worker\": "
        "[\"host:port\"]}}}}",
        root.line, root.column);
  }
  spec::v1::ClusterSpec spec;
  spec.set_version(1);
  spec.set_name(std::string(name));
  std::map<std::string, int> names;
  for (const char* role : {"chief", "master", "worker", "ps", "evaluator"}) {
    const auto* tasks = cluster->node.find(role);
    if (tasks == nullptr) continue;
    if (tasks->node.kind != YamlNode::Kind::kList) {
      return invalidArgument("TF_CONFIG:{}:{}: '{}' is not a list, expected [\"host:port\"]",
                             tasks->node.line, tasks->node.column, role);
    }
    for (const auto& task : tasks->node.items) {
      const auto colon = task.value.rfind(':');
      std::string host = task.value.substr(0, colon);
      if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
      if (task.kind != YamlNode::Kind::kScalar || !isHost(host)) {
        return invalidArgument("TF_CONFIG:{}:{}: a task without a host, expected \"host:port\"",
                               task.line, task.column);
      }
      auto* node = addNode(spec, names, host);
      const std::string word = role;
      // A chief trains as the workers do.
      if (word == "chief" || word == "master") {
        node->add_roles("chief");
        node->add_roles("worker");
      } else {
        node->add_roles(word);
      }
      addDevice(node, 1);
    }
  }
  for (const auto& entry : cluster->node.entries) {
    const std::string& role = entry.key.value;
    if (role != "chief" && role != "master" && role != "worker" && role != "ps" &&
        role != "evaluator") {
      return invalidArgument(
          "TF_CONFIG:{}:{}: unknown role '{}', expected chief, worker, ps or "
          "evaluator",
          entry.key.line, entry.key.column, role);
    }
  }
  if (spec.nodes().empty()) {
    return invalidArgument("TF_CONFIG: the cluster has no tasks, expected at least one worker");
  }
  return toYaml(spec);
}

Result<std::string> importHostfile(std::string_view text, std::string_view name) {
  spec::v1::ClusterSpec spec;
  spec.set_version(1);
  spec.set_name(std::string(name));
  std::map<std::string, spec::v1::NodeSpec*> byHost;
  std::map<std::string, int> names;
  int line = 0;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a mark of UTF-8
  while (!text.empty()) {
    ++line;
    const auto end = text.find('\n');
    std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    row = row.substr(0, row.find('#'));
    std::vector<std::string> words;
    std::string word;
    for (const char c : row) {
      if (c == ' ' || c == '\t' || c == '\r') {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
      } else {
        word += c;
      }
    }
    if (!word.empty()) words.push_back(std::move(word));
    if (words.empty()) continue;
    std::string host = words[0];
    if (!isHost(host))
      return invalidArgument("hostfile:{}: '{}' is not a host name", line, validUtf8(host));
    int slots = 1;
    const auto number = [&](std::string_view digits) {
      const auto [stop, failure] =
          std::from_chars(digits.data(), digits.data() + digits.size(), slots);
      return failure == std::errc() && stop == digits.data() + digits.size() && slots > 0 &&
             slots <= kMostSlots;
    };
    if (const auto colon = host.find(':'); colon != std::string::npos) {  // MPICH: host:4
      if (!number(std::string_view(host).substr(colon + 1))) {
        return invalidArgument("hostfile:{}:{}: '{}', expected a number of ranks after ':'", line,
                               colon + 2, host);
      }
      host.resize(colon);
    }
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto equals = words[i].find('=');
      const std::string key = words[i].substr(0, equals);
      if (equals == std::string::npos ||
          (key != "slots" && key != "max_slots" && key != "max-slots")) {
        return invalidArgument("hostfile:{}: '{}', expected slots=NUMBER", line, words[i]);
      }
      if (key == "slots" && !number(std::string_view(words[i]).substr(equals + 1))) {
        return invalidArgument("hostfile:{}: '{}', expected slots=NUMBER", line, words[i]);
      }
    }
    if (auto there = byHost.find(host); there != byHost.end()) {  // MPI: a line a slot
      auto* device = there->second->mutable_devices(0);
      if (slots > kMostSlots - device->count())
        return invalidArgument("hostfile:{}: {} has more than {} slots", line, host, kMostSlots);
      device->set_count(device->count() + slots);
      continue;
    }
    auto* node = addNode(spec, names, host);
    addDevice(node, slots);
    byHost[host] = node;
  }
  if (spec.nodes().empty()) {
    return invalidArgument("the hostfile names no host, expected lines such as 'n1 slots=4'");
  }
  return toYaml(spec);
}

}  // namespace lockstep::app
