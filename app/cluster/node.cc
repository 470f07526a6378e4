#include "app/cluster/node.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>

#include "app/cluster/run_cleanup.h"
#include "app/core/rpc.h"
#include "engine/base/clock.h"
#include "engine/specs/protocol.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHandshakeLimit{10000};
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{5000};
constexpr int kMaxMessage = 64 << 20;
constexpr int kMostCores = 1 << 20;

// More bytes, and bytes per second, than any node has.
constexpr double kMostBytes = 1e18;

double bounded(double value, double most) { return value > 0 && value <= most ? value : 0; }

}  // namespace

NodeInventory inventoryOf(const node::v1::HandshakeReply& reply, Nanoseconds asked,
                          Nanoseconds came) {
  const auto& from = reply.inventory();
  const auto atLeast0 = [](auto value) { return std::max<decltype(value)>(0, value); };
  NodeInventory out;
  out.hostname = from.hostname();
  out.bootId = from.boot_id();
  out.cpu = from.cpu();
  out.kernel = from.kernel();
  out.os = from.os();
  out.workdir = from.workdir();
  out.agentVersion = reply.version();
  out.cpuFlags.assign(from.cpu_flags().begin(), from.cpu_flags().end());
  out.addresses.assign(from.addresses().begin(), from.addresses().end());
  out.gpus.assign(from.gpus().begin(), from.gpus().end());
  out.gpuDriver = from.gpu_driver();
  out.cores = std::min(atLeast0(from.cores()), kMostCores);
  out.memoryBytes = atLeast0(from.memory_bytes());
  out.memoryAvailable = atLeast0(from.memory_available_bytes());
  out.diskFreeBytes = atLeast0(from.disk_free_bytes());
  out.agentPid = from.pid();
  out.network = from.network();
  if (from.has_has_curl()) out.hasCurl = from.has_curl();
  out.agentSpeaks.oldest = out.agentSpeaks.newest = reply.protocol();
  if (reply.has_speaks()) out.agentSpeaks = specs::fromProto(reply.speaks());
  if (from.wall_ns() > 0) out.clockOffset = from.wall_ns() - (asked + (came - asked) / 2);
  return out;
}

NodeLoad loadOf(const run::v1::NodeSample& sample) {
  const auto bytes = [](double value) { return bounded(value, kMostBytes); };
  const auto share = [](double value) { return std::min(bounded(value, kMostBytes), 1.0); };
  NodeLoad load;
  load.receivedNs = monotonicNow();
  load.cpu = share(sample.cpu());
  for (const double core : sample.core()) load.core.push_back(share(core));
  load.memoryUsed = bytes(sample.memory_used());
  load.memoryTotal = bytes(sample.memory_total());
  load.networkIn = bytes(sample.network_in());
  load.networkOut = bytes(sample.network_out());
  load.loopback = bytes(sample.loopback());
  load.diskRead = bytes(sample.disk_read());
  load.diskWrite = bytes(sample.disk_write());
  load.diskFree = bytes(sample.disk_free());
  if (sample.has_disk_busy()) load.diskBusy = share(sample.disk_busy());
  load.load1 = bounded(sample.load1(), 1e9);
  for (const auto& gpu : sample.gpu()) load.gpus.push_back(gpuLoad(gpu));
  return load;
}

Node::Node(const spec::v1::NodeSpec& spec, NodeLinkOptions options, std::optional<Home> home,
           double sampleHertz, std::function<void(NodeNews)> tell)
    : name_(spec.name()),
      spec_(spec),
      options_(std::move(options)),
      home_(std::move(home)),
      hertz_(sampleHertz),
      tell_(std::move(tell)) {
  options_.onState = [this](const LinkStatus& status) { onLink(status); };
  options_.onProgress = [this](const DeployProgress& progress) {
    if (progress.bytesTotal == 0) return;
    NodeNews news;
    news.phase = NodeState::DEPLOYING;
    news.uploaded = progress.bytesDone;
    news.uploadSize = progress.bytesTotal;
    news.detail = message("uploading {} of {} MB", progress.bytesDone / 1000000,
                          progress.bytesTotal / 1000000);
    tell_(std::move(news));
  };
  thread_ = std::jthread([this](const std::stop_token& end) { run(end); });
}

void Node::cleanUp() {
  {
    const std::lock_guard lock(mutex_);
    cleanUpAsked_ = connected_;
  }
  changed_.notify_all();
}

Node::~Node() {
  beginEnd();
  thread_.join();
  if (link_) link_->close();
}

void Node::beginEnd() {
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  attempt_.request_stop();
}

void Node::connect() {
  {
    const std::lock_guard lock(mutex_);
    if (wanted_) return;
    wanted_ = true;
    failure_.reset();
    attempt_ = std::stop_source();
  }
  changed_.notify_all();
}

