// What a person answered to the connections of one session, and the keys that it unlocked.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "app/ssh/secret.h"

struct ssh_key_struct;

namespace lockstep::app {

struct KeyDeleter {
  void operator()(ssh_key_struct* key) const;  // wipes a private key
};
using KeyPtr = std::unique_ptr<ssh_key_struct, KeyDeleter>;

// Kept in memory for as long as the session lives; secrets are wiped when they go. A name stands
// for one question: "passphrase /home/ann/.ssh/id". Thread-safe.
class AnswerStore {
 public:
  using Clock = std::chrono::steady_clock;

  std::optional<Secret> find(const std::string& name) const;
  // Whether it was right more than once: no one-time code.
  bool isReused(const std::string& name) const;
  void put(const std::string& name, const Secret& secret);  // it was right
  // It was wrong: drops it, unless another has replaced it meanwhile.
  void drop(const std::string& name, const Secret& secret);
  // As drop(); one that had been right only once serves once, and no other is kept for the name.
  void forbid(const std::string& name, const Secret& secret);

  // The private key of a file that a passphrase unlocked: to unlock it takes a tenth of a second of
  // the processor, each time. A copy; null if there is none with this public half.
  KeyPtr findKey(const std::string& file, const KeyPtr& publicHalf) const;
  void keepKey(const std::string& file, const KeyPtr& key);

  void acceptHostKey(const std::string& name);
  bool isHostKeyAccepted(const std::string& name) const;

  // Refuses the question for all that wait to ask it.
  void refuse(const std::string& name);
  bool refusedSince(const std::string& name, Clock::time_point begin) const;

 private:
  struct Kept {
    Secret secret;
    bool reused = false;  // was right more than once
  };
  mutable std::mutex mutex_;
  std::map<std::string, Kept> secrets_;
  std::set<std::string> forbidden_;
  std::map<std::string, KeyPtr> keys_;  // unlocked, by file
  std::set<std::string> hostKeys_;
  std::map<std::string, Clock::time_point> refused_;
};

}  // namespace lockstep::app
