// cluster preflight.
#include <atomic>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/preflight_text.h"
#include "app/cli/terminal.h"
#include "app/cluster/preflight.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

constexpr double kSampleHertz = 1;

Result<PreflightResult> measured(const std::vector<PreflightNode>& nodes, const Home& home,
                                 const std::string& cluster, const PreflightOptions& options,
                                 Inbox& inbox) {
  Result<PreflightResult> result = PreflightResult();
  std::atomic<bool> done = false;
  std::jthread thread([&](const std::stop_token& stop) {
    result = runPreflight(nodes, home, cluster, options, stop);
    done = true;
  });
  if (!drainUntil(inbox, [&] { return done.load(); })) thread.request_stop();
  thread.join();
  return result;
}

}  // namespace

int clusterPreflightCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto failed = [&](const Error& error) {
    report(error, json);
    return error.code == Code::kCancelled ? int{kStoppedByUser} : exitCodeOf(error);
  };
  const auto seconds = arguments.number("seconds", 0.5, 0.05, 10);
  if (!seconds.ok()) return failed(seconds.error());
  if (arguments.has("local") == !arguments.words().empty())
    return failed(invalidArgument("expected the file of a cluster, or --local N"));
  const auto file = arguments.has("local") ? clusterOf(globals, arguments)
                                           : loadClusterSpec(arguments.words()[0]);
  if (!file.ok()) return failed(file.error());
  Connecting connecting(file->spec, sessionOptions(globals, kSampleHertz));
  if (!connecting.connect() || !connecting.awaitGpus()) return kStoppedByUser;
  const ClusterSession& session = connecting.session();
  const std::vector<PreflightNode> nodes = preflightNodes(session);
  PreflightOptions options;
  options.seconds = *seconds;
  options.progress = [](int done, int total, const std::string& what) {
    put(stderr, fmt::format("measured {} ({} of {})\n", what, done, total));
  };
  const auto result =
      measured(nodes, globals.home, file->spec->name(), options, connecting.inbox());
  if (!result.ok()) return failed(result.error());
  printPreflight("preflight", *result, json);
  const bool well = reportFailures(session, json) && result->errors.empty();
  for (const Error& error : result->errors) report(error, json);
  printWarnings(*result);
  put(stderr, fmt::format("{} of {} values are weak; compared with {} earlier results\n",
                          result->weak(), result->values.size(), result->earlier));
  return !well ? kNode : result->weak() > 0 ? kRunFailed : kSucceeded;
}

}  // namespace lockstep::app::cli
