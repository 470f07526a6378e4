#include "app/ssh/secret_store.h"

#include <utility>

namespace lockstep::app {

std::optional<Secret> SecretStore::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = secrets_.find(key);
  if (found == secrets_.end()) return std::nullopt;
  return found->second;
}
void SecretStore::put(const std::string& key, Secret secret) {
  const std::lock_guard lock(mutex_);
  if (!forbidden_.contains(key)) secrets_.insert_or_assign(key, std::move(secret));
}
void SecretStore::drop(const std::string& key) {
  const std::lock_guard lock(mutex_);
  secrets_.erase(key);
}
void SecretStore::forbid(const std::string& key) {
  const std::lock_guard lock(mutex_);
  secrets_.erase(key);
  forbidden_.insert(key);
}

}  // namespace lockstep::app
