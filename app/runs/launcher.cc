#include "app/runs/launcher.h"

#include <algorithm>
#include <array>
#include <random>
#include <thread>

#include "app/runs/launch_work.h"
#include "engine/base/clock.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

std::string newRunId() {
  std::random_device random;
  std::string time = isoTime(wallNow()).substr(0, 19);  // 2024-05-01T12:00:00
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  std::replace(time.begin(), time.end(), 'T', '-');
  return fmt::format("{}-{:06x}", time, random() & 0xffffff);  // many may begin in a second
}

}  // namespace

std::string LaunchProgress::text() const {
  constexpr std::array<std::string_view, 10> kStages = {"making data (some seconds)",
                                                        "connecting",
                                                        "measuring",
                                                        "copying data",
                                                        "fetching data",
                                                        "checking data",
                                                        "setting up",
                                                        "preparing",
                                                        "starting",
                                                        "cleaning up"};
  const std::string_view doing = kStages[static_cast<std::size_t>(stage)];
  const std::string nodes = fmt::format("{}", fmt::join(awaited, ", "));
  if (seconds == 0) return fmt::format("{}: {}", doing, nodes);
  std::string out = fmt::format("{}: waiting for {} since {} s", doing, nodes, seconds);
  if (bytesTotal > 0)
    out += fmt::format(", {} of {} MB", bytesDone / 1000000, bytesTotal / 1000000);
  for (const DataActivity& activity : data) out += "; " + activity.text().text();
  for (const auto& [node, command] : commands) out += fmt::format("; {} runs {}", node, command);
  return out;
}

std::vector<HostFacts> hostsOf(const ClusterSession& session) {
  std::vector<HostFacts> out;
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    if (node.phase != NodeState::CONNECTED) continue;
    // The load is the whole host's; what its agent may use is known from when it was connected.
    std::int64_t available = node.inventory.memoryAvailable;
    if (node.load.receivedNs > 0) {
      const auto unused = static_cast<std::int64_t>(node.load.memoryTotal - node.load.memoryUsed);
      available = available > 0 ? std::min(available, unused) : unused;
    }
    out.push_back({node.name, node.inventory.bootId, node.inventory.cores, available,
                   gpuMemory(node.inventory.gpus)});
  }
  return out;
}

struct Launch::State {
  State(LaunchRequest request, ClusterSession& session, const Home& home)
      : work(std::move(request), session, home) {}
  std::shared_ptr<void> alive = std::make_shared<int>(0);
  std::string run = newRunId();
  LaunchWork work;
  std::jthread thread;
};

Launch::Launch(LaunchRequest request, ClusterSession& session, const Home& home, Inbox& inbox,
               LaunchObserver observer)
    : state_(std::make_unique<State>(std::move(request), session, home)) {
  session.connect();
  const std::weak_ptr<void> owner = state_->alive;
  state_->work.progress = [&inbox, owner,
                           tell = observer.onProgress](const LaunchProgress& progress) {
    if (tell) inbox.post(owner, [tell, progress] { tell(progress); });
  };
  state_->work.tellAddresses = [&inbox, owner,
                                tell = observer.onAddresses](const std::string& addresses) {
    if (tell) inbox.post(owner, [tell, addresses] { tell(addresses); });
  };
  state_->work.tellSetup = [&inbox, owner, tell = observer.onSetup](const SetupOutput& output) {
    if (tell) inbox.post(owner, [tell, output] { tell(output); });
  };
  state_->thread = std::jthread(
      [state = state_.get(), &inbox, owner, done = observer.onDone](std::stop_token stop) {
        auto result = state->work.launch(state->run, stop);
        if (done) inbox.post(owner, [done, result = std::move(result)] { done(result); });
      });
}
Launch::~Launch() = default;
void Launch::cancel() { state_->thread.request_stop(); }
void Launch::end() {
  state_->alive.reset();
  cancel();
}
const std::string& Launch::run() const { return state_->run; }

struct MeasuredPreview::State {
  State(LaunchRequest request, ClusterSession& session, const Home& home)
      : work(std::move(request), session, home) {}
  std::shared_ptr<void> alive = std::make_shared<int>(0);
  LaunchWork work;
  std::jthread thread;
};

MeasuredPreview::MeasuredPreview(LaunchRequest request, ClusterSession& session, const Home& home,
                                 Inbox& inbox, std::function<void(Result<Preview>)> onDone,
                                 Costs costs)
    : state_(std::make_unique<State>(std::move(request), session, home)) {
  if (costs == Costs::kBenchmark) session.connect();
  state_->thread =
      std::jthread([state = state_.get(), &inbox, costs, owner = std::weak_ptr<void>(state_->alive),
                    done = std::move(onDone)](std::stop_token stop) {
        auto result = std::make_shared<Result<Preview>>(state->work.preview(stop, costs));
        inbox.post(owner, [done, result] { done(std::move(*result)); });
      });
}
MeasuredPreview::~MeasuredPreview() = default;
void MeasuredPreview::cancel() { state_->thread.request_stop(); }
void MeasuredPreview::end() {
  state_->alive.reset();
  cancel();
}

std::string clusterNameOf(const LaunchRequest& request) { return request.cluster->name(); }

}  // namespace lockstep::app
