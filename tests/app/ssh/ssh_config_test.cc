#include "app/ssh/ssh_config.h"
#include "app/ssh/config_hosts.h"

#include <QTest>

#include "tests/support/sshd.h"

using namespace lockstep;
using namespace lockstep::app;

class SshConfigTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Those of included files too, also of one that includes itself; no patterns.
  void listsHosts() {
    const test::TempFolder folder;
    const std::string more = folder / "more-1";
    test::writeText(more, "host=n4\nInclude " + more + "\nHost n1\n");
    test::writeText(folder / "config", "# Host n0\nHost n1 n2 *.lab !bad\n  Port 22\nInclude " +
                                           (folder / "more-*") + " absent\nHost n3");
    QVERIFY(sshConfigHosts(folder / "config") ==
            (std::vector<std::string>{"n1", "n2", "n4", "n3"}));
    QVERIFY(sshConfigHosts(folder / "absent").empty());
  }
  void listsHostsInQuotesAndBeforeComments() {
    const test::TempFolder folder;
    test::writeText(folder / "config",
                    "Host n1 # of the lab\nHost \"n2\" 'n6' \"\" n#3\nHost \"n4\nInclude \"" +
                        (folder / "more hosts") + "\" # too\n");
    test::writeText(folder / "more hosts", "Host n5\n");
    QVERIFY(sshConfigHosts(folder / "config") ==
            (std::vector<std::string>{"n1", "n2", "n6", "n#3", "n4", "n5"}));
  }

  void seesWhatOpenSshSees() {
    const test::TempFolder folder;
    test::writeText(folder / "more", "Host n*\n  User included\n  ConnectTimeout 7\n");
    test::writeText(folder / "config",
                    "Include " + (folder / "more") +
                        "\nMatch host n1\n  Port 2200\n  HashKnownHosts yes\n"
                        "Host n1\n  HostName 10.1.2.3\n  IdentityFile /keys/%h-%r\n"
                        "  IdentitiesOnly yes\n  HostKeyAlias n1.lab\n"
                        "  UserKnownHostsFile /k/a /k/b\n  StrictHostKeyChecking accept-new\n");
    auto config = effectiveConfig({.host = "n1"}, folder / "config");
    QVERIFY2(config.ok(), config.ok() ? "" : config.error().text().c_str());
    QCOMPARE(config->hostname, std::string("10.1.2.3"));
    QCOMPARE(config->user, std::string("included"));
    QCOMPARE(config->connectTimeoutSeconds, 7);
    QCOMPARE(config->identityFiles.front(), std::string("/keys/10.1.2.3-included"));
    QVERIFY(config->identitiesOnly);
    QCOMPARE(config->userKnownHosts, (std::vector<std::string>{"/k/a", "/k/b"}));
    QCOMPARE(config->strictHostKeyChecking, std::string("accept-new"));
    QCOMPARE(config->knownHostsName(), std::string("n1.lab"));
  }
  void expandsVariablesInKeyFiles() {
    const test::TempFolder folder;
    qputenv("LOCKSTEP_TEST_KEYS", "/keys");
    qunsetenv("LOCKSTEP_TEST_ABSENT");
    test::writeText(folder / "config",
                    "Host n1\n  IdentityFile ${LOCKSTEP_TEST_KEYS}/%h\n"
                    "  CertificateFile ${LOCKSTEP_TEST_KEYS}/c.pub\n");
    const auto config = effectiveConfig({.host = "n1"}, folder / "config");
    const auto absent = parseEffectiveConfig(
        "hostname n1\nuser a\nport 22\nidentityfile ${LOCKSTEP_TEST_ABSENT}/k\n", {.host = "n1"});
    qunsetenv("LOCKSTEP_TEST_KEYS");
    QVERIFY2(config.ok(), config.ok() ? "" : config.error().text().c_str());
    QCOMPARE(config->identityFiles, (std::vector<std::string>{"/keys/n1"}));
    QCOMPARE(config->certificateFiles, (std::vector<std::string>{"/keys/c.pub"}));
    QVERIFY(absent.ok());
    QCOMPARE(absent->identityFiles, (std::vector<std::string>{"${LOCKSTEP_TEST_ABSENT}/k"}));
  }
  void fieldsOverride() {
    const test::TempFolder folder;
    test::writeText(folder / "config", "Host n1\n  HostName 10.1.2.3\n  Port 2200\n  User a\n");
    auto config =
        effectiveConfig({.host = "n1", .user = "b", .port = 2300, .identityFile = "/no/such/key"},
                        folder / "config");
    QVERIFY(config.ok());
    QCOMPARE(config->user, std::string("b"));
    QCOMPARE(config->port, 2300);
    QCOMPARE(config->identityFiles.front(), std::string("/no/such/key"));
    QCOMPARE(config->knownHostsName(), std::string("[10.1.2.3]:2300"));
  }
  void routeGoesThroughJumpHosts() {
    const test::TempFolder folder;
    test::writeText(folder / "config",
                    "Host far\n  ProxyJump b\nHost b\n  ProxyJump bob@a:2222\n"
                    "Host a\n  HostName 10.0.0.1\nHost loop\n  ProxyJump loop2\n"
                    "Host loop2\n  ProxyJump loop\n");
    auto route = effectiveRoute({.host = "far"}, folder / "config");
    QVERIFY2(route.ok(), route.ok() ? "" : route.error().text().c_str());
    QCOMPARE(route->size(), std::size_t{3});
    QCOMPARE((*route)[0].hostname, std::string("10.0.0.1"));
    QCOMPARE((*route)[0].user, std::string("bob"));
    QCOMPARE((*route)[0].port, 2222);
    QCOMPARE((*route)[2].alias, std::string("far"));
    auto circle = effectiveRoute({.host = "loop"}, folder / "config");
    QVERIFY(!circle.ok());
    QVERIFY(circle.error().what.text().find("circle") != std::string::npos);
  }
  void proxyCommandOrJumpHost_data() {
    QTest::addColumn<QByteArray>("lines");
    QTest::addColumn<QByteArray>("command");  // of the last hop
    QTest::addColumn<int>("hops");
    QTest::newRow("tokens") << QByteArray("ProxyCommand c %h %n %p %r %k %% 'a b'")
                            << QByteArray("c 10.0.0.9 h 2200 ann 10.0.0.9 % 'a b'") << 1;
    QTest::newRow("alias of the key")
        << QByteArray("ProxyCommand c %k\nHostKeyAlias lab") << QByteArray("c lab") << 1;
    QTest::newRow("none") << QByteArray("ProxyCommand none") << QByteArray() << 1;
    QTest::newRow("none, then a command")
        << QByteArray("ProxyCommand none\nProxyCommand c") << QByteArray() << 1;
    QTest::newRow("command first")
        << QByteArray("ProxyCommand c\nProxyJump gate") << QByteArray("c") << 1;
    QTest::newRow("jump first") << QByteArray("ProxyJump gate\nProxyCommand c") << QByteArray()
                                << 2;
    QTest::newRow("jump hosts with commands")
        << QByteArray("ProxyJump by-command,by-command") << QByteArray() << 3;
  }
  void proxyCommandOrJumpHost() {
    QFETCH(QByteArray, lines);
    QFETCH(QByteArray, command);
    QFETCH(int, hops);
    const test::TempFolder folder;
    test::writeText(folder / "config", "Host h\nHostName 10.0.0.9\nPort 2200\nUser ann\n" +
                                           lines.toStdString() +
                                           "\nHost by-command\nProxyCommand first %h\n");
    const auto route = effectiveRoute({.host = "h"}, folder / "config");
    QVERIFY2(route.ok(), route.ok() ? "" : route.error().text().c_str());
    QCOMPARE(int(route->size()), hops);
    QCOMPARE(route->back().proxyCommand, command.toStdString());
    // Only the first hop is reached from here.
    for (std::size_t i = 0; i + 1 < route->size(); ++i) {
      const bool byCommand = i == 0 && (*route)[i].alias == "by-command";
      QCOMPARE((*route)[i].proxyCommand, std::string(byCommand ? "first by-command" : ""));
    }
  }
  void proxyCommandsThatAreRefused() {
    const test::TempFolder folder;
    test::writeText(folder / "config",
                    "Host a\nProxyCommand c %x\nHost b\nProxyCommand c %\n"
                    "Host c\nProxyCommand nc -F %h %p\nProxyUseFdpass yes\n");
    for (const char* host : {"a", "b"}) {
      const auto config = effectiveConfig({.host = host}, folder / "config");
      QVERIFY(!config.ok());
      QVERIFY2(config.error().text().find("unknown token") != std::string::npos,
               config.error().text().c_str());
    }
    const auto passing = effectiveConfig({.host = "c"}, folder / "config");
    QCOMPARE(passing.error().code, Code::kFailedPrecondition);
    QVERIFY(passing.error().why.text().find("ProxyUseFdpass") != std::string::npos);
  }
  void namesWhatIsWrong() {
    const test::TempFolder folder;
    test::writeText(folder / "config", "Hots n1\n");
    auto config = effectiveConfig({.host = "n1"}, folder / "config");
    QVERIFY(!config.ok());
    QCOMPARE(config.error().code, Code::kInvalidArgument);
    QVERIFY2(config.error().why.text().find("line 1") != std::string::npos,
             config.error().why.text().c_str());
    QCOMPARE(effectiveConfig({.host = "-oProxyCommand=x"}, "").error().code,
             Code::kInvalidArgument);
    // What the cluster says, not the configuration.
    for (const char* wrong : {"n1\r", "n 1", "n1;true", "n$1", "n'1", "n\n1"}) {
      const auto host = effectiveConfig({.host = wrong}, ""),
                 user = effectiveConfig({.host = "n1", .user = wrong}, "");
      QVERIFY(!host.ok() && host.error().next == "correct ssh.host of the node in the cluster");
      QVERIFY(!user.ok() && user.error().next == "correct ssh.user of the node in the cluster");
    }
    // The account of a domain.
    const auto ofDomain = effectiveConfig({.host = "n1", .user = "LAB\\alice"}, "/dev/null");
    QVERIFY2(ofDomain.ok(), ofDomain.ok() ? "" : ofDomain.error().text().c_str());
    QCOMPARE(ofDomain->user, std::string("LAB\\alice"));
    QVERIFY(!effectiveConfig({.host = "n1", .user = "LAB\\"}, "").ok());
    QVERIFY(!effectiveConfig({.host = "LAB\\n1"}, "").ok());
    QCOMPARE(effectiveConfig({.host = "127.0.0.1:22"}, "").error().next,
             std::string("write host: 127.0.0.1 and port: 22"));
    QVERIFY(effectiveConfig({.host = "::1"}, "/dev/null").ok());
  }
};

QTEST_GUILESS_MAIN(SshConfigTest)
#include "ssh_config_test.moc"
