// Rendezvous: the key-value store by which the ranks of a generation find each other. The
// coordinator holds it; the other nodes ask it, and tell and ask it again after a reconnect, since
// what they sent may be lost. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/key_value_store.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class Rendezvous {
 public:
  struct Handlers {
    std::function<bool()> holds;                  // whether this node is the coordinator now
    std::function<void(node::v1::FromPeer)> ask;  // the coordinator; may drop the message
    std::function<void(const std::string& node, node::v1::ToPeer)> answer;
  };
  explicit Rendezvous(Handlers handlers) : handlers_(std::move(handlers)) {}
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // For the ranks of this node.
  void set(const std::string& key, const std::string& value);
  // Answers at once, or as soon as the key is set.
  void get(const std::string& key, KeyValueStore::Answer answer);

  // At the coordinator: another node sets or gets a key.
  void onPeerMessage(const std::string& node, const node::v1::FromPeer& message);

  // At the other nodes.
  void onValue(const node::v1::KvValue& value);  // the coordinator has answered
  void onCoordinatorJoin();

  void clear();        // a new generation begins
  void dropWaiting();  // the run ends: nothing is answered any more

 private:
  void askSet(const std::string& key, const std::string& value) const;
  void askGet(std::uint64_t id, const std::string& key) const;

  struct Asked {
    std::string key;
    KeyValueStore::Answer answer;
  };
  const Handlers handlers_;
  KeyValueStore store_;  // at the coordinator
  // At the other nodes:
  std::vector<std::pair<std::string, std::string>> told_;  // in order
  std::map<std::uint64_t, Asked> asked_;                   // not yet answered
  std::uint64_t nextGet_ = 1;
};

}  // namespace lockstep::agent
