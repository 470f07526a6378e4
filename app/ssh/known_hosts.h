// OpenSSH's known_hosts files: looked up, and appended to.
// Format: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". Lines of @cert-authority vouch for no key, since
// libssh 0.10 does not negotiate host certificates; they are told of.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct HostKey {
  std::string type;         // "ssh-ed25519"
  std::string base64;       // the public key
  std::string fingerprint;  // "SHA256:…"
};

enum class HostKeyVerdict { kKnown, kUnknown, kChanged, kRevoked };

struct KnownHostsAnswer {
  HostKeyVerdict verdict = HostKeyVerdict::kUnknown;
  std::string file;  // of the entry that decided
  int line = 0;
  std::string authority;  // "file:line" of the first @cert-authority for the host; "": none
};

// `name` as SshConfig::knownHostsName. Files that are absent are passed over; a file that cannot be
// read is an error. A host known only by keys of other types counts as changed: those types were
// preferred in the handshake, so the host no longer has them.
Result<KnownHostsAnswer> lookUpHostKey(const std::vector<std::string>& files,
                                       const std::string& name, const HostKey& key);

// The types of the keys known for a host, to be preferred in the handshake.
Result<std::vector<std::string>> knownKeyTypes(const std::vector<std::string>& files,
                                               const std::string& name);

// Appends the key. Makes the folder (0700) and the file (0600) where absent.
Status addHostKey(const std::string& file, const std::string& name, const HostKey& key,
                  bool hashed);

}  // namespace lockstep::app
