// Runs of a program of the user's own.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/plan/plan.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

// Strategy of the plan of such a run.
inline constexpr std::string_view kProgramStrategy = "own program";

// Name, among a run's files, of the one with the program's code (spec::v1::CodeFiles).
inline constexpr std::string_view kCodeFile = "workload.code";

// Where workload.metrics.stdout names none. Names may be quoted, as in {'loss': 0.5}. Step times
// ("ms/step"), and loss and accuracy of evaluations, match without a group: they do not count.
// After a number there is no letter, digit or point, except the point that ends a sentence.
inline constexpr std::array<std::string_view, 3> kDefaultPatterns{
    R"re((?i)(?:(?:s|sec|time)/|\bper[ _])step|\b(?:(?:global|train)[_ ])?(?:step|iter(?:ation)?)["'\]\[(\s=:#]+(?P<step>\d+)(?:[^\w.]|\.\W|\.?$))re",
    R"re((?i)\b(?:val|valid|validation|eval|evaluation|test|dev)\W{1,3}loss|\b(?:train(?:ing)?[_ /]?)?loss["'\]\[(\s=:|]+(?:tensor\()?(?P<loss>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?))(?:[^\w.]|\.\W|\.?$))re",
    R"re((?i)\b(?:val|valid|validation|eval|evaluation|test|dev)\W{1,3}acc|\b(?:train(?:ing)?[_ /]?)?acc(?:uracy)?(?:@1)?["'\]\[(\s=:|]+(?:tensor\()?(?P<accuracy>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan))(?:[^\w./]|\.\W|\.?$))re",
};

// Checks a pattern of workload.metrics.stdout: that RE2 takes it, and that it has a named group.
Status checkPattern(const std::string& path, const std::string& pattern);

// Returns what is watched in the program's Python: words of workload.metrics.hooks, and "mlflow".
// Empty: nothing.
std::vector<std::string> hooksOf(const spec::v1::WorkloadSpec& workload);

// Returns the time without output after which the run is taken to hang; 0: never.
int hangSecondsOf(const spec::v1::WorkloadSpec& workload);

// Returns how the run recovers: spec.recovery, for a program with what workload.restart says.
spec::v1::RecoverySpec recoveryOf(const spec::v1::RunSpec& run);

// Fills in the defaults of a run of a program and checks it: what checkAndFill() is for others.
Status checkAndFillWorkload(spec::v1::RunSpec& run);

// Returns the name of what is run: of the model, or of the program.
std::string nameOf(const spec::v1::RunSpec& run);

// Returns the cluster on which the program's processes are ranks: as many on each node as
// workload.launcher and ranks_per_node say, and none on an evaluator. The cluster itself for other
// runs.
spec::v1::ClusterSpec placed(const spec::v1::RunSpec& run, const spec::v1::ClusterSpec& cluster);

// Whether the run's ranks write checkpoints that Lockstep reads.
bool takesCheckpoints(const spec::v1::RunSpec& run);

// Returns the plan of a run of a program: its ranks, and no steps.
plan::Plan programPlan(const spec::v1::RunSpec& run, int ranks);

}  // namespace lockstep::specs
