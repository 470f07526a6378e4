// Nodes whose address the cluster leaves empty, on hosts of their own: an address by which the
// others reach each is found, proven and shown; what cannot be reached is named before anything
// begins.
#include <QElapsedTimer>
#include <QTest>
#include <random>

#include <unistd.h>

#include "tests/app/cli/cli_runner.h"
#include "tests/cluster/hosts.h"

using namespace lockstep::test;

class PeerAddressesTest : public QObject {
  Q_OBJECT
  TempFolder folder_;
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<Cli> cli_;

  static std::string netns(int host) {
    return "ls" + std::to_string(::getpid()) + "-n" + std::to_string(host);
  }
  static bool ip(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ip");
    return runCommand(arguments) == 0;
  }
  // What host `to` refuses of what comes to it, in nft's words; "" nothing any more.
  void block(int to, const std::string& rules) {
    hosts_->run(to, {"nft", "delete", "table", "inet", "blocked"});
    if (rules.empty()) return;
    QCOMPARE(hosts_->run(
                 to, {"nft", "table inet blocked { chain i { type filter hook input priority 0; " +
                                 rules + " }; }"}),
             0);
  }
  static std::string newTcp(const std::string& what, const std::string& verdict) {
    return what + " tcp dport != 2222 tcp flags & (syn|ack) == syn " + verdict + "; ";
  }

  QString cluster(const QByteArray& n1 = "", const QByteArray& n2 = "",
                  const QByteArray& ssh2 = "host: n2") {
    const auto workdir = [&](const char* name) {
      return QByteArray::fromStdString(folder_ / ("work " + std::string(name)));
    };
    return cli_->write(
        "cluster.yaml",
        "version: 1\nname: apart\nnodes:\n  - name: n1\n    ssh: {host: n1}\n    workdir: " +
            workdir("1") + "\n" + n1 + "  - name: n2\n    ssh: {" + ssh2 +
            "}\n    workdir: " + workdir("2") + "\n" + n2);
  }
  CliResult lockstep(const QStringList& words, int limitMs = 120000) {
    return cli_->run(
        QStringList{"--ssh-config", QString::fromStdString(folder_ / "config")} + words, limitMs);
  }
  CliResult check(const QString& file) { return lockstep({"cluster", "check", file, "--json"}); }
  CliResult train(const QString& file) {
    return lockstep({"run", example("fashion-mlp"), "--cluster", file, "--set",
                     "training.max_steps=20", "--set", "training.epochs=1"});
  }
  static QString addressOf(const CliResult& result, const QString& node) {
    for (const QJsonObject& one : result.all("node"))
      if (one["node"].toString() == node) return one["address"].toString();
    return {};
  }

 private Q_SLOTS:
  void initTestCase() {
    makeKey(folder_ / "id");
    std::string why;
    hosts_ = Hosts::start(2, folder_.path(), folder_ / "id", &why, "", true);
    if (!hosts_) QSKIP(why.c_str());
    // Besides the bridge: two lines between the hosts, and an interface that has the same address
    // on both.
    for (int line = 1; line <= 2; ++line) {
      const std::string eth = "eth" + std::to_string(line);
      QVERIFY(ip({"link", "add", eth, "netns", netns(1), "type", "veth", "peer", "name", eth,
                  "netns", netns(2)}));
      for (int host = 1; host <= 2; ++host) {
        QVERIFY(ip({"-n", netns(host), "addr", "add",
                    "10.7" + std::to_string(7 + line) + ".0." + std::to_string(host) + "/24", "dev",
                    eth}));
        QVERIFY(ip({"-n", netns(host), "link", "set", eth, "up"}));
      }
    }
    for (int host = 1; host <= 2; ++host) {
      QVERIFY(ip({"-n", netns(host), "link", "add", "docker0", "type", "bridge"}));
      QVERIFY(ip({"-n", netns(host), "addr", "add", "172.17.0.1/16", "dev", "docker0"}));
      QVERIFY(ip({"-n", netns(host), "link", "set", "docker0", "up"}));
    }
    QVERIFY(hosts_->enter());
    cli_ = std::make_unique<Cli>();
    cli_->useBuiltBundle();
    writeText(folder_ / "config", hosts_->sshConfig(folder_ / "known", folder_ / "id"));
  }
  void init() {
    for (int host = 1; hosts_ && host <= 2; ++host) block(host, "");
  }
  void cleanupTestCase() {
    hosts_.reset();
    cli_.reset();
  }

