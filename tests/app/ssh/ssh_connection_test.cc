// Connecting, host keys, authentication and commands, against real sshd on loopback.
#include "app/ssh/ssh_connection.h"

#include <QElapsedTimer>
#include <QTest>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "app/ssh/sftp.h"
#include "tests/support/ssh_world.h"

using namespace lockstep;
using namespace lockstep::app;
using World = lockstep::test::SshWorld;

namespace {
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
// Whether the first server has let somebody in by this method at least twice.
bool hasLetInTwice(const World& world, const std::string& method) {
  const std::string log = world.servers[0]->log(), accepted = "Accepted " + method;
  const auto first = log.find(accepted);
  return first != std::string::npos && log.find(accepted, first + 1) != std::string::npos;
}
}  // namespace

class SshConnectionTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void unknownKeyIsAskedForAndKept() {
    WORLD(world);
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    QCOMPARE(world.prompter->hostKeys().size(), std::size_t{1});
    const HostKeyQuestion question = world.prompter->hostKeys().front();
    QCOMPARE(question.fingerprint, world.servers[0]->fingerprint());
    QCOMPARE(question.keyType, std::string("ssh-ed25519"));
    QCOMPARE(test::readText(world.known()), world.servers[0]->knownHostsLine() + "\n");
    // OpenSSH itself agrees with what was written.
    QCOMPARE(test::runCommand({"ssh", "-F", world.folder / "config", "-o", "BatchMode=yes", "-o",
                               "StrictHostKeyChecking=yes", "n1", "true"}),
             0);
    auto result = connection.exec("echo out; echo err >&2; exit 7");
    VERIFY_OK(result);
    QCOMPARE(result->output, std::string("out\n"));
    QCOMPARE(result->errorOutput, std::string("err\n"));
    QCOMPARE(result->exitStatus, 7);
    SshConnection second({.host = "n1"}, world.options());
    VERIFY_OK(second.connect());
    QCOMPARE(world.prompter->hostKeys().size(), std::size_t{1});
  }

  void unknownKeyRejected() {
    WORLD(world);
    world.prompter->acceptHostKeys = false;
    SshConnection connection({.host = "n1"}, world.options());
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QCOMPARE(status.error().node, std::string("node-1"));
    QVERIFY2(has(status.error().why, world.servers[0]->fingerprint()),
             status.error().text().c_str());
    QVERIFY(has(status.error().next, "--accept-host-key SHA256:"));
    QVERIFY(test::readText(world.known()).empty());
    QCOMPARE(connection.status().state, LinkState::kFailed);
    // A second start asks again.
    world.prompter->acceptHostKeys = true;
    VERIFY_OK(connection.connect());
  }

  void droppedAnswerRefuses() {
    WORLD(world);
    world.prompter->holdHostKeys = true;
    SshConnection connection({.host = "n1"}, world.options());
    connection.start();
    QVERIFY(test::waitFor([&] { return world.prompter->hostKeys().size() == 1; }));
    QCOMPARE(connection.status().state, LinkState::kConnecting);
    world.prompter->dropHeld();
    QCOMPARE(connection.waitConnected(std::chrono::seconds(60)).code(), Code::kPermissionDenied);
  }

  void listedFingerprintOnly() {
    WORLD(world);
    auto options = world.options();
    options.prompter = listedHostKeys({"SHA256:0000000000000000000000000000000000000000000"});
    SshConnection wrong({.host = "n1"}, options);
    QCOMPARE(wrong.connect().code(), Code::kPermissionDenied);
    options.prompter = listedHostKeys({world.servers[0]->fingerprint()});
    SshConnection right({.host = "n1"}, options);
    VERIFY_OK(right.connect());
  }

  void changedKeyIsRefused() {
    WORLD(world);
    world.trustAll();
    world.servers[0]->replaceHostKey();
    SshConnection connection({.host = "n1"}, world.options());
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QVERIFY(has(status.error().what, "has changed"));
    QVERIFY2(has(status.error().why, world.known() + ":1"), status.error().why.text().c_str());
    const std::string command = "ssh-keygen -f '" + world.known() +
                                "' -R '[127.0.0.1]:" + std::to_string(world.servers[0]->port()) +
                                "'";
    QVERIFY2(has(status.error().next, command), status.error().next.text().c_str());
    QVERIFY(world.prompter->hostKeys().empty());
    // The advice works.
    QCOMPARE(test::runCommand({"sh", "-c", command}), 0);
    VERIFY_OK(connection.connect());
  }

  void revokedKeyIsRefused() {
    WORLD(world);
    world.trustAll();
    test::writeText(world.known(), "@revoked " + world.servers[0]->knownHostsLine() + "\n", 0600);
    SshConnection connection({.host = "n1"}, world.options());
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QVERIFY(has(status.error().what, "revoked"));
  }

  void wrongKeyListsWhatWasTried() {
    WORLD(world);
    world.trustAll();
    test::makeKey(world.folder / "other");
    world.identity = world.folder / "other";
    auto agent = test::SshAgent::start(world.folder.path());
    QVERIFY(agent && agent->add(world.folder / "other"));
    world.extraClientConfig = "IdentityAgent " + agent->socket() + "\n";
    SshConnection connection({.host = "n1"}, world.options());
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QVERIFY2(has(status.error().what, "permission denied for ") && has(status.error().what, "@n1"),
             status.error().text().c_str());
    QVERIFY2(has(status.error().why, "agent (1 key)") &&
                 has(status.error().why, world.folder / "other") &&
                 has(status.error().why, "server offers publickey"),
             status.error().text().c_str());
  }

  void passphraseIsAskedOnceAndServesReconnects() {
    WORLD(world, "sesame");
    world.trustAll();
    world.prompter->answers = {"sesame"};
    auto options = world.options();
    options.firstPause = std::chrono::milliseconds(20);
    SshConnection connection({.host = "n1"}, options);
    VERIFY_OK(connection.connect());
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
    QCOMPARE(world.prompter->secrets()[0].keyFile, world.folder / "id");
    QVERIFY(world.servers[0]->killSessions() > 0);
    QVERIFY(test::waitFor([&] { return hasLetInTwice(world, "publickey"); }));
    VERIFY_OK(connection.waitConnected(std::chrono::seconds(60)));
    QCOMPARE(world.prompter->secrets().size(), std::size_t{1});
  }

  // Between the end of a session and the next attempt the state still says "connected".
  void whoWaitedFindsASession() {
    WORLD(world);
    world.trustAll();
    auto options = world.options();
    options.firstPause = std::chrono::milliseconds(1);
    SshConnection connection({.host = "n1"}, options);
    VERIFY_OK(connection.connect());
    int lost = 0;
    for (int round = 0; round < 20; ++round) {
      QVERIFY(world.servers[0]->killSessions() > 0);
      if (connection.exec("true").ok()) continue;  // back already
      ++lost;
      VERIFY_OK(connection.waitConnected(std::chrono::seconds(60)));
      VERIFY_OK(connection.exec("true"));
    }
    QVERIFY(lost > 0);
  }

  // It is asked to connect while it reconnects by itself. It does not begin anew at the next loss.
  void whatStartAsksForIsDoneOnce() {
    WORLD(world);
    world.trustAll();
    auto options = world.options();
    options.firstPause = std::chrono::milliseconds(20);
    std::atomic<int> connected{0};
    std::atomic<SshConnection*> toStart{nullptr};
    options.onState = [&](const LinkStatus& status) {
      if (status.state == LinkState::kConnected) ++connected;
      if (status.state != LinkState::kReconnecting || status.retryIn.count() > 0) return;
      if (SshConnection* const one = toStart.exchange(nullptr)) one->start();
    };
    SshConnection connection({.host = "n1"}, options);
    VERIFY_OK(connection.connect());
    toStart = &connection;
    for (const int times : {2, 3}) {
      QVERIFY(test::waitFor([&] { return connected == times - 1; }));
      QVERIFY(world.servers[0]->killSessions() > 0);
      QVERIFY(test::waitFor([&] { return connected == times; }));
    }
    QVERIFY(toStart == nullptr);
    QCOMPARE(world.configReads(), std::size_t{1});  // each beginning reads it
  }

  void wrongPassphraseThreeTimes() {
    WORLD(world, "sesame");
    world.trustAll();
    world.prompter->answers = {"a", "b", "c", "sesame"};
    SshConnection connection({.host = "n1"}, world.options());
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QCOMPARE(world.prompter->secrets().size(), std::size_t{3});
    QCOMPARE(world.prompter->secrets()[2].attempt, 3);
    QVERIFY2(has(status.error().why, "wrong passphrase"), status.error().why.text().c_str());
    // On the second try of the next attempt it is right.
    world.prompter->answers = {"x", "sesame"};
    VERIFY_OK(connection.connect());
  }

  void secretsOfAnAccount_data() {
    QTest::addColumn<QString>("server");
    QTest::addColumn<int>("kind");
    QTest::addColumn<QString>("tried");
    QTest::newRow("password") << "PasswordAuthentication yes\nPubkeyAuthentication no"
                              << int(SecretQuestion::Kind::kPassword) << "password";
    QTest::newRow("keyboard-interactive")
        << "UsePAM yes\nKbdInteractiveAuthentication yes\nAuthenticationMethods "
           "keyboard-interactive"
        << int(SecretQuestion::Kind::kKeyboardInteractive) << "keyboard-interactive";
    QTest::newRow("key, then password")
        << "PasswordAuthentication yes\nAuthenticationMethods publickey,password"
        << int(SecretQuestion::Kind::kPassword) << "password";
  }
  void secretsOfAnAccount() {
    QFETCH(QString, server);
    QFETCH(int, kind);
    QFETCH(QString, tried);
    World world;
    const auto user = test::TestUser::make("open sesame", &world.why);
    if (!user) QSKIP(world.why.c_str());
    if (kind == int(SecretQuestion::Kind::kKeyboardInteractive) &&
        ::access("/etc/pam.d/sshd", R_OK) != 0)
      QSKIP("sshd has no PAM configuration here");
    // Where the account itself can read it.
    const std::string keys = user->home() + "/authorized_keys";
    test::writeText(keys, test::readText(world.folder / "id.pub"));
    if (!world.serve(server.toStdString() + "\nAuthorizedKeysFile " + keys))
      QSKIP(world.why.c_str());
    world.user = user->name();
    world.trustAll();
    world.prompter->answers = {"wrong", "open sesame"};
    auto options = world.options();
    options.firstPause = std::chrono::milliseconds(20);
    SshConnection connection({.host = "n1"}, options);
    VERIFY_OK(connection.connect());
    const auto asked = world.prompter->secrets();
    QCOMPARE(asked.size(), std::size_t{2});
    QCOMPARE(int(asked[0].kind), kind);
    QVERIFY2(has(asked[0].account, user->name() + "@"), asked[0].account.c_str());
    QVERIFY(!asked[0].echo);
    QCOMPARE(asked[1].attempt, 2);
    auto who = connection.exec("id -un");
    VERIFY_OK(who);
    QCOMPARE(who->output, user->name() + "\n");
    // What was right serves a reconnect without a question.
    QVERIFY(world.servers[0]->killSessions() > 0);
    QVERIFY(test::waitFor([&] { return hasLetInTwice(world, tried.toStdString()); }));
    VERIFY_OK(connection.waitConnected(std::chrono::seconds(60)));
    QCOMPARE(world.prompter->secrets().size(), std::size_t{2});
    // Nobody answers.
    SshConnection silent({.host = "n1"}, world.options());
    const Status status = silent.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QVERIFY2(has(status.error().why, tried.toStdString() + " (no") &&
                 has(status.error().why, "server offers"),
             status.error().text().c_str());
    QVERIFY(!status.error().next.empty());
  }

  void agentUnlocksWhatTheFileDoesNot() {
    WORLD(world);
    world.trustAll();
    auto agent = test::SshAgent::start(world.folder.path());
    QVERIFY(agent && agent->add(world.folder / "id"));
    world.identity = "none";
    world.extraClientConfig = "IdentityAgent " + agent->socket() + "\n";
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    QVERIFY(world.prompter->secrets().empty());
  }

  // IdentitiesOnly: of the agent's keys only the named one, and no passphrase for its file.
  void agentHoldsTheNamedKey() {
    WORLD(world);
    world.trustAll();
    auto agent = test::SshAgent::start(world.folder.path());
    QVERIFY(agent);
    for (int i = 0; i < 8; ++i) {  // more than the server would let be tried
      const std::string other = world.folder / ("other" + std::to_string(i));
      test::makeKey(other);
      QVERIFY(agent->add(other));
    }
    QVERIFY(agent->add(world.folder / "id"));
    QCOMPARE(test::runCommand(
                 {"ssh-keygen", "-q", "-p", "-P", "", "-N", "sesame", "-f", world.folder / "id"}),
             0);
    world.extraClientConfig = "IdentityAgent " + agent->socket() + "\n";
    SshConnection all({.host = "n1"}, world.options());
    const Status tooMany = all.connect();
    QCOMPARE(tooMany.code(), Code::kPermissionDenied);
    QVERIFY2(has(tooMany.error().next, "IdentitiesOnly"), tooMany.error().text().c_str());
    world.extraClientConfig += "IdentitiesOnly yes\n";
    SshConnection named({.host = "n1"}, world.options());
    VERIFY_OK(named.connect());
    QVERIFY(world.prompter->secrets().empty());
  }

  void jumpChain() {
    WORLD(world);
    QVERIFY(world.serve() && world.serve());
    world.extraClientConfig = "Host n3\n  ProxyJump n1,n2\n";
    SshConnection connection({.host = "n3"}, world.options());
    VERIFY_OK(connection.connect());
    QCOMPARE(world.prompter->hostKeys().size(), std::size_t{3});
    auto result = connection.exec("echo through");
    VERIFY_OK(result);
    QCOMPARE(result->output, std::string("through\n"));
    // Each hop was really gone through.
    for (const auto& server : world.servers) QVERIFY(has(server->log(), "Accepted publickey"));
    // A jump host with a changed key is refused, too.
    world.servers[1]->replaceHostKey();
    SshConnection again({.host = "n3"}, world.options());
    QCOMPARE(again.connect().code(), Code::kPermissionDenied);
  }

  void jumpHostSaysWhyItCannotReach() {
    WORLD(world);
    QVERIFY(world.serve());
    world.trustAll();
    world.extraClientConfig = "Host n2\n  ProxyJump n1\n";
    auto options = world.options();
    world.servers[1]->stop();
    SshConnection connection({.host = "n2"}, options);
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kUnavailable);
    QVERIFY2(has(status.error().what, "jump host n1"), status.error().text().c_str());
  }

  void refusedConnectionAndSilentHost() {
    WORLD(world);
    auto options = world.options();
    world.servers[0]->stop();
    SshConnection refused({.host = "n1"}, options);
    const Status status = refused.connect();
    QCOMPARE(status.code(), Code::kUnavailable);
    QVERIFY2(has(status.error().why, "refused"), status.error().text().c_str());
    // A listener that says nothing.
    test::TempFolder folder;
    const int silent = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    QCOMPARE(::bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
    ::listen(silent, 5);
    ::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size);
    options.connectTimeout = std::chrono::milliseconds(300);
    SshConnection mute({.host = "127.0.0.1", .port = ntohs(address.sin_port)}, options);
    QCOMPARE(mute.connect().code(), Code::kDeadlineExceeded);
    // And cancelled while it waits.
    options.connectTimeout = std::chrono::seconds(60);
    SshConnection cancelled({.host = "127.0.0.1", .port = ntohs(address.sin_port)}, options);
    std::stop_source stop;
    std::thread later([&] {
      test::waitFor([&] { return cancelled.status().state == LinkState::kConnecting; });
      stop.request_stop();
    });
    QCOMPARE(cancelled.connect(stop.get_token()).code(), Code::kCancelled);
    later.join();
    cancelled.close();
    ::close(silent);
  }

  // The connection's thread is still at the end of the attempt before.
  void anAttemptIsCancelledBeforeItBegins() {
    WORLD(world);
    world.prompter->acceptHostKeys = false;
    std::promise<void> failed, goOn;
    auto options = world.options();
    options.onState = [&, told = false](const LinkStatus& status) mutable {
      if (status.state != LinkState::kFailed || std::exchange(told, true)) return;
      failed.set_value();
      goOn.get_future().wait();
    };
    SshConnection connection({.host = "n1"}, options);
    connection.start();
    failed.get_future().wait();
    world.prompter->acceptHostKeys = true;
    std::stop_source stop;
    stop.request_stop();
    const Status cancelled = connection.connect(stop.get_token());
    goOn.set_value();
    QCOMPARE(cancelled.code(), Code::kCancelled);
    QCOMPARE(connection.waitConnected(std::chrono::seconds(60)).code(), Code::kCancelled);
    QCOMPARE(connection.status().state, LinkState::kFailed);
    QCOMPARE(world.prompter->hostKeys().size(), std::size_t{1});
    VERIFY_OK(connection.connect());  // another one is not
  }

  void execLimitsAndCancelling() {
    WORLD(world);
    world.trustAll();
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    ExecOptions quick;
    quick.timeout = std::chrono::milliseconds(200);
    QCOMPARE(connection.exec("sleep 30", quick).error().code, Code::kDeadlineExceeded);
    std::stop_source stop;
    std::thread later([&] { stop.request_stop(); });
    QCOMPARE(connection.exec("sleep 30", {}, stop.get_token()).error().code, Code::kCancelled);
    later.join();
    ExecOptions small;
    small.outputLimit = 1000;
    QCOMPARE(connection.exec("head -c 100000 /dev/zero", small).error().code,
             Code::kResourceExhausted);
    auto killed = connection.exec("kill -KILL $$");
    VERIFY_OK(killed);
    QCOMPARE(killed->exitStatus, -1);
    QCOMPARE(killed->signalName, std::string("KILL"));
    ExecOptions input;
    input.input = std::string(3 << 20, 'x');
    auto counted = connection.exec("wc -c", input);
    VERIFY_OK(counted);
    QCOMPARE(std::stoi(counted->output), 3 << 20);
    auto big = connection.exec("head -c 10000000 /dev/zero");
    VERIFY_OK(big);
    QCOMPARE(big->output.size(), std::size_t{10000000});
    auto script = connection.script("x=\"it's\"\nprintf '%s\\n' \"$x\"\n");
    VERIFY_OK(script);
    QCOMPARE(script->output, std::string("it's\n"));
  }

  // More at once than the server's MaxSessions: the rest wait their turn.
  void manyCommandsAtOnce() {
    WORLD(world);
    world.trustAll();
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    std::vector<std::thread> threads;
    std::vector<std::string> outputs(32);
    for (int i = 0; i < 32; ++i)
      threads.emplace_back([&, i] {
        auto result =
            connection.exec("head -c 100000 /dev/zero | wc -c; echo " + std::to_string(i));
        outputs[static_cast<std::size_t>(i)] = result.ok() ? result->output : result.error().text();
      });
    for (auto& thread : threads) thread.join();
    for (int i = 0; i < 32; ++i)
      QCOMPARE(outputs[static_cast<std::size_t>(i)], "100000\n" + std::to_string(i) + "\n");
  }

  // The server holds a channel's slot until its process has ended, which may be long after the
  // channel has.
  void slotsThatAreFreedLateAreWaitedFor_data() {
    QTest::addColumn<int>("slots");
    QTest::addColumn<int>("callers");
    QTest::newRow("one slot") << 1 << 1;
    QTest::newRow("one slot, several commands") << 1 << 6;
    QTest::newRow("three slots, several commands") << 3 << 12;
  }
  void slotsThatAreFreedLateAreWaitedFor() {
    QFETCH(int, slots);
    QFETCH(int, callers);
    World world;
    if (!world.serve("Subsystem slow /bin/sh -c 'cat > /dev/null; sleep 1.5'\nMaxSessions " +
                     std::to_string(slots)))
      QSKIP(world.why.c_str());
    world.trustAll();
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    for (int i = 0; i < slots; ++i) {
      auto slow = connection.openSubsystem("slow");
      VERIFY_OK(slow);
      QVERIFY(::send(slow->get(), "x", 1, MSG_NOSIGNAL) == 1);
    }
    QElapsedTimer timer;
    timer.start();
    std::vector<std::thread> threads;
    std::vector<std::string> outputs(static_cast<std::size_t>(callers));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      threads.emplace_back([&, i] {
        auto result = connection.exec("echo " + std::to_string(i));
        outputs[i] = result.ok() ? result->output : result.error().text();
      });
    for (auto& thread : threads) thread.join();
    qInfo("after %lld ms", static_cast<long long>(timer.elapsed()));
    for (std::size_t i = 0; i < outputs.size(); ++i) QCOMPARE(outputs[i], std::to_string(i) + "\n");
    // What was learned while slots lagged does not make the connection slow for good.
    timer.start();
    for (int i = 0; i < 10; ++i) VERIFY_OK(connection.exec("true"));
    QVERIFY2(timer.elapsed() < 12000, std::to_string(timer.elapsed()).c_str());
  }

  void slotsThatNeverComeAreAnError() {
    World world;
    if (!world.serve("MaxSessions 0")) QSKIP(world.why.c_str());
    world.trustAll();
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    QElapsedTimer timer;
    timer.start();
    const auto result = connection.exec("true");
    QVERIFY(!result.ok());
    QVERIFY2(has(result.error().text(), "does not open a channel") &&
                 has(result.error().text(), "MaxSessions"),
             result.error().text().c_str());
    QVERIFY2(timer.elapsed() < 40000, std::to_string(timer.elapsed()).c_str());
  }

  void sftpMovesFiles() {
    WORLD(world);
    world.trustAll();
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    auto stream = connection.openSubsystem("sftp");
    VERIFY_OK(stream);
    auto sftp = SftpClient::start(std::move(stream).value());
    VERIFY_OK(sftp);
    const std::size_t size = 64 << 20;
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
    test::writeText(world.folder / "big", bytes);
    VERIFY_OK((*sftp)->makeFolder(world.folder / "up", 0700));
    std::uint64_t told = 0;
    QElapsedTimer timer;
    timer.start();
    VERIFY_OK((*sftp)->upload(world.folder / "big", world.folder / "up/big", 0755,
                              [&](std::uint64_t n) { told += n; }));
    qInfo("upload: %.0f MB/s", static_cast<double>(size) / 1e3 /
                                   static_cast<double>(std::max<qint64>(1, timer.elapsed())));
    QCOMPARE(told, std::uint64_t{size});
    QVERIFY(test::readText(world.folder / "up/big") == bytes);
    struct stat info {};
    ::stat((world.folder / "up/big").c_str(), &info);
    QCOMPARE(info.st_mode & 0777, 0755u);
    QCOMPARE((*sftp)->upload(world.folder / "big", world.folder / "none/big", 0644, {}).code(),
             Code::kNotFound);
    auto list = (*sftp)->list(world.folder / "up");
    VERIFY_OK(list);
    QCOMPARE(list->size(), std::size_t{1});
    QCOMPARE(list->front().size, std::uint64_t{size});
    VERIFY_OK((*sftp)->rename(world.folder / "up", world.folder / "moved"));
    VERIFY_OK((*sftp)->removeTree(world.folder / "moved"));
    QVERIFY(::access((world.folder / "moved").c_str(), F_OK) != 0);
  }
};

QTEST_GUILESS_MAIN(SshConnectionTest)
#include "ssh_connection_test.moc"
