// Faults between and on hosts of their own, while a run is trained from the command line: nodes that
// fall silent, freeze and lose power, a coordinator that is gone, strangers at every port. Each case
// ends within a stated time, with words that say what happened, and leaves nothing behind.
//
// Victims and moments are chosen by a seed, which is printed. tests/cluster/faults plays them again
// and again: LOCKSTEP_FAULTS_SEED is the first round's, LOCKSTEP_FAULTS_ROUNDS says how many; without
// it, one of the faults of a worker's node is played.
#include <QCoreApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QTest>

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "tests/app/cli/cli_runner.h"
#include "tests/cluster/hosts.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

const QString kBundle = LOCKSTEP_BINARY_DIR "/bundle";
constexpr int kHosts = 3;
constexpr int kEndsMs = 60000;    // a run whose node is lost; 31 to 36 s on an idle machine
constexpr int kLeavesMs = 2000;   // a client that is told to end
constexpr int kGivesUpMs = 25000; // a command that finds a node out of reach

// Strangers at every TCP port on which a process of the hosts listens, but for sshd's.
class Strangers {
 public:
  Strangers(Hosts& hosts, unsigned seed) : hosts_(hosts), random_(seed) {
    for (int host = 1; host <= kHosts; ++host) of_.push_back(hosts.sshd(host).listener());
    thread_ = std::thread([this] { run(); });
  }
  ~Strangers() {
    ending_ = true;
    thread_.join();
    for (const int fd : held_) ::close(fd);
  }
  int visits() const { return visits_; }

 private:
  // Of a host's network namespace.
  std::vector<sockaddr_in> listeners(int host) {
    std::vector<sockaddr_in> found;
    std::ifstream table("/proc/" + std::to_string(of_[static_cast<std::size_t>(host - 1)]) +
                        "/net/tcp");
    std::string line;
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state;
      words >> slot >> local >> remote >> state;
      const auto colon = local.find(':');
      if (state != "0A" || colon == std::string::npos) continue;
      const auto port = static_cast<std::uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16));
      if (port == 2222) continue;
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      ::inet_pton(AF_INET, hosts_.address(host).c_str(), &address.sin_addr);
      found.push_back(address);
    }
    return found;
  }
  void run() {
    while (!ending_) {
      for (int host = 1; host <= kHosts; ++host)
        for (const sockaddr_in& address : listeners(host)) visit(address);
      ::usleep(500);
    }
  }
  void visit(const sockaddr_in& address) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(fd);
      return;
    }
    ++visits_;
    const unsigned kind = random_() % 4;
    if (kind == 1 || kind == 2) {
      std::string garbage(1 + random_() % 3000, '\0');
      for (char& byte : garbage) byte = static_cast<char>(random_());
      static_cast<void>(::send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    if (kind == 2) {
      const linger reset{1, 0};
      ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    if (kind >= 2 || held_.size() > 200) ::close(fd);
    else held_.push_back(fd);
  }

  Hosts& hosts_;
  std::vector<pid_t> of_;  // a process of each host
  std::minstd_rand random_;
  std::atomic<bool> ending_{false};
  std::atomic<int> visits_{0};
  std::vector<int> held_;
  std::thread thread_;
};

}  // namespace

class ClusterFaultsTest : public QObject {
  Q_OBJECT

