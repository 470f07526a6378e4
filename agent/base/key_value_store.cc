#include "agent/base/key_value_store.h"

namespace lockstep::agent {

void KeyValueStore::set(const std::string& key, const std::string& value) {
  values_[key] = value;
  if (auto waiting = waiting_.extract(key); !waiting.empty())
    for (const Answer& answer : waiting.mapped()) answer(value);
}

void KeyValueStore::get(const std::string& key, Answer answer) {
  if (const auto at = values_.find(key); at != values_.end())
    answer(at->second);
  else
    waiting_[key].push_back(std::move(answer));
}

}  // namespace lockstep::agent
