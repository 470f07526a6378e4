// Fills in the defaults of a model spec.
#pragma once

#include "engine/base/status.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

bool isTable(const spec::v1::InputSpec& input);  // table rows: a shape of one number, no text
// Error paths start at "model".
Status fillModel(spec::v1::ModelSpec& spec);

}  // namespace lockstep::specs
