// Verification: the plans by which `lockstep verify` shows that a strategy computes what one rank
// computes. Pure; a local agent's worker runs them.
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
  // the small variant on onednn, or on the backend, reference or cuda, that the run asks for
  kSmallSingle,
  kSingle,  // the model as it is, likewise
};

struct VerifyCase {
  std::shared_ptr<const node::v1::VerifyRequest> request;
  std::vector<std::string> changes;  // in the small variant: "batch 64 → 8"
};

// Steps where their number is chosen: as many as show equality, and where a strategy is not meant
// to compute what one rank computes, as many as show whether it learns as well.
inline constexpr std::int64_t kEqualSteps = 10, kQualitySteps = 100;

// `spec` is complete; all ranks are those of `cluster`. It takes `steps` steps; 0: chosen. What can
// be planned can be verified: the small variant has as large a batch as that needs. Errors: as
// makePreview has them.
Result<VerifyCase> verifyCase(const spec::v1::RunSpec& spec, const spec::v1::ClusterSpec& cluster,
                              Precision precision, std::int64_t steps);

// Why a strategy is not meant to compute what one rank computes; "" where it is.
std::string unequalByDesign(const spec::v1::RunSpec& spec);

}  // namespace lockstep::app