  void checkCopiesNothing() {
    const CliResult bare = check(cluster());
    QVERIFY2(bare.exit == 0, bare.text());
    QCOMPARE(bare.first("node")["state"].toString(), QString("not deployed"));
    QVERIFY2(bare.err.contains("the agent is not on node n1 yet"), bare.text());
    QVERIFY(::access((folder_ / "work 1").c_str(), F_OK) != 0);
    const CliResult deployed = lockstep({"cluster", "deploy", cluster(), "--json"});
    QVERIFY2(deployed.exit == 0, deployed.text());
    QCOMPARE(addressOf(deployed, "n1"), QString("10.77.0.1"));
    QCOMPARE(addressOf(deployed, "n2"), QString("10.77.0.2"));
  }

  void trainsWithAddressesLeftEmpty() {
    const CliResult result = train(cluster());
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2((result.out + result.err).contains("n1 at 10.77.0.1, n2 at 10.77.0.2"), result.text());
  }

  // SSH arrives where the other node does not.
  void trainsPastABlockedNetwork() {
    block(1, newTcp("iifname eth0", "drop"));
    block(2, newTcp("iifname eth0", "drop"));
    const CliResult result = train(cluster());
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2((result.out + result.err).contains("n1 at 10.78.0.1, n2 at 10.78.0.2"), result.text());
  }

  void trainsOverIpv6Alone() {
    for (int host = 1; host <= 2; ++host) {
      ip({"-n", netns(host), "addr", "add", "fd00:77::" + std::to_string(host) + "/64", "dev",
          "eth0", "nodad"});
      block(host, newTcp("iifname != lo meta nfproto ipv4", "reject with tcp reset"));
    }
    const CliResult result = train(cluster());
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2((result.out + result.err).contains("n1 at fd00:77::1, n2 at fd00:77::2"),
             result.text());
    const CliResult byInterface = check(cluster("    interface: eth0\n", "    interface: eth0\n"));
    QCOMPARE(addressOf(byInterface, "n1"), QString("fd00:77::1"));
    for (int host = 1; host <= 2; ++host)
      ip({"-n", netns(host), "addr", "del", "fd00:77::" + std::to_string(host) + "/64", "dev",
          "eth0"});
  }

  void behindAJumpHost() {
    QCOMPARE(hosts_->run(2, {"ip", "route", "add", "blackhole", "10.77.0.254"}), 0);
    const CliResult result = train(cluster("", "", "host: n2, proxy_jump: n1"));
    QCOMPARE(hosts_->run(2, {"ip", "route", "del", "blackhole", "10.77.0.254"}), 0);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2((result.out + result.err).contains("n1 at 10.77.0.1, n2 at 10.77.0.2"), result.text());
  }

