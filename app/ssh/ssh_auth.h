// Proves who we are to a server: agent, key files, keyboard-interactive, password, in that order.
#pragma once

#include <libssh/libssh.h>

#include <functional>
#include <memory>
#include <optional>

#include "app/ssh/prompter.h"
#include "app/ssh/secret_store.h"
#include "app/ssh/ssh_config.h"
#include "engine/base/status.h"

namespace lockstep::app {

// The parts of a session that authentication needs.
struct AuthContext {
  ssh_session session = nullptr;
  const SshConfig& config;
  SecretStore& secrets;
  // Repeats a call that answers `SSH_AUTH_AGAIN` until it is done; SSH_AUTH_ERROR on loss,
  // cancelling and time-out.
  std::function<int(const std::function<int()>&)> drive;
  // Puts a question to the person; nothing where there is none to ask, or no answer.
  std::function<std::optional<Secret>(const SecretQuestion&)> ask;
};

// Error kPermissionDenied: what was tried, why each was passed over, and what the server offers.
// Error kUnavailable: the server went away.
Status authenticate(const AuthContext& context);

}  // namespace lockstep::app
