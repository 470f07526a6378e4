#include "app/cli/run_alerts.h"

#include "app/alerts/alert_file.h"
#include "engine/base/clock.h"

namespace lockstep::app::cli {
namespace {

constexpr Nanoseconds kLastActions = 20'000'000'000;

AlertSettings settingsOf(const Globals& globals, RunReport& report) {
  auto settings = loadAlertSettings(alertFile(globals.home));
  if (settings.ok()) return std::move(*settings);
  report.progress("warning: " + settings.error().text() + "; the default alert rules are used");
  return {};
}

}  // namespace

RunAlerts::RunAlerts(const Globals& globals, Inbox& inbox, RunReport& report)
    : inbox_(inbox),
      report_(report),
      watch_(settingsOf(globals, report)),
      actions_(inbox,
               [&report](const Error& error) { report.progress("warning: " + error.text()); }) {
  watch_.begin(report.model().row(), report.model().progress(), monotonicNow());
}

void RunAlerts::take(const RunUpdate& update) {
  tell(watch_.take(update, monotonicNow(), wallNow()));
}
void RunAlerts::tick() { tell(watch_.tick(monotonicNow(), wallNow())); }

void RunAlerts::finish() {
  const Nanoseconds end = monotonicNow() + kLastActions;
  (void)drainUntil(inbox_, [&] { return actions_.idle() || monotonicNow() > end; });
  for (const auto& [action, what] : {std::pair(AlertAction::kCommand, "given to actions.command"),
                                     {AlertAction::kWebhook, "sent to actions.webhook"}})
    if (const std::size_t count = actions_.pending(action); count > 0)
      report_.progress(
          fmt::format("warning: {} not {} in time",
                      count == 1 ? "1 alert was" : fmt::format("{} alerts were", count), what));
}

void RunAlerts::tell(const std::vector<AlertEvent>& events) {
  for (const AlertEvent& event : events) {
    report_.alert(event);
    actions_.act(event, watch_.settings());
  }
}

}  // namespace lockstep::app::cli
