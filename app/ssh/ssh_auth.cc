#include "app/ssh/ssh_auth.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "app/ssh/auth_attempt.h"
#include "app/ssh/key_auth.h"

namespace lockstep::app {
namespace {

constexpr int kMostRounds = 10;  // of keyboard-interactive

// Whether an answer may be kept for a reconnect: the prompt is for a password, and not for one that
// serves once.
bool isLasting(std::string prompt, bool echo) {
  std::transform(prompt.begin(), prompt.end(), prompt.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  const auto names = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
      return prompt.find(word) != std::string::npos;
    });
  };
  return !echo && names({"password", "密码", "口令"}) &&
         !names({"one-time", "one time", "onetime", "otp", "token", "code", "pin", "factor", "duo",
                 "verif", "authenticator", "challenge", "new password", "动态", "一次性", "验证"});
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
      : context_(context),
        config_(context.config),
        session_(context.session),
        attempt_(context),
        keys_(attempt_) {}

  Status run() {
    if (attempt_.take(context_.drive([&] { return ssh_userauth_none(session_, nullptr); })))
      return finish();
    // A partial success brings new methods; each is gone through once.
    for (int stage = 0; stage < kMostTries && !attempt_.over; ++stage) {
      attempt_.partial = false;
      methods_ = ssh_userauth_list(session_, nullptr);
      const auto may = [&](int method, bool configured) {
        return configured && (methods_ & method) && !attempt_.done();
      };
      if (may(SSH_AUTH_METHOD_GSSAPI_MIC, config_.gssapi && !ticketTried_)) tryTicket();
      if (may(SSH_AUTH_METHOD_PUBLICKEY, config_.publicKey)) keys_.run();
      if (may(SSH_AUTH_METHOD_INTERACTIVE, config_.keyboardInteractive)) tryKeyboard();
      if (may(SSH_AUTH_METHOD_PASSWORD, config_.password)) tryPassword();
      if (!attempt_.partial) break;
    }
    return finish();
  }

 private:
  void tryTicket() {
    ticketTried_ = true;
    const Status ticket = context_.fetchTicket();
    if (!ticket.ok()) {
      const Error& error = ticket.error();
      attempt_.note(message("gssapi-with-mic ({})", error.why.empty() ? error.what : error.why));
      return;
    }
    attempt_.note("gssapi-with-mic");
    attempt_.take(context_.drive([&] { return ssh_userauth_gssapi(session_); }));
  }

  // One exchange of keyboard-interactive: the server asks, perhaps in several rounds, and decides.
  struct Exchange {
    struct Given {
      std::string name;  // of the secret; "": it serves once
      Secret secret;
      bool remembered = false;
    };
    std::vector<Given> given;
    bool has(const std::string& name) const {
      return std::any_of(given.begin(), given.end(),
                         [&](const Given& g) { return g.name == name; });
    }
    bool asked() const {
      return std::any_of(given.begin(), given.end(), [](const Given& g) { return !g.remembered; });
    }
  };

  // Who refuses a question refuses it for all in line, and with it what leads to it. One that is
  // not kept is known by its words.
  std::optional<Secret> ask(const SecretQuestion& question, const std::string& name,
                            const Exchange& exchange, const QuestionTurn& turn) {
    const std::string known =
        name.empty() ? fmt::format("question {} {}", context_.route, question.prompt) : name;
    auto secret = context_.ask(question, known, turn);
    if (!secret && context_.answers.refusedSince(known, turn.since()))
      for (const Exchange::Given& before : exchange.given)
        if (!before.remembered && !before.name.empty()) context_.answers.refuse(before.name);
    return secret;
  }

  // Answers the prompts of a round; false where one stays unanswered.
  bool answerRound(int tries, Exchange& exchange, std::unique_ptr<QuestionTurn>& turn) {
    const char* instruction = ssh_userauth_kbdint_getinstruction(session_);
    std::string before = instruction ? instruction : "";
    while (before.ends_with('\n')) before.pop_back();
    const int prompts = ssh_userauth_kbdint_getnprompts(session_);
    for (int i = 0; i < prompts; ++i) {
      char echo = 0;
      const char* text = ssh_userauth_kbdint_getprompt(session_, static_cast<unsigned>(i), &echo);
      const std::string prompt = text ? text : "";
      SecretQuestion question;
      question.kind = SecretQuestion::Kind::kKeyboardInteractive;
      question.account = config_.account();
      question.prompt = before.empty() ? prompt : before + "\n" + prompt;
      question.echo = echo != 0;
      question.attempt = tries;
      before.clear();
      std::string name =
          isLasting(prompt, echo != 0) ? fmt::format("answer {} {}", context_.route, prompt) : "";
      if (exchange.has(name)) name.clear();  // a second prompt of the same words
      std::optional<Secret> secret = context_.answers.find(name);
      // What was right only once may be a one-time code: one connection at a time tries it.
      if (!turn && (!secret || (context_.mayAsk && !context_.answers.isReused(name)))) {
        turn = attempt_.takeTurn(line_);
        if (!turn) return false;
        secret = context_.answers.find(name);  // another connection may have been given it
      }
      const bool remembered = secret.has_value();
      if (!remembered) secret = ask(question, name, exchange, *turn);
      if (!secret) return false;
      ssh_userauth_kbdint_setanswer(session_, static_cast<unsigned>(i), secret->c_str());
      exchange.given.push_back({name, std::move(*secret), remembered});
    }
    return true;
  }

