// Verification: makes the plans with which `lockstep verify` checks that a strategy computes what
// one rank computes. A local agent's worker runs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class RunSpec;
class ClusterSpec;
}  // namespace lockstep::spec::v1
namespace lockstep::node::v1 {
class VerifyRequest;
}

namespace lockstep::app {

enum class Precision : std::uint8_t {
  kSmallDouble,  // the small variant of the model on the reference backend
  // the small variant on onednn, or on the backend (reference, cuda) of the run
  kSmallSingle,
  kSingle,  // the model as it is, likewise
};

struct VerifyCase {
  std::shared_ptr<const node::v1::VerifyRequest> request;
  std::vector<std::string> changes;  // in the small variant: "batch 64 → 8"
};

// Default numbers of steps: enough to show equality, or, for a strategy that computes something
// else by design, to show whether it learns as well.
inline constexpr std::int64_t kEqualSteps = 10, kQualitySteps = 100;

// `spec` is complete and runs on all ranks of `cluster`. `steps` 0: default. All that can be
// planned can be verified: the batch of the small variant is as large as that needs. Errors: those
// of makePreview.
Result<VerifyCase> verifyCase(const spec::v1::RunSpec& spec, const spec::v1::ClusterSpec& cluster,
                              Precision precision, std::int64_t steps);

// Returns why a strategy by design computes something else than one rank; "" if it computes the
// same.
std::string unequalByDesign(const spec::v1::RunSpec& spec);

}  // namespace lockstep::app
