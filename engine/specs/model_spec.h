// Defaults of a model spec, filled in place.
#pragma once

#include "engine/base/status.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

bool isTable(const spec::v1::InputSpec& input);  // rows of a table: a shape of one number, no text
// Paths in errors start at "model".
Status fillModel(spec::v1::ModelSpec& spec);

}  // namespace lockstep::specs
