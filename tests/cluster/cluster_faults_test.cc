// Faults between and on hosts of their own, while a run is trained from the command line: nodes
// that fall silent, freeze and lose power, a coordinator that is gone or given up, a cut of one
// direction, strangers at every port, damaged checkpoints, disks that are slow, full or not mounted
// any more. Runs do not restart (recovery.policy=none), but where workers are killed. Each case
// ends within a stated time, with words that say what happened, and leaves nothing behind.
//
// Victims and moments are chosen by a seed, which is printed. tests/cluster/faults runs all faults
// for several rounds (LOCKSTEP_FAULTS_SEED: the first round's seed, LOCKSTEP_FAULTS_ROUNDS: their
// number) and requires that the medians of the recovery times are within limits. Without it, faults
// that take a minute are left out, and of those that end a worker only one is tried.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <QCoreApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QJsonArray>
#include <QJsonDocument>
#include <QRegularExpression>
#include <QTest>
#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/cluster/runs_on_hosts.h"
#include "tests/support/sanitizers.h"

namespace fs = std::filesystem;
using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr int kHosts = 3;
constexpr int kEndsMs = RunsOnHosts::kEndsMs;
constexpr int kLeavesMs = 30000;   // a client that is told to end
constexpr int kGivesUpMs = 60000;  // a command that finds a node out of reach
constexpr int kEndedMs = 60000;    // a run that was given up, on a node that answers or does again
constexpr int kResumesMs = 60000;  // a run of some seconds, from a checkpoint
constexpr int kSlowDiskSeconds = 40;   // longer than ranks wait for one that is silent
constexpr int kDiskLimitSeconds = 55;  // after which a run ends on a disk that hangs

// What runs recover from, and limits of the medians, in seconds from the fault: `known`, until the
// client is told, which the coordinator does at the same time as the other nodes; `again`, until
// the run trains. A run without a client reports the second, from the coordinator's last heartbeat.
enum class Recovered { kWorker, kHost, kCoordinator, kUnattended };
struct RecoveryLimits {
  Recovered from;
  const char* fault;
  double known, again;  // 0: none
};
constexpr std::array<RecoveryLimits, 4> kRecoveryLimits{
    {{Recovered::kWorker, "worker killed", 0.3, 3},
     {Recovered::kHost, "host frozen or cut off", 3, 6},
     {Recovered::kCoordinator, "coordinator's host gone", 0, 8},
     {Recovered::kUnattended, "the same without a client", 0, 8}}};

