#include "app/ssh/answer_store.h"

#include <libssh/libssh.h>

namespace lockstep::app {

void KeyDeleter::operator()(ssh_key_struct* key) const { ssh_key_free(key); }

std::optional<Secret> AnswerStore::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = secrets_.find(name);
  if (found == secrets_.end()) return std::nullopt;
  return found->second.secret;
}
bool AnswerStore::isReused(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = secrets_.find(name);
  return found != secrets_.end() && found->second.reused;
}
void AnswerStore::put(const std::string& name, const Secret& secret) {
  const std::lock_guard lock(mutex_);
  if (forbidden_.contains(name)) return;
  const auto found = secrets_.find(name);
  if (found != secrets_.end() && found->second.secret == secret)
    found->second.reused = true;
  else
    secrets_.insert_or_assign(name, Kept{secret});
}
void AnswerStore::drop(const std::string& name, const Secret& secret) {
  const std::lock_guard lock(mutex_);
  const auto found = secrets_.find(name);
  if (found != secrets_.end() && found->second.secret == secret) secrets_.erase(found);
}
void AnswerStore::forbid(const std::string& name, const Secret& secret) {
  const std::lock_guard lock(mutex_);
  const auto found = secrets_.find(name);
  if (found == secrets_.end() || !(found->second.secret == secret)) return;
  if (!found->second.reused) forbidden_.insert(name);
  secrets_.erase(found);
}

KeyPtr AnswerStore::findKey(const std::string& file, const KeyPtr& publicHalf) const {
  const std::lock_guard lock(mutex_);
  const auto found = keys_.find(file);
  if (found == keys_.end() || !publicHalf ||
      ssh_key_cmp(found->second.get(), publicHalf.get(), SSH_KEY_CMP_PUBLIC) != 0)
    return nullptr;
  return KeyPtr(ssh_key_dup(found->second.get()));
}
void AnswerStore::keepKey(const std::string& file, const KeyPtr& key) {
  const std::lock_guard lock(mutex_);
  keys_[file] = KeyPtr(ssh_key_dup(key.get()));
}

void AnswerStore::acceptHostKey(const std::string& name) {
  const std::lock_guard lock(mutex_);
  hostKeys_.insert(name);
}
bool AnswerStore::isHostKeyAccepted(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return hostKeys_.contains(name);
}

void AnswerStore::refuse(const std::string& name) {
  const std::lock_guard lock(mutex_);
  refused_[name] = Clock::now();
}
bool AnswerStore::refusedSince(const std::string& name, Clock::time_point begin) const {
  const std::lock_guard lock(mutex_);
  const auto found = refused_.find(name);
  return found != refused_.end() && found->second >= begin;
}

}  // namespace lockstep::app
