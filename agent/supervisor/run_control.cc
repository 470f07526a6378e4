#include "agent/supervisor/run_control.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <sstream>

#include "agent/base/grpc_status.h"
#include "agent/base/line_collector.h"
#include "agent/worker/prepare.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/utf8.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::ToPeer;

std::vector<std::string> namesOf(const spec::v1::ClusterSpec& cluster) {
  std::vector<std::string> out;
  for (const auto& node : cluster.nodes()) out.push_back(node.name());
  return out;
}

// Between two samples of the node; `hertz`: as requested, 0: 2.
Nanoseconds samplePeriod(double hertz) {
  const char* const given = std::getenv("LOCKSTEP_SAMPLE_HERTZ");
  if (const double wanted = given == nullptr ? 0 : std::atof(given); wanted > 0) hertz = wanted;
  return static_cast<Nanoseconds>(1e9 / (hertz > 0 ? std::clamp(hertz, 0.1, 10.0) : 2));
}

}  // namespace

RunControl::RunControl(EventLoop& loop, RunFolder folder, node::v1::PrepareRequest request,
                       Spool& spool, std::string version, RunLimits limits,
                       std::function<void()> onOver)
    : loop_(loop),
      folder_(std::move(folder)),
      request_(std::move(request)),
      launched_(request_.cluster()),
      spool_(spool),
      version_(std::move(version)),
      limits_(limits),
      onOver_(std::move(onOver)),
      generation_(request_.generation()),
      heartbeat_(specs::heartbeatOf(request_.spec())),
      recovery_(specs::recoveryOf(request_.spec()),
                ofProgram() ? "workload.restart.max" : "recovery.max_restarts"),
      hangs_(loop, ofProgram(), hangHandlers()),
      coordinator_(nodesOf(request_).empty() ? request_.node() : nodesOf(request_).front()),
      succession_(request_.node(), namesOf(launched_), heartbeat_, successionHandlers()),
      workers_(loop_, folder_, workersHandlers()),
      sampler_(folder_.path),
      rendezvous_(rendezvousHandlers()),
      stacks_(loop) {
  if (nodesOf(request_).size() > 1) limits_ = limits.withHeartbeat(heartbeat_);
  if (coordinates())
    for (const std::string& node : nodesOf(request_))
      if (node != request_.node()) peers_[node];
  if (const auto* node = specs::evaluatorNode(request_.cluster()); node != nullptr && coordinates())
    evaluations_ = std::make_unique<Evaluations>(node->name());
}

const spec::v1::NodeSpec* RunControl::ownNode() const {
  for (const auto& node : request_.cluster().nodes())
    if (node.name() == request_.node()) return &node;
  return nullptr;
}

Result<std::string> RunControl::start() {
  std::string address;
  if (!peers_.empty() || listens()) {
    const spec::v1::NodeSpec* node = ownNode();
    LOCKSTEP_ASSIGN(host_, peerAddress(*node));
    PeerServer::Handlers handlers;
    handlers.onJoin = [this](const std::string& name, const node::v1::PeerHello& hello) {
      onPeerJoin(name, hello);
    };
    handlers.onLeave = [this](const std::string& name) { onPeerLeave(name); };
    handlers.onMessage = [this](const std::string& name, const FromPeer& message) {
      onPeerMessage(name, message);
    };
    LOCKSTEP_ASSIGN(server_,
                    PeerServer::start(loop_, host_, request_, {checkpointFolder(), folder_.model()},
                                      std::move(handlers)));
    address = server_->address();
  }
  expiry_ = loop_.after(limits_.prepared, [this] {
    if (committed_ || outcome_) return;
    say("the run was prepared and not committed in time; it is given up");
    outcome_ = run::v1::EXPIRED;
    Error error = makeError(Code::kCancelled, "the run was not committed in time");
    ToPeer message;
    *message.mutable_abort()->mutable_error() = toInfo(error);
    tellPeers(message);
    finishWhenGone();
  });
  LOCKSTEP_TRY(folder_.writeState(state_));
  if (!coordinates() && !request_.coordinator_address().empty())
    join(request_.coordinator_address());
  sample();
  loop_.every(samplePeriod(request_.sample_hertz()), [this] { sample(); });
  folderWatch_ = std::jthread([this](const std::stop_token& stop) { watchFolder(stop); });
  loop_.every(heartbeat_, [this] { beat(); });
  return address;
}

