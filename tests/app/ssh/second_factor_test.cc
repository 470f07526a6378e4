// A second factor with codes that serve once (HOTP, RFC 4226), against real sshd with PAM.
#include <QElapsedTimer>
#include <QTest>

#include <algorithm>
#include <mutex>
#include <thread>

#include "app/ssh/ssh_connection.h"
#include "app/ssh/ssh_gates.h"
#include "tests/support/pam_account.h"
#include "tests/support/ssh_world.h"

using namespace lockstep;
using namespace lockstep::app;
using World = lockstep::test::SshWorld;
using std::chrono::milliseconds;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// A person with a token: gives the next code for each question, after a moment.
class Person : public SshPrompter {
 public:
  ~Person() override {
    for (auto& thread : threads_) thread.join();
  }
  void askHostKey(const HostKeyQuestion&, std::function<void(bool)> answer) override {
    answer(false);
  }
  void askSecret(const SecretQuestion& question,
                 std::function<void(std::optional<Secret>)> answer) override {
    const std::lock_guard lock(mutex_);
    asked_.push_back(question);
    most_ = std::max(most_, ++open_);
    const bool oneTime = has(question.prompt, "One-time");
    if (silent) return --open_, answer(std::nullopt);
    std::string text = oneTime ? test::oneTimeCode(next_++) : test::PamAccount::kPassword;
    if (wrong > 0 && oneTime) text = "000000", --wrong;
    threads_.emplace_back([this, answer, text] {
      std::this_thread::sleep_for(milliseconds(50));
      {
        const std::lock_guard inner(mutex_);
        --open_;
      }
      answer(Secret(text));
    });
  }
  std::vector<SecretQuestion> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  // Asked for codes.
  std::size_t codes() const {
    const auto all = asked();
    return static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [](const auto& one) { return has(one.prompt, "One-time"); }));
  }
  int most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  int wrong = 0;  // codes to get wrong first
  bool silent = false;

 private:
  mutable std::mutex mutex_;
  std::vector<SecretQuestion> asked_;
  std::vector<std::thread> threads_;
  std::uint64_t next_ = 0;
  int open_ = 0, most_ = 0;
};

// A server whose account wants a key, then what PAM asks for.
struct OneTimeWorld : World {
  std::unique_ptr<test::PamAccount> account;
  std::shared_ptr<Person> person = std::make_shared<Person>();

  // `pam` goes before the code.
  bool serveOneTime(const std::string& pam, const std::string& methods) {
    account = test::PamAccount::withCodes(folder.path(), pam, &why);
    return account && serveBy(methods);
  }
  bool serveWith(const std::string& auth, const std::string& methods) {
    account = test::PamAccount::make(folder.path(), auth, &why);
    return account && serveBy(methods);
  }
  bool serveBy(const std::string& methods) {
    const test::SshdOptions options = account->sshd(methods, folder / "id");
    return serve(options.extraConfig, options.program);
  }
  SshConnectionOptions asPerson() {
    auto settings = options();
    settings.prompter = person;
    settings.firstPause = milliseconds(20);
    return settings;
  }
  // A gate n1 that asks for codes, and n2 to n4 behind it.
  bool serveGate() {
    if (!serveOneTime("", "publickey,keyboard-interactive") || !serve() || !serve() || !serve())
      return false;
    useAsGate();
    trustAll();
    return true;
  }
  // n1, of the others.
  void useAsGate() {
    extraClientConfig =
        "Host n1\n  User " + account->name() + "\nHost n2 n3 n4\n  ProxyJump n1\nHost *\n";
  }
  SshConnectionOptions sharing() {
    auto settings = asPerson();
    settings.shared = std::make_shared<SshShared>();
    return settings;
  }
  std::size_t arrivals() const { return count(servers[0]->log(), "Connection from"); }
};

}  // namespace

class SecondFactorTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void codesAreThoseOfTheStandard() {
    QCOMPARE(test::oneTimeCode(0), std::string("755224"));
    QCOMPARE(test::oneTimeCode(9), std::string("520489"));
  }

  void codeIsAskedOnceAndNeverKept_data() {
    QTest::addColumn<QByteArray>("pam");
    QTest::addColumn<QByteArray>("methods");
    QTest::addColumn<int>("passwords");
    QTest::newRow("key, then code")
        << QByteArray() << QByteArray("publickey,keyboard-interactive") << 0;
    QTest::newRow("code alone") << QByteArray() << QByteArray("keyboard-interactive") << 0;
    QTest::newRow("key, then password and code")
        << QByteArray("auth required pam_unix.so\n") << QByteArray("publickey,keyboard-interactive")
        << 1;
  }
  void codeIsAskedOnceAndNeverKept() {
    QFETCH(QByteArray, pam);
    QFETCH(QByteArray, methods);
    QFETCH(int, passwords);
    OneTimeWorld world;
    if (!world.serveOneTime(pam.toStdString(), methods.toStdString())) QSKIP(world.why.c_str());
    world.user = world.account->name();
    world.trustAll();
    SshConnection connection({.host = "n1"}, world.asPerson());
    VERIFY_OK(connection.connect());
    QCOMPARE(world.person->codes(), std::size_t{1});
    QCOMPARE(world.person->asked().size(), std::size_t(1 + passwords));
    auto who = connection.exec("id -un");
    VERIFY_OK(who);
    QCOMPARE(who->output, world.account->name() + "\n");
    // A loss: nothing is asked behind the person's back, and nothing is tried over and over.
    const std::size_t before = world.arrivals();
    QVERIFY(world.servers[0]->killSessions() > 0);
    QVERIFY(test::waitFor([&] { return connection.status().state == LinkState::kFailed; }));
    const Error reason = *connection.status().reason;
    QCOMPARE(reason.code, Code::kPermissionDenied);
    QVERIFY2(has(reason.next, "connect again"), reason.text().c_str());
    QTest::qWait(600);  // many pauses between attempts
    QCOMPARE(world.arrivals(), before + 1);
    QCOMPARE(world.person->codes(), std::size_t{1});
    QCOMPARE(connection.status().state, LinkState::kFailed);
    // The person connects again: one new code; the password is still known.
    VERIFY_OK(connection.connect());
    QCOMPARE(world.person->codes(), std::size_t{2});
    QCOMPARE(world.person->asked().size(), std::size_t(2 + passwords));
    VERIFY_OK(connection.exec("true"));
    QCOMPARE(world.arrivals(), before + 2);
  }

  void wrongCodes() {
    OneTimeWorld world;
    if (!world.serveOneTime("", "publickey,keyboard-interactive")) QSKIP(world.why.c_str());
    world.user = world.account->name();
    world.trustAll();
    world.person->wrong = 1;
    SshConnection connection({.host = "n1"}, world.asPerson());
    VERIFY_OK(connection.connect());
    QCOMPARE(world.person->asked().size(), std::size_t{2});
    QCOMPARE(world.person->asked()[1].attempt, 2);
    world.person->wrong = 100;
    SshConnection never({.host = "n1"}, world.asPerson());
    const Status status = never.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QCOMPARE(world.person->asked().size(), std::size_t{2 + 3});
    QVERIFY2(has(status.error().why, "keyboard-interactive") && has(status.error().why, "offers"),
             status.error().text().c_str());
    world.person->silent = true;
    SshConnection silent({.host = "n1"}, world.asPerson());
    const Status refused = silent.connect();
    QVERIFY2(has(refused.error().why, "keyboard-interactive (no answer)"),
             refused.error().text().c_str());
    QCOMPARE(world.person->asked().size(), std::size_t{6});
  }

  // A prompt that says "Password" for what serves once: kept once, refused once, never kept again.
  void codesThatAreCalledPasswords() {
    OneTimeWorld world;
    // A list of codes, each struck out when it is used.
    const std::string check = world.folder / "check", list = world.folder / "codes";
    test::writeText(list, "one\ntwo\nthree\n", 0600);
    test::writeText(check,
                    "#!/bin/sh\ncode=$(tr -d '\\0')\ngrep -qx \"$code\" " + list +
                        " || exit 1\nsed -i \"/^$code\\$/d\" " + list + "\n",
                    0755);
    if (!world.serveWith("auth required pam_exec.so expose_authtok quiet " + check +
                             "\nauth required pam_permit.so\n",
                         "keyboard-interactive"))
      QSKIP(world.why.c_str());
    world.user = world.account->name();
    world.trustAll();
    auto options = world.options();
    options.firstPause = milliseconds(20);
    world.prompter->answers = {"one", "two", "three"};
    SshConnection connection({.host = "n1"}, options);
    VERIFY_OK(connection.connect());
    for (const std::size_t asked : {std::size_t{2}, std::size_t{3}}) {
      VERIFY_OK(connection.exec("true"));  // all processes of the session are there
      const std::size_t before = world.arrivals();
      QVERIFY(world.servers[0]->killSessions() > 0);
      QVERIFY(test::waitFor([&] { return connection.status().state == LinkState::kFailed; }));
      QCOMPARE(world.arrivals(), before + 1);
      QCOMPARE(world.prompter->secrets().size(), asked - 1);
      VERIFY_OK(connection.connect());
      QCOMPARE(world.prompter->secrets().size(), asked);
    }
    QCOMPARE(test::readText(list), std::string());
  }

  // Connections that share answers find out once that one is a code: no series of failed logins.
  void codesThatAreCalledPasswordsOfSeveral_data() {
    QTest::addColumn<QString>("method");
    QTest::newRow("keyboard-interactive") << "keyboard-interactive";
    QTest::newRow("password") << "password";
  }
  void codesThatAreCalledPasswordsOfSeveral() {
    QFETCH(QString, method);
    OneTimeWorld world;
    const std::string check = world.folder / "check", list = world.folder / "codes",
                      failed = world.folder / "failed";
    test::writeText(list, "one\ntwo\nthree\nfour\n", 0600);
    test::writeText(failed, "", 0600);
    test::writeText(check,
                    "#!/bin/sh\ncode=$(tr -d '\\0')\ngrep -qx \"$code\" " + list + " || { echo >>" +
                        failed + "; exit 1; }\nsed -i \"/^$code\\$/d\" " + list + "\n",
                    0755);
    if (!world.serveWith("auth required pam_exec.so expose_authtok quiet " + check +
                             "\nauth required pam_permit.so\n",
                         method.toStdString()))
      QSKIP(world.why.c_str());
    world.user = world.account->name();
    world.trustAll();
    auto options = world.options();
    options.shared = std::make_shared<SshShared>();
    world.prompter->answers = {"one", "two", "three", "four"};
    std::vector<std::unique_ptr<SshConnection>> connections;
    for (int i = 0; i < 4; ++i)
      connections.push_back(std::make_unique<SshConnection>(SshTarget{.host = "n1"}, options));
    for (auto& connection : connections) connection->start();
    for (auto& connection : connections)
      VERIFY_OK(connection->waitConnected(std::chrono::seconds(60)));
    QCOMPARE(world.prompter->secrets().size(), connections.size());
    QCOMPARE(test::readText(list), std::string());
    QCOMPARE(test::readText(failed), std::string("\n"));
  }

  // Connections to one host ask one after another, once each; so do those to hosts behind a gate,
  // unless they share its session.
  void oneQuestionAtATime_data() {
    QTest::addColumn<bool>("gate");
    QTest::addColumn<bool>("shared");
    QTest::newRow("one host") << false << false;
    QTest::newRow("hosts behind a gate") << true << false;
    QTest::newRow("hosts behind a gate, shared session") << true << true;
  }
  void oneQuestionAtATime() {
    QFETCH(bool, gate);
    QFETCH(bool, shared);
    OneTimeWorld world;
    if (!world.serveGate()) QSKIP(world.why.c_str());
    const auto options = shared ? world.sharing() : world.asPerson();
    std::vector<std::unique_ptr<SshConnection>> connections;
    for (int i = 0; i < 6; ++i)
      connections.push_back(std::make_unique<SshConnection>(
          SshTarget{.host = gate ? (i % 2 ? "n2" : "n3") : "n1"}, options));
    for (auto& connection : connections) connection->start();
    for (auto& connection : connections)
      VERIFY_OK(connection->waitConnected(std::chrono::seconds(60)));
    QCOMPARE(world.person->codes(), shared ? std::size_t{1} : connections.size());
    QCOMPARE(world.person->most(), 1);
    for (auto& connection : connections) VERIFY_OK(connection->exec("true"));
  }

  // The session to a gate is opened once for all hosts behind it, and anew after a loss.
  void aGateAsksOnce() {
    OneTimeWorld world;
    if (!world.serveGate()) QSKIP(world.why.c_str());
    const auto options = world.sharing();
    std::vector<std::unique_ptr<SshConnection>> connections;
    for (const char* host : {"n2", "n3", "n4"})
      connections.push_back(std::make_unique<SshConnection>(SshTarget{.host = host}, options));
    const auto connectAll = [&](std::size_t codes) {
      for (auto& connection : connections) connection->start();
      for (auto& connection : connections)
        VERIFY_OK(connection->waitConnected(std::chrono::seconds(60)));
      for (auto& connection : connections) VERIFY_OK(connection->exec("true"));
      QCOMPARE(world.person->codes(), codes);
      QCOMPARE(count(world.servers[0]->log(), "Accepted keyboard"), codes);
    };
    connectAll(1);
    if (QTest::currentTestFailed()) return;
    // The gate is lost: nobody is asked until a person wants to connect, and then once.
    QVERIFY(world.servers[0]->killSessions() > 0);
    for (auto& connection : connections)
      QVERIFY(test::waitFor([&] { return connection->status().state == LinkState::kFailed; }));
    QCOMPARE(world.person->codes(), std::size_t{1});
    connectAll(2);
    if (QTest::currentTestFailed()) return;
    // All hosts behind it are lost at once: they come back through the same session.
    for (std::size_t i = 1; i < world.servers.size(); ++i)
      QVERIFY(world.servers[i]->killSessions() > 0);
    for (std::size_t i = 1; i < world.servers.size(); ++i) {
      QVERIFY(
          test::waitFor([&] { return count(world.servers[i]->log(), "Accepted publickey") == 3; }));
      VERIFY_OK(connections[i - 1]->waitConnected(std::chrono::seconds(60)));
      VERIFY_OK(connections[i - 1]->exec("true"));
    }
    QCOMPARE(world.person->codes(), std::size_t{2});
    QCOMPARE(count(world.servers[0]->log(), "Accepted keyboard"), std::size_t{2});
  }

  // Where the connection that opens a gate leaves, another one of those that wait opens it.
  void theNextOneOpensTheGate_data() {
    QTest::addColumn<bool>("ended");
    QTest::newRow("connection ended") << true;
    QTest::newRow("question dropped") << false;
  }
  void theNextOneOpensTheGate() {
    QFETCH(bool, ended);
    OneTimeWorld world;
    if (!world.serveGate()) QSKIP(world.why.c_str());
    const auto options = world.sharing();
    auto silent = options;
    silent.prompter = world.prompter;
    world.prompter->holdSecrets = true;
    auto asking = std::make_unique<SshConnection>(SshTarget{.host = "n2"}, silent);
    asking->start();
    QVERIFY(test::waitFor([&] { return world.prompter->secrets().size() == 1; }));
    auto leaving = std::make_unique<SshConnection>(SshTarget{.host = "n3"}, silent);
    SshConnection second({.host = "n3"}, options), third({.host = "n4"}, options);
    for (auto* one : {leaving.get(), &second, &third}) one->start();
    QVERIFY(test::waitFor([&] { return world.configReads() >= 8; }));
    QTest::qWait(300);  // until all have joined
    // One that only waits leaves: the others go on waiting.
    leaving.reset();
    QCOMPARE(second.waitConnected(milliseconds(200)).code(), Code::kDeadlineExceeded);
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
    QCOMPARE(world.person->codes(), std::size_t{0});
    if (ended) {
      asking.reset();
    } else {
      world.prompter->dropHeld();
      QCOMPARE(asking->waitConnected(std::chrono::seconds(60)).code(), Code::kPermissionDenied);
    }
    VERIFY_OK(second.waitConnected(std::chrono::seconds(60)));
    VERIFY_OK(third.waitConnected(std::chrono::seconds(60)));
    QCOMPARE(world.person->codes(), std::size_t{1});
    // It is open now: the one that asked in vain needs no answer, and the others may leave.
    asking = std::make_unique<SshConnection>(SshTarget{.host = "n2"}, silent);
    VERIFY_OK(asking->connect());
    second.close();
    third.close();
    VERIFY_OK(asking->exec("true"));
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
    QCOMPARE(count(world.servers[0]->log(), "Accepted keyboard"), std::size_t{1});
  }

  // Who refuses to give a code is not asked for what the others that wait need.
  void aRefusalCountsForAllWhoWait_data() {
    QTest::addColumn<QByteArray>("before");
    QTest::addColumn<unsigned>("questions");
    QTest::addColumn<bool>("gate");
    const QByteArray password("auth required pam_unix.so nodelay\n");
    QTest::newRow("code") << QByteArray() << 1u << false;
    QTest::newRow("code after a password") << password << 2u << false;
    QTest::newRow("code of a gate") << QByteArray() << 1u << true;
    QTest::newRow("code of a gate after a password") << password << 2u << true;
  }
  void aRefusalCountsForAllWhoWait() {
    QFETCH(QByteArray, before);
    QFETCH(unsigned, questions);
    QFETCH(bool, gate);
    OneTimeWorld world;
    if (!world.serveOneTime(before.toStdString(), "publickey,keyboard-interactive") ||
        (gate && !world.serve()))
      QSKIP(world.why.c_str());
    if (gate)
      world.useAsGate();
    else
      world.user = world.account->name();
    world.trustAll();
    auto options = world.sharing();
    options.prompter = world.prompter;
    world.prompter->holdSecrets = true;
    if (questions > 1) world.prompter->answers = {test::PamAccount::kPassword};
    std::vector<std::unique_ptr<SshConnection>> connections;
    for (int i = 0; i < 3; ++i)
      connections.push_back(
          std::make_unique<SshConnection>(SshTarget{.host = gate ? "n2" : "n1"}, options));
    for (auto& connection : connections) connection->start();
    QVERIFY(test::waitFor([&] {
      return world.configReads() >= connections.size() * (gate ? 2 : 1) &&
             count(world.servers[0]->log(), "Postponed keyboard-interactive for") >=
                 (gate ? 1 : connections.size());
    }));
    QTest::qWait(300);  // until all have read it
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
    world.prompter->release();
    for (auto& connection : connections)
      QCOMPARE(connection->waitConnected(std::chrono::seconds(60)).code(), Code::kPermissionDenied);
    QCOMPARE(world.prompter->secrets().size(), std::size_t{questions});
  }

  // One that waits for its turn can be ended, and lets the others pass; so does one that is ended
  // while it asks.
  void whoWaitsCanBeEnded() {
    OneTimeWorld world;
    if (!world.serveOneTime("", "publickey,keyboard-interactive")) QSKIP(world.why.c_str());
    world.user = world.account->name();
    world.trustAll();
    struct Absent : SshPrompter {  // never answers
      void askHostKey(const HostKeyQuestion&, std::function<void(bool)>) override {}
      void askSecret(const SecretQuestion&,
                     std::function<void(std::optional<Secret>)> answer) override {
        const std::lock_guard lock(mutex);
        held.push_back(std::move(answer));
      }
      std::size_t questions() {
        const std::lock_guard lock(mutex);
        return held.size();
      }
      std::mutex mutex;
      std::vector<std::function<void(std::optional<Secret>)>> held;
    };
    const auto absent = std::make_shared<Absent>();
    auto options = world.asPerson();
    const auto answering = options;
    options.prompter = absent;
    auto asking = std::make_unique<SshConnection>(SshTarget{.host = "n1"}, options);
    asking->start();
    QVERIFY(test::waitFor([&] { return absent->questions() == 1; }));
    auto waiting = std::make_unique<SshConnection>(SshTarget{.host = "n1"}, options);
    SshConnection last({.host = "n1"}, answering);
    waiting->start();
    QVERIFY(
        test::waitFor([&] { return count(world.servers[0]->log(), "Partial publickey") >= 2; }));
    last.start();
    QVERIFY(
        test::waitFor([&] { return count(world.servers[0]->log(), "Partial publickey") >= 3; }));
    QCOMPARE(last.waitConnected(milliseconds(200)).code(), Code::kDeadlineExceeded);
    QElapsedTimer timer;
    timer.start();
    waiting.reset();
    QCOMPARE(absent->questions(), std::size_t{1});
    QCOMPARE(world.person->codes(), std::size_t{0});
    asking.reset();
    QVERIFY2(timer.elapsed() < 20000, std::to_string(timer.elapsed()).c_str());
    VERIFY_OK(last.waitConnected(std::chrono::seconds(60)));
    QCOMPARE(world.person->codes(), std::size_t{1});
  }

  // The server closes a connection that waits for its turn to ask: it reconnects when its turn
  // comes, and asks once.
  void serverHangsUpOnOneThatWaits() {
    OneTimeWorld world;
    // Long enough that a busy machine has asked by then.
    if (!world.serveOneTime("", "publickey,keyboard-interactive\nLoginGraceTime 6"))
      QSKIP(world.why.c_str());
    world.user = world.account->name();
    world.trustAll();
    auto options = world.asPerson();
    SshConnection waiting({.host = "n1"}, options);
    {
      QuestionHolder holder(world);
      QVERIFY(holder.asks());
      waiting.start();
      QVERIFY(
          test::waitFor([&] { return count(world.servers[0]->log(), "Partial publickey") >= 2; }));
      // No process serves a session any more.
      QVERIFY(test::waitFor([&] { return world.servers[0]->freeze(false) == 0; }));
      QCOMPARE(world.person->codes(), std::size_t{0});
    }
    VERIFY_OK(waiting.waitConnected(std::chrono::seconds(60)));
    QCOMPARE(world.person->codes(), std::size_t{1});
  }

 private:
  // Holds the account's turn, as a connection does whose person thinks.
  class QuestionHolder {
   public:
    explicit QuestionHolder(OneTimeWorld& world) {
      auto options = world.asPerson();
      options.prompter = thinking_;
      connection_ = std::make_unique<SshConnection>(SshTarget{.host = "n1"}, options);
      connection_->start();
    }
    bool asks() {
      return test::waitFor([&] { return thinking_->asked.load(); });
    }

   private:
    struct Thinking : SshPrompter {
      void askHostKey(const HostKeyQuestion&, std::function<void(bool)>) override {}
      void askSecret(const SecretQuestion&,
                     std::function<void(std::optional<Secret>)> answer) override {
        held = std::move(answer);
        asked = true;
      }
      std::function<void(std::optional<Secret>)> held;
      std::atomic<bool> asked{false};
    };
    std::shared_ptr<Thinking> thinking_ = std::make_shared<Thinking>();
    std::unique_ptr<SshConnection> connection_;
  };
};

QTEST_GUILESS_MAIN(SecondFactorTest)
#include "second_factor_test.moc"
