// Which flat group each parameter is in, on which stage or server, and where the metrics travel.
#pragma once

#include <string>

#include "engine/passes/program_parts.h"

namespace lockstep::passes {

// Returns a StepProgram without its graphs: groups, statistics, metrics and where they are.
StepProgram formStepGroups(const ir::Graph& train, const Sinks& sinks, const Optimizer& optimizer,
                           const StepLayout& layout);

// Returns the value that is a parameter's gradient.
ir::ValueId gradientOf(const Sinks& sinks, const std::string& parameter);

}  // namespace lockstep::passes
