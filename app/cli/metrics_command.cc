// metrics: the current values of runs, for Prometheus.
#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/terminal.h"
#include "app/history/history.h"
#include "app/report/prometheus.h"
#include "engine/base/clock.h"
#include "engine/metrics/page_server.h"
#include "engine/metrics/prometheus_page.h"

namespace lockstep::app::cli {

int metricsCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const Status status = [&]() -> Status {
    if (arguments.has("once") && arguments.has("listen"))
      return invalidArgument("--once prints and does not listen: leave out --listen");
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    std::string run;
    if (!arguments.words().empty()) {
      LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.words()[0]));
      run = row.run;
    }
    PrometheusText text(*history);
    if (arguments.has("once")) {
      LOCKSTEP_ASSIGN(const std::string page, text.read(run, wallNow()));
      putDocument(page);
      return {};
    }
    LOCKSTEP_ASSIGN(metrics::PageServer server,
                    metrics::PageServer::listen(arguments.text("listen", "127.0.0.1:9464")));
    put(stdout, fmt::format("http://{}/metrics\n", server.address()));
    if (!server.loopback())
      put(stderr, "note: whoever can reach this address can read the values\n");
    server.serve({"/metrics", std::string(metrics::kPrometheusType),
                  [&] { return text.read(run, wallNow()); }},
                 isInterrupted);
    return {};
  }();
  if (status.ok()) return kSucceeded;
  report(status.error(), false);
  return exitCodeOf(status.error());
}

}  // namespace lockstep::app::cli
