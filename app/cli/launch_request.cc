#include "app/cli/launch_request.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "app/advice/auto_strategy.h"
#include "app/cli/connecting.h"
#include "app/cli/terminal.h"
#include "app/runs/launcher.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {

LaunchRequest requestOf(const RunSpecFile& spec, const ClusterSpecFile& cluster,
                        const Arguments& arguments) {
  LaunchRequest out;
  out.spec = spec.spec;
  out.specYaml = spec.yaml;
  out.cluster = cluster.spec;
  out.clusterYaml = cluster.yaml;
  out.comm = arguments.text("comm");
  return out;
}

Result<LaunchRequest> withStrategy(LaunchRequest request, const RunSpecFile& spec,
                                   const std::vector<HostFacts>& hosts,
                                   const Arguments& arguments) {
  if (!specs::isOpen(request.spec->strategy())) return request;
  SearchProgress progress(arguments);
  AdviceOptions options;
  progress.watch(options);
  auto chosen = withStrategyChosen(std::move(request), spec, hosts, std::move(options));
  if (progress.isInterrupted()) return makeError(Code::kCancelled, "the search was cancelled");
  return chosen;
}

namespace {

// On the nodes, where `launch` has a strategy once they are known.
Status measure(const Globals& globals, const Arguments& arguments, const RunSpecFile& spec,
               PlannedLaunch& launch) {
  Inbox inbox;
  AskingSession asking(launch.request.cluster, globals, inbox);
  if (specs::isOpen(launch.request.spec->strategy())) {
    LOCKSTEP_ASSIGN(launch.hosts, connectedHosts(asking.session, inbox));
    LOCKSTEP_ASSIGN(launch.request,
                    withStrategy(std::move(launch.request), spec, launch.hosts, arguments));
  }
  std::optional<Result<Preview>> done;
  MeasuredPreview measured(launch.request, asking.session, globals.home, inbox,
                           [&](Result<Preview> result) { done.emplace(std::move(result)); });
  if (!drainUntil(inbox, [&] { return done.has_value(); })) {
    measured.cancel();
    return makeError(Code::kCancelled, "measuring was cancelled");
  }
  LOCKSTEP_ASSIGN(launch.preview, std::move(*done));
  launch.hosts = hostsOf(asking.session);
  return {};
}

}  // namespace

Result<PlannedLaunch> plannedLaunch(const Globals& globals, const Arguments& arguments,
                                    const SpecWords& words, bool events, passes::PassTrace* trace) {
  LOCKSTEP_ASSIGN(const RunSpecFile spec, loadRunSpec(modelFile(words.file), words.sets));
  LOCKSTEP_TRY(mustHaveModel(spec));
  LOCKSTEP_ASSIGN(const ClusterSpecFile cluster, clusterOf(globals, arguments));
  PlannedLaunch out;
  out.request = requestOf(spec, cluster, arguments);
  const Status planned = [&]() -> Status {
    if (arguments.has("measure")) return measure(globals, arguments, spec, out);
    out.hosts = hostsHere(*cluster.spec);
    LOCKSTEP_ASSIGN(out.request, withStrategy(std::move(out.request), spec, out.hosts, arguments));
    LOCKSTEP_ASSIGN(out.preview, makePreview(out.request, out.hosts, nullptr, trace, events));
    return {};
  }();
  if (!planned.ok())
    return withSourceLocation(planned.error(), spec, cluster.written, cluster.file);
  return out;
}

SearchProgress::SearchProgress(const Arguments& arguments)
    : shows_(isTerminal(STDERR_FILENO) && !arguments.has("json")) {}

SearchProgress::~SearchProgress() {
  if (shows_) putRaw(stderr, "\r\x1b[K");
}

void SearchProgress::watch(AdviceOptions& options) {
  options.threads = static_cast<std::size_t>(usableCores());
  options.stop = stop_.get_token();
  options.onProgress = [this](std::size_t planned) { tell(planned); };
}

void SearchProgress::tell(std::size_t planned) {
  if (!stop_.stop_requested() && takeInterrupt()) stop_.request_stop();
  Nanoseconds last = shown_;
  const Nanoseconds now = monotonicNow();
  if (shows_ && now - last > 200'000'000 && shown_.compare_exchange_strong(last, now))
    putRaw(stderr, fmt::format("\r{} strategies planned ", planned));
}

}  // namespace lockstep::app::cli
