#include "app/ssh/auth_attempt.h"

#include <optional>

namespace lockstep::app {

std::unique_ptr<QuestionTurn> AuthAttempt::takeTurn(const std::string& line) {
  if (!context.mayAsk) return nullptr;
  auto turn = context.takeTurn(line);
  if (!turn) over = true;
  return turn;
}

bool AuthAttempt::trySecrets(const std::string& name, const std::string& line,
                             SecretQuestion question,
                             const std::function<bool(const Secret&)>& accept) {
  std::unique_ptr<QuestionTurn> turn;
  while (question.attempt <= kMostTries) {
    std::optional<Secret> secret = context.answers.find(name);
    const bool known = secret.has_value();
    if (known) {
      turn.reset();  // the next in line finds it, too
    } else if (!turn) {
      turn = takeTurn(line);
      if (!turn) return false;
      continue;  // another connection may have been given it meanwhile
    } else {
      secret = context.ask(question, name, *turn);
      if (!secret) return false;
      ++question.attempt;
    }
    if (accept(*secret)) return true;
    if (known) context.answers.drop(name, *secret);
  }
  context.answers.refuse(name);  // nobody knows it: the next in line does not ask again
  return false;
}

}  // namespace lockstep::app
