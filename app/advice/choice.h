// Choices: the strategies among which advice is sought, as settings of a run spec.
#pragma once

#include <functional>
#include <map>
#include <memory>
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
  bool balanced = false;  // the batch is shared by the speeds of the ranks' devices
  bool operator==(const Choice&) const = default;

  bool hasServers() const { return servers > 0; }
};

// Completes a spec with settings besides its own, as --set does.
using SpecWith =
    std::function<Result<std::shared_ptr<const spec::v1::RunSpec>>(const Remedy& settings)>;

// What the search is bound to.
struct SearchSpace {
  int workers = 1;  // ranks where none is a server
  int servers = 0;  // ranks that are servers by their node's role, beside the workers
  int layers = 1;
  std::int64_t batch = 1;
  bool oneNode = true;
  std::vector<cluster::Device> devices;       // of the workers
  std::map<std::string, std::string> pinned;  // options that keep their value, by path
  std::vector<std::string> precisions;        // besides the spec's own

  int dataRanks(const Choice& choice) const;
  // The mesh that a complete spec gives these ranks. Errors: kInvalidArgument.
  Result<cluster::Mesh> meshOf(const spec::v1::RunSpec& spec) const;
};

// Returns the choice of these options that a complete spec makes, whose ranks have this mesh.
Choice choiceOf(const spec::v1::RunSpec& spec, const cluster::Mesh& mesh);
// Returns what has to be set in the spec, which makes `current`, to make this choice: nothing where
// they are equal. Errors: where the spec cannot be completed so.
Result<Remedy> settingsFor(const spec::v1::RunSpec& spec, const Choice& current,
                           const Choice& choice, const SearchSpace& space,
                           const SpecWith& specWith);

// Keeps options at a value; without one, as `current` has them. Errors: kInvalidArgument for an
// option or a kind that is not searched, and for a value that the option cannot have.
Status pin(SearchSpace& space, const Choice& current, const std::vector<Setting>& options,
           const SpecWith& specWith);
std::vector<std::string> searchedOptions();  // paths: what can be pinned
bool isSearched(const std::string& path);
bool isAllowed(const Choice& choice, const SearchSpace& space);  // by what is pinned

// Returns all choices, the simplest first. The planner refuses those that the model cannot have.
std::vector<Choice> choicesIn(const SearchSpace& space, const Choice& current);
// Returns choices that differ from this one in what is tried with the best alone: overlap, buckets,
// and on unequal devices shares of the batch.
std::vector<Choice> refinementsOf(const Choice& choice, const SearchSpace& space);

// Returns the number of settings that differ from the plainest strategy's.
int complexityOf(const Choice& choice);
// "zero-3, micro-batches 4, recompute full".
Message textOf(const Choice& choice);

}  // namespace lockstep::app
