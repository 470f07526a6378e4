// Defaults of a model spec, filled in place.
#pragma once

#include "engine/base/status.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

// Paths in errors start at "model".
Status fillModel(spec::v1::ModelSpec& spec);

}  // namespace lockstep::specs
