// Lets one connection of this process at a time ask a person about a key, a host or an account. The
// others wait for the answer, and ask only where it does not serve them: a one-time code serves
// once, so that connections to one account ask for theirs one after another.
#pragma once

#include <chrono>
#include <string>

#include "app/ssh/wake.h"

namespace lockstep::app {

class QuestionTurn {
 public:
  using Clock = std::chrono::steady_clock;

  explicit QuestionTurn(std::string name);  // takes the last place in its line
  ~QuestionTurn();                          // the next in line has its turn
  QuestionTurn(const QuestionTurn&) = delete;
  QuestionTurn& operator=(const QuestionTurn&) = delete;
  int fd() const { return wake_.fd(); }               // readable from this one's turn on
  Clock::time_point since() const { return since_; }  // when it took its place

 private:
  const std::string name_;
  const Clock::time_point since_ = Clock::now();
  const Wake wake_;
};

}  // namespace lockstep::app