  // Keeps the answers that were right, and drops the others.
  void judge(const Exchange& exchange, int answer, bool last) {
    const bool accepted = answer == SSH_AUTH_SUCCESS || answer == SSH_AUTH_PARTIAL;
    if (answer == SSH_AUTH_ERROR && !tooMany()) return;  // lost before the server decided
    const bool withCode = exchange.has("");
    for (const auto& [name, secret, remembered] : exchange.given) {
      if (name.empty()) continue;
      if (!accepted && withCode && remembered && !last) continue;  // the code may be what is wrong
      if (accepted)
        context_.answers.put(name, secret);
      else if (remembered && !exchange.asked())
        context_.answers.forbid(name, secret);
      else
        context_.answers.drop(name, secret);
      if (!accepted && last && !remembered) context_.answers.refuse(name);
    }
  }

  void tryKeyboard() {
    std::unique_ptr<QuestionTurn> turn;  // held until the server has decided
    for (int tries = 1; tries <= kMostTries; ++tries) {
      Exchange exchange;
      int answer = context_.drive([&] { return ssh_userauth_kbdint(session_, nullptr, nullptr); });
      for (int round = 0; answer == SSH_AUTH_INFO && round < kMostRounds; ++round) {
        if (!answerRound(tries, exchange, turn)) {
          attempt_.note(message("keyboard-interactive (no answer)"));
          attempt_.wantsPerson = attempt_.wantsPerson || !context_.mayAsk;
          return;
        }
        answer = context_.drive([&] { return ssh_userauth_kbdint(session_, nullptr, nullptr); });
      }
      const bool done = attempt_.take(answer);
      judge(exchange, answer, tries == kMostTries && exchange.asked());
      if (done || answer == SSH_AUTH_ERROR || exchange.given.empty()) break;
      if (!exchange.asked()) --tries;  // what was remembered is gone by now: no endless loop
    }
    attempt_.note("keyboard-interactive");
  }

  void tryPassword() {
    const std::string name = "password " + context_.route;
    SecretQuestion question;
    question.kind = SecretQuestion::Kind::kPassword;
    question.account = config_.account();
    bool given = false;
    const auto offer = [&](const Secret& secret) {
      if (!std::exchange(given, true)) attempt_.note("password");
      const int answer =
          context_.drive([&] { return ssh_userauth_password(session_, nullptr, secret.c_str()); });
      if (answer == SSH_AUTH_SUCCESS || answer == SSH_AUTH_PARTIAL)
        context_.answers.put(name, secret);
      if (tooMany()) context_.answers.drop(name, secret);
      return attempt_.take(answer) ||
             answer == SSH_AUTH_ERROR;  // which does not say that it is wrong
    };
    if (attempt_.trySecrets(name, line_, question, offer)) return;
    if (!given) attempt_.note(message("password (not given)"));
    attempt_.wantsPerson = attempt_.wantsPerson || !context_.mayAsk;
  }

  bool tooMany() const {
    const std::string_view words = ssh_get_error(session_);
    return words.find("Too many authentication failures") != std::string_view::npos;
  }

  Status finish() {
    if (attempt_.succeeded) return {};
    const std::string words = ssh_get_error(session_);
    if (attempt_.over && !tooMany()) {
      Error error =
          makeError(Code::kUnavailable, "{} went away during authentication", config_.account());
      error.why = words;
      return error;
    }
    Error error = makeError(Code::kPermissionDenied, "permission denied for {}@{}", config_.user,
                            config_.alias);
    Message list;
    for (const Message& one : attempt_.tried)
      list = list.empty() ? one : message("{}, {}", list, one);
    if (list.empty())
      list = attempt_.absent.empty() ? Message("nothing")
                                     : message("nothing ({} is absent)", attempt_.absent.front());
    error.why = message("tried {}; server offers {}", list, offered(methods_));
    if (tooMany())
      error.next = "the server cut the attempts short: set IdentitiesOnly and IdentityFile for it";
    else if (attempt_.wantsPerson)
      error.next = "connect again: the server's question is asked then";
    else
      error.next = message(
          "put your public key there (ssh-copy-id {}), or name the right "
          "IdentityFile",
          config_.alias);
    return error;
  }

  const AuthContext& context_;
  const SshConfig& config_;
  const ssh_session session_;
  const std::string line_ = "account " + context_.route;  // of its questions
  AuthAttempt attempt_;
  KeyAuth keys_;
  int methods_ = 0;
  bool ticketTried_ = false;
};

}  // namespace

Status authenticate(const AuthContext& context) { return Authentication(context).run(); }

}  // namespace lockstep::app
