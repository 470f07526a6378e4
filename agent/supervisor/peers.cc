#include "agent/supervisor/peers.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "agent/base/file_stream.h"
#include "agent/base/grpc_status.h"
#include "agent/base/run_folder.h"
#include "agent/supervisor/peer_listener.h"
#include "agent/supervisor/tls_version.h"
#include "agent/worker/prepare.h"
#include "engine/base/log.h"
#include "engine/comm/network_address.h"
#include "engine/specs/run_limits.h"
#include "engine/specs/specs.h"
#include "engine/weights/checkpoint_files.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::ToPeer;
constexpr int kConnectMs = 3000;  // an attempt
constexpr int kMaxMessageBytes = 4 << 20;
constexpr int kMaxPlanBytes = 64 << 20;  // in what a coordinator sends
constexpr int kMostGenerations = 1 << 30;

// Messages to be written by the stream's own thread. Writing blocks while the peer takes nothing,
// and nobody else may wait for that.
template <typename Message>
class Outbox {
 public:
  void push(Message message) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(message));
    changed_.notify_all();
  }
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  // Until closed and empty, or `write` fails.
  template <typename Write>
  void drain(Write write) {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Message message = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!write(message)) return;
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> queue_;
  bool closed_ = false;
};

class IdentityVerifier : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit IdentityVerifier(std::string expected) : expected_(std::move(expected)) {}
  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* status) override {
    for (const grpc::string_ref& name : request->uri_names())
      if (std::string(name.data(), name.size()) == expected_) return true;
    *status = {grpc::StatusCode::UNAUTHENTICATED,
               "the certificate of the node there is not " + expected_};
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  std::string expected_;
};

int keepaliveMs(const node::v1::PrepareRequest& request) {
  const Nanoseconds limit = specs::kKeepalive.of(specs::heartbeatOf(request.spec()));
  return static_cast<int>(limit / 1'000'000);
}

std::string hostPort(const std::string& host, int port) {
  return host.find(':') != std::string::npos ? fmt::format("[{}]:{}", host, port)
                                             : fmt::format("{}:{}", host, port);
}

}  // namespace

std::string peerIdentity(const std::string& run, const std::string& node, int generation) {
  return fmt::format("lockstep://run/{}/node/{}/generation/{}", run, node, generation);
}

Result<std::string> peerAddress(const spec::v1::NodeSpec& node) {
  if (!node.address().empty() || !node.interface().empty())
    return comm::ownAddress(node.address(), node.interface());
  Error error =
      invalidArgument("node {} has no address at which the other nodes reach it", node.name());
  error.next = "launch again: an address is chosen where the cluster has none";
  return error;
}

std::shared_ptr<grpc::Channel> peerChannel(const node::v1::PrepareRequest& request,
                                           const std::string& server, const std::string& address) {
  requireTls13();
  grpc::experimental::TlsChannelCredentialsOptions options;
  std::vector<grpc::experimental::IdentityKeyCertPair> pairs = {
      {request.tls().key_pem(), request.tls().certificate_pem()}};
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(request.tls().ca_pem(),
                                                                          pairs));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  options.set_check_call_host(false);  // the name is the URI, which the verifier checks
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<IdentityVerifier>(
          peerIdentity(request.run(), server, request.generation())));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepaliveMs(request));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepaliveMs(request));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Ends an attempt to connect: the next one sends at once, while TCP doubles its pauses.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxPlanBytes);
  return grpc::CreateCustomChannel(address, grpc::experimental::TlsCredentials(options), arguments);
}

// ---- the side that serves

