// KeyValueStore: the rendezvous store of a group of ranks. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::agent {

class KeyValueStore {
 public:
  using Answer = std::function<void(const std::string& value)>;

  // Sets or replaces a value, and answers the gets that wait for it, in their order.
  void set(const std::string& key, const std::string& value);
  // Answers at once, or as soon as the key is set.
  void get(const std::string& key, Answer answer);
  // Drops the gets that wait, unanswered.
  void dropWaiting() { waiting_.clear(); }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Answer>> waiting_;
};

// Returns the reply to the get `id`, as a message to a worker or to a peer.
template <typename Message>
Message keyValueReply(std::uint64_t id, const std::string& key, const std::string& value) {
  Message out;
  out.mutable_kv_value()->set_id(id);
  out.mutable_kv_value()->set_key(key);
  out.mutable_kv_value()->set_value(value);
  return out;
}

}  // namespace lockstep::agent
