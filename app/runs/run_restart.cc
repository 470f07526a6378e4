#include "app/runs/run_restart.h"

namespace lockstep::app {
namespace {

Message restartText(const RunRestart& restart) {
  const Message& cause = restart.cause->what;
  const auto nodes = fmt::format("{}", fmt::join(restart.nodes, ", "));
  if (restart.ofProgram)
    return nodes.empty() ? message("the run starts its program again: {}", cause)
                         : message("the run starts its program again with {} ranks on {}: {}",
                                   restart.world, nodes, cause);
  return nodes.empty()
             ? message("the run restarts from its last checkpoint: {}", cause)
             : message("the run continues from its last checkpoint with {} ranks on {}: {}",
                       restart.world, nodes, cause);
}

}  // namespace

Error restartWarning(const RunRestart& restart) {
  Error warning = *restart.cause;
  warning.what = restartText(restart);
  if (!restart.coordinator.empty()) {
    const Message takes = message("node {} coordinates the run from now on", restart.coordinator);
    warning.why = warning.why.empty() ? takes : message("{}; {}", warning.why, takes);
  }
  warning.next = {};
  return warning;
}

Message restartedText(const RunRestart& restart) {
  if (restart.lostSteps == 0)
    return message("the run trains again after {:.1f} s", restart.seconds);
  if (restart.lostSteps == 1)
    return message("the run trains again after {:.1f} s; 1 step is trained again", restart.seconds);
  return message("the run trains again after {:.1f} s; {} steps are trained again", restart.seconds,
                 restart.lostSteps);
}

}  // namespace lockstep::app
