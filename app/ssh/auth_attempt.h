// An authentication under way, as its methods share it.
#pragma once

#include <libssh/libssh.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/ssh/question_turn.h"
#include "app/ssh/ssh_auth.h"

namespace lockstep::app {

inline constexpr int kMostTries = 3;  // of a method: for wrong answers

struct AuthAttempt {
  explicit AuthAttempt(const AuthContext& the) : context(the) {}
  AuthAttempt(const AuthAttempt&) = delete;
  AuthAttempt& operator=(const AuthAttempt&) = delete;

  // Notes an answer of libssh. Returns true when the
  // method may stop: success, partial success, or loss.
  bool take(int answer) {
    if (answer == SSH_AUTH_SUCCESS) over = succeeded = true;
    if (answer == SSH_AUTH_PARTIAL) partial = true;
    if (answer == SSH_AUTH_ERROR && !ssh_is_connected(context.session)) over = true;
    return done();
  }
  bool done() const { return over || partial; }
  void note(Message text) { tried.push_back(std::move(text)); }

  // Waits for the turn to ask. Null where nobody may be asked, or the connection is over.
  std::unique_ptr<QuestionTurn> takeTurn(const std::string& line);
  // Tries the secret that is known by this name, then what a person answers in the turn of `line`,
  // until `accept` returns true: it was right, or nothing more can be tried.
  bool trySecrets(const std::string& name, const std::string& line, SecretQuestion question,
                  const std::function<bool(const Secret&)>& accept);

  const AuthContext& context;
  bool over = false;  // nothing more can be tried
  bool succeeded = false;
  bool partial = false;             // the server wants another method too
  bool wantsPerson = false;         // a question stayed open since nobody may be asked
  std::vector<Message> tried;       // each with why it was passed over
  std::vector<std::string> absent;  // files
};

}  // namespace lockstep::app
