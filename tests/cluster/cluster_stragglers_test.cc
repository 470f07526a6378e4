// Stragglers planted on hosts of their own, while a run is trained from the command line: each is
// named with its cause, within so many steps, and told to be over; healthy runs name nobody.
//
// Victims are chosen by a seed, which is printed: LOCKSTEP_STRAGGLERS_SEED, and
// LOCKSTEP_STRAGGLERS_ROUNDS how many.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QCoreApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>
#include <atomic>
#include <limits>
#include <random>
#include <thread>

#include "tests/cluster/control_group.h"
#include "tests/cluster/runs_on_hosts.h"
#include "tests/cluster/straggler_runs.h"
#include "tests/support/pytorch.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr int kHosts = 3;
constexpr int kLimitMs = 60000;
constexpr int kWithinSteps = 20;  // of causes that are in the steps themselves

// A step computes for 10 ms, and does nothing for 20 ms: three ranks share this machine's cores.
constexpr const char* kComputes = R"(
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 4)
    def forward(self, x):
        end = time.process_time() + 0.01
        while time.process_time() < end: pass
        time.sleep(0.02)
        return self.layer(x)
model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(1, 1000000):
    optimizer.zero_grad()
    loss = model(torch.randn(20, 64)).square().mean()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0: print(f"step {step} loss {loss.item():.9g}", flush=True)
)";

