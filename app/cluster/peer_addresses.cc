#include "app/cluster/peer_addresses.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "app/cluster/listening_call.h"
#include "app/core/rpc.h"
#include "engine/specs/error_info.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kListenLimit{60};
constexpr double kReachSeconds = 3;
constexpr std::chrono::seconds kReachLimit{10};
constexpr const char* kNotListening = "the node cannot listen for its peers";

bool isLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

struct Candidate : PeerListener {
  std::vector<Message> outcomes;  // of each node: "" reached
};

// A node that listens at its candidates for as long as this lives.
class Listening {
 public:
  Status start(const PeerNode& node, const std::vector<std::string>& addresses,
               std::stop_token stop) {
    node::v1::ListenForPeersRequest request;
    for (const std::string& address : addresses) request.add_addresses(address);
    LOCKSTEP_TRY(call_.start(*node.access, kListenLimit, kNotListening, std::move(stop),
                             [&](node::v1::Agent::Stub& stub, grpc::ClientContext& context) {
                               return stub.ListenForPeers(&context, request);
                             }));
    greeting = call_.reply().greeting();
    LOCKSTEP_ASSIGN(auto listeners,
                    listenersOf(call_.reply(), addresses.size(), node.access->name()));
    for (PeerListener& listener : listeners) candidates.push_back({std::move(listener), {}});
    return {};
  }

  std::string greeting;
  std::vector<Candidate> candidates;

 private:
  ListeningCall<node::v1::ListenForPeersReply> call_;
};

class Proof {
 public:
  Proof(const std::vector<PeerNode>& nodes, std::stop_token stop)
      : nodes_(nodes), stop_(std::move(stop)), listening_(nodes.size()) {
    std::vector<const NodeInventory*> inventories;
    for (const PeerNode& node : nodes_) inventories.push_back(&node.inventory);
    oneHost_ = onOneHost(inventories);
  }

