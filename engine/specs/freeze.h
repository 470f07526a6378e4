// Which parameters training.freeze names.
#pragma once

#include <vector>

#include "engine/base/status.h"
#include "engine/ir/model_graph.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

// Marks the parameters that a pattern matches, by their name or that of their layer.
void markFrozen(const spec::v1::TrainingSpec& training, std::vector<ir::Parameter>& parameters);
// Errors: kInvalidArgument where a pattern matches nothing, or nothing is left to train.
Status checkFreeze(const spec::v1::RunSpec& run);

}  // namespace lockstep::specs
