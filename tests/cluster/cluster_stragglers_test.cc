// Stragglers planted on hosts of their own, while a run is trained from the command line: each is
// named with its cause, within so many steps, and told to be over; healthy runs name nobody.
//
// Victims are chosen by a seed, which is printed: LOCKSTEP_STRAGGLERS_SEED, and
// LOCKSTEP_STRAGGLERS_ROUNDS how many.
#include <signal.h>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>
#include <atomic>
#include <random>
#include <thread>

#include "tests/cluster/runs_on_hosts.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {
constexpr int kHosts = 3;
constexpr int kLimitMs = 60000;
}  // namespace

class ClusterStragglersTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    const QString why = on_.prepare();
    if (!why.isEmpty()) QSKIP(qPrintable(why));
  }

  void stragglers_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<unsigned>("seed");
    const unsigned first = qEnvironmentVariable("LOCKSTEP_STRAGGLERS_SEED", "1").toUInt();
    const unsigned rounds = qEnvironmentVariable("LOCKSTEP_STRAGGLERS_ROUNDS", "1").toUInt();
    for (unsigned seed = first; seed < first + rounds; ++seed)
      for (const char* kind : {"healthy", "link", "stopped"})
        QTest::addRow("%s, seed %u", kind, seed) << QString(kind) << seed;
  }
  void stragglers() {
    QFETCH(QString, kind);
    QFETCH(unsigned, seed);
    random_.seed(seed * 2654435761u + 1);
    const QStringList more{
        "--set", "training.epochs=100",       "--set", "training.batch=600",
        "--set", "training.max_steps=100000", "--set", "strategy.kind=" + strategies_[upTo(4)]};
    const auto process = on_.train(more, on_.all());
    QByteArray out;
    QString run;
    QVERIFY2(on_.awaitSteps(*process, 300, out, run), out.right(2000));
    const int victim = 1 + upTo(kHosts);
    const QString node = "n" + QString::number(victim);
    if (kind == "link")
      planted(*process, out, node, [&](bool on) {
        return on ? on_.hosts().limitRate(victim, 20 + upTo(80)) : on_.hosts().unlimitRate(victim);
      });
    if (kind == "stopped") {
      stopsInTurns(*process, out, node, on_.workerOn(victim, run));
    } else if (kind == "healthy") {
      QVERIFY(on_.awaitSteps(*process, 1000, out, run));
    }
    QVERIFY(on_.lockstep({"kill", run}).exit == 0);
    const CliResult result = on_.cli().finish(*process, out);
    // The hosts share this machine's cores: a rank may well be slow.
    const QList<QJsonObject> links = told(result.out, "straggler", true);
    QVERIFY2(links.empty() || kind == "link", result.text());
    // Kept: another command, later.
    const QString logs = on_.lockstep({"logs", run}).out;
    QCOMPARE(logs.contains("straggler: "), !result.all("straggler").empty());
    on_.endsEverywhere(run);
  }

  void cleanup() { on_.restore(); }
  void cleanupTestCase() { on_.close(); }

 private:
  int upTo(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  // The events of this kind so far, of links or of ranks, each with the step before it.
  static QList<QJsonObject> told(const QByteArray& out, const QString& event, bool ofLinks) {
    QList<QJsonObject> found;
    int step = 0;
    for (const QByteArray& line : out.split('\n')) {
      QJsonObject one = QJsonDocument::fromJson(line).object();
      if (one["event"] == "step") step = one["step"].toInt();
      one["seen_step"] = step;
      if (one["event"] == event && one.contains("to") == ofLinks) found << one;
    }
    return found;
  }
  // Waits for another one.
  QJsonObject next(QProcess& process, QByteArray& out, const QString& event, bool ofLinks) const {
    const qsizetype before = told(out, event, ofLinks).size();
    const bool came = waitFor(
        [&] {
          process.waitForReadyRead(50);
          out += process.readAllStandardOutput();
          return told(out, event, ofLinks).size() > before;
        },
        kLimitMs);
    return came ? told(out, event, ofLinks).last() : QJsonObject();
  }
  template <typename Plant>
  void planted(QProcess& process, QByteArray& out, const QString& node, const Plant& plant) {
    QVERIFY(plant(true));
    QElapsedTimer clock;
    clock.start();
    const QJsonObject slow = next(process, out, "straggler", true);
    qInfo("%s", QJsonDocument(slow).toJson(QJsonDocument::Compact).constData());
    qInfo("named after %lld ms", clock.elapsed());
    QVERIFY2(slow["node"] == node || slow["to"] == node, out.right(2000));
    QVERIFY(!slow["to"].toString().isEmpty());
    QVERIFY(slow["bytes_per_second"].toDouble() < 0.3 * slow["usual_bytes_per_second"].toDouble());
    QVERIFY(slow["round_trip_seconds"].toDouble() > slow["usual_round_trip_seconds"].toDouble());
    QVERIFY(slow["without_seconds"].toDouble() < slow["step_seconds"].toDouble());
    QVERIFY(plant(false));
    clock.start();
    const QJsonObject over = next(process, out, "straggler_over", true);
    qInfo("over after %lld ms: %s", clock.elapsed(), qPrintable(over["text"].toString()));
    QVERIFY2(!over["text"].toString().isEmpty(), out.right(2000));
  }
  void stopsInTurns(QProcess& process, QByteArray& out, const QString& node, pid_t worker) {
    QVERIFY(worker > 0);
    std::atomic<bool> ends{false};
    std::thread stops([&] {
      while (!ends) {
        ::kill(worker, SIGSTOP);
        ::usleep(60'000);
        ::kill(worker, SIGCONT);
        ::usleep(90'000);
      }
    });
    // Three ranks share this machine's cores: another one may be named first.
    QJsonObject slow = next(process, out, "straggler", false);
    while (!slow.isEmpty() && slow["node"] != node) slow = next(process, out, "straggler", false);
    ends = true;
    stops.join();
    qInfo("%s", qPrintable(slow["text"].toString()));
    QVERIFY2(slow["node"] == node && slow["to"].toString().isEmpty(), out.right(2000));
    const QJsonObject over = next(process, out, "straggler_over", false);
    qInfo("%s", qPrintable(over["text"].toString()));
    QVERIFY(!over.isEmpty());
  }

  static inline const QStringList strategies_{"multi-worker-mirrored", "zero-1", "zero-3",
                                              "pipeline"};
  RunsOnHosts on_{kHosts};
  std::minstd_rand random_;
};

// The hosts are made before there are threads.
int main(int argc, char** argv) {
  ClusterStragglersTest test;
  QCoreApplication application(argc, argv);
  return QTest::qExec(&test, argc, argv);
}
#include "cluster_stragglers_test.moc"