  Result<std::vector<std::string>> run() {
    if (auto loopback = allAtLoopback(); !loopback.empty()) return loopback;
    LOCKSTEP_TRY(listen());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (isReached(i)) LOCKSTEP_TRY(checkCandidates(i));
    LOCKSTEP_TRY(reach(true));
    // A second look at what stays, where the likeliest addresses do not do.
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (isReached(i) && chosen(i) == nullptr) {
        LOCKSTEP_TRY(reach(false));
        all_ = true;
        break;
      }
    std::vector<std::string> out(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!isReached(i)) continue;
      const Candidate* found = chosen(i);
      if (found == nullptr) return unreached(i);
      out[i] = found->address;
    }
    return out;
  }

 private:
  const std::string& name(std::size_t node) const { return nodes_[node].spec->name(); }
  bool isReached(std::size_t node) const { return !nodes_[node].joinsFirstOnly; }
  bool needs(std::size_t from, std::size_t to) const {
    return from != to && isReached(to) && (to == 0 || !nodes_[from].joinsFirstOnly);
  }

  // Nodes that share a network stack reach each other at its loopback: nothing is to be proven.
  // Empty where they do not.
  std::vector<std::string> allAtLoopback() const {
    std::vector<std::string> out(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!isReached(i)) continue;
      const auto candidates = addressCandidates(*nodes_[i].spec, nodes_[i].inventory, oneHost_);
      if (!oneHost_ || candidates.size() != 1 || !isLoopback(candidates.front())) return {};
      out[i] = candidates.front();
    }
    return out;
  }

  Status eachNode(const std::function<Status(std::size_t)>& work) {
    std::vector<Status> came(nodes_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < nodes_.size(); ++i)
        threads.emplace_back([&, i] { came[i] = work(i); });
    }
    for (std::size_t i = 0; i < came.size(); ++i) {
      if (came[i].ok()) continue;
      if (came[i].error().node.empty()) came[i].error().node = name(i);
      return came[i];
    }
    return {};
  }

  Status listen() {
    return eachNode([this](std::size_t i) -> Status {
      if (!isReached(i)) return {};
      const auto candidates = addressCandidates(*nodes_[i].spec, nodes_[i].inventory, oneHost_);
      if (candidates.empty()) return noAddress(i);
      listening_[i] = std::make_unique<Listening>();
      return listening_[i]->start(nodes_[i], candidates, stop_);
    });
  }

  Error noAddress(std::size_t i) const {
    const std::string& interface = nodes_[i].spec->interface();
    Error error =
        interface.empty()
            ? makeError(Code::kFailedPrecondition, "the node has no address that other hosts reach")
            : makeError(Code::kFailedPrecondition, "the node has no interface {} with an address",
                        interface);
    error.node = name(i);
    error.why = message("its addresses: {}", fmt::join(nodes_[i].inventory.addresses, ", "));
    error.next =
        "connect it to the other nodes' network, or give its `address` or `interface` in the "
        "cluster";
    return error;
  }

  // An address that the node cannot listen on, or that only itself reaches, is no candidate.
  Status checkCandidates(std::size_t i) {
    for (Candidate& candidate : listening_[i]->candidates)
      if (candidate.problem.empty() && !oneHost_ && isLoopback(candidate.address))
        candidate.problem = "it is a loopback address, and other nodes are on other hosts";
    for (const Candidate& candidate : listening_[i]->candidates)
      if (candidate.problem.empty()) return {};
    const Candidate& first = listening_[i]->candidates.front();
    const std::string& given = nodes_[i].spec->address();
    Error error = makeError(Code::kFailedPrecondition, "the node cannot be reached at {}",
                            given.empty() || given == first.address
                                ? Message(first.address)
                                : message("{} ({})", given, first.address));
    error.node = name(i);
    error.why = message("{}; its addresses: {}", first.problem,
                        fmt::join(nodes_[i].inventory.addresses, ", "));
    error.next = "correct its `address` in the cluster, or leave it out: one is chosen";
    return error;
  }

  // Every node connects to the first usable candidate of every other, or to the candidates after
  // it.
  Status reach(bool first) {
    for (auto& one : listening_)
      if (one)
        for (Candidate& candidate : one->candidates) candidate.outcomes.resize(nodes_.size());
    return eachNode([&](std::size_t from) -> Status {
      node::v1::ReachPeersRequest request;
      request.set_seconds(kReachSeconds);
      std::vector<Candidate*> asked;
      for (std::size_t to = 0; to < nodes_.size(); ++to) {
        if (!needs(from, to)) continue;
        bool before = false;
        for (Candidate& candidate : listening_[to]->candidates) {
          if (!candidate.problem.empty()) continue;
          if (std::exchange(before, true) == first) continue;
          auto* target = request.add_targets();
          target->set_address(candidate.address);
          target->set_port(candidate.port);
          target->set_greeting(listening_[to]->greeting);
          asked.push_back(&candidate);
        }
      }
      if (asked.empty()) return {};
      LOCKSTEP_ASSIGN(const auto channel, nodes_[from].access->agent());
      const auto stub = node::v1::Agent::NewStub(channel);
      grpc::ClientContext context;
      setLimit(context, kReachLimit);
      const CancelOnStop cancel(context, stop_);
      node::v1::ReachPeersReply reply;
      LOCKSTEP_TRY(rpcStatus(stub->ReachPeers(&context, request, &reply),
                             "the node cannot look for its peers", name(from)));
      std::vector<Message> outcomes = outcomesOf(reply, asked.size());
      for (std::size_t i = 0; i < asked.size(); ++i)
        asked[i]->outcomes[from] = std::move(outcomes[i]);
      return {};
    });
  }

  const Candidate* chosen(std::size_t to) const {
    bool tried = false;
    for (const Candidate& candidate : listening_[to]->candidates) {
      if (!candidate.problem.empty()) continue;
      if (std::exchange(tried, true) && !all_) break;
      bool all = true;
      for (std::size_t from = 0; from < nodes_.size(); ++from)
        all = all && (!needs(from, to) || candidate.outcomes[from].empty());
      if (all) return &candidate;
    }
    return nullptr;
  }

  Error unreached(std::size_t to) const {
    std::vector<const Candidate*> usable;
    for (const Candidate& candidate : listening_[to]->candidates)
      if (candidate.problem.empty()) usable.push_back(&candidate);
    // The node that reaches it at the fewest of its addresses tells most.
    std::size_t worst = to, fewest = usable.size() + 1;
    for (std::size_t from = 0; from < nodes_.size(); ++from) {
      if (!needs(from, to)) continue;
      const auto reached = static_cast<std::size_t>(
          std::count_if(usable.begin(), usable.end(),
                        [&](const Candidate* one) { return one->outcomes[from].empty(); }));
      if (reached < fewest) fewest = reached, worst = from;
    }
    const auto at = [](const Candidate& one) {
      return one.address.find(':') == std::string::npos
                 ? fmt::format("{}:{}", one.address, one.port)
                 : fmt::format("[{}]:{}", one.address, one.port);
    };
    Message tried;
    for (const Candidate* one : usable) {
      const Message& outcome = one->outcomes[worst];
      Message each =
          message("{}: {}", at(*one), outcome.empty() ? "reached, but not by every node" : outcome);
      tried = tried.empty() ? std::move(each) : message("{}; {}", tried, each);
    }
    Error error = usable.size() == 1
                      ? makeError(Code::kFailedPrecondition, "node {} cannot reach node {} at {}",
                                  name(worst), name(to), at(*usable.front()))
                      : makeError(Code::kFailedPrecondition, "node {} cannot reach node {}",
                                  name(worst), name(to));
    error.node = name(worst);
    error.why = usable.size() == 1 ? usable.front()->outcomes[worst] : tried;
    error.next = message(
        "allow TCP connections between the nodes, or give node {} an `address` or `interface` "
        "that node {} reaches",
        name(to), name(worst));
    return error;
  }

  const std::vector<PeerNode>& nodes_;
  const std::stop_token stop_;
  std::vector<std::unique_ptr<Listening>> listening_;
  bool oneHost_ = false;
  bool all_ = false;  // candidates were tried, not the first of each alone
};

}  // namespace

