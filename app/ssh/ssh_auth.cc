#include "app/ssh/ssh_auth.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "app/ssh/agent_filter.h"

namespace lockstep::app {
namespace {

constexpr int kMostTries = 3;
constexpr int kMostRounds = 10;  // of keyboard-interactive

struct KeyDeleter {
  void operator()(ssh_key key) const { ssh_key_free(key); }
};
using KeyPtr = std::unique_ptr<std::remove_pointer_t<ssh_key>, KeyDeleter>;

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
  std::string blob(text.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(blob.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return "";
  const auto padding = static_cast<std::size_t>(std::count(text.begin(), text.end(), '='));
  blob.resize(static_cast<std::size_t>(size) - padding);
  return blob;
}

Message offered(int methods) {
  std::string text;
  const auto add = [&](int bit, const char* name) {
    if (methods & bit) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(SSH_AUTH_METHOD_PUBLICKEY, "publickey");
  add(SSH_AUTH_METHOD_INTERACTIVE, "keyboard-interactive");
  add(SSH_AUTH_METHOD_PASSWORD, "password");
  add(SSH_AUTH_METHOD_HOSTBASED, "hostbased");
  add(SSH_AUTH_METHOD_GSSAPI_MIC, "gssapi-with-mic");
  return text.empty() ? Message("nothing") : message("{}", text);
}

class Authentication {
 public:
  explicit Authentication(const AuthContext& context)
      : context_(context), config_(context.config), session_(context.session) {}

  Status run() {
    if (take(context_.drive([&] { return ssh_userauth_none(session_, nullptr); }))) return finish();
    // A partial success brings new methods; each is gone through once.
    for (int stage = 0; stage < kMostTries && !over_; ++stage) {
      partial_ = false;
      methods_ = ssh_userauth_list(session_, nullptr);
      if ((methods_ & SSH_AUTH_METHOD_PUBLICKEY) && config_.publicKey && !keysDone_) {
        keysDone_ = true;
        tryAgent();
        for (const std::string& file : config_.identityFiles)
          if (!over_ && !partial_) tryKeyFile(file);
      }
      if (!over_ && !partial_ && (methods_ & SSH_AUTH_METHOD_INTERACTIVE) &&
          config_.keyboardInteractive)
        tryKeyboard();
      if (!over_ && !partial_ && (methods_ & SSH_AUTH_METHOD_PASSWORD) && config_.password)
        tryPassword();
      if (!partial_) break;
    }
    return finish();
  }

 private:
  // Notes an answer. Returns true when the method may stop: success, partial success, or loss.
  bool take(int answer) {
    if (answer == SSH_AUTH_SUCCESS) over_ = succeeded_ = true;
    if (answer == SSH_AUTH_PARTIAL) partial_ = true;
    if (answer == SSH_AUTH_ERROR && !ssh_is_connected(session_)) over_ = true;
    return over_ || partial_;
  }

  void tried(Message text) { tried_.push_back(std::move(text)); }

  void tryAgent() {
    if (config_.identityAgent.empty()) return;
    UniqueFd agent = connectToAgent(config_.identityAgent);
    if (!agent) {
      tried("agent (no answer)");
      return;
    }
    std::vector<std::string> keys = agentKeys(agent.get());
    std::unique_ptr<AgentFilter> filter;
    if (config_.identitiesOnly) {
      std::vector<std::string> named;
      for (const std::string& file : config_.identityFiles)
        named.push_back(blobOf(publicHalf(file)));
      std::erase_if(keys, [&](const std::string& key) {
        return std::find(named.begin(), named.end(), key) == named.end();
      });
      filter = std::make_unique<AgentFilter>(std::move(agent), keys);
      // libssh owns its end from here on.
      ssh_set_agent_socket(session_, filter->takeClientEnd().release());
    }
    tried(fmt::format("agent ({} {})", keys.size(), keys.size() == 1 ? "key" : "keys"));
    if (!keys.empty()) take(context_.drive([&] { return ssh_userauth_agent(session_, nullptr); }));
  }

  void tryKeyFile(const std::string& file) {
    const bool named = !config_.identityFiles.empty() && file == config_.identityFiles.front();
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) {
      if (named && errno != ENOENT) tried(message("{} ({})", file, ::strerror(errno)));
      if (errno == ENOENT) absent_.push_back(file);
      return;
    }
    if ((info.st_mode & 077) != 0 && info.st_uid == ::getuid()) {
      tried(message("{} (not used: others can read it; chmod 600)", file));
      return;
    }
    // The public half first, so that a passphrase is asked only for a key the server takes.
    const KeyPtr publicKey = publicHalf(file);
    if (publicKey) {
      const int answer = context_.drive(
          [&] { return ssh_userauth_try_publickey(session_, nullptr, publicKey.get()); });
      if (answer != SSH_AUTH_SUCCESS) {
        tried(file);
        take(answer == SSH_AUTH_PARTIAL ? SSH_AUTH_DENIED : answer);
        return;
      }
    }
    const KeyPtr key = loadKey(file);
    if (!key) return;
    tried(file);
    take(context_.drive([&] { return ssh_userauth_publickey(session_, nullptr, key.get()); }));
  }

  // The private key, unlocked; null: passed over, with the reason noted.
  KeyPtr loadKey(const std::string& file) {
    const std::string secretName = "passphrase " + file;
    bool locked = false;
    const auto noteLocked = [](const char*, char*, size_t, int, int, void* data) {
      *static_cast<bool*>(data) = true;
      return -1;
    };
    ssh_key key = nullptr;
    if (ssh_pki_import_privkey_file(file.c_str(), nullptr, noteLocked, &locked, &key) == SSH_OK)
      return KeyPtr(key);
    if (!locked) {
      tried(message("{} (cannot be read as a private key)", file));
      return nullptr;
    }
    const auto unlock = [&](const Secret& secret) {
      ssh_key opened = nullptr;
      if (ssh_pki_import_privkey_file(file.c_str(), secret.c_str(), nullptr, nullptr, &opened) !=
          SSH_OK)
        opened = nullptr;
      return KeyPtr(opened);
    };
    if (const auto known = context_.secrets.find(secretName)) {
      if (KeyPtr opened = unlock(*known)) return opened;
      context_.secrets.drop(secretName);
    }
    SecretQuestion question;
    question.kind = SecretQuestion::Kind::kPassphrase;
    question.account = config_.account();
    question.keyFile = file;
    for (int attempt = 1; attempt <= kMostTries; ++attempt) {
      question.attempt = attempt;
      const std::optional<Secret> secret = context_.ask(question);
      if (!secret) {
        tried(attempt == 1 ? message("{} (needs its passphrase)", file)
                           : message("{} (wrong passphrase)", file));
        return nullptr;
      }
      if (KeyPtr opened = unlock(*secret)) {
        context_.secrets.put(secretName, *secret);
        return opened;
      }
    }
    tried(message("{} (wrong passphrase)", file));
    return nullptr;
  }

  void tryKeyboard() {
    for (int attempt = 1; attempt <= kMostTries; ++attempt) {
      bool answered = false, remembered = false;
      std::vector<std::pair<std::string, Secret>> given;
      int answer = context_.drive([&] { return ssh_userauth_kbdint(session_, nullptr, nullptr); });
      for (int round = 0; answer == SSH_AUTH_INFO && round < kMostRounds; ++round) {
        const int prompts = ssh_userauth_kbdint_getnprompts(session_);
        for (int i = 0; i < prompts; ++i) {
          char echo = 0;
          const char* text =
              ssh_userauth_kbdint_getprompt(session_, static_cast<unsigned>(i), &echo);
          SecretQuestion question;
          question.kind = SecretQuestion::Kind::kKeyboardInteractive;
          question.account = config_.account();
          question.prompt = text ? text : "";
          question.echo = echo != 0;
          question.attempt = attempt;
          const std::string name = "answer " + config_.account() + " " + question.prompt;
          std::optional<Secret> secret = context_.secrets.find(name);
          remembered = remembered || secret.has_value();
          if (!secret) secret = context_.ask(question);
          if (!secret) {
            tried("keyboard-interactive (no answer)");
            return;
          }
          answered = true;
          ssh_userauth_kbdint_setanswer(session_, static_cast<unsigned>(i), secret->c_str());
          given.emplace_back(name, std::move(*secret));
        }
        answer = context_.drive([&] { return ssh_userauth_kbdint(session_, nullptr, nullptr); });
      }
      const bool done = take(answer);
      for (auto& [name, secret] : given) {
        if (answer == SSH_AUTH_SUCCESS || answer == SSH_AUTH_PARTIAL)
          context_.secrets.put(name, std::move(secret));
        else
          context_.secrets.drop(name);
      }
      if (done || !answered) break;
      if (remembered) --attempt;  // what was remembered is dropped by now: no endless loop
    }
    tried("keyboard-interactive");
  }

  void tryPassword() {
    const std::string name = "password " + config_.account();
    const auto offer = [&](const Secret& secret) {
      const int answer =
          context_.drive([&] { return ssh_userauth_password(session_, nullptr, secret.c_str()); });
      if (answer == SSH_AUTH_SUCCESS || answer == SSH_AUTH_PARTIAL)
        context_.secrets.put(name, secret);
      return take(answer);
    };
    if (const auto known = context_.secrets.find(name)) {
      tried("password");
      if (offer(*known)) return;
      context_.secrets.drop(name);
    }
    SecretQuestion question;
    question.kind = SecretQuestion::Kind::kPassword;
    question.account = config_.account();
    for (question.attempt = 1; question.attempt <= kMostTries; ++question.attempt) {
      const std::optional<Secret> secret = context_.ask(question);
      if (!secret) {
        if (question.attempt == 1) tried("password (not given)");
        return;
      }
      if (question.attempt == 1) tried("password");
      if (offer(*secret)) return;
    }
  }

  Status finish() {
    if (succeeded_) return {};
    const std::string words = ssh_get_error(session_);
    const bool tooMany = words.find("Too many authentication failures") != std::string::npos;
    if (over_ && !tooMany) {
      Error error =
          makeError(Code::kUnavailable, "{} went away during authentication", config_.account());
      error.why = words;
      return error;
    }
    Error error = makeError(Code::kPermissionDenied, "permission denied for {}@{}", config_.user,
                            config_.alias);
    Message list;
    for (const Message& one : tried_) list = list.empty() ? one : message("{}, {}", list, one);
    if (list.empty())
      list =
          absent_.empty() ? Message("nothing") : message("nothing ({} is absent)", absent_.front());
    error.why = message("tried {}; server offers {}", list, offered(methods_));
    error.next =
        tooMany ? "the server cut the attempts short: set IdentitiesOnly and IdentityFile for it"
                : message(
                      "put your public key there (ssh-copy-id {}), or name the right "
                      "IdentityFile",
                      config_.alias);
    return error;
  }

  const AuthContext& context_;
  const SshConfig& config_;
  const ssh_session session_;
  int methods_ = 0;
  bool over_ = false;  // nothing more can be tried
  bool succeeded_ = false;
  bool partial_ = false;
  bool keysDone_ = false;
  std::vector<Message> tried_;
  std::vector<std::string> absent_;
};

}  // namespace

Status authenticate(const AuthContext& context) { return Authentication(context).run(); }

}  // namespace lockstep::app