// Fails the run when its folder is removed: clients could no longer find it. Runs on a thread of
// its own, since a network file system may block.
void RunControl::watchFolder(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (
      !wake.wait_for(lock, stop, std::chrono::seconds(1), [&] { return stop.stop_requested(); })) {
    if (access(folder_.path.c_str(), F_OK) == 0 || errno != ENOENT) continue;
    loop_.post([this] {
      localFailure(
          makeError(Code::kNotFound, "the run's folder {} was removed while it ran", folder_.path),
          false);
    });
    return;
  }
}

Status RunControl::check(const std::string& run, int generation) const {
  if (run == request_.run() && generation == request_.generation()) return {};
  Error error = invalidArgument("this is run {} generation {}, not run {} generation {}",
                                request_.run(), request_.generation(), run, generation);
  return error;
}

Status RunControl::commit(const node::v1::CommitRequest& request) {
  LOCKSTEP_TRY(check(request.run(), request.generation()));
  if (state_ == run::v1::EXPIRED || outcome_ == run::v1::EXPIRED) {
    Error error =
        makeError(Code::kFailedPrecondition, "run {} was prepared too long ago", request.run());
    error.next = "launch it again";
    return error;
  }
  if (!coordinates()) {
    if (!request.coordinator_address().empty()) join(request.coordinator_address());
    return {};
  }
  committed();
  return {};
}

void RunControl::setState(run::v1::RunState state) {
  if (const Status allowed = specs::checkTransition(state_, state); !allowed.ok()) {
    say(allowed.error().text());
    return;
  }
  state_ = state;
  if (Status status = folder_.writeState(state); !status.ok())
    logWarning("{}", status.error().text());
}

void RunControl::say(std::string line) {
  logInfo("{}", line);
  if (over_) return;
  run::v1::Record record;
  record.mutable_log()->set_rank(-1);
  record.mutable_log()->add_lines(std::move(line));
  spool_.append(std::move(record));
}

void RunControl::committed() {
  if (committed_ || outcome_) return;
  committed_ = true;
  loop_.cancel(expiry_);
  setState(run::v1::RUNNING);
  run::v1::Record record;
  run::v1::Started* started = record.mutable_started();
  started->set_node(request_.node());
  started->set_boot_id(bootId());
  started->set_version(version_);
  *started->mutable_ranks() = request_.ranks();
  int world = request_.ranks_size();
  if (!peers_.empty() || !coordinates()) {
    world = 0;
    for (const auto* node : specs::nodesWithRanks(request_.cluster(), request_.spec().strategy()))
      world += specs::deviceCount(*node);
  }
  started->set_world(world);
  started->set_plan_hash(request_.plan_hash());
  started->set_coordinator(coordinates());
  spool_.append(std::move(record));
  if (coordinates()) tellLimits();
  tellSetup();
  ToPeer message;
  message.mutable_committed();
  tellPeers(message);
  if (evaluates()) {
    startEvaluator();
    localReady();
    return;
  }
  form();
}

// What setting the program up has printed, before the run.
void RunControl::tellSetup() {
  constexpr std::size_t kMost = 2000;  // lines
  const auto text = readFile(folder_.setupLog(), std::size_t{8} << 20);
  if (!text.ok()) return;
  std::deque<std::string> lines;
  std::istringstream stream(*text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back("setup: " + validUtf8(line.substr(0, LineCollector::kMaxLine)));
    if (lines.size() > kMost) lines.pop_front();
  }
  run::v1::Record record;
  record.mutable_log()->set_rank(-1);
  for (std::string& line : lines) {
    record.mutable_log()->add_lines(std::move(line));
    if (record.log().lines_size() < 100) continue;
    spool_.append(record);
    record.mutable_log()->clear_lines();
  }
  if (record.log().lines_size() > 0) spool_.append(std::move(record));
}

Rendezvous::Handlers RunControl::rendezvousHandlers() {
  Rendezvous::Handlers handlers;
  handlers.holds = [this] { return coordinates(); };
  handlers.ask = [this](FromPeer message) {
    if (client_) client_->send(std::move(message));
  };
  handlers.answer = [this](const std::string& node, ToPeer message) {
    if (server_) server_->send(node, std::move(message));
  };
  return handlers;
}

}  // namespace lockstep::agent
