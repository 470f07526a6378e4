// The effective SSH configuration of a host, as OpenSSH itself sees it: what `ssh -G` prints.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class SshSpec;
}

namespace lockstep::app {

// How to reach one host; empty fields and port 0 leave the choice to ssh_config.
struct SshTarget {
  std::string host;  // a Host of ssh_config, a name, or an address
  std::string user;
  int port = 0;
  std::string identityFile;  // tried before those of ssh_config
  std::string proxyJump;     // as in ssh_config; "none": no jump
};
SshTarget targetOf(const spec::v1::SshSpec& spec);

struct SshConfig {
  std::string alias;     // the host as it was asked for
  std::string hostname;  // where to connect to
  int port = 22;
  std::string user;
  std::vector<std::string> identityFiles;  // tildes and tokens expanded, in order
  // CertificateFile, expanded; none: the certificates beside the identity files.
  std::vector<std::string> certificateFiles;
  bool identitiesOnly = false;
  std::string identityAgent;  // path of the agent's socket; "": none
  std::string proxyJump;      // "": none
  std::string proxyCommand;   // with its tokens expanded; "": none, or there is a jump host
  std::vector<std::string> userKnownHosts;
  std::vector<std::string> globalKnownHosts;
  std::string hostKeyAlias;
  std::string strictHostKeyChecking = "ask";  // "yes", "ask", "accept-new", "no"
  bool hashKnownHosts = false;
  int connectTimeoutSeconds = 0;  // 0: not set
  bool publicKey = true;          // methods allowed by the configuration
  bool password = true;
  bool keyboardInteractive = true;
  bool gssapi = false;
  bool gssapiDelegate = false;  // forwards the ticket
  bool batchMode = false;       // nothing may be asked
  std::vector<std::string> ciphers;
  std::vector<std::string> hostKeyAlgorithms;

  std::string account() const { return user + "@" + alias; }
  std::string knownHostsName() const;  // "n1", "[n1]:2222", or the alias of the key
  bool operator==(const SshConfig&) const = default;
};

// Returns the arguments of ssh that reach the host: options, "--" and its name. Errors:
// kInvalidArgument.
Result<std::vector<std::string>> sshArguments(const SshTarget& target,
                                              const std::string& configFile);

// Runs `ssh -G` (on PATH) with the file, "" for the user's own. Errors: kInvalidArgument for a
// broken configuration (why: ssh's words), kFailedPrecondition without an ssh program or for
// ProxyUseFdpass, which is not supported.
Result<SshConfig> effectiveConfig(const SshTarget& target, const std::string& configFile,
                                  std::stop_token stop = {});

// The hops to a host in order, the host itself last. The first jump host's own ProxyJump or
// ProxyCommand counts.
Result<std::vector<SshConfig>> effectiveRoute(const SshTarget& target,
                                              const std::string& configFile,
                                              std::stop_token stop = {});

// The text of `ssh -G`, as a configuration; what effectiveConfig parses with.
Result<SshConfig> parseEffectiveConfig(const std::string& text, const SshTarget& target);

}  // namespace lockstep::app
