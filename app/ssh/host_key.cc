#include "app/ssh/host_key.h"

#include <algorithm>
#include <vector>

#include "app/ssh/known_hosts.h"

namespace lockstep::app {
namespace {

std::vector<std::string> knownHostsFiles(const SshConfig& config) {
  std::vector<std::string> files = config.userKnownHosts;
  files.insert(files.end(), config.globalKnownHosts.begin(), config.globalKnownHosts.end());
  return files;
}

Result<HostKey> serverKey(ssh_session session, const SshConfig& config) {
  ssh_key key = nullptr;
  if (ssh_get_server_publickey(session, &key) != SSH_OK) {
    Error error = makeError(Code::kUnavailable, "the server shows no host key");
    error.why = ssh_get_error(session);
    return error;
  }
  HostKey out;
  const ssh_keytypes_e type = ssh_key_type(key);
  out.type = ssh_key_type_to_char(type);
  if (type == SSH_KEYTYPE_ECDSA_P256 || type == SSH_KEYTYPE_ECDSA_P384 ||
      type == SSH_KEYTYPE_ECDSA_P521)
    if (const char* curve = ssh_pki_key_ecdsa_name(key)) out.type = curve;
  char* base64 = nullptr;
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (ssh_pki_export_pubkey_base64(key, &base64) == SSH_OK) out.base64 = base64;
  if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &size) == 0) {
    char* text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size);
    if (text) out.fingerprint = text;
    ssh_string_free_char(text);
    ssh_clean_pubkey_hash(&hash);
  }
  ssh_string_free_char(base64);
  ssh_key_free(key);
  if (out.base64.empty() || out.fingerprint.empty())
    return makeError(Code::kInternal, "the host key of {} cannot be read", config.hostname);
  return out;
}

}  // namespace

Result<std::string> hostKeyAlgorithms(const SshConfig& config) {
  LOCKSTEP_ASSIGN(const std::vector<std::string> knownTypes,
                  knownKeyTypes(knownHostsFiles(config), config.knownHostsName()));
  const std::vector<std::string>& allowed = config.hostKeyAlgorithms;
  const std::vector<std::string> usable = {"ssh-ed25519",         "ecdsa-sha2-nistp256",
                                           "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
                                           "rsa-sha2-512",        "rsa-sha2-256"};
  std::string first, rest;
  for (const std::string& algorithm : allowed.empty() ? usable : allowed) {
    if (std::find(usable.begin(), usable.end(), algorithm) == usable.end()) continue;
    const std::string type = algorithm.starts_with("rsa-") ? "ssh-rsa" : algorithm;
    const bool known = std::find(knownTypes.begin(), knownTypes.end(), type) != knownTypes.end();
    std::string& list = known ? first : rest;
    list += (list.empty() ? "" : ",") + algorithm;
  }
  if (first.empty() && rest.empty()) {
    Error error =
        makeError(Code::kFailedPrecondition,
                  "the SSH configuration of {} allows no host key that is supported", config.alias);
    error.why = message("its HostKeyAlgorithms are {}", fmt::join(allowed, ","));
    error.next = message("allow plain host keys too: {}", fmt::join(usable, ","));
    return error;
  }
  return first + (first.empty() || rest.empty() ? "" : ",") + rest;
}

std::optional<Error> certificateOnlyHost(const std::string& why, const SshConfig& config) {
  // "kex error : no match for method server host key algo: server […], client […]"
  const auto server = why.find("server host key algo: server [");
  if (server == std::string::npos) return std::nullopt;
  const auto begin = why.find('[', server) + 1, end = why.find(']', begin);
  const std::string shown = why.substr(begin, end - begin);
  if (shown.find("-cert-v01@openssh.com") == std::string::npos) return std::nullopt;
  Error error =
      makeError(Code::kFailedPrecondition, "{} shows only a host certificate", config.alias);
  error.why = message("host certificates are not supported, and it offers {}", shown);
  error.next =
      "ask the host's administrator to allow its plain keys too: HostKeyAlgorithms of its sshd";
  return error;
}

Status checkHostKey(ssh_session session, const SshConfig& config, const HostKeyPrompt& prompt) {
  LOCKSTEP_ASSIGN(const HostKey key, serverKey(session, config));
  const std::string name = config.knownHostsName();
  const std::vector<std::string> files = knownHostsFiles(config);
  const std::string file = config.userKnownHosts.empty() ? "" : config.userKnownHosts.front();
  const std::string& strict = config.strictHostKeyChecking;
  const bool asks = strict != "yes" && strict != "accept-new" && strict != "no";
  LOCKSTEP_ASSIGN(KnownHostsAnswer answer, lookUpHostKey(files, name, key));
  const HostKeyQuestion question{name, key.type, key.fingerprint, file, answer.authority};
  if (asks && answer.verdict == HostKeyVerdict::kUnknown) {
    LOCKSTEP_TRY(prompt.awaitTurn(question));
    // Another connection may have added it meanwhile.
    LOCKSTEP_ASSIGN(answer, lookUpHostKey(files, name, key));
  }
  const std::string shown = fmt::format("{} {}", key.type, key.fingerprint);
  Error error = makeError(Code::kPermissionDenied, "");
  switch (answer.verdict) {
    case HostKeyVerdict::kKnown:
      return {};
    case HostKeyVerdict::kRevoked:
      error.what = message("the host key of {} is revoked", name);
      error.why = message("{} is marked @revoked in {}:{}", shown, answer.file, answer.line);
      error.next = "ask the host's administrator for its new key";
      return error;
    case HostKeyVerdict::kChanged:
      error.what = message("the host key of {} has changed", name);
      error.why = message(
          "it shows {}, but {}:{} names another key; someone may be posing as this host, or it "
          "was reinstalled",
          shown, answer.file, answer.line);
      error.next = message("if the change is known to be right: ssh-keygen -f '{}' -R '{}'",
                           answer.file, name);
      return error;
    case HostKeyVerdict::kUnknown:
      break;
  }
  bool accepted = strict == "accept-new" || strict == "no";
  if (asks) {
    LOCKSTEP_ASSIGN(accepted, prompt.ask(question));
  }
  if (!accepted) {
    error.what = message("the host key of {} is not known", name);
    error.why = message(
        "it shows {}{}", shown,
        strict == "yes" ? ", and StrictHostKeyChecking is yes" : ", which was not accepted");
    if (!answer.authority.empty())
      error.why = message("{}; the certificate authority in {} does not help: {}", error.why,
                          answer.authority, Message("host certificates are not supported"));
    error.next = message(
        "compare it with the host's own (ssh-keygen -lf "
        "/etc/ssh/ssh_host_*_key.pub there), then accept it: "
        "--accept-host-key {}",
        key.fingerprint);
    return error;
  }
  if (file.empty() || file == "/dev/null") return {};
  return addHostKey(file, name, key, config.hashKnownHosts);
}

}  // namespace lockstep::app
