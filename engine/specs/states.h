// The states of runs and nodes (proto/lockstep/run/v1/states.proto), their names, and the
// transitions that are allowed.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "lockstep/run/v1/states.pb.h"

namespace lockstep::specs {

std::string_view stateName(run::v1::RunState state);   // "succeeded"
std::string_view stateName(run::v1::NodeState state);  // "connected"

// Returns whether no state may follow.
bool isFinal(run::v1::RunState state);

// Checks that `to` is `from` or may follow it. Errors: kInternal naming both.
Status checkTransition(run::v1::RunState from, run::v1::RunState to);
Status checkTransition(run::v1::NodeState from, run::v1::NodeState to);

}  // namespace lockstep::specs
