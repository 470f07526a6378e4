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

// Whether a person accepts the key; an error ends the check.
using AskHostKey = std::function<Result<bool>(const HostKeyQuestion&)>;

// Checks the key that the server has shown against known_hosts. Where it is unknown, asks, unless
// StrictHostKeyChecking decides, and adds an accepted key. Errors: kPermissionDenied (revoked,
// changed, not accepted), kUnavailable (no key was shown), of known_hosts files, and from `ask`.
Status checkHostKey(ssh_session session, const SshConfig& config, const AskHostKey& ask);

// What to say of a failed key exchange with a host that shows nothing but certificates; nothing
// where `why`, in libssh's words, is another reason.
std::optional<Error> certificateOnlyHost(const std::string& why, const SshConfig& config);

}  // namespace lockstep::app
