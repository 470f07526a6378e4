// Consistency check of all ranks before the first step: spec, plan, program, libraries, data,
// weights, clocks, and the results of the same samples.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/worker/worker_link.h"
#include "engine/base/status.h"

namespace lockstep::agent {

struct RankFacts {
  int rank = -1;
  std::string node;
  // Hashes by name: "spec", "data", "library libdnnl.so.2", "weights of stage 0". Hashes of one
  // name must be equal on all ranks that have it.
  std::vector<std::pair<std::string, std::string>> things;
  // Values that may differ in the last digits between CPU types: the loss of the samples and the
  // norms of their gradients.
  std::vector<std::pair<std::string, double>> numbers;
};
std::string factsText(const RankFacts& facts);
Result<RankFacts> parseFacts(std::string_view text);

// Names the first difference and the rank that differs from the majority. Differences of system
// libraries are warnings.
Status compareFacts(const std::vector<RankFacts>& ranks, std::string_view precision,
                    std::vector<std::string>& warnings);

// Returns the loaded libraries of this process: file name → build id.
std::vector<std::pair<std::string, std::string>> loadedLibraries();

// Returns loss and gradient norms of the first samples in a small variant of the model, computed by
// this rank alone with the run's backend and precision.
Result<std::vector<std::pair<std::string, double>>> sharedMicroBatch(
    const spec::v1::RunSpec& spec, const data::Dataset& data, std::string_view backend,
    const backends::BackendOptions& options);

// Returns the hashes that a rank has before its state is initialised.
Result<RankFacts> rankFacts(const node::v1::WorkerStart& start, const plan::Plan& plan,
                            const data::Dataset& data);

// Collective: all ranks call it with their replicaHash(). Rank 0 compares; its error names node and
// rank of the one that differs. The other ranks return once they have sent theirs. Each is waited
// for until `limit`.
Status checkConsistency(RankFacts mine, const plan::Plan& plan, const std::string& replica,
                        WorkerLink& link, Nanoseconds limit);

}  // namespace lockstep::agent
