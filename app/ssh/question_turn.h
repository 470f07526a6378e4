// Lets one connection of this process at a time ask a person about an account. Nodes behind one
// gate each log in there: their questions come one after another, each after the answer before it
// was accepted or refused, since a one-time code serves once.
#pragma once

#include <string>

#include "app/ssh/wake.h"

namespace lockstep::app {

class QuestionTurn {
 public:
  explicit QuestionTurn(std::string account);  // takes a place in line
  ~QuestionTurn();                             // the next in line has its turn
  QuestionTurn(const QuestionTurn&) = delete;
  QuestionTurn& operator=(const QuestionTurn&) = delete;
  int fd() const { return wake_.fd(); }  // readable from this one's turn on

 private:
  const std::string account_;
  const Wake wake_;
};

}  // namespace lockstep::app
