// The environment of a run: the machines, systems and versions that its launch found. Kept in
// RunDocuments::nodes.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/history/run_row.h"
#include "app/specs/spec_diff.h"
#include "engine/base/message.h"

namespace lockstep::app {

struct Participant;

// Empty or 0: not known, as of a run of an earlier version.
struct NodeEnvironment {
  std::string node, host;
  std::vector<int> ranks;
  std::string os, kernel, cpu, gpuDriver, agent;
  int cores = 0;
  std::int64_t memoryBytes = 0;
  std::vector<std::string> gpus;                // "NVIDIA H200, 143771 MiB"
  std::map<std::string, std::string> versions;  // of a program: "python" → "3.11.2"
  bool operator==(const NodeEnvironment&) const = default;
};

// What a launch keeps of a node.
nlohmann::json environmentJson(const Participant& participant);
// Reads RunDocuments::nodes. Leaves out what is damaged.
std::vector<NodeEnvironment> nodeEnvironments(const std::string& nodesJson);

struct EnvironmentField {
  std::string name;  // "os", "kernel", "cpu", "cores", "memory", "gpus", "gpu_driver", "agent"
  std::string value;
  bool operator==(const EnvironmentField&) const = default;
};
// The environment of all nodes, then the versions of the program. A value that is not equal on all
// nodes is given with their names: "6.1 (n1, n2); 6.6 (n3)", of many the first. Fields that no node
// has are left out.
std::vector<EnvironmentField> environmentFields(const std::vector<NodeEnvironment>& nodes);

// "Operating system"; versions by their own names.
Message environmentTitle(const std::string& field);

// The fields that tell two runs apart: those of the spec as run, and "environment.kernel" and so
// on.
SpecFields comparedFields(const RunDocuments& documents);

}  // namespace lockstep::app
