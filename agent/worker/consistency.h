// What the ranks of a run compare before its first step, so that a difference that would spoil it
// later is named at once: spec, plan, program, libraries, data, weights, clocks, and what each
// computes of the same samples.
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
  // Hashes by name: "spec", "data", "library libdnnl.so.2", "weights of stage 0". Ranks that have
  // one of a name have the same.
  std::vector<std::pair<std::string, std::string>> things;
  // What may differ in the last digits between kinds of processors: the loss of the samples, the
  // lengths of their gradients.
  std::vector<std::pair<std::string, double>> numbers;
};
std::string factsText(const RankFacts& facts);
Result<RankFacts> parseFacts(std::string_view text);

// Names the first thing in which ranks differ and the rank that has another one than most. Warnings
// are differences a run can bear: of the system's own libraries.
Status compareFacts(const std::vector<RankFacts>& ranks, std::string_view precision,
                    std::vector<std::string>& warnings);

// The libraries this process has loaded, by file name, each with its build id.
std::vector<std::pair<std::string, std::string>> loadedLibraries();

// Loss and lengths of gradients of the first samples in a small variant of the model, with the
// run's backend and precision, by this rank alone.
Result<std::vector<std::pair<std::string, double>>> sharedMicroBatch(
    const spec::v1::RunSpec& spec, const data::Dataset& data, std::string_view backend,
    const backends::BackendOptions& options);

// What a rank knows of itself before it has a state.
Result<RankFacts> rankFacts(const node::v1::WorkerStart& start, const plan::Plan& plan,
                            const data::Dataset& data);

// All ranks call it, each with what replicaHash() gave it. Rank 0 compares; its error names node
// and rank of the one that differs. The others' part ends when they have told theirs.
Status checkConsistency(RankFacts mine, const plan::Plan& plan, const std::string& replica,
                        WorkerLink& link);

}  // namespace lockstep::agent
