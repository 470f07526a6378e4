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
  const bool isPassphrase = question.kind == SecretQuestion::Kind::kPassphrase;
  std::unique_ptr<QuestionTurn> turn;  // held until the secret was judged, if it is not safe
  while (question.attempt <= kMostTries) {
    std::optional<Secret> secret = context.answers.find(name);
    const bool known = secret.has_value();
    // It may be a one-time code whatever the prompt says: one connection at a time tries it.
    const bool isSafe = known && (isPassphrase || context.answers.isReused(name));
    if (isSafe) {
      turn.reset();  // the next in line finds it, too
    } else if (!turn && (!known || context.mayAsk)) {
      turn = takeTurn(line);
      if (!turn) return false;
      continue;  // another connection may have been given it meanwhile
    } else if (!known) {
      secret = context.ask(question, name, *turn);
      if (!secret) return false;
      ++question.attempt;
    }
    if (accept(*secret)) return true;
    if (known && isPassphrase) context.answers.drop(name, *secret);
    if (known && !isPassphrase) context.answers.forbid(name, *secret);
  }
  context.answers.refuse(name);  // nobody knows it: the next in line does not ask again
  return false;
}

}  // namespace lockstep::app
