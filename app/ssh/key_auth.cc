#include "app/ssh/key_auth.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "app/ssh/agent_filter.h"
#include "engine/base/clock.h"

namespace lockstep::app {
namespace {

// The public half of a key: beside it, or within it. Null where neither can be read.
KeyPtr publicHalf(const std::string& file) {
  ssh_key half = nullptr;
  if (ssh_pki_import_pubkey_file((file + ".pub").c_str(), &half) != SSH_OK &&
      ssh_pki_import_pubkey_file(file.c_str(), &half) != SSH_OK)
    return nullptr;
  return KeyPtr(half);
}

// The key as the binary blob of the protocols; "" on trouble.
std::string blobOf(const KeyPtr& key) {
  char* base64 = nullptr;
  if (!key || ssh_pki_export_pubkey_base64(key.get(), &base64) != SSH_OK) return "";
  const std::string text = base64;
  ssh_string_free_char(base64);
  return decodeBlob(text);
}

bool holds(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

std::uint64_t secondsNow() { return static_cast<std::uint64_t>(wallNow() / 1000000000); }

// The private key, unlocked; null: passed over, with the reason noted.
KeyPtr loadKey(const std::string& file, const KeyPtr& publicKey, AuthAttempt& attempt) {
  const AuthContext& context = attempt.context;
  KeyPtr opened = context.answers.findKey(file, publicKey);
  if (opened) return opened;
  bool locked = false;
  const auto noteLocked = [](const char*, char*, size_t, int, int, void* data) {
    *static_cast<bool*>(data) = true;
    return -1;
  };
  ssh_key key = nullptr;
  if (ssh_pki_import_privkey_file(file.c_str(), nullptr, noteLocked, &locked, &key) == SSH_OK)
    return KeyPtr(key);
  if (!locked) {
    attempt.note(message("{} (cannot be read as a private key)", file));
    return nullptr;
  }
  const auto unlock = [&](const Secret& secret) {
    ssh_key opened = nullptr;
    if (ssh_pki_import_privkey_file(file.c_str(), secret.c_str(), nullptr, nullptr, &opened) !=
        SSH_OK)
      opened = nullptr;
    return KeyPtr(opened);
  };
  SecretQuestion question;
  question.kind = SecretQuestion::Kind::kPassphrase;
  question.account = context.config.account();
  question.keyFile = file;
  const std::string name = "passphrase " + file;
  bool given = false;
  const auto accept = [&](const Secret& secret) {
    given = true;
    // Another connection may have unlocked it meanwhile.
    opened = context.answers.findKey(file, publicKey);
    if (opened) return true;
    opened = unlock(secret);
    if (!opened) return false;
    context.answers.put(name, secret);
    context.answers.keepKey(file, opened);
    return true;
  };
  if (!attempt.trySecrets(name, name, question, accept))
    attempt.note(given ? message("{} (wrong passphrase)", file)
                       : message("{} (needs its passphrase)", file));
  return opened;
}

}  // namespace

KeyAuth::KeyAuth(AuthAttempt& attempt)
    : attempt_(attempt), config_(attempt.context.config), session_(attempt.context.session) {}

void KeyAuth::run() {
  if (!read_) readCertificates();
  read_ = true;
  tryAgent();
  for (const std::string& file : config_.identityFiles)
    if (!attempt_.done() && !accepted_.contains(file)) tryFile(file);
  if (!attempt_.done()) noteUnused();
}

// As in OpenSSH, the certificates beside the keys count only where none is named.
void KeyAuth::readCertificates() {
  std::vector<std::string> files = config_.certificateFiles;
  const bool named = !files.empty();
  if (!named)
    for (const std::string& file : config_.identityFiles) files.push_back(file + "-cert.pub");
  for (const std::string& file : files) {
    auto certificate = readCertificate(file);
    if (certificate.ok())
      certificates_.push_back(std::move(*certificate));
    else if (named || certificate.error().code != Code::kNotFound)
      attempt_.note(certificate.error().why.empty()
                        ? certificate.error().what
                        : message("{} ({})", file, certificate.error().why));
  }
}

void KeyAuth::noteCertificate(const Certificate& certificate) {
  const Message note = certificateNote(certificate, secondsNow());
  attempt_.note(certificate.file.empty() ? message("the agent's certificate ({})", note)
                                         : message("{} ({})", certificate.file, note));
}

// The agent signs for a certificate of a file too, where it holds the key.
void KeyAuth::tryAgent() {
  if (config_.identityAgent.empty()) return;
  UniqueFd agent = connectToAgent(config_.identityAgent);
  if (!agent) {
    attempt_.note(message("agent (no answer)"));
    return;
  }
  const std::vector<std::string> keys = agentKeys(agent.get());
  std::vector<AgentIdentity> shown;
  std::vector<Certificate> offered;
  std::vector<std::string> named;
  for (const Certificate& certificate : certificates_) {
    named.push_back(certificate.blob);
    if (!holds(keys, certificate.key) || holds(keys, certificate.blob)) continue;
    shown.push_back({certificate.blob, certificate.key});
    offered.push_back(certificate);
  }
  const bool filtered = config_.identitiesOnly || !shown.empty();
  if (config_.identitiesOnly)
    for (const std::string& file : config_.identityFiles) named.push_back(blobOf(publicHalf(file)));
  for (const std::string& key : keys) {
    if (config_.identitiesOnly && !holds(named, key)) continue;
    shown.push_back({key, key});
    if (auto certificate = parseCertificate(key)) offered.push_back(std::move(*certificate));
  }
  attempt_.note(shown.size() == 1 ? message("agent (1 key)")
                                  : message("agent ({} keys)", shown.size()));
  if (shown.empty()) return;
  std::unique_ptr<AgentFilter> filter;
  if (filtered) {
    filter = std::make_unique<AgentFilter>(std::move(agent), shown);
    // libssh owns its end from here on.
    ssh_set_agent_socket(session_, filter->takeClientEnd().release());
  }
  for (const Certificate& certificate : offered) offered_.insert(certificate.blob);
  const int answer = attempt_.context.drive([&] { return ssh_userauth_agent(session_, nullptr); });
  if (!attempt_.take(answer))
    for (const Certificate& certificate : offered) noteCertificate(certificate);
}

void KeyAuth::tryFile(const std::string& file) {
  const bool first = file == config_.identityFiles.front();
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) {
    if (first && errno != ENOENT) attempt_.note(message("{} ({})", file, ::strerror(errno)));
    if (errno == ENOENT) attempt_.absent.push_back(file);
    return;
  }
  if ((info.st_mode & 077) != 0 && info.st_uid == ::getuid()) {
    attempt_.note(message("{} (not used: others can read it; chmod 600)", file));
    return;
  }
  const KeyPtr publicKey = publicHalf(file);
  const std::string blob = blobOf(publicKey);
  for (const Certificate& certificate : certificates_) {
    const bool fits =
        blob.empty() ? certificate.file == file + "-cert.pub" : certificate.key == blob;
    if (fits && !offered_.contains(certificate.blob)) tryCertificate(file, publicKey, certificate);
    if (attempt_.done()) return;
  }
  // The public half first, so that a passphrase is asked only for a key the server takes.
  if (publicKey) {
    const int answer = attempt_.context.drive(
        [&] { return ssh_userauth_try_publickey(session_, nullptr, publicKey.get()); });
    if (answer != SSH_AUTH_SUCCESS) {
      attempt_.note(file);
      attempt_.take(answer == SSH_AUTH_PARTIAL ? SSH_AUTH_DENIED : answer);
      return;
    }
  }
  if (refused_.contains(file)) return;
  const KeyPtr key = loadKey(file, publicKey, attempt_);
  if (!key) return;
  attempt_.note(file);
  attempt_.take(
      attempt_.context.drive([&] { return ssh_userauth_publickey(session_, nullptr, key.get()); }));
  if (attempt_.partial) accepted_.insert(file);
}

void KeyAuth::tryCertificate(const std::string& file, const KeyPtr& publicKey,
                             const Certificate& certificate) {
  offered_.insert(certificate.blob);
  ssh_key read = nullptr;
  if (ssh_pki_import_cert_file(certificate.file.c_str(), &read) != SSH_OK) {
    attempt_.note(message("{} (cannot be read as a certificate)", certificate.file));
    return;
  }
  const KeyPtr shown(read);
  const AuthContext& context = attempt_.context;
  int answer =
      context.drive([&] { return ssh_userauth_try_publickey(session_, nullptr, shown.get()); });
  if (answer == SSH_AUTH_SUCCESS) {
    const KeyPtr key = refused_.contains(file) ? nullptr : loadKey(file, publicKey, attempt_);
    if (!key) {
      refused_.insert(file);
      return;
    }
    if (ssh_pki_copy_cert_to_privkey(shown.get(), key.get()) != SSH_OK)
      answer = SSH_AUTH_DENIED;
    else
      answer = context.drive([&] { return ssh_userauth_publickey(session_, nullptr, key.get()); });
  } else if (answer == SSH_AUTH_PARTIAL) {
    answer = SSH_AUTH_DENIED;
  }
  if (!attempt_.take(answer)) noteCertificate(certificate);
  if (attempt_.partial) accepted_.insert(file);
}

void KeyAuth::noteUnused() {
  for (const Certificate& certificate : certificates_)
    if (!offered_.contains(certificate.blob))
      attempt_.note(message("{} (a certificate for a key that is not here)", certificate.file));
}

}  // namespace lockstep::app
