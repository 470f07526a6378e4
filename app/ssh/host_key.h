// The host key of a server: which kinds to ask for, and whether the one it shows is trusted.
#pragma once

#include <libssh/libssh.h>

#include <functional>
#include <optional>
#include <string>

#include "app/ssh/prompter.h"
#include "app/ssh/ssh_config.h"
#include "engine/base/status.h"

namespace lockstep::app {

// For SSH_OPTIONS_HOSTKEYS. Types of keys that are known for the host come first, so that a host
// with several keys shows that one. Errors: kFailedPrecondition (the configuration allows none that
// is supported), as knownKeyTypes().
Result<std::string> hostKeyAlgorithms(const SshConfig& config);

// How a person is asked; an error ends the check.
struct HostKeyPrompt {
  // Waits until no other connection asks about the key.
  std::function<Status(const HostKeyQuestion&)> awaitTurn;
  std::function<Result<bool>(const HostKeyQuestion&)> ask;  // whether it is accepted
};

// Checks the key that the server has shown against known_hosts. Where it is unknown, asks, unless
// StrictHostKeyChecking decides, and adds an accepted key. Errors: kPermissionDenied (revoked,
// changed, not accepted), kUnavailable (no key was shown), of known_hosts files, and from `prompt`.
Status checkHostKey(ssh_session session, const SshConfig& config, const HostKeyPrompt& prompt);

// What to say of a failed key exchange with a host that shows nothing but certificates; nothing
// where `why`, in libssh's words, is another reason.
std::optional<Error> certificateOnlyHost(const std::string& why, const SshConfig& config);

}  // namespace lockstep::app
