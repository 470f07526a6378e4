// Whether a run fits in the memory of its devices and hosts, and what would make it fit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "app/runs/preview.h"

namespace lockstep::app {

// Plans the run as another spec says.
using Replan = std::function<Result<Preview>(const std::shared_ptr<const spec::v1::RunSpec>& spec)>;

// Returns kResourceExhausted; none where all ranks fit or their memory is unknown.
std::optional<Error> misfitOf(const Preview& preview, const std::vector<HostFacts>& hosts);
// Adds up to three remedies with which the run was planned and fits, the fastest first. Candidates
// are tried from the smallest change on, in at most eight plans.
Error withRelief(Error misfit, const Preview& preview, const spec::v1::RunSpec& spec,
                 const std::vector<HostFacts>& hosts, const Replan& replan);

}  // namespace lockstep::app
