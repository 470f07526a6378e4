// The questions a connection may have to ask a person.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/ssh/secret.h"

namespace lockstep::app {

struct HostKeyQuestion {
  std::string host;         // as known_hosts names it: "n1" or "[n1]:2222"
  std::string keyType;      // "ssh-ed25519"
  std::string fingerprint;  // "SHA256:…", as `ssh-keygen -l` prints it
  std::string file;         // where an accepted key will be written
  // "file:line" of a @cert-authority for the host, whose certificate is not looked at; "": none.
  std::string authority;
};

struct SecretQuestion {
  enum class Kind { kPassphrase, kPassword, kKeyboardInteractive };
  Kind kind = Kind::kPassphrase;
  std::string account;  // "user@host"
  std::string keyFile;  // of a passphrase
  std::string prompt;   // the server's own words, for keyboard-interactive
  bool echo = false;    // the answer may be shown while typed
  int attempt = 1;      // 2 and 3: the answer before was wrong
};

// Threads: called on a connection's thread, and must return at once. The answer may be given at any
// later time on any thread; the connection waits for it. Only the first answer counts; an answer
// function that is destroyed without being called refuses.
class SshPrompter {
 public:
  virtual ~SshPrompter() = default;
  virtual void askHostKey(const HostKeyQuestion& question, std::function<void(bool)> answer) = 0;
  virtual void askSecret(const SecretQuestion& question,
                         std::function<void(std::optional<Secret>)> answer) = 0;
};

// For use without a person: accepts exactly the listed fingerprints ("SHA256:…"; of the command
// line's --accept-host-key), refuses every other, and knows no secrets.
std::shared_ptr<SshPrompter> listedHostKeys(std::vector<std::string> fingerprints);

}  // namespace lockstep::app