void Node::disconnect() {
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  failure_.reset();
  attempt_.request_stop();
}

Error Node::away() const {
  Error error = makeError(Code::kUnavailable, "the node is not connected");
  error.node = name_;
  error.next = "connect the cluster first";
  return error;
}

void Node::onLink(const LinkStatus& status) {
  if (status.state != LinkState::kReconnecting) return;
  NodeNews news;
  news.phase = NodeState::RECONNECTING;
  news.error = status.reason;
  news.detail =
      status.retryIn.count() > 0
          ? message("again in {:.0f} s", static_cast<double>(status.retryIn.count()) / 1e3)
          : "connecting again";
  tell_(std::move(news));
}

std::shared_ptr<NodeLink> Node::link() {
  const std::lock_guard lock(mutex_);
  if (!link_) link_ = std::make_shared<NodeLink>(spec_, options_);
  return link_;
}

std::shared_ptr<grpc::Channel> Node::channelTo(const std::string& socket) {
  const std::lock_guard lock(mutex_);
  auto& channel = channels_[socket];
  if (!channel) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessage);
    arguments.SetMaxSendMessageSize(kMaxMessage);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 8000);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel =
        grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  }
  return channel;
}

Result<NodeInventory> Node::waitConnected(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const bool came =
      changed_.wait(lock, stop, [this] { return connected_ || failure_.has_value(); });
  if (!came) {
    Error error = makeError(Code::kCancelled, "connecting was cancelled");
    error.node = name_;
    return error;
  }
  if (!connected_) return *failure_;
  return inventory_;
}

Result<std::shared_ptr<grpc::Channel>> Node::agent() {
  const std::lock_guard lock(mutex_);
  if (!connected_) return away();
  return agent_;
}

Result<std::shared_ptr<grpc::Channel>> Node::supervisor(const std::string& socketOnNode) {
  if (socketOnNode.empty()) {
    Error error = makeError(Code::kNotFound, "the run's supervisor has gone");
    error.node = name_;
    return error;
  }
  LOCKSTEP_ASSIGN(const std::string local, forward(socketOnNode));
  return channelTo(local);
}

Result<std::string> Node::forward(const std::string& socketOnNode) {
  std::shared_ptr<NodeLink> link;
  {
    const std::lock_guard lock(mutex_);
    link = link_;
  }
  if (!link) return away();
  auto local = link->reach(socketOnNode);
  if (!local.ok() && local.error().code == Code::kFailedPrecondition) return away();
  return local;
}

void Node::unforward(const std::string& socketOnNode) {
  std::shared_ptr<NodeLink> link;
  {
    const std::lock_guard lock(mutex_);
    link = link_;
  }
  if (link) link->forget(socketOnNode);
}

Status Node::awaitLink(NodeLink& link, const std::stop_token& stop) {
  Host* connection = link.connection();
  if (connection == nullptr) return {};
  // After a loss the connection mends itself without asking anything; where that takes an answer,
  // it has failed, until a person wants to connect.
  const LinkStatus now = connection->status();
  if (served_ && now.state == LinkState::kFailed && now.reason) return *now.reason;
  while (connection->status().state == LinkState::kReconnecting) {
    Status status = connection->waitConnected(milliseconds(2000), stop);
    if (status.ok()) break;
    if (status.code() == Code::kCancelled) return status;
    if (connection->status().state == LinkState::kFailed) return status;
  }
  return {};
}

Result<NodeInventory> Node::greet(grpc::Channel& channel, const std::stop_token& stop) {
  auto stub = node::v1::Agent::NewStub(std::shared_ptr<grpc::Channel>(&channel, [](auto*) {}));
  grpc::ClientContext context;
  setLimit(context, kHandshakeLimit);
  context.set_wait_for_ready(true);
  const CancelOnStop cancel(context, stop);
  node::v1::HandshakeRequest request;
  const specs::Protocols own = specs::ownProtocols();
  request.set_protocol(own.newest);
  *request.mutable_speaks() = specs::toProto(own);
  node::v1::HandshakeReply reply;
  const Nanoseconds asked = wallNow();
  LOCKSTEP_TRY(
      rpcStatus(stub->Handshake(&context, request, &reply), "the agent does not answer", name_));
  NodeInventory inventory = inventoryOf(reply, asked, wallNow());
  if (auto common = specs::commonProtocol("the agent", inventory.agentSpeaks, own); !common.ok()) {
    common.error().node = name_;
    common.error().next = "deploy this version to the node: lockstep cluster deploy";
    return common.error();
  }
  return inventory;
}