  void whatCannotBeReachedIsNamed_data() {
    QTest::addColumn<QByteArray>("n1");
    QTest::addColumn<QString>("blocked");
    QTest::addColumn<QStringList>("says");
    const QString all = QString::fromStdString(newTcp("", "drop"));
    QTest::newRow("dropped everywhere")
        << QByteArray() << all
        << QStringList{"node n2 cannot reach node n1",
                       "10.77.0.1:", "10.78.0.1:", "no answer in 3 s", "allow TCP connections"};
    QTest::newRow("dropped at the address")
        << QByteArray("    address: 10.77.0.1\n") << all
        << QStringList{"node n2 cannot reach node n1 at 10.77.0.1:", "no answer in 3 s"};
    QTest::newRow("refused") << QByteArray("    address: 10.78.0.1\n")
                             << QString::fromStdString(
                                    newTcp("iifname eth1", "reject with tcp reset"))
                             << QStringList{"node n2 cannot reach node n1 at 10.78.0.1:",
                                            "the connection is refused"};
    QTest::newRow("of no host") << QByteArray("    address: 10.77.0.99\n") << QString()
                                << QStringList{"the node cannot be reached at 10.77.0.99",
                                               "this host does not have this address",
                                               "eth0 10.77.0.1"};
    QTest::newRow("the same on each host")
        << QByteArray("    address: 172.17.0.1\n") << QString()
        << QStringList{"node n2 cannot reach node n1 at 172.17.0.1:"};
    QTest::newRow("a name nobody knows") << QByteArray("    address: lo.test\n") << QString()
                                         << QStringList{"the node cannot be reached at lo.test"};
    QTest::newRow("no such interface")
        << QByteArray("    interface: ib0\n") << QString()
        << QStringList{"the node has no interface ib0 with an address", "eth0 10.77.0.1"};
  }
  void whatCannotBeReachedIsNamed() {
    QFETCH(QByteArray, n1);
    QFETCH(QString, blocked);
    QFETCH(QStringList, says);
    constexpr int kLimitMs = 60'000;  // TCP itself gives up after two minutes
    block(1, blocked.toStdString());
    const bool typical =
        QByteArray(QTest::currentDataTag()).endsWith("everywhere") || n1.contains("10.78");
    for (const bool launch : {false, true}) {
      if (launch && !typical) break;  // it is the same proof
      QElapsedTimer timer;
      timer.start();
      const CliResult result = launch ? train(cluster(n1)) : check(cluster(n1));
      QVERIFY2(result.exit == 3, result.text());
      for (const QString& part : says)
        QVERIFY2((result.out + result.err).contains(part.toUtf8()), result.text());
      QVERIFY2(timer.elapsed() < kLimitMs, result.text());
    }
    const CliResult runs = cli_->run({"runs"});
    QVERIFY2(runs.out.isEmpty() || !runs.out.contains("running"), runs.text());
  }

  void loopbackBetweenHostsIsRefusedWhenRead() {
    for (const QByteArray address : {"127.0.0.1", "localhost", "'::1'", "127.0.1.1"}) {
      const CliResult result = lockstep(
          {"plan", example("fashion-mlp"), "--cluster", cluster("    address: " + address + "\n")});
      QVERIFY2(result.exit == 2, result.text());
      QVERIFY2(result.err.contains("loopback, and node n2 is on another host"), result.text());
    }
  }

  // Each node is reached at the first of its networks that lets the other in, whichever these are.
  void anyNetworksBlocked_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 3; ++seed) QTest::newRow(qPrintable(QString::number(seed))) << seed;
  }
  void anyNetworksBlocked() {
    QFETCH(int, seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    QStringList expected(3);
    for (int host = 1; host <= 2; ++host) {
      std::string rules;
      for (int net = 0; net < 3; ++net) {
        if (random() % 2 == 0) {
          if (expected[host].isEmpty())
            expected[host] = QString("10.7%1.0.%2").arg(7 + net).arg(host);
          continue;
        }
        rules += newTcp("iifname eth" + std::to_string(net),
                        random() % 2 == 0 ? "drop" : "reject with tcp reset");
      }
      block(host, rules);
    }
    const CliResult result = check(cluster());
    if (!expected[1].isEmpty() && !expected[2].isEmpty()) {
      QVERIFY2(result.exit == 0, result.text());
      QCOMPARE(addressOf(result, "n1"), expected[1]);
      QCOMPARE(addressOf(result, "n2"), expected[2]);
    } else {
      QVERIFY2(result.exit == 3 && result.out.contains("cannot reach node"), result.text());
    }
  }
};

QTEST_GUILESS_MAIN(PeerAddressesTest)
#include "peer_addresses_test.moc"
