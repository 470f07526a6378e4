// The secrets that a connection was given.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "app/ssh/secret.h"

namespace lockstep::app {

// Secrets a person gave, for as long as the connection lives. Threads: any.
class SecretStore {
 public:
  std::optional<Secret> find(const std::string& key) const;
  void put(const std::string& key, Secret secret);
  void drop(const std::string& key);
  void forbid(const std::string& key);  // drops it, and keeps none in future

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Secret> secrets_;
  std::set<std::string> forbidden_;
};

}  // namespace lockstep::app
