// Where the curves of a run go besides the history (spec.v1.SinksSpec).
#pragma once

#include "engine/base/status.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

// Refuses what is no URL of a collector, or has a secret in it.
Status checkSinks(const spec::v1::SinksSpec& sinks);

}  // namespace lockstep::specs
