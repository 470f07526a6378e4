// Connections that share their answers, as those of a cluster session do, against real sshd.
#include <QTest>

#include <unistd.h>

#include <filesystem>

#include "app/ssh/ssh_connection.h"
#include "app/ssh/ssh_gates.h"
#include "tests/support/ssh_world.h"

using namespace lockstep;
using namespace lockstep::app;
using World = lockstep::test::SshWorld;
using Connections = std::vector<std::unique_ptr<SshConnection>>;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

SshConnectionOptions sharing(const World& world) {
  SshConnectionOptions options = world.options();
  options.shared = std::make_shared<SshShared>();
  return options;
}

Connections startAll(const std::vector<std::string>& hosts, const SshConnectionOptions& options) {
  Connections all;
  for (const std::string& host : hosts) {
    all.push_back(std::make_unique<SshConnection>(SshTarget{.host = host}, options));
    all.back()->start();
  }
  return all;
}

// Until the servers have written this so often, and the clients have read what came with it.
bool awaitInLogs(const World& world, const std::string& text, std::size_t times) {
  const bool came = test::waitFor([&] {
    std::size_t found = 0;
    for (const auto& server : world.servers) found += count(server->log(), text);
    return found >= times;
  });
  QTest::qWait(300);
  return came;
}

// Until each of so many connections waits for the gate, which has written this to its log.
bool awaitAtGate(const World& world, const std::string& text, std::size_t connections) {
  return test::waitFor([&] { return world.configReads() >= 2 * connections; }) &&
         awaitInLogs(world, text, 1);
}

void checkAll(const Connections& all, bool connects) {
  for (const auto& connection : all) {
    const Status status = connection->waitConnected(std::chrono::seconds(60));
    if (connects)
      VERIFY_OK(status);
    else
      QCOMPARE(status.code(), Code::kPermissionDenied);
  }
}

}  // namespace

class SharedAnswersTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void store() {
    AnswerStore store;
    const Secret one("one"), two("two");
    store.put("a", one);
    store.drop("a", two);
    QVERIFY(store.find("a") == std::optional(one));
    store.drop("a", one);
    QVERIFY(!store.find("a"));
    // Right once, then wrong: it serves once.
    store.put("a", one);
    store.forbid("a", two);
    QVERIFY(store.find("a").has_value());
    store.forbid("a", one);
    store.put("a", two);
    QVERIFY(!store.find("a"));
    // Right twice, then wrong: it was changed.
    store.put("b", one);
    store.put("b", one);
    store.forbid("b", one);
    QVERIFY(!store.find("b"));
    store.put("b", two);
    QVERIFY(store.find("b") == std::optional(two));
    const auto before = AnswerStore::Clock::now();
    QVERIFY(!store.refusedSince("a", before));
    store.refuse("a");
    QVERIFY(store.refusedSince("a", before));
    QVERIFY(!store.refusedSince("b", before));
    QVERIFY(!store.refusedSince("a", AnswerStore::Clock::now() + std::chrono::seconds(1)));
  }

  void lockedKey_data() {
    QTest::addColumn<QByteArrayList>("answers");
    QTest::addColumn<int>("questions");
    QTest::addColumn<bool>("connects");
    QTest::newRow("right") << QByteArrayList{"sesame"} << 1 << true;
    QTest::newRow("wrong first") << QByteArrayList{"no", "sesame"} << 2 << true;
    QTest::newRow("wrong three times") << QByteArrayList{"a", "b", "c"} << 3 << false;
    QTest::newRow("refused") << QByteArrayList{} << 1 << false;
  }
  void lockedKey() {
    QFETCH(QByteArrayList, answers);
    QFETCH(int, questions);
    QFETCH(bool, connects);
    WORLD(world, "sesame");
    QVERIFY(world.serve());
    world.trustAll();
    for (const QByteArray& answer : answers)
      world.prompter->answers.push_back(answer.toStdString());
    world.prompter->holdSecrets = true;
    const auto options = sharing(world);
    const Connections all = startAll({"n1", "n2", "n1", "n2", "n1"}, options);
    QVERIFY(awaitInLogs(world, "Postponed publickey", all.size()));
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
    world.prompter->release();
    checkAll(all, connects);
    if (QTest::currentTestFailed()) return;
    QCOMPARE(int(world.prompter->secrets().size()), questions);
    QCOMPARE(world.prompter->secrets().back().attempt, questions);
    // One that comes later knows what was right, and asks anew what was refused.
    world.prompter->answers = {"sesame"};
    SshConnection later({.host = "n2"}, options);
    VERIFY_OK(later.connect());
    QCOMPARE(int(world.prompter->secrets().size()), connects ? questions : questions + 1);
  }

  // A key is unlocked once, unless the file holds another one by now.
  void unlockedKey() {
    WORLD(world, "sesame");
    world.trustAll();
    world.prompter->answers = {"sesame", "of another key"};
    const auto options = sharing(world);
    SshConnection first({.host = "n1"}, options);
    VERIFY_OK(first.connect());
    const std::string id = world.identity;
    QCOMPARE(test::runCommand(
                 {"ssh-keygen", "-q", "-p", "-P", "sesame", "-N", "changed meanwhile", "-f", id}),
             0);
    SshConnection second({.host = "n1"}, options);
    VERIFY_OK(second.connect());
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
    for (const char* part : {"", ".pub"}) std::filesystem::remove(id + part);
    test::makeKey(id, "of another key");
    const std::string known = world.folder / "sshd0/authorized_keys";
    test::writeText(known, test::readText(known) + test::readText(id + ".pub"), 0600);
    SshConnection third({.host = "n1"}, options);
    VERIFY_OK(third.connect());
    QCOMPARE(world.prompter->secrets().size(), std::size_t{2});
  }

  // Where the one that asks gets no answer, the next one asks.
  void nextOneAsks_data() {
    QTest::addColumn<bool>("ended");
    QTest::newRow("connection ended") << true;
    QTest::newRow("answer dropped") << false;
  }
  void nextOneAsks() {
    QFETCH(bool, ended);
    WORLD(world, "sesame");
    world.trustAll();
    world.prompter->holdSecrets = true;
    const auto options = sharing(world);
    Connections first = startAll({"n1"}, options);
    QVERIFY(test::waitFor([&] { return world.prompter->secrets().size() == 1; }));
    const Connections others = startAll({"n1", "n1", "n1"}, options);
    QVERIFY(awaitInLogs(world, "Postponed publickey", 4));
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
    if (ended) {
      first.clear();
      world.prompter->answers = {"too late", "sesame"};
    } else {
      world.prompter->dropHeld();
      world.prompter->answers = {"sesame"};
    }
    QVERIFY(test::waitFor([&] { return world.prompter->secrets().size() == 2; }));
    world.prompter->release();
    checkAll(others, true);
    checkAll(first, false);
    QCOMPARE(world.prompter->secrets().size(), std::size_t{2});
    QCOMPARE(world.prompter->secrets().back().attempt, 1);
  }

  void keyOfAGate_data() {
    QTest::addColumn<bool>("accept");
    QTest::addColumn<bool>("kept");
    QTest::newRow("accepted") << true << true;
    QTest::newRow("accepted, not kept in a file") << true << false;
    QTest::newRow("refused") << false << true;
  }
  void keyOfAGate() {
    QFETCH(bool, accept);
    QFETCH(bool, kept);
    World world;
    if (!world.serve("LogLevel DEBUG1") || !world.serve() || !world.serve())
      QSKIP(world.why.c_str());
    const std::string gate = world.servers[0]->knownHostsLine() + "\n";
    const std::string others =
        world.servers[1]->knownHostsLine() + "\n" + world.servers[2]->knownHostsLine() + "\n";
    test::writeText(world.known(), others, 0600);
    world.extraClientConfig = "Host n2 n3\n  ProxyJump n1\n";
    if (!kept) world.extraClientConfig += "Host n1\n  UserKnownHostsFile /dev/null\n";
    world.prompter->holdHostKeys = true;
    world.prompter->acceptHostKeys = accept;
    const Connections all = startAll({"n2", "n3", "n2", "n3"}, sharing(world));
    QVERIFY(awaitAtGate(world, "KEX done", all.size()));
    QCOMPARE(world.prompter->hostKeys().size(), std::size_t{1});
    QCOMPARE(world.prompter->hostKeys()[0].fingerprint, world.servers[0]->fingerprint());
    world.prompter->release();
    checkAll(all, accept);
    QCOMPARE(world.prompter->hostKeys().size(), std::size_t{1});
    QCOMPARE(test::readText(world.known()), accept && kept ? others + gate : others);
  }

  void passwordOfAGate_data() {
    QTest::addColumn<QByteArray>("server");
    QTest::addColumn<QByteArrayList>("answers");
    QTest::addColumn<bool>("connects");
    const QByteArray password = "PasswordAuthentication yes\nPubkeyAuthentication no\n";
    const QByteArray keyboard =
        "UsePAM yes\nKbdInteractiveAuthentication yes\nAuthenticationMethods "
        "keyboard-interactive\n";
    const auto add = [](const std::string& name, const QByteArray& server) {
      QTest::newRow((name + ", right").c_str()) << server << QByteArrayList{"open sesame"} << true;
      QTest::newRow((name + ", wrong first").c_str())
          << server << QByteArrayList{"wrong", "open sesame"} << true;
      QTest::newRow((name + ", refused").c_str()) << server << QByteArrayList{} << false;
    };
    add("password", password);
    add("keyboard-interactive", keyboard);
  }
  void passwordOfAGate() {
    QFETCH(QByteArray, server);
    QFETCH(QByteArrayList, answers);
    QFETCH(bool, connects);
    World world;
    const auto user = test::TestUser::make("open sesame", &world.why);
    if (!user) QSKIP(world.why.c_str());
    if (server.contains("UsePAM") && ::access("/etc/pam.d/sshd", R_OK) != 0)
      QSKIP("sshd has no PAM configuration here");
    if (!world.serve(server.toStdString() + "LogLevel DEBUG1") || !world.serve() || !world.serve())
      QSKIP(world.why.c_str());
    world.trustAll();
    world.extraClientConfig = "Host n1\n  User " + user->name() + "\nHost n2 n3\n  ProxyJump n1\n";
    for (const QByteArray& answer : answers)
      world.prompter->answers.push_back(answer.toStdString());
    world.prompter->holdSecrets = true;
    const Connections all = startAll({"n2", "n3", "n2", "n3"}, sharing(world));
    QVERIFY(awaitAtGate(world, "method none", all.size()));
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
    world.prompter->release();
    checkAll(all, connects);
    QCOMPARE(world.prompter->secrets().size(), std::size_t(connects ? answers.size() : 1));
  }
};

QTEST_GUILESS_MAIN(SharedAnswersTest)
#include "shared_answers_test.moc"