struct PeerServer::State : node::v1::Peers::Service,
                           std::enable_shared_from_this<PeerServer::State> {
  struct Stream {
    Outbox<ToPeer> outbox;
    grpc::ServerContext* context = nullptr;  // valid while in `streams`
  };
  EventLoop* loop = nullptr;
  std::string run;
  int first = 0;  // generation, of the identities
  std::atomic<int> generation{0};
  bool coordinates = false;  // from the start
  std::vector<std::string> nodes;
  Files files;
  Handlers handlers;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<PeerListener> listener;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Stream>> streams;
  std::set<std::string> members;           // mutex; of the generation
  std::set<grpc::ServerContext*> fetches;  // mutex; under way
  std::atomic<bool> closed{false};

  void post(std::function<void()> work) {
    loop->post([self = shared_from_this(), work = std::move(work)] {
      if (!self->closed) work();
    });
  }

  grpc::Status refuse(const grpc::ServerContext& context, const Message& why) {
    logWarning("refused a peer at {}: {}", context.peer(), why);
    return {grpc::StatusCode::PERMISSION_DENIED, why};
  }

  // Of this run, and of no generation that is still to come. A node that votes may have heard of
  // one that the lost coordinator began.
  bool ours(const FromPeer& message) const {
    const bool votes = (message.has_hello() || message.has_vote()) && !coordinates;
    return message.run() == run && message.generation() >= first &&
           message.generation() <= kMostGenerations &&
           (votes || message.generation() <= generation);
  }

  // Whether the caller is this node of the run.
  grpc::Status identify(const grpc::ServerContext& context, const std::string& name) {
    if (std::find(nodes.begin(), nodes.end(), name) == nodes.end())
      return refuse(context, lockstep::message("node {} is not part of the run", name));
    const std::string expected = peerIdentity(run, name, first);
    bool identified = false;
    for (const grpc::string_ref& value :
         context.auth_context()->FindPropertyValues("x509_subject_alternative_name"))
      identified = identified || std::string(value.data(), value.size()) == expected;
    if (!context.auth_context()->IsPeerAuthenticated() || !identified)
      return refuse(context, lockstep::message("its certificate is not that of {}", expected));
    listener->authenticated(context.peer());
    return grpc::Status::OK;
  }

  // Whether the caller is a member of the present generation and asks in it. A node that was left
  // out may not know yet. A fetch that begins is under way until FetchEnd.
  grpc::Status beginFetch(grpc::ServerContext& context,
                          const node::v1::FetchShardRequest& request) {
    const std::lock_guard lock(mutex);
    if (request.generation() == generation && members.contains(request.node())) {
      fetches.insert(&context);
      return grpc::Status::OK;
    }
    return refuse(context,
                  lockstep::message("node {}, in generation {}, is not part of generation {}",
                                    request.node(), request.generation(), generation.load()));
  }

  struct FetchEnd {
    State& state;
    grpc::ServerContext* context;
    ~FetchEnd() {
      const std::lock_guard lock(state.mutex);
      state.fetches.erase(context);
    }
  };

  grpc::Status FetchShard(grpc::ServerContext* context, const node::v1::FetchShardRequest* request,
                          grpc::ServerWriter<node::v1::FetchChunk>* writer) override {
    if (request->run() != run)
      return refuse(*context, lockstep::message("run {} is not served here", request->run()));
    if (grpc::Status known = identify(*context, request->node()); !known.ok()) return known;
    const bool isModel = request->file() == kModelFile && !files.model.empty();
    if (!isModel && (!weights::isDataFile(request->file()) || request->step() < 0))
      return refuse(*context,
                    lockstep::message("\"{}\" is no file of a checkpoint", request->file()));
    if (grpc::Status current = beginFetch(*context, *request); !current.ok()) return current;
    const FetchEnd end{*this, context};
    const std::filesystem::path path =
        isModel ? std::filesystem::path(files.model)
                : weights::checkpointAt(files.checkpoints, request->step()) / request->file();
    return toGrpc(sendFile(path, *context, *writer));
  }

  grpc::Status Join(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<ToPeer, FromPeer>* rpc) override {
    FromPeer message;
    if (!rpc->Read(&message)) return grpc::Status::OK;
    if (!message.has_hello()) return refuse(*context, "the first message was no hello");
    const std::string name = message.hello().node();
    if (!ours(message))
      return refuse(*context,
                    fmt::format("run {} generation {} is not served here, but run {} "
                                "generation {}",
                                message.run(), message.generation(), run, generation.load()));
    if (grpc::Status known = identify(*context, name); !known.ok()) return known;
    auto stream = std::make_shared<Stream>();
    stream->context = context;
    {
      std::lock_guard lock(mutex);
      if (closed) return grpc::Status::OK;
      auto& place = streams[name];
      if (place) place->context->TryCancel();  // it came again before the old stream was seen dead
      place = stream;
      post([this, name, hello = message.hello()] { handlers.onJoin(name, hello); });
    }
    std::thread writer(
        [&] { stream->outbox.drain([&](const ToPeer& out) { return rpc->Write(out); }); });
    bool foreign = false;
    while (rpc->Read(&message)) {
      if (!ours(message)) {
        foreign = true;
        break;
      }
      post([this, name, message] { handlers.onMessage(name, message); });
    }
    {
      std::lock_guard lock(mutex);
      if (auto at = streams.find(name); at != streams.end() && at->second == stream) {
        streams.erase(at);
        // Told under the lock: before the node's next stream is.
        post([this, name] { handlers.onLeave(name); });
      }
    }
    stream->outbox.close();
    if (foreign) context->TryCancel();
    writer.join();
    return foreign ? refuse(*context, "a message of another run or generation") : grpc::Status::OK;
  }
};

