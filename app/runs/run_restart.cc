#include "app/runs/run_restart.h"

namespace lockstep::app {

Error restartWarning(const RunRestart& restart) {
  Error warning = *restart.cause;
  warning.what = restart.nodes.empty()
                     ? message("the run restarts from its last checkpoint: {}", warning.what)
                     : message("the run continues from its last checkpoint with {} ranks on {}: {}",
                               restart.world, fmt::join(restart.nodes, ", "), warning.what);
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
