#include "app/ssh/ssh_config.h"

#include <QTest>

#include "tests/support/sshd.h"

using namespace lockstep;
using namespace lockstep::app;

class SshConfigTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
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
                    "Host loop2\n  ProxyJump loop\nHost c\n  ProxyCommand nc %h %p\n");
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
    auto command = effectiveRoute({.host = "c"}, folder / "config");
    QCOMPARE(command.error().code, Code::kFailedPrecondition);
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
    QCOMPARE(effectiveConfig({.host = "127.0.0.1:22"}, "").error().next,
             std::string("write host: 127.0.0.1 and port: 22"));
    QVERIFY(effectiveConfig({.host = "::1"}, "/dev/null").ok());
  }
};

QTEST_GUILESS_MAIN(SshConfigTest)
#include "ssh_config_test.moc"