PeerServer::PeerServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<PeerServer>> PeerServer::start(EventLoop& loop, const std::string& address,
                                                      const node::v1::PrepareRequest& request,
                                                      Files files, Handlers handlers) {
  requireTls13();
  auto state = std::make_shared<State>();
  state->loop = &loop;
  state->run = request.run();
  state->first = state->generation = request.generation();
  state->coordinates = request.coordinator();
  state->nodes = nodesOf(request);
  state->members = {state->nodes.begin(), state->nodes.end()};
  state->files = std::move(files);
  state->handlers = std::move(handlers);
  PeerListenerLimits limits;
  limits.unauthenticated += state->nodes.size();  // they may all come at once
  LOCKSTEP_ASSIGN(state->listener, PeerListener::open(address, limits));

  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = request.tls().ca_pem();
  options.pem_key_cert_pairs.push_back({request.tls().key_pem(), request.tls().certificate_pem()});
  grpc::ServerBuilder builder;
  state->acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::SslServerCredentials(options));
  builder.RegisterService(state.get());
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, limits.greetingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepaliveMs(request));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepaliveMs(request));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  state->server = builder.BuildAndStart();
  if (!state->server) {
    Error error = makeError(Code::kFailedPrecondition,
                            "cannot listen for the run's other nodes at {}", address);
    error.why = "the run's keys are invalid";
    error.next = "launch again";
    return error;
  }
  state->listener->begin([raw = state.get()](UniqueFd connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = connection.release();
    raw->acceptor->HandleNewConnection(&parameters);
  });
  std::unique_ptr<PeerServer> out(new PeerServer(std::move(state)));
  out->address_ = hostPort(address, out->state_->listener->port());
  return out;
}

PeerServer::~PeerServer() {
  {
    std::lock_guard lock(state_->mutex);
    state_->closed = true;
    for (auto& [name, stream] : state_->streams) stream->outbox.close();
  }
  state_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  state_->server->Wait();
  state_->listener.reset();
}

void PeerServer::setGeneration(int generation, const std::vector<std::string>& members) {
  const std::lock_guard lock(state_->mutex);
  state_->generation = generation;
  state_->members = {members.begin(), members.end()};
  for (grpc::ServerContext* fetch : state_->fetches) fetch->TryCancel();
}

void PeerServer::send(const std::string& node, ToPeer message) {
  message.set_run(state_->run);
  message.set_generation(state_->generation);
  std::lock_guard lock(state_->mutex);
  if (auto at = state_->streams.find(node); at != state_->streams.end())
    at->second->outbox.push(std::move(message));
}

void PeerServer::drop(const std::string& node) {
  std::lock_guard lock(state_->mutex);
  const auto at = state_->streams.find(node);
  if (at == state_->streams.end()) return;
  at->second->outbox.close();
  at->second->context->TryCancel();
  state_->streams.erase(at);
}

// ---- the side that joins

