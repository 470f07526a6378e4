// Fault after fault until the run ends, on four hosts: workers, agents and the studio are killed,
// hosts are frozen, one or two at once, cables are cut for a moment or for longer, one direction or
// both, a link is slow, a disk is slow or full, and one host goes for good: for every second pair
// of seeds some host's supervisor is killed at any time, and for the others a host, a supervisor or
// the coordinator's host goes in the last part of the run. The run ends with the bits of an
// undisturbed one, and nothing of it stays.
//
// With `shrink`, four hosts have ranks, and those that come back have them again; with `restart`,
// the fourth is a spare, and checkpoints have copies. No host causes so many failures that the run
// excludes it.
//
// Faults and moments are chosen by a seed, which is printed. tests/cluster/storm repeats them until
// there were as many as wanted: LOCKSTEP_STORM_SEED is the first run's, LOCKSTEP_STORM_FAULTS says
// how many; without it, one short run. LOCKSTEP_STORM_KINDS: only of these, separated by commas.
#include <signal.h>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTest>
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/cluster/runs_on_hosts.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr int kHosts = 4;
constexpr int kWholeMs = 60000;  // until training continues on all hosts that are up
constexpr int kEndsMs = 300000;

const QStringList kKinds{"worker",    "agent",     "host",  "link",      "moment",
                         "direction", "slow link", "disk",  "full disk", "supervisor",
                         "two hosts", "again",     "studio"};

}  // namespace

class ClusterStormTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    const QString why = on_.prepare();
    if (!why.isEmpty()) QSKIP(qPrintable(why));
  }
  // What the coordinator has excluded stays out under the node that takes over from it. What the
  // run leaves behind is looked for after the next one.
  void anExcludedNodeStaysOut() {
    run_.clear();
    const QString nodes = on_.cluster("shrinking", {1, 2, 3, 4});
    client_ = on_.train({"--set", "training.batch=1200", "--set", "training.epochs=100000", "--set",
                         "recovery.policy=shrink"},
                        nodes);
    QVERIFY2(on_.awaitSteps(*client_, 30, out_, run_), told());
    const CliResult asked = on_.lockstep({"exclude", run_, "n4"});
    QVERIFY2(asked.exit == 0, asked.text());
    const auto trainsAgain = [&] { return !last("\"recovered\"").isEmpty(); };
    QVERIFY2(waitFor([&] { return trainsAgain() || ended(); }, kWholeMs) && !ended(), told());
    QCOMPARE(last("\"nodes\":")["nodes"].toArray(), (QJsonArray{"n1", "n2", "n3"}));
    QVERIFY(on_.hosts().cut(1));
    on_.hosts().kill(1);
    const auto takenOver = [&] { return last("\"coordinator\":"); };
    QVERIFY2(waitFor([&] { return !takenOver().isEmpty() || ended(); }, kWholeMs), told());
    QCOMPARE(takenOver()["coordinator"].toString(), QString("n2"));
    QCOMPARE(takenOver()["nodes"].toArray(), (QJsonArray{"n2", "n3"}));
    read(3000);
    QCOMPARE(last("{\"event\":\"recovering\"")["generation"], takenOver()["generation"]);
    QVERIFY(on_.workerOn(4, run_) < 0);
    const CliResult stopped = on_.lockstep({"stop", run_});
    QVERIFY2(stopped.exit == 0, stopped.text());
    const CliResult result = on_.cli().finish(*client_, out_, kEndsMs);
    client_.reset();
    QVERIFY2(result.exit == 130, told());
    on_.restore();
    on_.endsEverywhere(run_);
  }
  void storm() {
    const unsigned first = qEnvironmentVariable("LOCKSTEP_STORM_SEED", "1").toUInt();
    const int wanted = qEnvironmentVariable("LOCKSTEP_STORM_FAULTS", "0").toInt();
    int faults = 0, runs = 0;
    for (unsigned seed = first; runs == 0 || faults < wanted; ++seed, ++runs) {
      faults += play(seed, wanted > 0 ? 3000 : 600);
      if (QTest::currentTestFailed()) return;
      QVERIFY2(faults > 0, "the run ended before a fault");
      qInfo("%d faults in %d runs: same weights", faults, runs + 1);
    }
  }
  // A node comes back in the moment in which the coordinator is lost, which so has not taken it
  // back: it replaces the coordinator's node.
  void aNodeIsBackAsTheCoordinatorGoes() { play(2, 1500, true); }
  void cleanup() {
    if (client_ && QTest::currentTestFailed()) {
      qWarning("%s", told().constData());
      for (int host = 1; host <= kHosts; ++host) {
        QFile log(QString("%1/local/%2/runs/%3/%2/logs/supervisor.log")
                      .arg(on_.cli().home(), name(host), run_));
        if (log.open(QIODevice::ReadOnly))
          qWarning("n%d:\n%s", host, log.readAll().right(6000).constData());
      }
    }
    client_.reset();
    if (QTest::currentTestFailed()) on_.restore();
  }
  void cleanupTestCase() { on_.close(); }

 private:
  int upTo(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }
  // A moment that is short more often than long.
  void pause(int mostMs) { read(upTo(1 + upTo(mostMs))); }
  static QString name(int host) { return "n" + QString::number(host); }

  // A run, and what its client has told.
  int play(unsigned seed, int steps, bool swaps = false) {
    random_.seed(seed * 2654435761u + 1);
    spare_ = seed % 2 == 0;
    losesSupervisor_ = seed / 2 % 2 == 1;
    gone_.clear();
    coordinator_ = 1;
    lastPart_ = steps * 3 / 4;
    const QString nodes = on_.cluster(spare_ ? "with-spare" : "shrinking", {1, 2, 3, 4}, spare_);
    const QStringList kinds{"multi-worker-mirrored", "zero-1", "zero-3", "pipeline"};
    const QString strategy = spare_ ? kinds[upTo(4)] : kinds[0];
    QStringList more{"--set", "training.batch=1200",
                     "--set", "strategy.kind=" + strategy,
                     "--set", "training.epochs=100000",
                     "--set", "training.max_steps=" + QString::number(steps),
                     "--set", "training.checkpoint.every_steps=100",
                     "--set", "recovery.max_restarts=1000",
                     "--set", spare_ ? "recovery.policy=restart" : "recovery.policy=shrink"};
    if (!spare_) more += {"--set", "strategy.deterministic_parts=12"};
    const QString key = more.join(' ');
    if (!undisturbed_.contains(key)) {
      QElapsedTimer clock;
      clock.start();
      const auto process = on_.train(more, nodes);
      const CliResult whole = on_.cli().finish(*process, {}, kEndsMs);
      undisturbed_[key] = whole.last()["weights_sha256"].toString();
      qInfo("undisturbed: %.0f steps per second",
            steps * 1e3 / static_cast<double>(clock.elapsed()));
      if (whole.exit != 0 || undisturbed_[key].isEmpty()) {
        QTest::qFail(whole.text(), __FILE__, __LINE__);
        return 0;
      }
    }
    qInfo("seed %u: %s, %s", seed, spare_ ? "spare" : "shrink", qPrintable(strategy));
    out_.clear();
    client_ = on_.train(more, nodes);
    int faults = 0;
    if (swaps)
      swapHosts();
    else
      disturb(faults);
    if (!QTest::currentTestFailed()) atTheEnd(undisturbed_[key]);
    return faults;
  }

  void disturb(int& faults) {
    run_.clear();
    QVERIFY2(on_.awaitSteps(*client_, 30, out_, run_), told());
    const QString chosen = qEnvironmentVariable("LOCKSTEP_STORM_KINDS");
    const QStringList kinds = chosen.isEmpty() ? kKinds : chosen.split(',');
    QStringList bag;
    while (!ended()) {
      pause(3000);
      const std::int64_t step = lastStep();
      if (ended()) break;
      if (step > lastPart_) {
        if (!gone_.empty()) break;
        goesForGood();
        ++faults;
      } else {
        if (bag.isEmpty()) {
          bag = kinds;
          std::shuffle(bag.begin(), bag.end(), random_);
        }
        faults += strike(bag.takeLast());
      }
      if (QTest::currentTestFailed()) return;
      QElapsedTimer clock;
      clock.start();
      const bool whole = waitFor([&] { return isWhole() || ended(); }, kWholeMs);
      QVERIFY2(whole, qPrintable("the run is not whole again: " + QString::fromUtf8(told())));
      if (clock.elapsed() > 1000) qInfo("    whole again %lld ms later", clock.elapsed());
    }
  }

  void swapHosts() {
    run_.clear();
    QVERIFY2(on_.awaitSteps(*client_, 30, out_, run_), told());
    const int host = 2 + upTo(2);
    QVERIFY(on_.hosts().cut(host));
    QVERIFY2(waitFor([&] { return !last("\"recovered\"").isEmpty() || ended(); }, kWholeMs),
             told());
    pause(1000);
    QVERIFY2(!ended(), told());
    QVERIFY(on_.hosts().cut(1));
    on_.hosts().kill(1);
    QVERIFY(on_.hosts().heal(host));
    gone_.insert(1);
    qInfo("  step %lld: n1 goes, n%d is back", static_cast<long long>(lastStep()), host);
    const auto isBack = [&] {
      const QJsonObject newest = last("\"coordinator\":");
      return newest["coordinator"].toString() != "n1" &&
             newest["nodes"].toArray().contains(name(host));
    };
    QVERIFY2(waitFor([&] { return isBack() || ended(); }, kWholeMs) && isBack(), told());
  }

  void atTheEnd(const QString& weights) {
    const CliResult result = on_.cli().finish(*client_, out_, kEndsMs);
    client_.reset();
    for (const QJsonObject& error : result.all("error"))
      qWarning("%s", QJsonDocument(error).toJson(QJsonDocument::Compact).constData());
    QVERIFY2(result.exit == 0, told());
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    QCOMPARE(result.last()["weights_sha256"].toString(), weights);
    QVERIFY2(result.all("error").empty(), told());
    for (const int host : gone_)
      if (on_.hosts().sshd(host).listener() < 0) QVERIFY(on_.hosts().boot(host));
    on_.restore();
    on_.endsEverywhere(run_);
    if (!QTest::currentTestFailed()) on_.nothingStays();
    if (!QTest::currentTestFailed()) on_.agentsDoNotGrow();
  }

  // How many faults it was.
  int strike(const QString& kind) {
    const int host = victim();
    qInfo("  step %lld: %s", static_cast<long long>(lastStep()), qPrintable(kind));
    if (host == 0 || kind == "worker" || kind == "again") {
      killWorker();
      if (kind == "worker") return 1;
      read(upTo(2500));  // while the run recovers
      killWorker();
      return 2;
    }
    if (kind == "agent") {
      const auto agents = on_.cli().agents();
      if (!agents.isEmpty())
        ::kill(static_cast<pid_t>(agents[upTo(static_cast<int>(agents.size()))]), SIGKILL);
    } else if (kind == "host" || kind == "two hosts") {
      // With a host gone, the coordinator would be left alone.
      const int other = kind == "host" || !gone_.empty() ? 0 : victim(host);
      freezeFor(host, other);
      return other == 0 ? 1 : 2;
    } else if (kind == "link") {
      check(on_.hosts().cut(host));
      read(1500 + upTo(5000));
      check(on_.hosts().heal(host));
    } else if (kind == "moment") {
      const int any = 1 + upTo(kHosts);
      if (gone_.contains(any)) return 0;
      check(on_.hosts().cut(any));
      read(200 + upTo(700));
      check(on_.hosts().heal(any));
    } else if (kind == "direction") {
      const int to = coordinator_ == host ? victim(host) : coordinator_;
      check(on_.hosts().cutOneWay(host, to));
      read(upTo(6000));
      check(on_.hosts().mend(host, to));
    } else if (kind == "slow link") {
      check(on_.hosts().limitRate(host, 20 + upTo(80)));
      read(1000 + upTo(2000));
      check(on_.hosts().unlimitRate(host));
    } else if (kind == "disk") {
      on_.slowDown(1 + upTo(3));
      read(4000);
      on_.slowDown(0);
    } else if (kind == "full disk") {
      return fillDisk() ? 1 : 0;
    } else if (kind == "supervisor") {
      // With two hosts gone, no majority could take over from the coordinator.
      if (!losesSupervisor_ || !gone_.empty()) return 0;
      gone_.insert(host);
      killSupervisor(host);
    } else {
      client_->kill();
      client_->waitForFinished();
      read(upTo(2000));
      out_.truncate(out_.lastIndexOf('\n') + 1);
      client_ = on_.start({"attach", run_, "--json", "--every", "1"});
    }
    return 1;
  }

  // Until a checkpoint could not be written; not in the last part, as the last one must be.
  bool fillDisk() {
    if (!on_.hasSmall() || gone_.contains(kHosts)) return false;
    read(0);
    const qsizetype before = out_.size();
    check(on_.fillSmall(true));
    waitFor(
        [&] {
          return lastStep() > lastPart_ || ended() || out_.indexOf("was not written", before) >= 0;
        },
        3000);
    check(on_.fillSmall(false));
    return true;
  }

  // The coordinator's host is never excluded.
  void killWorker() {
    QList<pid_t> workers;
    for (int host = 1; host <= kHosts; ++host) {
      const pid_t worker = on_.workerOn(host, run_);
      if (worker > 0 && (host == coordinator_ || mayFail(host))) workers += worker;
    }
    if (!workers.isEmpty()) ::kill(workers[upTo(static_cast<int>(workers.size()))], SIGKILL);
  }
  // Whether the host caused none of the last four failures: one fault can count as two, and three
  // of five failures would exclude the host for good.
  bool mayFail(int host) {
    read(0);
    std::map<int, QString> failures;  // by generation, since a new client tells all of them again
    for (const QByteArray& line : out_.split('\n')) {
      if (!line.startsWith("{\"event\":\"recovering\"")) continue;
      const QJsonObject one = QJsonDocument::fromJson(line).object();
      const QString cause = one["cause"].toString();
      if (!cause.contains("ranks again"))
        failures[one["generation"].toInt()] = one["node"].toString() + " " + cause;
    }
    auto left = std::min<std::size_t>(4, failures.size());
    for (auto one = failures.rbegin(); left > 0; ++one, --left)
      if (one->second.contains(name(host))) return false;
    return true;
  }
  void freezeFor(int host, int other) {
    check(on_.hosts().freeze(host, true) > 0);
    read(upTo(3000));
    if (other != 0) check(on_.hosts().freeze(other, true) > 0);
    read(1000 + upTo(5000));
    check(on_.hosts().freeze(host, false) > 0);
    if (other == 0) return;
    read(upTo(2000));
    check(on_.hosts().freeze(other, false) > 0);
  }

  // One of the hosts, the coordinator's among them, is lost as where its power is, where it is
  // frozen, or where its supervisor is killed.
  void goesForGood() {
    const int other = upTo(2) == 0 ? 0 : victim();
    const int host = other == 0 ? coordinator_ : other;
    const int how = upTo(3);
    qInfo("  step %lld: n%d goes for good: %s", static_cast<long long>(lastStep()), host,
          how == 0   ? "power"
          : how == 1 ? "frozen"
                     : "supervisor");
    gone_.insert(host);
    if (host == coordinator_) coordinator_ = 2;
    if (how == 0) {
      check(on_.hosts().cut(host));
      on_.hosts().kill(host);
    } else if (how == 1) {
      check(on_.hosts().freeze(host, true) > 0);
    } else {
      killSupervisor(host);
    }
  }
  void killSupervisor(int host) {
    const pid_t supervisor = on_.supervisorOn(host, run_);
    QVERIFY(supervisor > 0);
    ::kill(supervisor, SIGKILL);
  }
  // A host that is there, does not coordinate the run and may fail; 0: none.
  int victim(int but = 0) {
    const QString other = last("\"coordinator\":")["coordinator"].toString();
    if (!other.isEmpty()) coordinator_ = other.mid(1).toInt();
    QList<int> hosts;
    for (int host = 1; host <= kHosts; ++host)
      if (host != coordinator_ && host != but && !gone_.contains(host) && mayFail(host))
        hosts += host;
    return hosts.isEmpty() ? 0 : hosts[upTo(static_cast<int>(hosts.size()))];
  }

  // Whether each host that should has a worker, and steps are told.
  bool isWhole() {
    std::size_t hosts = 0;
    for (int host = 1; host <= kHosts; ++host)
      hosts += !gone_.contains(host) && on_.workerOn(host, run_) > 0 ? 1 : 0;
    const std::size_t there = kHosts - gone_.size();
    const std::size_t wanted = spare_ ? std::min<std::size_t>(3, there) : there;
    const QJsonObject planned = last("\"world\":");
    if (hosts < wanted || planned["world"].toInteger() < static_cast<qint64>(wanted)) return false;
    const std::int64_t step = lastStep();
    read(300);
    return lastStep() != step;
  }

  void check(bool done) {
    if (!done) QTest::qFail("the fault could not be made", __FILE__, __LINE__);
  }
  // Takes what the client tells.
  void read(int milliseconds) {
    QElapsedTimer clock;
    clock.start();
    do {
      client_->waitForReadyRead(20);
      out_ += client_->readAllStandardOutput();
    } while (clock.elapsed() < milliseconds);
  }
  bool ended() {
    read(0);
    return out_.contains("{\"event\":\"finished\"") || client_->state() == QProcess::NotRunning;
  }
  std::int64_t lastStep() { return last("{\"event\":\"step\"")["step"].toInteger(); }
  // The last line that has this text.
  QJsonObject last(const char* text) {
    read(0);
    const auto at = out_.lastIndexOf(text, out_.lastIndexOf('\n'));
    if (at < 0) return {};
    const auto begin = out_.lastIndexOf('\n', at) + 1;
    return QJsonDocument::fromJson(out_.mid(begin, out_.indexOf('\n', at) - begin)).object();
  }
  // All but the steps.
  QByteArray told() {
    QByteArray text;
    for (const QByteArray& line : out_.split('\n'))
      if (!line.startsWith("{\"event\":\"step\"")) text += line + "\n";
    return text.right(6000) + (client_ ? client_->readAllStandardError().right(3000) : "");
  }

  RunsOnHosts on_{kHosts, 1800, "", false};
  std::minstd_rand random_;
  std::map<QString, QString> undisturbed_;  // weights, by settings
  std::unique_ptr<QProcess> client_;
  QByteArray out_;
  QString run_;
  bool spare_ = false;
  bool losesSupervisor_ = false;  // while other faults still follow
  int coordinator_ = 1;
  std::set<int> gone_;         // hosts
  std::int64_t lastPart_ = 0;  // of the run: its first step
};

int main(int argc, char** argv) {
  ClusterStormTest test;
  QCoreApplication application(argc, argv);
  return QTest::qExec(&test, argc, argv);
}
#include "cluster_storm_test.moc"
