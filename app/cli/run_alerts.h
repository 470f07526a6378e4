// RunAlerts: the alerts of a run that a command follows: prints them and performs their actions.
#pragma once

#include "app/alerts/alert_actions.h"
#include "app/alerts/alert_watch.h"
#include "app/cli/command.h"
#include "app/cli/run_report.h"

namespace lockstep::app::cli {

class RunAlerts {
 public:
  // Starts with the run as `report` was told of it.
  RunAlerts(const Globals& globals, Inbox& inbox, RunReport& report);
  void take(const RunUpdate& update);
  void tick();
  // Waits for the actions under way, at most 20 s or until Ctrl-C, and says what was not done.
  void finish();

 private:
  void tell(const std::vector<AlertEvent>& events);

  Inbox& inbox_;
  RunReport& report_;
  AlertWatch watch_;
  AlertActions actions_;
};

}  // namespace lockstep::app::cli