// The process of a program, whose parent is its rank's worker; 0: there is none.
pid_t programOf(pid_t worker) {
  for (const QString& entry : QDir("/proc").entryList(QDir::Dirs)) {
    QFile status("/proc/" + entry + "/status");
    if (status.open(QIODevice::ReadOnly) &&
        status.readAll().contains("\nPPid:\t" + QByteArray::number(worker) + "\n"))
      return entry.toInt();
  }
  return 0;
}

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
    QStringList kinds{"healthy", "link", "stopped", "quota", "disk", "data", "program"};
    // Needs the machine for itself: by tests/cluster/stragglers alone.
    if (qEnvironmentVariableIsSet("LOCKSTEP_STRAGGLERS_ROUNDS")) kinds << "crowded";
    for (unsigned seed = first; seed < first + rounds; ++seed)
      for (const QString& kind : kinds)
        QTest::addRow("%s, seed %u", qPrintable(kind), seed) << kind << seed;
  }
  void stragglers() {
    QFETCH(QString, kind);
    QFETCH(unsigned, seed);
    random_.seed(seed * 2654435761u + 1);
    const QStringList more{
        "--set", "training.epochs=100",       "--set", "training.batch=600",
        "--set", "training.max_steps=100000", "--set", "strategy.kind=" + strategies_[upTo(4)]};
    if ((kind == "data" || kind == "program") && !hasPyTorch())
      QSKIP("python3-torch is not installed");
    const auto process =
        kind == "disk"      ? start(writeTokensRun(on_.cli(), 400'000, 12, 12, random_))
        : kind == "data"    ? start(writeScriptRun(on_.cli(), "rows", largeBatches(on_.cli())))
        : kind == "program" ? start(writeScriptRun(on_.cli(), "computes", kComputes))
                            : on_.train(more, on_.all());
    QByteArray out;
    QString run;
    QVERIFY2(on_.awaitSteps(*process, 300, out, run), out.right(2000));
    const int victim = 1 + upTo(kHosts);
    const QString node = "n" + QString::number(victim);
    if (kind == "link")
      planted(*process, out, node, [&](bool on) {
        return on ? on_.hosts().limitRate(victim, 20 + upTo(80)) : on_.hosts().unlimitRate(victim);
      });
    const pid_t worker = on_.workerOn(victim, run);
    if (kind == "stopped") {
      stopsInTurns(*process, out, node, worker);
    } else if (kind == "quota") {
      hasAQuota(*process, out, node, worker);
    } else if (kind == "program") {
      hasAQuota(*process, out, node, programOf(worker));
    } else if (kind == "disk") {
      hasASlowDisk(*process, out, node, victim);
    } else if (kind == "data") {
      hasLargeBatches(*process, out, node, victim);
    } else if (kind == "crowded") {
      sharesItsCore(*process, out, node, run, victim);
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
  static int lastStep(const QByteArray& out) {
    const qsizetype at = out.lastIndexOf("\"step\":");
    return at < 0 ? 0 : out.mid(at + 7, 12).split(',')[0].toInt();
  }
  // Waits until there are more of these events than `before`. Returns the first of them.
  static QJsonObject after(qsizetype before, QProcess& process, QByteArray& out,
                           const QString& event, bool ofLinks) {
    const bool came = waitFor(
        [&] {
          process.waitForReadyRead(50);
          out += process.readAllStandardOutput();
          return told(out, event, ofLinks).size() > before;
        },
        kLimitMs);
    return came ? told(out, event, ofLinks)[before] : QJsonObject();
  }
  // Waits for another one.
  static QJsonObject next(QProcess& process, QByteArray& out, const QString& event, bool ofLinks) {
    return after(told(out, event, ofLinks).size(), process, out, event, ofLinks);
  }
  template <typename Plant>
  void planted(QProcess& process, QByteArray& out, const QString& node, const Plant& plant) {
    const int before = lastStep(out);
    QVERIFY(plant(true));
    QElapsedTimer clock;
    clock.start();
    const QJsonObject slow = next(process, out, "straggler", true);
    qInfo("%s", QJsonDocument(slow).toJson(QJsonDocument::Compact).constData());
    qInfo("named after %lld ms, %d steps", clock.elapsed(), slow["seen_step"].toInt() - before);
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
  // Three ranks share this machine's cores: another one may be named first.
  void isNamed(QProcess& process, QByteArray& out, const QString& node, const QString& cause,
               int within = std::numeric_limits<int>::max()) {
    QElapsedTimer clock;
    clock.start();
    const int before = lastStep(out);
    const auto isIt = [&](const QJsonObject& slow) {
      return slow["node"] == node && slow["cause"].toString().contains(cause);
    };
    qsizetype known = told(out, "straggler", false).size();
    QJsonObject slow = after(known, process, out, "straggler", false);
    while (!slow.isEmpty() && !isIt(slow)) slow = after(++known, process, out, "straggler", false);
    const int step = slow["seen_step"].toInt();
    qInfo("named after %lld ms, %d steps: %s", clock.elapsed(), step - before,
          qPrintable(slow["text"].toString()));
    QVERIFY2(isIt(slow) && slow["to"].toString().isEmpty(), out.right(3000));
    QVERIFY2(step - slow["since_step"].toInt() <= within, out.right(3000));
  }
  void isOver(QProcess& process, QByteArray& out) {
    const QJsonObject over = next(process, out, "straggler_over", false);
    qInfo("%s", qPrintable(over["text"].toString()));
    QVERIFY(!over.isEmpty());
  }
  void hasAQuota(QProcess& process, QByteArray& out, const QString& node, pid_t rank) {
    const auto group = ControlGroup::make();
    if (!group) QSKIP("no control group can be made here");
    QVERIFY(group->limitCpu(0.05) && rank > 0 && group->add(rank));
    isNamed(process, out, node, "quota");
    QVERIFY(group->limitCpu(100));
    isOver(process, out);
  }
  // Within so many steps of the first in which it was late.
  void isNamedSoon(QProcess& process, QByteArray& out, const QString& node, const QString& cause) {
    isNamed(process, out, node, cause, kWithinSteps);
  }
  // Four samples a step.
  void hasASlowDisk(QProcess& process, QByteArray& out, const QString& node, int victim) {
    on_.slowReads(victim, 40 + upTo(40));
    isNamedSoon(process, out, node, "for its data files");
    on_.slowReads(0, 0);
    isOver(process, out);
  }
  void hasLargeBatches(QProcess& process, QByteArray& out, const QString& node, int victim) {
    on_.cli().write("large", QByteArray::number(victim - 1));
    isNamedSoon(process, out, node, "its batches had ");
    on_.cli().write("large", "");
    isOver(process, out);
  }
  std::unique_ptr<QProcess> start(const QString& spec) const {
    return on_.start({"run", spec, "--json", "--every", "1", "--cluster", on_.all()});
  }

  // Pins the rank and busy processes to one core, and the other ranks to another.
  void sharesItsCore(QProcess& process, QByteArray& out, const QString& node, const QString& run,
                     int victim) {
    cpu_set_t all;
    QCOMPARE(sched_getaffinity(0, sizeof(all), &all), 0);
    QList<int> cores;
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &all)) cores << core;
    if (cores.size() < 2) QSKIP("this machine has one core");
    for (int host = 1; host <= kHosts; ++host)
      pin(on_.workerOn(host, run), cores[host == victim ? 0 : 1]);
    std::vector<pid_t> others;
    // A rank that sleeps for most of a step is soon served, unless there are many.
    for (int i = 0; i < 16; ++i) others.push_back(startBusy(cores[0]));
    isNamed(process, out, node, "other work");
    for (const pid_t other : others) {
      ::kill(other, SIGKILL);
      ::waitpid(other, nullptr, 0);
    }
    isOver(process, out);
  }
  // In a session of its own, which the kernel gives as much of the core as any other.
  static pid_t startBusy(int core) {
    const pid_t parent = ::getpid(), out = ::fork();
    if (out != 0) return out;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::setsid();
    pinThread(0, core);
    for (volatile bool busy = true; busy;) {
    }
    ::_exit(0);
  }
  static void pinThread(pid_t thread, int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)sched_setaffinity(thread, sizeof(one), &one);
  }
  static void pin(pid_t process, int core) {
    const QString threads = QString("/proc/%1/task").arg(process);
    for (const QString& thread : QDir(threads).entryList(QDir::Dirs | QDir::NoDotAndDotDot))
      pinThread(thread.toInt(), core);
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
    isNamed(process, out, node, "stopped");
    ends = true;
    stops.join();
    isOver(process, out);
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