// The middle one, or the mean of the two there.
double medianOf(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return (of[(of.size() - 1) / 2] + of[of.size() / 2]) / 2;
}

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
      const auto port =
          static_cast<std::uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16));
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
    if (kind >= 2 || held_.size() > 200)
      ::close(fd);
    else
      held_.push_back(fd);
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

 private Q_SLOTS:
  void initTestCase() {
    const QString why = on_.prepare();
    if (!why.isEmpty()) QSKIP(qPrintable(why));
  }

  void faults_data() {
    QTest::addColumn<QString>("fault");
    QTest::addColumn<unsigned>("seed");
    const unsigned first = qEnvironmentVariable("LOCKSTEP_FAULTS_SEED", "1").toUInt();
    const int rounds = qEnvironmentVariable("LOCKSTEP_FAULTS_ROUNDS", "0").toInt();
    const QStringList worker{"node silent", "node frozen", "node gone"};
    const QStringList always{"workers killed",
                             "spare",
                             "shrink",
                             "spare for the coordinator",
                             "shrink, coordinator",
                             "shrink, coordinator, unattended",
                             "spare and copies",
                             "spare and copies in memory",
                             "comes back",
                             "coordinator gone",
                             "given up",
                             "strangers",
                             "damaged checkpoints"};
    const QStringList slow{"one direction cut", "full disk", "volume gone",
                           "slow disk",         "hung disk", "all apart"};
    if (rounds == 0) {
      for (const QString& fault : QStringList{worker[static_cast<int>(first % 3)]} + always)
        QTest::addRow("%s, seed %u", qPrintable(fault), first) << fault << first;
      return;
    }
    for (unsigned seed = first; seed < first + static_cast<unsigned>(rounds); ++seed)
      for (const QString& fault : worker + always + slow)
        QTest::addRow("%s, seed %u", qPrintable(fault), seed) << fault << seed;
  }
  void faults() {
    QFETCH(QString, fault);
    QFETCH(unsigned, seed);
    random_.seed(seed * 2654435761u + 1);
    if (fault == "strangers")
      strangers(seed);
    else if (fault == "workers killed")
      workersKilled();
    else if (fault.startsWith("spare") || fault.startsWith("shrink"))
      goesOnWithout(fault.startsWith("spare"), fault.contains("coordinator"),
                    fault.contains("copies"), fault.contains("memory"),
                    fault.contains("unattended"));
    else if (fault == "comes back")
      comesBack();
    else if (fault == "all apart")
      allApart();
    else if (fault == "coordinator gone")
      coordinatorGone();
    else if (fault == "given up")
      givenUp();
    else if (fault == "damaged checkpoints")
      damagedCheckpoints();
    else if (fault == "slow disk")
      slowDiskUnderCheckpoint();
    else if (fault == "hung disk")
      hungDiskUnderCheckpoint();
    else if (fault == "full disk")
      fullDisk();
    else if (fault == "volume gone")
      volumeGone();
    else
      nodeLost(fault);
    if (!QTest::currentTestFailed()) on_.nothingStays();
  }
  // Of all rounds. The short version is too short, and its machine too busy, to be judged.
  void recoveryTimes() {
    const bool isJudged =
        qEnvironmentVariable("LOCKSTEP_FAULTS_ROUNDS", "0").toInt() > 0 && !kSanitized;
    bool isWithin = true;
    const auto tell = [&](const char* fault, const char* until, const std::vector<double>& seconds,
                          double limit) {
      if (seconds.empty()) return;
      const double median = medianOf(seconds);
      const bool misses = limit > 0 && median > limit;
      qInfo("%-25s %-6s median %5.2f s, greatest %5.2f s of %2zu%s%s", fault, until, median,
            *std::max_element(seconds.begin(), seconds.end()), seconds.size(),
            limit > 0 ? qPrintable(QString("; limit %1 s").arg(limit)) : "",
            misses ? ": MISSED" : "");
      isWithin = isWithin && !misses;
    };
    for (const RecoveryLimits& row : kRecoveryLimits) {
      tell(row.fault, "known", times_[row.from].known, row.known);
      tell(row.fault, "again", times_[row.from].again, row.again);
    }
    QVERIFY2(isWithin || !isJudged, "a median misses its limit");
  }
  void cleanup() {
    if (QTest::currentTestFailed()) on_.restore();
  }
  void cleanupTestCase() { on_.close(); }

 private:
  int upTo(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }
  QString pick(const QStringList& from) { return from[upTo(static_cast<int>(from.size()))]; }

  // Until the run recovers from a fault that came as the clock started. Appends what was read.
  bool awaitRecovery(QProcess& process, Recovered from, const QElapsedTimer& clock,
                     QByteArray& out) {
    QByteArray rest;
    const bool begun = on_.cli().awaitEvent(process, "recovering", rest, kResumesMs);
    const double known = static_cast<double>(clock.elapsed()) / 1e3;
    const bool again = begun && on_.cli().awaitEvent(process, "recovered", rest, kResumesMs);
    const double trains = static_cast<double>(clock.elapsed()) / 1e3;
    out += rest;
    if (!again) return false;
    qInfo("known after %.2f s, trained again after %.2f s", known, trains);
    times_[from].known.push_back(known);
    times_[from].again.push_back(trains);
    return true;
  }

  // A run under way, some steps after its begin.
  std::unique_ptr<QProcess> begin(QByteArray& out, QString& run, const QString& cluster = {}) {
    auto process =
        on_.train({"--set", "training.max_steps=1000000", "--set", "training.epochs=100000"},
                  cluster.isEmpty() ? on_.all() : cluster);
    return on_.awaitSteps(*process, 1 + upTo(60), out, run) ? std::move(process) : nullptr;
  }
  void nodeLost(const QString& fault) {
    const int victim = 2 + upTo(2);
    const int other = fault == "one direction cut" ? 1 + (victim + upTo(2)) % 3 : 0;
    QByteArray out;
    QString run;
    const auto process = begin(out, run);
    QVERIFY2(process, out.right(2000));
    QElapsedTimer clock;
    clock.start();
    if (fault == "node frozen")
      QVERIFY(on_.hosts().freeze(victim, true) > 0);
    else if (other != 0)
      QVERIFY(on_.hosts().cutOneWay(victim, other));
    else
      QVERIFY(on_.hosts().cut(victim));
    if (fault == "node gone") on_.hosts().kill(victim);
    const CliResult result = on_.cli().finish(*process, out, kEndsMs);
    qInfo("n%d: %s%s; ended after %lld ms", victim, qPrintable(fault),
          other == 0 ? "" : qPrintable(QString(" to n%1").arg(other)), clock.elapsed());
    if (fault == "node frozen") QVERIFY(on_.hosts().freeze(victim, false) > 0);
    if (fault == "node gone") QVERIFY(on_.hosts().boot(victim));
    if (other != 0)
      QVERIFY(on_.hosts().mend(victim, other));
    else if (fault != "node frozen")
      QVERIFY(on_.hosts().heal(victim));
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    const QJsonObject error = result.first("error");
    const QString words =
        error["node"].toString() + " " + error["what"].toString() + " " + error["why"].toString();
    const auto named = [&](int host) { return words.contains("n" + QString::number(host)); };
    QVERIFY2(named(victim) || (other != 0 && named(other)), qPrintable(words));
    QVERIFY2(!error["what"].toString().isEmpty(), result.text());
    on_.endsEverywhere(run);
    QVERIFY(on_.lockstep({"runs"}).out.isEmpty());
  }

  void coordinatorGone() {
    const int how = upTo(3);  // silent, frozen, without power
    QByteArray out;
    QString run;
    const auto process = begin(out, run);
    QVERIFY2(process, out.right(2000));
    QElapsedTimer clock;
    clock.start();
    if (how == 1)
      QVERIFY(on_.hosts().freeze(1, true) > 0);
    else
      QVERIFY(on_.hosts().cut(1));
    if (how == 2) on_.hosts().kill(1);
    // The history says so while the client still waits.
    CliResult runs;
    const bool told = waitFor([&] {
      ::usleep(200'000);
      runs = on_.lockstep({"runs"});
      return runs.out.contains("unreachable since");
    });
    qInfo("out of reach after %lld ms", clock.elapsed());
    QVERIFY2(told, runs.text());
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    QVERIFY(on_.cli().awaitError(*process, "Ctrl-C again"));
    clock.start();
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult left = on_.cli().finish(*process, out);
    qInfo("the client ended %lld ms after the second Ctrl-C", clock.elapsed());
    QVERIFY2(left.exit > 0, left.text());
    QVERIFY2(clock.elapsed() < kLeavesMs, left.text());
    QVERIFY2((left.out + left.err).contains("out of reach"), left.text());
    // A command that has to find out by itself, one that knows, and what remains.
    clock.start();
    const CliResult kill = on_.lockstep({"kill", run});
    qInfo("kill ended after %lld ms", clock.elapsed());
    QVERIFY2(kill.exit > 0 && kill.err.contains("--give-up"), kill.text());
    QVERIFY2(clock.elapsed() < kGivesUpMs, kill.text());
    clock.start();
    const CliResult given = on_.lockstep({"kill", run, "--give-up"});
    QVERIFY2(given.exit == 0 && given.out.contains("failed"), given.text());
    qInfo("giving up took %lld ms", clock.elapsed());
    QVERIFY2(clock.elapsed() < kLeavesMs, given.text());
    QVERIFY(on_.lockstep({"runs"}).out.isEmpty());
    if (upTo(2) == 1) QCOMPARE(on_.lockstep({"history", "delete", run}).exit, 0);
    // The nodes that answer were told.
    QVERIFY(waitFor([&] { return on_.cli().workers(run).size() <= 1; }, kEndedMs));
    if (how == 1) QVERIFY(on_.hosts().freeze(1, false) > 0);
    if (how == 2) QVERIFY(on_.hosts().boot(1));
    if (how != 1) QVERIFY(on_.hosts().heal(1));
    on_.endsEverywhere(run);
  }

  // A run of one node, which is frozen meanwhile: nobody there can know but from a client.
  void givenUp() {
    const QString alone = on_.cluster("alone", {1});
    QByteArray out;
    QString run;
    const auto process = begin(out, run, alone);
    QVERIFY2(process, out.right(2000));
    QVERIFY(on_.hosts().freeze(1, true) > 0);
    const bool told = waitFor([&] {
      ::usleep(200'000);
      return on_.lockstep({"runs"}).out.contains("unreachable since");
    });
    QVERIFY(told);
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    QVERIFY(on_.cli().awaitError(*process, "Ctrl-C again"));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult left = on_.cli().finish(*process, out);
    QVERIFY2(left.exit > 0, left.text());
    const CliResult given = on_.lockstep({"kill", run, "--give-up"});
    QVERIFY2(given.exit == 0 && given.err.contains("n1 may go on with the run"), given.text());
    const bool deleted = upTo(2) == 1;
    if (deleted) QCOMPARE(on_.lockstep({"history", "delete", run}).exit, 0);
    QVERIFY(on_.hosts().freeze(1, false) > 0);
    ::usleep(2'000'000);
    QCOMPARE(on_.cli().workers(run).size(), qsizetype{1});
    on_.contact(alone);
    if (QTest::currentTestFailed()) return;
    QVERIFY(waitFor([&] { return on_.cli().workers(run).isEmpty(); }, kEndedMs));
    const auto removed = [&] { return !QDir(on_.workdir(1) + "/runs/" + run).exists(); };
    QCOMPARE(waitFor(removed, deleted ? kEndedMs : 0), deleted);
  }

  // What is done to a file, by its name.
  void damage(const fs::path& file, const QString& kind) {
    std::string content = readText(file);
    if (kind == "flipped") {
      for (int bits = 1 + upTo(3); bits > 0; --bits) {
        char& byte = content[random_() % content.size()];
        byte = static_cast<char>(byte ^ (1 << upTo(8)));
      }
    } else if (kind == "cut") {
      content.resize(random_() % content.size());
    } else if (kind == "empty") {
      content.clear();
    } else {
      fs::remove(file);
      if (kind == "FIFO") QCOMPARE(::mkfifo(file.c_str(), 0600), 0);
      if (kind == "folder") fs::create_directory(file);
      return;
    }
    writeText(file, content);
  }

  // The manifest of a checkpoint, or its file of tensors.
  static fs::path oneOf(const fs::path& checkpoint, bool manifest) {
    for (const auto& entry : fs::directory_iterator(checkpoint))
      if ((entry.path().filename() == "manifest.json") == manifest) return entry.path();
    return checkpoint / "none";
  }

  // The folders of each checkpoint, by its name, the newest first. Each has a manifest and a file
  // of tensors.
  using Checkpoints = std::map<std::string, std::vector<fs::path>, std::greater<>>;
  Checkpoints checkpointsOf(const QString& run) const {
    Checkpoints out;
    for (int host = 1; host <= kHosts; ++host) {
      const QString folder =
          QString("%1/runs/%2/n%3/checkpoints").arg(on_.workdir(host), run).arg(host);
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(folder.toStdString(), none))
        if (const std::string name = entry.path().filename(); name.starts_with("step-"))
          out[name].push_back(entry.path());
    }
    return out;
  }

  void damagedCheckpoints() {
    const QStringList training{"--set", "training.batch=2000", "--set",
                               "training.checkpoint.keep=3"};
    const QStringList epochs{"--set", "training.epochs=6"};
    if (undisturbed_.isEmpty()) {
      const CliResult whole = on_.lockstep(
          QStringList{"run", example("fashion-mlp"), "--json", "--cluster", on_.all()} + training +
          epochs);
      QVERIFY2(whole.exit == 0, whole.text());
      undisturbed_ = whole.last()["weights_sha256"].toString();
    }
    // Ended some steps after its third epoch, of 30 steps each.
    QByteArray out;
    QString run;
    const auto process =
        on_.train(training + QStringList{"--set", "training.epochs=100000"}, on_.all());
    QVERIFY2(on_.awaitSteps(*process, 91 + upTo(30), out, run), out.right(2000));
    const bool stops = upTo(2) == 1;
    if (stops)
      ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    else
      QVERIFY(on_.lockstep({"kill", run}).exit == 0);
    const CliResult ended = on_.cli().finish(*process, out);
    QVERIFY2(ended.exit == 130, ended.text());

    const Checkpoints checkpoints = checkpointsOf(run);
    QVERIFY(checkpoints.size() >= 2);
    const std::size_t damaged =
        1 + static_cast<std::size_t>(upTo(static_cast<int>(checkpoints.size())));
    QStringList kinds;
    std::vector<QString> names;
    for (const auto& [name, folders] : checkpoints) {
      const std::size_t hosts = folders.size();
      // A run may be killed while it writes or removes a checkpoint.
      QVERIFY(hosts == std::size_t{kHosts} || !stops);
      names.push_back(QString::fromStdString(name));
      // On every host; of the newest that is to be used, one host keeps its files.
      const std::size_t spared =
          names.size() <= damaged ? hosts : static_cast<std::size_t>(upTo(static_cast<int>(hosts)));
      const bool manifests = upTo(2) == 1;
      for (std::size_t host = 0; names.size() <= damaged + 1 && host < hosts; ++host) {
        if (host == spared) continue;
        kinds << pick({"flipped", "cut", "empty", "removed", "FIFO", "folder"});
        damage(oneOf(folders[host], manifests), kinds.back());
      }
    }
    QElapsedTimer clock;
    clock.start();
    const CliResult resumed =
        on_.lockstep(QStringList{"resume", run, "--json"} + epochs, kResumesMs);
    qInfo("%s; %lld of %lld damaged: %s; ended after %lld ms", stops ? "stopped" : "killed",
          static_cast<long long>(damaged), static_cast<long long>(checkpoints.size()),
          qPrintable(kinds.join(", ")), clock.elapsed());
    if (damaged == checkpoints.size()) {
      QVERIFY2(resumed.exit == 1 || resumed.exit == 3, resumed.text());
      const QJsonObject error = resumed.first("error");
      QVERIFY2(error["what"].toString().contains(names[0]), resumed.text());
      QVERIFY2(!error["why"].toString().isEmpty() && !error["next"].toString().isEmpty(),
               resumed.text());
      return;
    }
    QVERIFY2(resumed.exit == 0, resumed.text());
    QCOMPARE(resumed.last()["weights_sha256"].toString(), undisturbed_);
    const auto warnings = resumed.all("warning");
    for (std::size_t i = 0; i < damaged; ++i) {
      const bool told =
          std::any_of(warnings.begin(), warnings.end(), [&](const QJsonObject& warning) {
            const QString words = warning["what"].toString();
            return words.contains(names[i]) && words.contains(names[damaged]) &&
                   !warning["why"].toString().isEmpty();
          });
      QVERIFY2(told, resumed.text());
    }
  }

  // The first node's takes a checkpoint in longer than ranks wait for one that is silent. One that
  // is frozen meanwhile is noticed as ever.
  void slowDiskUnderCheckpoint() {
    const bool freezes = upTo(2) == 1;
    QByteArray out;
    QString run;
    on_.slowDown(kSlowDiskSeconds);
    const auto process =
        on_.train({"--set", "training.batch=2000", "--set", "training.epochs=2"}, on_.all());
    QVERIFY2(on_.awaitSteps(*process, 1, out, run), out.right(2000));
    QVERIFY(waitFor([&] { return on_.slowDiskWasMet(); }));
    on_.slowDown(0);
    QElapsedTimer clock;
    clock.start();
    if (freezes) {
      const pid_t writer = on_.workerOn(1, run);
      QVERIFY(writer > 0);
      QCOMPARE(::kill(writer, SIGSTOP), 0);
    }
    const CliResult result = on_.cli().finish(*process, out, kEndsMs + 1000 * kSlowDiskSeconds);
    qInfo("%s; ended after %lld ms", freezes ? "frozen" : "slow", clock.elapsed());
    QVERIFY2(result.exit == (freezes ? 1 : 0), result.text());
    QVERIFY(freezes ? clock.elapsed() < kEndsMs
                    : clock.elapsed() >= 1000 * kSlowDiskSeconds - 1000);
    on_.endsEverywhere(run);
    if (!freezes) return;
    const QJsonObject error = result.first("error");
    const QString words = error["what"].toString() + " " + error["why"].toString();
    QVERIFY2(words.contains("rank 0"), result.text());
  }

  // Nothing moves on the first node's disk any more: the run ends at the limit, on all nodes,
  // though the thread that writes cannot be ended.
  void hungDiskUnderCheckpoint() {
    QByteArray out;
    QString run;
    on_.slowDown(100 * kDiskLimitSeconds);
    const auto process =
        on_.train({"--set", "training.batch=2000", "--set", "training.epochs=2"}, on_.all());
    QVERIFY2(on_.awaitSteps(*process, 1, out, run), out.right(2000));
    QVERIFY(waitFor([&] { return on_.slowDiskWasMet(); }));
    on_.slowDown(0);
    QElapsedTimer clock;
    clock.start();
    const CliResult result = on_.cli().finish(*process, out, kEndsMs + 1000 * kDiskLimitSeconds);
    qInfo("ended after %lld ms", clock.elapsed());
    QCOMPARE(result.exit, 1);
    QVERIFY(clock.elapsed() >= 1000 * (kDiskLimitSeconds - 2));
    QVERIFY(clock.elapsed() < 1000 * kDiskLimitSeconds + 15000);
    const QJsonObject error = result.first("error");
    QVERIFY2(error["what"].toString().contains(QRegularExpression(
                 QString("rank [0-2] has waited %1 s for its disk").arg(kDiskLimitSeconds))),
             QJsonDocument(error).toJson());
    QVERIFY2(error["why"].toString().contains("writing"), QJsonDocument(error).toJson());
    on_.endsEverywhere(run);
  }

  // Of a node's work folder, while a run is under way.
  void fullDisk() {
    if (!on_.hasSmall()) QSKIP("a tmpfs cannot be mounted here");
    const bool first = upTo(2) == 1;
    const QString small = first ? on_.cluster("small-first", {on_.small(), 1, 2})
                                : on_.cluster("small-last", {1, 2, on_.small()});
    on_.contact(small);
    if (QTest::currentTestFailed()) return;
    QByteArray out;
    QString run;
    const auto process =
        on_.train({"--set", "training.batch=2000", "--set", "training.epochs=100000"}, small);
    QVERIFY2(on_.awaitSteps(*process, 1, out, run), out.right(2000));
    QVERIFY(on_.fillSmall(true));
    QElapsedTimer clock;
    clock.start();
    // It trains on without checkpoints, but does not end without the last one.
    QVERIFY2(on_.cli().awaitEvent(*process, "warning", out), out.right(2000));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = on_.cli().finish(*process, out, kEndsMs);
    qInfo("%s node; ended after %lld ms", first ? "first" : "last", clock.elapsed());
    const CliResult refused =
        on_.lockstep({"run", example("fashion-mlp"), "--json", "--cluster", small});
    if (upTo(2) == 1) QCOMPARE(on_.lockstep({"history", "delete", run}).exit, 0);
    QVERIFY(on_.fillSmall(false));
    QVERIFY2(result.exit == 1, result.text());
    const QJsonObject warning = result.first("warning"), error = result.first("error");
    QVERIFY2(warning["why"].toString().contains("No space left on device"), result.text());
    const QString words = error["what"].toString() + " " + error["why"].toString();
    QVERIFY2(words.contains("No space left on device") &&
                 error["next"].toString().contains("free space"),
             result.text());
    QCOMPARE(error["node"].toString(), QString("n3"));
    QVERIFY2(refused.exit == 3, refused.text());
    QVERIFY2(refused.first("error")["what"].toString().contains("no space for the run in"),
             refused.text());
    on_.endsEverywhere(run);
    on_.contact(small);
  }

  // The newest checkpoint in a folder; "": none.
  static std::string newestIn(const fs::path& folder) {
    std::string newest;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (const std::string name = entry.path().filename(); name.starts_with("step-"))
        newest = std::max(newest, name);
    return newest;
  }

  // The volume for checkpoints is unmounted on one host or on all, and mounted again: the run goes
  // on without checkpoints, does not write to the disk beneath, and then has checkpoints again.
  // Where another host has the volume, the run restarts meanwhile.
  void volumeGone() {
    const auto mount = [this](int host, bool on) {  // 0: all
      bool done = true;
      for (int one = host == 0 ? 1 : host; one <= (host == 0 ? kHosts : host); ++one)
        done = on_.mountVolume(one, on) && done;
      return done;
    };
    const int victim = upTo(kHosts + 1);
    const QString strategy = pick({"multi-worker-mirrored", "zero-1"});
    QVERIFY(mount(0, true));
    QByteArray out, rest;
    QString run;
    const auto process =
        on_.train({"--set", "training.batch=1200", "--set", "training.epochs=100000", "--set",
                   "training.checkpoint.every_steps=40", "--set", "strategy.kind=" + strategy,
                   "--set", "training.checkpoint.path=" + QString::fromStdString(on_.volume())},
                  on_.all());
    QVERIFY2(on_.awaitSteps(*process, 60 + upTo(60), out, run), out.right(2000));
    const fs::path content = fs::path(on_.volumeContent()) / run.toStdString();
    QVERIFY(waitFor([&] { return !newestIn(content).empty(); }));
    const auto comes = [&](const std::function<bool()>& condition) {
      return waitFor(
          [&] {
            process->waitForReadyRead(20);
            rest += process->readAllStandardOutput();
            return condition();
          },
          kResumesMs);
    };
    QVERIFY(mount(victim, false));
    const bool isLost = comes([&] { return rest.contains("was not written"); });
    const bool restarts = victim != 0;
    if (const auto workers = on_.cli().workers(run); restarts && !workers.isEmpty())
      ::kill(static_cast<pid_t>(workers.front()), SIGKILL);
    const bool isBack = !restarts || comes([&] { return rest.contains("\"recovered\""); });
    const bool trains = on_.cli().awaitNext(*process, "step", rest, kResumesMs);
    const bool isUntouched = fs::is_empty(on_.volume());
    QVERIFY(mount(victim, true));
    const std::string last = newestIn(content);
    const bool isWritten = comes([&] { return newestIn(content) > last; });
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = on_.cli().finish(*process, out + rest);
    const std::string atTheEnd = newestIn(content);
    qInfo("%s, volume gone on %s: without checkpoints after %s; the last is %s",
          qPrintable(strategy), victim == 0 ? "all hosts" : qPrintable(QString("n%1").arg(victim)),
          last.c_str(), atTheEnd.c_str());
    QVERIFY(mount(0, false));
    fs::remove_all(on_.volumeContent());
    QVERIFY2(isLost && isBack && trains && isUntouched && isWritten, result.text());
    QVERIFY2(result.exit == 130, result.text());
    const auto warnings = result.all("warning");
    const bool isTold =
        std::any_of(warnings.begin(), warnings.end(), [&](const QJsonObject& warning) {
          return warning["what"].toString().contains("was not written") &&
                 warning["why"].toString().contains(QString::fromStdString(on_.volume())) &&
                 warning["next"].toString().contains("mount it again");
        });
    QVERIFY2(isTold, result.text());
    QVERIFY2(result.all("error").empty(), result.text());
    QCOMPARE(result.all("recovering").size(), restarts ? qsizetype{1} : qsizetype{0});
    on_.endsEverywhere(run);
  }

  // From before the launch to the end of the run.
  // On whichever host: the run restarts each time, and ends with the bits of an undisturbed one.
  void workersKilled() {
    const QStringList more{"--set", "recovery.policy=restart",
                           "--set", "training.epochs=1000000",
                           "--set", "training.checkpoint.every_steps=50"};
    const auto process = on_.train(more, on_.all());
    QByteArray out;
    QString run;
    QVERIFY2(on_.awaitSteps(*process, 1 + upTo(100), out, run), out.right(2000));
    for (int i = 0; i < 3; ++i) {
      const auto workers = on_.cli().workers(run);
      QVERIFY(!workers.isEmpty());
      QElapsedTimer clock;
      clock.start();
      ::kill(static_cast<pid_t>(workers[upTo(static_cast<int>(workers.size()))]), SIGKILL);
      QVERIFY2(awaitRecovery(*process, Recovered::kWorker, clock, out), out.right(3000));
      ::usleep(static_cast<useconds_t>(upTo(500)) * 1000);
    }
    QVERIFY(on_.cli().awaitNext(*process, "step", out));
    const CliResult stop = on_.lockstep({"stop", run});
    QVERIFY2(stop.exit == 0, stop.text());
    const CliResult result = on_.cli().finish(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    const QString steps = QString::number(result.last()["steps"].toInt());
    const auto undisturbed =
        on_.train(more + QStringList{"--set", "training.max_steps=" + steps}, on_.all());
    const CliResult whole = on_.cli().finish(*undisturbed, {});
    QVERIFY2(whole.exit == 0, whole.text());
    QCOMPARE(result.last()["weights_sha256"].toString().size(), qsizetype{64});
    QCOMPARE(result.last()["weights_sha256"], whole.last()["weights_sha256"]);
    QCOMPARE(result.all("recovered").size(), qsizetype{3});
  }

  // A host is gone for good: a spare takes its place, or the others go on. Where it coordinated
  // the run, the next host does so from then on.
  // The sums over parts are in a fixed order, so that the run ends with the bits of an undisturbed
  // one in either case.
  // What only that host had of the checkpoint comes from its copy.
  // Unattended: no client is there when it happens; one attaches afterwards.
  void goesOnWithout(bool spare, bool coordinator, bool copies, bool inMemory, bool unattended) {
    // By its role, or as the last node.
    const bool byRole = spare && upTo(2) == 0;
    const QString nodes = on_.cluster(spare ? "with-spare" : "shrinking", {1, 2, 3}, byRole);
    const QString strategy = copies ? pick({"zero-1", "zero-3", "pipeline", "tensor-parallel"})
                                    : "multi-worker-mirrored";
    if (copies) coordinator = upTo(2) == 1;
    QStringList more{
        "--set", "training.batch=1200",
        "--set", "strategy.kind=" + strategy,
        "--set", copies ? "training.checkpoint.copies=1" : "strategy.deterministic_parts=6",
        "--set", "training.epochs=100",
        "--set", "training.max_steps=600",
        "--set", "training.checkpoint.every_steps=50",
        "--set", spare ? "recovery.policy=restart" : "recovery.policy=shrink"};
    if (spare && !byRole) more << QStringList{"--set", "recovery.spares=1"};
    if (inMemory)
      more << "--set"
           << "training.checkpoint.path=/dev/shm/checkpoints";
    const auto undisturbed = on_.train(more, nodes);
    const CliResult whole = on_.cli().finish(*undisturbed, {});
    QVERIFY2(whole.exit == 0, whole.text());
    const int victim = coordinator ? 1 : spare ? 2 : 2 + upTo(2);
    const QString how = pick({"silent", "frozen", "gone"});
    auto process = on_.train(more, nodes);
    QByteArray out;
    QString run;
    QVERIFY2(on_.awaitSteps(*process, 60 + upTo(200), out, run), out.right(2000));
    if (unattended) {
      ::kill(static_cast<pid_t>(process->processId()), SIGKILL);
      QVERIFY(process->waitForFinished());
    }
    QElapsedTimer clock;
    clock.start();
    if (how == "frozen")
      QVERIFY(on_.hosts().freeze(victim, true) > 0);
    else
      QVERIFY(on_.hosts().cut(victim));
    if (how == "gone") on_.hosts().kill(victim);
    qInfo("%s, n%d %s", qPrintable(strategy), victim, qPrintable(how));
    if (unattended) {
      process = on_.start({"attach", run, "--json"});
      out.clear();
    }
    const bool again =
        unattended ||
        awaitRecovery(*process, coordinator ? Recovered::kCoordinator : Recovered::kHost, clock,
                      out);
    const CliResult result = on_.cli().finish(*process, out);
    if (how == "frozen") QVERIFY(on_.hosts().freeze(victim, false) > 0);
    if (how == "gone") QVERIFY(on_.hosts().boot(victim));
    if (how != "frozen") QVERIFY(on_.hosts().heal(victim));
    QVERIFY2(again, result.text());
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    QCOMPARE(result.last()["weights_sha256"], whole.last()["weights_sha256"]);
    const QJsonObject recovering = result.first("recovering");
    QCOMPARE(recovering["node"].toString(), "n" + QString::number(victim));
    QCOMPARE(recovering["world"].toInt(), 2);
    if (unattended) {
      const double seconds = result.first("recovered")["seconds"].toDouble();
      qInfo("trained again after %.2f s", seconds);
      times_[Recovered::kUnattended].again.push_back(seconds);
      QVERIFY2(seconds > 0, result.text());
    }
    QVERIFY2(!recovering["nodes"].toArray().contains("n" + QString::number(victim)), result.text());
    QCOMPARE(recovering["coordinator"].toString(), QString(coordinator ? "n2" : ""));
    QVERIFY(result.all("error").empty());
    on_.endsEverywhere(run);
    QVERIFY(on_.lockstep({"runs"}).out.isEmpty());
    // A folder that the user names is the user's. A loss of power empties memory.
    for (int host = 1; inMemory && host <= kHosts; ++host) {
      const auto removed =
          fs::remove_all("/proc/" + std::to_string(on_.hosts().sshd(host).listener()) +
                         "/root/dev/shm/checkpoints");
      QVERIFY(removed > 0 || (how == "gone" && host == victim));
    }
  }

  // A host that the others go on without has ranks again once it answers, from a checkpoint that is
  // taken for it. The bits are those of an undisturbed run.
  void comesBack() {
    const QString nodes = on_.cluster("shrinking", {1, 2, 3});
    const bool copies = upTo(2) == 1;
    const QStringList more{"--set", "training.batch=1200",
                           "--set", "strategy.deterministic_parts=6",
                           "--set", "training.epochs=1000",
                           "--set", "training.max_steps=1800",
                           "--set", "training.checkpoint.every_minutes=60",
                           "--set", copies ? "training.checkpoint.copies=1" : "training.seed=1",
                           "--set", "recovery.policy=shrink"};
    const auto undisturbed = on_.train(more, nodes);
    const CliResult whole = on_.cli().finish(*undisturbed, {});
    QVERIFY2(whole.exit == 0, whole.text());
    const int victim = 2 + upTo(2);
    const bool freezes = upTo(2) == 1;
    const auto disturb = [&](bool away) {
      if (freezes) return on_.hosts().freeze(victim, away) > 0;
      return away ? on_.hosts().cut(victim) : on_.hosts().heal(victim);
    };
    const auto process = on_.train(more, nodes);
    QByteArray out;
    QString run;
    QVERIFY2(on_.awaitSteps(*process, 60 + upTo(200), out, run), out.right(2000));
    QElapsedTimer clock;
    clock.start();
    QVERIFY(disturb(true));
    const bool without = awaitRecovery(*process, Recovered::kHost, clock, out);
    ::usleep(static_cast<useconds_t>(upTo(2000)) * 1000);
    QVERIFY(disturb(false));
    clock.start();
    QByteArray rest;
    const bool back = without && on_.cli().awaitEvent(*process, "recovering", rest, kResumesMs);
    const auto joined = clock.elapsed();
    const bool again = back && on_.cli().awaitEvent(*process, "recovered", rest, kResumesMs);
    out += rest;
    const auto trains = clock.elapsed();
    const CliResult result = on_.cli().finish(*process, out);
    qInfo("n%d %s%s: has ranks again after %lld ms, trained after %lld ms", victim,
          freezes ? "frozen" : "silent", copies ? ", copies" : "", joined, trains);
    if (!again) qWarning("%s", qPrintable(on_.lockstep({"logs", run}).out));
    QVERIFY2(again, result.text());
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["weights_sha256"], whole.last()["weights_sha256"]);
    const QJsonObject grown = result.all("recovering").back();
    QCOMPARE(grown["world"].toInt(), 3);
    QCOMPARE(grown["node"].toString(), "n" + QString::number(victim));
    QVERIFY2(grown["nodes"].toArray().contains("n" + QString::number(victim)), result.text());
    QVERIFY(result.all("error").empty());
    on_.endsEverywhere(run);
    QVERIFY(on_.lockstep({"runs"}).out.isEmpty());
  }

  // No host reaches another, so that none has a majority: the run ends everywhere, and nowhere
  // continues in the meantime. The client hears of that once it reaches them again.
  void allApart() {
    QByteArray out;
    QString run;
    const auto process =
        on_.train({"--set", "training.epochs=100000", "--set", "training.checkpoint.every_steps=50",
                   "--set", "recovery.policy=shrink"},
                  on_.all());
    QVERIFY2(on_.awaitSteps(*process, 60 + upTo(200), out, run), out.right(2000));
    QElapsedTimer clock;
    clock.start();
    for (const int host : {2, 3}) QVERIFY(on_.hosts().cut(host));
    const bool told = on_.cli().awaitEvent(*process, "error", out, kEndsMs);
    const auto known = clock.elapsed();
    const bool ended = waitFor([&] { return on_.cli().workers(run).isEmpty(); }, kEndsMs);
    for (const int host : {2, 3}) QVERIFY(on_.hosts().heal(host));
    const CliResult result = on_.cli().finish(*process, out, kEndsMs);
    qInfo("told after %lld ms, ended after %lld ms", known, clock.elapsed());
    QVERIFY2(told && ended, result.text());
    QVERIFY2(result.exit == 1, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("failed"));
    QVERIFY2(result.all("recovering").empty(), result.text());
  }

  void strangers(unsigned seed) {
    const Strangers strangers(on_.hosts(), seed);
    for (int launch = 0; launch < 3; ++launch) {
      const CliResult result = on_.lockstep({"run", example("fashion-mlp"), "--json", "--cluster",
                                             on_.all(), "--set", "training.max_steps=20"});
      QVERIFY2(result.exit == 0, result.text());
      QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    }
    qInfo("%d visits", strangers.visits());
    QVERIFY(strangers.visits() > 0);
  }

  RunsOnHosts on_{kHosts, kDiskLimitSeconds};
  QString undisturbed_;
  std::minstd_rand random_;
  struct Times {
    std::vector<double> known, again;  // seconds
  };
  std::map<Recovered, Times> times_;
};

int main(int argc, char** argv) {
  ClusterFaultsTest test;
  QCoreApplication application(argc, argv);
  return QTest::qExec(&test, argc, argv);
}
#include "cluster_faults_test.moc"