struct PeerClient::State : std::enable_shared_from_this<PeerClient::State> {
  EventLoop* loop = nullptr;
  std::string server, address, run;
  std::atomic<int> generation{0};
  FromPeer hello;
  node::v1::PrepareRequest request;  // run, generation, keys and heartbeat alone
  Handlers handlers;
  std::mutex mutex;
  std::condition_variable changed;
  bool closed = false;                       // mutex
  grpc::ClientContext* context = nullptr;    // mutex; of the stream that is up
  std::shared_ptr<Outbox<FromPeer>> outbox;  // mutex; of the stream that is up
  std::atomic<bool> silent{false};
  std::thread thread;

  void post(std::function<void()> work) {
    loop->post([self = shared_from_this(), work = std::move(work)] {
      if (!self->silent) work();
    });
  }

  void work() {
    bool lostTold = false;
    for (;;) {
      auto channel = peerChannel(request, server, address);
      auto stub = node::v1::Peers::NewStub(channel);
      grpc::ClientContext call;
      auto box = std::make_shared<Outbox<FromPeer>>();
      {
        std::lock_guard lock(mutex);
        if (closed) return;
        context = &call;
      }
      auto rpc = stub->Join(&call);
      hello.set_generation(generation);
      bool up = rpc->Write(hello);
      if (up) {
        {
          std::lock_guard lock(mutex);
          outbox = box;
        }
        std::thread writer(
            [&] { box->drain([&](const FromPeer& message) { return rpc->Write(message); }); });
        post([this] { handlers.onJoin(); });
        lostTold = false;
        ToPeer message;
        while (rpc->Read(&message)) {
          if (message.run() != run || message.generation() > kMostGenerations ||
              (message.generation() < generation && !message.has_decline()))
            continue;
          post([this, message] { handlers.onMessage(message); });
        }
        box->close();  // writing fails from now on; cancelling would hide the status
        writer.join();
      }
      const grpc::Status status = rpc->Finish();
      std::unique_lock lock(mutex);
      context = nullptr;
      outbox = nullptr;
      if (closed) return;
      if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
        Error error =
            makeError(Code::kPermissionDenied, "node {} at {} refused this node", server, address);
        error.why = status.error_message();
        post([this, error] { handlers.onRefused(error); });
        return;
      }
      if (!lostTold) {
        lostTold = true;
        post([this, why = status.error_message()] { handlers.onLost(why); });
      }
      changed.wait_for(lock, std::chrono::milliseconds(400), [&] { return closed; });
      if (closed) return;
    }
  }
};

PeerClient::PeerClient(EventLoop& loop, const std::string& server, const std::string& address,
                       const std::string& ownAddress, const node::v1::PrepareRequest& request,
                       int generation, Handlers handlers)
    : state_(std::make_shared<State>()) {
  state_->loop = &loop;
  state_->server = server;
  state_->address = address;
  state_->run = request.run();
  state_->request.set_run(request.run());
  state_->request.set_generation(request.generation());
  *state_->request.mutable_tls() = request.tls();
  *state_->request.mutable_spec()->mutable_recovery() = request.spec().recovery();
  state_->generation = generation;
  state_->handlers = std::move(handlers);
  state_->hello.set_run(request.run());
  auto* hello = state_->hello.mutable_hello();
  hello->set_node(request.node());
  *hello->mutable_ranks() = request.ranks();
  hello->set_plan_hash(request.plan_hash());
  hello->set_address(ownAddress);
  state_->thread = std::thread([state = state_] { state->work(); });
}

PeerClient::~PeerClient() {
  state_->silent = true;
  {
    std::lock_guard lock(state_->mutex);
    state_->closed = true;
    if (state_->context != nullptr) state_->context->TryCancel();
    state_->changed.notify_all();
  }
  state_->thread.join();
}

void PeerClient::setGeneration(int generation) { state_->generation = generation; }

void PeerClient::send(FromPeer message) {
  message.set_run(state_->run);
  message.set_generation(state_->generation);
  std::lock_guard lock(state_->mutex);
  if (state_->outbox) state_->outbox->push(std::move(message));
}

}  // namespace lockstep::agent
