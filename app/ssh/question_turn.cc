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
  std::map<std::string, std::deque<const Wake*>> of;  // the first has its turn
};
Lines& lines() {
  static Lines all;
  return all;
}

}  // namespace

QuestionTurn::QuestionTurn(std::string name) : name_(std::move(name)) {
  const std::lock_guard lock(lines().mutex);
  auto& line = lines().of[name_];
  line.push_back(&wake_);
  if (line.size() == 1) wake_.notify();
}

QuestionTurn::~QuestionTurn() {
  const std::lock_guard lock(lines().mutex);
  const auto found = lines().of.find(name_);
  auto& line = found->second;
  line.erase(std::find(line.begin(), line.end(), &wake_));
  if (line.empty())
    lines().of.erase(found);
  else
    line.front()->notify();
}

}  // namespace lockstep::app
