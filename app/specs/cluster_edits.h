// Clusters as people put them together, in the window and on the command line: a new spec, a node
// that is added, one that is taken out.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/specs/spec_text.h"
#include "engine/base/status.h"

namespace lockstep::app {

// A node that is to be added. Empty fields and port 0 are left out.
struct NewNode {
  std::string name;
  std::string host;     // "n1.lab", "ann@n1.lab"; "": this machine
  std::string address;  // for peers
  std::string user;     // where `host` has none
  int port = 0;
  std::string identityFile, workdir;
  bool gpus = false;  // NVIDIA GPUs instead of processors
  int ranks = 1;
};
// The name that is suggested for the node of a host: "n1" of "ann@n1.lab"; an IPv4 address as it
// is.
std::string nodeNameOf(std::string_view host);
bool isNodeName(std::string_view name);
// Of a cluster without nodes.
std::string newClusterYaml(std::string_view name);
// One item of the list of nodes, in one line.
std::string nodeYaml(const NewNode& node);
// Names of all nodes of the cluster, also those that ranges stand for.
std::vector<std::string> allNodeNames(const SpecText& cluster);

// New values of fields, in the order in which they are to be set; an empty value removes the field.
using FieldValues = std::vector<std::pair<std::string, std::string>>;
// How one of the several nodes that nodes[item] stands for is left out. Errors: those of
// SpecText::withoutNode().
Result<FieldValues> withoutPart(const SpecText& cluster, int item, std::size_t part);

// The text with the node added, or with a node of this name left out. Errors: kAlreadyExists,
// kNotFound, kInvalidArgument for a name that is none, and those of the edit.
Result<std::string> withNode(const SpecText& cluster, const NewNode& node);
Result<std::string> withoutNode(const SpecText& cluster, const std::string& name);
// The text with fields of a node set ("ssh.user"), or of the cluster where `node` is empty. Nodes
// of one range have their fields together: `node` is then the range as it is written, "n[1-3]".
// Errors: kNotFound, kInvalidArgument for one of a range, and those of the edit.
Result<std::string> withFields(const SpecText& cluster, const std::string& node,
                               const FieldValues& values);

// YAML of a cluster from a file of another tool: JSON is TF_CONFIG, all else a hostfile.
Result<std::string> importCluster(std::string_view text, std::string_view name);

}  // namespace lockstep::app
