// Proves who we are to a server: Kerberos, agent, key files, keyboard-interactive, password, in
// that order, and once more with the others where the server wants several (partial success).
#pragma once

#include <libssh/libssh.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/ssh/answer_store.h"
#include "app/ssh/prompter.h"
#include "app/ssh/question_turn.h"
#include "app/ssh/ssh_config.h"
#include "engine/base/status.h"

namespace lockstep::app {

// The parts of a session that authentication needs.
struct AuthContext {
  ssh_session session = nullptr;
  const SshConfig& config;
  const std::string& route;  // the account, and the hops to it: names its secrets
  AnswerStore& answers;
  // Repeats a call that answers `SSH_AUTH_AGAIN` until it is done; SSH_AUTH_ERROR on loss,
  // cancelling and time-out.
  std::function<int(const std::function<int()>&)> drive;
  bool mayAsk = false;  // there is a person to ask
  // Puts a question to the person; nothing where there is no answer, or the secret of this name was
  // refused while the connection waited for its turn.
  std::function<std::optional<Secret>(const SecretQuestion&, const std::string& name,
                                      const QuestionTurn&)>
      ask;
  // Waits until no other connection asks in this line, for as long as the value is held; null where
  // the server went away meanwhile, or on cancelling.
  std::function<std::unique_ptr<QuestionTurn>(const std::string& line)> takeTurn;
  // See app/ssh/kerberos.h.
  std::function<Status()> fetchTicket;
};

// Error kPermissionDenied: what was tried, why each was passed over, and what the server offers.
// Error kUnavailable: the server went away.
Status authenticate(const AuthContext& context);

}  // namespace lockstep::app
