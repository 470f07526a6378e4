// Choices: the strategies among which advice is sought, as settings of a run spec.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"

namespace lockstep::spec::v1 {
class RunSpec;
}

namespace lockstep::app {

// A strategy. The numbers are explicit, so that none depends on a default of the kind.
struct Choice {
  std::string kind = "multi-worker-mirrored";
  int tensor = 1, stages = 1, servers = 0, microBatches = 1;
  std::string schedule = "1f1b", recompute = "none", precision = "fp32";
  // These change little, and are tried with the best strategies alone.
  std::string overlap = "auto";
  std::int64_t bucketBytes = 0;
  bool operator==(const Choice&) const = default;

  bool hasServers() const { return servers > 0; }
};

// Returns the choice of these options that a complete spec makes, whose ranks have this mesh.
Choice choiceOf(const spec::v1::RunSpec& spec, const cluster::Mesh& mesh);
// Returns what has to be set in the spec, which makes `current`, to make this choice: nothing where
// they are equal.
Remedy settingsFor(const spec::v1::RunSpec& spec, const Choice& current, const Choice& choice);

// What the search is bound to.
struct SearchSpace {
  int ranks = 1;
  int layers = 1;
  std::int64_t batch = 1;
  bool oneNode = true;
  int servers = 0;  // ranks that are servers by their node's role; 0: none
  std::map<std::string, std::string> pinned;  // options that keep their value, by path
  std::vector<std::string> precisions;        // besides the spec's own
};

// Keeps options at a value; without one, as `current` has them. Errors: kInvalidArgument for an
// option that is not searched.
Status pin(SearchSpace& space, const Choice& current, const std::vector<Setting>& options);

bool isAllowed(const Choice& choice, const SearchSpace& space);  // by what is pinned
// Returns all choices, the simplest first. Combinations that no run can have are among them: the
// planner refuses those.
std::vector<Choice> choicesIn(const SearchSpace& space, const Choice& current);
// Returns choices that differ from this one in what is tried with the best alone.
std::vector<Choice> refinementsOf(const Choice& choice, const SearchSpace& space);

// Returns the number of settings that differ from the plainest strategy's.
int complexityOf(const Choice& choice);

}  // namespace lockstep::app