Result<std::vector<PeerListener>> listenersOf(const node::v1::ListenForPeersReply& reply,
                                              std::size_t asked, const std::string& node) {
  std::vector<PeerListener> out;
  for (const auto& one : reply.listeners()) {
    out.push_back({one.address(), one.port(), specs::fromText(one.problem())});
    const bool listens = one.port() >= 1 && one.port() <= 65535;
    if (!listens && out.back().problem.empty()) return replyError(kNotListening, node);
  }
  if (out.size() != asked) return replyError(kNotListening, node);
  return out;
}

std::vector<Message> outcomesOf(const node::v1::ReachPeersReply& reply, std::size_t asked) {
  std::vector<Message> out;
  for (const auto& problem : reply.problems())
    if (out.size() < asked) out.push_back(specs::fromText(problem));
  out.resize(asked, "no answer");
  return out;
}

bool onOneHost(const std::vector<const NodeInventory*>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const NodeInventory* node) {
    return node->bootId == nodes.front()->bootId && node->network == nodes.front()->network;
  });
}

std::vector<std::string> addressCandidates(const spec::v1::NodeSpec& node,
                                           const NodeInventory& inventory, bool oneHost) {
  if (!node.address().empty()) return {node.address()};
  if (oneHost && node.interface().empty()) return {"127.0.0.1"};
  std::vector<std::string> out;
  for (const bool ipv6 : {false, true})
    for (const std::string& one : inventory.addresses) {  // "eth0 10.0.0.5"
      const std::size_t space = one.find(' ');
      if (space == std::string::npos) continue;
      const std::string interface = one.substr(0, space), address = one.substr(space + 1);
      if ((address.find(':') != std::string::npos) != ipv6 || isLoopback(address)) continue;
      if (!node.interface().empty() && node.interface() != interface) continue;
      if (std::find(out.begin(), out.end(), address) == out.end()) out.push_back(address);
    }
  if (const auto at = std::find(out.begin(), out.end(), inventory.reachedAt); at != out.end())
    std::rotate(out.begin(), at, at + 1);
  return out;
}

Result<std::vector<std::string>> provePeerAddresses(const std::vector<PeerNode>& nodes,
                                                    std::stop_token stop) {
  return Proof(nodes, std::move(stop)).run();
}

}  // namespace lockstep::app
