#include "app/ssh/question_turn.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace lockstep::app {
namespace {

struct Lines {
  std::mutex mutex;
  std::map<std::string, std::deque<const Wake*>> of;  // an account; the first has its turn
};
Lines& lines() {
  static Lines all;
  return all;
}

}  // namespace

QuestionTurn::QuestionTurn(std::string account) : account_(std::move(account)) {
  const std::lock_guard lock(lines().mutex);
  auto& line = lines().of[account_];
  line.push_back(&wake_);
  if (line.size() == 1) wake_.notify();
}

QuestionTurn::~QuestionTurn() {
  const std::lock_guard lock(lines().mutex);
  const auto found = lines().of.find(account_);
  auto& line = found->second;
  line.erase(std::find(line.begin(), line.end(), &wake_));
  if (line.empty())
    lines().of.erase(found);
  else
    line.front()->notify();
}

}  // namespace lockstep::app
