#include "app/cli/launch_request.h"

#include <unistd.h>

#include <utility>

#include "app/advice/auto_strategy.h"
#include "app/cli/terminal.h"
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
  if (interrupted_()) stop_.request_stop();
  Nanoseconds last = shown_;
  const Nanoseconds now = monotonicNow();
  if (shows_ && now - last > 200'000'000 && shown_.compare_exchange_strong(last, now))
    putRaw(stderr, fmt::format("\r{} strategies planned ", planned));
}

}  // namespace lockstep::app::cli
