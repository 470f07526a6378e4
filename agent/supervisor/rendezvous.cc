#include "agent/supervisor/rendezvous.h"

namespace lockstep::agent {

using node::v1::FromPeer;
using node::v1::ToPeer;

void Rendezvous::set(const std::string& key, const std::string& value) {
  if (handlers_.holds()) {
    store_.set(key, value);
    return;
  }
  told_.emplace_back(key, value);
  askSet(key, value);
}

void Rendezvous::get(const std::string& key, KeyValueStore::Answer answer) {
  if (handlers_.holds()) {
    store_.get(key, std::move(answer));
    return;
  }
  const std::uint64_t id = nextGet_++;
  asked_[id] = {key, std::move(answer)};
  askGet(id, key);
}

void Rendezvous::askSet(const std::string& key, const std::string& value) const {
  FromPeer message;
  message.mutable_kv_set()->set_key(key);
  message.mutable_kv_set()->set_value(value);
  handlers_.ask(std::move(message));
}

void Rendezvous::askGet(std::uint64_t id, const std::string& key) const {
  FromPeer message;
  message.mutable_kv_get()->set_id(id);
  message.mutable_kv_get()->set_key(key);
  handlers_.ask(std::move(message));
}

void Rendezvous::onPeerMessage(const std::string& node, const FromPeer& message) {
  if (message.has_kv_set()) {
    set(message.kv_set().key(), message.kv_set().value());
  } else if (message.has_kv_get()) {
    const std::uint64_t id = message.kv_get().id();
    const std::string key = message.kv_get().key();
    get(key, [this, node, id, key](const std::string& value) {
      handlers_.answer(node, keyValueReply<ToPeer>(id, key, value));
    });
  }
}

void Rendezvous::onValue(const node::v1::KvValue& value) {
  if (auto asked = asked_.extract(value.id()); !asked.empty()) asked.mapped().answer(value.value());
}

void Rendezvous::onCoordinatorJoin() {
  for (const auto& [key, value] : told_) askSet(key, value);
  for (const auto& [id, asked] : asked_) askGet(id, asked.key);
}

void Rendezvous::clear() {
  store_ = {};
  asked_.clear();
  told_.clear();
}

void Rendezvous::dropWaiting() {
  store_.dropWaiting();
  asked_.clear();
}

}  // namespace lockstep::agent