Status Node::watch(const std::shared_ptr<grpc::Channel>& channel, const std::stop_token& stop) {
  auto stub = node::v1::Agent::NewStub(channel);
  grpc::ClientContext context;  // no limit: it is open as long as the node is watched
  const CancelOnStop cancel(context, stop);
  node::v1::WatchNodeRequest request;
  // shows that the agent is there
  request.set_hertz(hertz_ > 0 ? std::clamp(hertz_, 1.0, 10.0) : 0.1);
  auto stream = stub->WatchNode(&context, request);
  run::v1::NodeSample sample;
  while (stream->Read(&sample)) {
    if (hertz_ <= 0) continue;
    NodeNews news;
    news.load = loadOf(sample);
    tell_(std::move(news));
  }
  const grpc::Status status = stream->Finish();
  if (status.ok()) {
    Error error = makeError(Code::kUnavailable, "the agent has ended");
    error.node = name_;
    return error;
  }
  return rpcError(status, "the connection to the agent was lost", name_);
}

void Node::keepCleanedUp(const std::stop_token& end) {
  while (home_ && !end.stop_requested()) {
    cleanUpNode(*home_, *this, end);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, end, [this] { return cleanUpAsked_; });
    cleanUpAsked_ = false;
  }
}

Status Node::serve(const std::stop_token& stop) {
  const auto link = this->link();
  LOCKSTEP_TRY(awaitLink(*link, stop));
  LOCKSTEP_ASSIGN(const AgentInfo info, link->ensureAgent(stop));
  if (!served_) {
    NodeNews news;
    news.phase = NodeState::STARTING;
    news.detail = "";
    tell_(std::move(news));
  }
  LOCKSTEP_ASSIGN(const std::string socket, link->reach(info.socket));
  const auto channel = channelTo(socket);
  LOCKSTEP_ASSIGN(NodeInventory inventory, greet(*channel, stop));
  inventory.reachedAt = info.reachedAt;
  {
    const std::lock_guard lock(mutex_);
    if (stop.stop_requested()) return makeError(Code::kCancelled, "connecting was cancelled");
    agent_ = channel;
    inventory_ = inventory;
    connected_ = true;
    served_ = true;
  }
  changed_.notify_all();
  NodeNews news;
  news.phase = NodeState::CONNECTED;
  news.detail = "";
  news.inventory = std::move(inventory);
  tell_(std::move(news));
  const std::jthread cleanup([this](const std::stop_token& end) { keepCleanedUp(end); });
  Status lost = watch(channel, stop);
  const std::lock_guard lock(mutex_);
  connected_ = false;
  return lost;
}

void Node::run(const std::stop_token& end) {
  while (!end.stop_requested()) {
    std::stop_token stop;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, end, [this] { return wanted_; })) break;
      stop = attempt_.get_token();
    }
    served_ = false;
    NodeNews begin;
    begin.phase = NodeState::CONNECTING;
    begin.detail = "";
    tell_(std::move(begin));
    milliseconds pause = kFirstPause;
    while (!stop.stop_requested()) {
      const Nanoseconds since = monotonicNow();
      const Status status = serve(stop);
      if (stop.stop_requested()) break;
      const bool onlyAPersonHelps = status.code() == Code::kPermissionDenied ||
                                    status.code() == Code::kFailedPrecondition ||
                                    status.code() == Code::kInvalidArgument;
      if (!served_ || onlyAPersonHelps) {
        Error error = status.error();
        if (error.node.empty()) error.node = name_;
        const bool silent =
            error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded;
        if (silent && error.next.empty())
          error.next = spec_.has_ssh()
                           ? message("check whether `ssh {}` works here", spec_.ssh().host())
                           : "look at agent.log in its workdir";
        {
          const std::lock_guard lock(mutex_);
          wanted_ = false;
          failure_ = error;
        }
        changed_.notify_all();
        NodeNews news;
        news.phase = NodeState::UNAVAILABLE;
        news.error = std::move(error);
        news.detail = "";
        tell_(std::move(news));
        break;
      }
      if (monotonicNow() - since > Nanoseconds{10} * 1000000000) pause = kFirstPause;
      NodeNews news;
      news.phase = NodeState::RECONNECTING;
      news.error = status.error();
      news.detail = "connecting again";
      tell_(std::move(news));
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, pause, [] { return false; });
      pause = std::min(pause * 2, kLongestPause);
    }
    std::shared_ptr<NodeLink> closed;
    {
      const std::lock_guard lock(mutex_);
      if (!stop.stop_requested()) continue;
      connected_ = false;
      agent_.reset();
      channels_.clear();
      closed = std::exchange(link_, nullptr);
    }
    if (closed) closed->close();
    NodeNews news;
    news.phase = NodeState::DISCONNECTED;
    news.detail = "";
    tell_(std::move(news));
  }
}

}  // namespace lockstep::app