 public:
  // Before there are threads: they all have to be on the studio's host.
  ClusterFaultsTest() {
    makeKey(folder_ / "id");
    hosts_ = Hosts::start(kHosts, folder_.path(), folder_ / "id", &why_, "", true);
    if (hosts_ && !hosts_->enter()) {
      hosts_.reset();
      why_ = "the bridge's namespace cannot be entered";
    }
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!hosts_) QSKIP(why_.c_str());
    if (!QDir(kBundle).exists()) QSKIP("there is no bundle");
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
      QSKIP("dataset-fashion-mnist is not installed");
    cli_.useBundle(kBundle);
    writeText(folder_ / "config", hosts_->sshConfig(folder_ / "known_hosts", folder_ / "id"), 0600);
    QByteArray nodes;
    for (int i = 1; i <= kHosts; ++i) {
      const QByteArray name = "n" + QByteArray::number(i);
      nodes += "  - name: " + name + "\n    ssh: {host: " + name + "}\n    address: " +
               QByteArray::fromStdString(hosts_->address(i)) + "\n    workdir: " + workdir(i).toUtf8() +
               "\n";
    }
    cluster_ = cli_.write("cluster.yaml", "version: 1\nname: faults\nnodes:\n" + nodes);
    // Deployed and measured once, so that the cases' times are their own.
    const CliResult first = lockstep({"run", example("fashion-mlp"), "--json", "--cluster", cluster_,
                                      "--set", "training.max_steps=3"});
    QVERIFY2(first.exit == 0, first.text());
  }

  void faults_data() {
    QTest::addColumn<QString>("fault");
    QTest::addColumn<unsigned>("seed");
    const unsigned first = qEnvironmentVariable("LOCKSTEP_FAULTS_SEED", "1").toUInt();
    const int rounds = qEnvironmentVariable("LOCKSTEP_FAULTS_ROUNDS", "0").toInt();
    const QStringList worker{"node silent", "node frozen", "node gone"};
    const QStringList always{"coordinator gone", "strangers"};
    if (rounds == 0) {
      for (const QString& fault : QStringList{worker[static_cast<int>(first % 3)]} + always)
        QTest::addRow("%s, seed %u", qPrintable(fault), first) << fault << first;
      return;
    }
    for (unsigned seed = first; seed < first + static_cast<unsigned>(rounds); ++seed)
      for (const QString& fault : worker + always)
        QTest::addRow("%s, seed %u", qPrintable(fault), seed) << fault << seed;
  }
  void faults() {
    QFETCH(QString, fault);
    QFETCH(unsigned, seed);
    random_.seed(seed * 2654435761u + 1);
    if (fault == "strangers") strangers(seed);
    else if (fault == "coordinator gone") coordinatorGone();
    else nodeLost(fault);
  }

  void cleanupTestCase() {
    if (!hosts_) return;
    for (int i = 1; i <= kHosts; ++i)
      hosts_->run(i, {LOCKSTEP_BINARY_DIR "/bin/lockstep-agent", "leave", "--workdir",
                      workdir(i).toStdString()});
    const bool left = waitFor([&] { return cli_.processes().isEmpty(); }, 20000);
    const QString stay = cli_.processes().join("\n");
    hosts_.reset();
    QVERIFY2(left, qPrintable(stay));
    std::string spaces;
    QCOMPARE(runCommand({"ip", "netns", "list"}, &spaces), 0);
    QVERIFY2(spaces.find("ls" + std::to_string(::getpid()) + "-") == std::string::npos,
             spaces.c_str());
  }

 private:
  QString workdir(int host) const { return cli_.home() + "/local/n" + QString::number(host); }
  CliResult lockstep(const QStringList& arguments, int limitMs = 120000) const {
    return cli_.run(QStringList{"--ssh-config", QString::fromStdString(folder_ / "config")} + arguments,
                    limitMs);
  }
  int upTo(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }

  // A run under way, some steps after its begin.
  std::unique_ptr<QProcess> begin(QByteArray& out, QString& run) {
    auto process = cli_.start({"--ssh-config", QString::fromStdString(folder_ / "config"), "run",
                               example("fashion-mlp"), "--json", "--every", "1", "--cluster", cluster_,
                               "--set", "training.max_steps=1000000", "--set",
                               "training.epochs=100000"});
    const int steps = 1 + upTo(60);
    if (!cli_.awaitEvent(*process, "step", out)) return nullptr;
    const bool there = waitFor([&] {
      process->waitForReadyRead(20);
      out += process->readAllStandardOutput();
      return out.count("{\"event\":\"step\"") >= steps;
    });
    const auto at = out.indexOf("\"run\":\"");
    run = QString::fromUtf8(out.mid(at + 7, out.indexOf('"', at + 7) - at - 7));
    return there ? std::move(process) : nullptr;
  }
  // Its workers, on whichever host, end by themselves.
  void endsEverywhere(const QString& run) {
    const bool ended = waitFor([&] { return cli_.workers(run).isEmpty(); }, kEndsMs);
    QVERIFY2(ended, qPrintable(cli_.processes(run).join("\n")));
  }

  void nodeLost(const QString& fault) {
    const int victim = 2 + upTo(2);
    QByteArray out;
    QString run;
    const auto process = begin(out, run);
    QVERIFY2(process, out.right(2000));
    QElapsedTimer clock;
    clock.start();
    if (fault == "node frozen") QVERIFY(hosts_->freeze(victim, true) > 0);
    else QVERIFY(hosts_->cut(victim));
    if (fault == "node gone") hosts_->kill(victim);
    const CliResult result = cli_.finish(*process, out, kEndsMs);
    qInfo("n%d: %s; ended after %lld ms", victim, qPrintable(fault), clock.elapsed());
    if (fault == "node frozen") QVERIFY(hosts_->freeze(victim, false) > 0);
    if (fault == "node gone") QVERIFY(hosts_->boot(victim));
    if (fault != "node frozen") QVERIFY(hosts_->heal(victim));
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    const QJsonObject error = result.first("error");
    const QString words = error["node"].toString() + " " + error["what"].toString() + " " +
                          error["why"].toString();
    QVERIFY2(words.contains("n" + QString::number(victim)), result.text());
    QVERIFY2(!error["what"].toString().isEmpty(), result.text());
    endsEverywhere(run);
    QVERIFY(lockstep({"runs"}).out.isEmpty());
    QCOMPARE(lockstep({"history", "delete", run}).exit, 0);
  }

  void coordinatorGone() {
    const int how = upTo(3);  // silent, frozen, without power
    QByteArray out;
    QString run;
    const auto process = begin(out, run);
    QVERIFY2(process, out.right(2000));
    QElapsedTimer clock;
    clock.start();
    if (how == 1) QVERIFY(hosts_->freeze(1, true) > 0);
    else QVERIFY(hosts_->cut(1));
    if (how == 2) hosts_->kill(1);
    // The history says so while the client still waits.
    CliResult runs;
    const bool told = waitFor([&] {
      ::usleep(200'000);
      runs = lockstep({"runs"});
      return runs.out.contains("unreachable since");
    });
    qInfo("out of reach after %lld ms", clock.elapsed());
    QVERIFY2(told, runs.text());
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    ::usleep(300'000);
    clock.start();
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult left = cli_.finish(*process, out, 20000);
    qInfo("the client ended %lld ms after the second Ctrl-C", clock.elapsed());
    QVERIFY2(left.exit > 0, left.text());
    QVERIFY2(clock.elapsed() < kLeavesMs, left.text());
    QVERIFY2((left.out + left.err).contains("out of reach"), left.text());
    // A command that has to find out by itself, one that knows, and what remains.
    clock.start();
    const CliResult kill = lockstep({"kill", run});
    qInfo("kill ended after %lld ms", clock.elapsed());
    QVERIFY2(kill.exit > 0 && kill.err.contains("--give-up"), kill.text());
    QVERIFY2(clock.elapsed() < kGivesUpMs, kill.text());
    clock.start();
    const CliResult given = lockstep({"kill", run, "--give-up"});
    QVERIFY2(given.exit == 0 && given.out.contains("failed"), given.text());
    QVERIFY2(clock.elapsed() < kLeavesMs, given.text());
    QVERIFY(lockstep({"runs"}).out.isEmpty());
    QCOMPARE(lockstep({"history", "delete", run}).exit, 0);
    // The other nodes end without it; one that is back sooner than they notice goes on with them.
    QVERIFY(waitFor([&] { return cli_.workers(run).size() <= 1; }, kEndsMs));
    if (how == 1) QVERIFY(hosts_->freeze(1, false) > 0);
    if (how == 2) QVERIFY(hosts_->boot(1));
    if (how != 1) QVERIFY(hosts_->heal(1));
    endsEverywhere(run);
  }

  // From before the launch to the end of the run.
  void strangers(unsigned seed) {
    const Strangers strangers(*hosts_, seed);
    for (int launch = 0; launch < 3; ++launch) {
      const CliResult result = lockstep({"run", example("fashion-mlp"), "--json", "--cluster",
                                         cluster_, "--set", "training.max_steps=20"});
      QVERIFY2(result.exit == 0, result.text());
      QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    }
    qInfo("%d visits", strangers.visits());
    QVERIFY(strangers.visits() > 0);
  }

  TempFolder folder_;
  std::string why_;
  std::unique_ptr<Hosts> hosts_;
  Cli cli_;
  QString cluster_;
  std::minstd_rand random_;
};

int main(int argc, char** argv) {
  ClusterFaultsTest test;
  QCoreApplication application(argc, argv);
  return QTest::qExec(&test, argc, argv);
}
#include "cluster_faults_test.moc"
