// metrics: serves the load of this node to a monitoring system. It is a process of its own, which
// the node's operator starts; agent and runs know nothing of it.
#include <signal.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "agent/base/commands.h"
#include "agent/base/paths.h"
#include "agent/host/metrics.h"
#include "agent/node/metrics_page.h"
#include "engine/base/clock.h"
#include "engine/metrics/page_server.h"
#include "engine/metrics/prometheus_page.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kInterval = 1'000'000'000;

volatile std::sig_atomic_t asked = 0;  // to end

Status serveMetrics(const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const Workdir workdir, openWorkdir(arguments.text("workdir")));
  LOCKSTEP_ASSIGN(metrics::PageServer server,
                  metrics::PageServer::listen(arguments.text("listen")));
  std::printf("http://%s/metrics\n", server.address().c_str());
  std::fflush(stdout);
  if (!server.loopback())
    std::fputs("note: whoever can reach this address can read the values\n", stderr);
  NodeSampler sampler(workdir.path);
  run::v1::NodeSample latest = sampler.sample({});
  Nanoseconds next = monotonicNow() + kInterval / 5;  // the first has no rates
  std::string page;  // of the latest sample, made when it is first read
  server.serve({"/metrics", std::string(metrics::kPrometheusType),
                [&]() -> Result<std::string> {
                  if (page.empty()) page = metricsPage(hostName(), latest, workdir);
                  return page;
                }},
               [&] {
                 if (const Nanoseconds now = monotonicNow(); now >= next) {
                   latest = sampler.sample({});
                   page.clear();
                   next = now + kInterval;
                 }
                 return asked != 0;
               });
  return {};
}

}  // namespace

Result<int> metricsCommand(const Arguments& arguments) {
  for (const int number : {SIGINT, SIGTERM}) ::signal(number, [](int) { asked = 1; });
  const Status status = serveMetrics(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lockstep-agent: %s\n", status.error().text().c_str());
  return 3;
}

}  // namespace lockstep::agent
