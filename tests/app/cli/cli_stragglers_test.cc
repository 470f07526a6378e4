// What a person asks about a rank that is slow: its cost, and the events of the steps to come.
#include <signal.h>

#include <QElapsedTimer>
#include <QFileInfo>
#include <QTest>
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "app/history/history.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep;
using namespace lockstep::test;

class CliStragglersTest : public QObject {
  Q_OBJECT

 private:
  // Until a step with this number or a later one is told.
  static bool awaitStep(const Cli& cli, QProcess& process, QByteArray& out, std::int64_t step) {
    for (;;) {
      const qsizetype at = out.lastIndexOf("\"step\":");
      if (at >= 0 && out.mid(at + 7, 20).split(',')[0].toLongLong() >= step) return true;
      if (!cli.awaitNext(process, "step", out)) return false;
    }
  }
  // Steps with all events of three ranks, sampled and slow ones aside.
  static std::set<std::int64_t> profiledSteps(const Cli& cli, const QString& run) {
    const auto history = app::History::open((cli.home() + "/history").toStdString());
    if (!history.ok()) return {};
    const auto store = (*history)->openRun(run.toStdString());
    if (!store.ok()) return {};
    std::map<std::int64_t, int> ranks;
    for (const app::SpanEvents& one : (*store)->events(1, std::numeric_limits<std::int64_t>::max()))
      if (!one.slow && one.step % 50 != 0) ++ranks[one.step];
    std::set<std::int64_t> out;
    for (const auto& [step, count] : ranks)
      if (count == 3) out.insert(step);
    return out;
  }

 private Q_SLOTS:
  void stepsAreProfiledOnRequest_data() {
    QTest::addColumn<QString>("kind");
    QTest::newRow("data parallel") << "multi-worker-mirrored";
    QTest::newRow("zero-3") << "zero-3";
    QTest::newRow("pipeline") << "pipeline";
  }
  // Every step of every rank, however short the steps are.
  void stepsAreProfiledOnRequest() {
    QFETCH(QString, kind);
    const Cli cli;
    const auto process = cli.start(training(kind, "3", kEndless));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    for (const char* steps : {"0", "201", "-1", "x"}) {
      const CliResult refused = cli.run({"profile", run, "--steps", steps});
      QVERIFY2(refused.exit == 2 && refused.err.contains("steps"), refused.text());
    }
    // Fewer steps that may still be recorded do not stand in the way.
    const CliResult fewer = cli.run({"profile", run, "--steps", "2", "--json"});
    QVERIFY2(fewer.exit == 0, fewer.text());
    const CliResult asked = cli.run({"profile", run, "--steps", "7", "--json"});
    QVERIFY2(asked.exit == 0, asked.text());
    const QJsonObject told = asked.first("profiled");
    QCOMPARE(told["steps"].toInt(), 7);
    const auto first = static_cast<std::int64_t>(told["first_step"].toInteger());
    QVERIFY(first > 1);
    // They may come later than these, if steps have become longer meanwhile.
    const auto earlier = fewer.first("profiled")["first_step"].toInteger();
    const std::int64_t next = std::max(first + 7, static_cast<std::int64_t>(earlier) + 2);
    QVERIFY(awaitStep(cli, *process, out, next + 1));
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    QVERIFY2(result.last()["steps"].toInt() > next, asked.text());
    const auto history = app::History::open((cli.home() + "/history").toStdString());
    QVERIFY(history.ok());
    const auto store = (*history)->openRun(run.toStdString());
    QVERIFY(store.ok());
    std::set<std::pair<int, std::int64_t>> kept;
    for (const app::SpanEvents& one : (*store)->events(first, first + 6))
      kept.insert({one.rank, one.step});
    QCOMPARE(kept.size(), std::size_t{21});
    // The steps beside them are sampled as before: every 50th, and slow ones. Other work on this
    // machine may have held a rank back, and the steps after such a change are recorded too.
    const bool isQuiet = !result.out.contains("{\"event\":\"straggler");
    for (const app::SpanEvents& one : (*store)->events(next, next))
      QVERIFY(one.slow || one.step % 50 == 0 || !isQuiet);
    const CliResult late = cli.run({"profile", run});
    QVERIFY2(late.exit != 0 && late.err.contains("has ended"), late.text());
  }

  // When a rank begins to be slow, and when it no longer is, nobody has to ask for the events of
  // the next steps.
  void stepsAtAChangeAreProfiled() {
    using namespace std::chrono_literals;
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "3", kEndless));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    QVERIFY(awaitStep(cli, *process, out, 100));
    const QString run = runOf(out);
    const auto workers = cli.workers(run);
    QCOMPARE(workers.size(), qsizetype{3});
    std::set<std::int64_t> first;
    {
      const std::jthread bursts([pid = static_cast<pid_t>(workers[1])](const std::stop_token& end) {
        while (!end.stop_requested()) {
          ::kill(pid, SIGSTOP);
          std::this_thread::sleep_for(150ms);
          ::kill(pid, SIGCONT);
          std::this_thread::sleep_for(250ms);
        }
      });
      QVERIFY2(cli.awaitEvent(*process, "straggler", out), out.right(2000));
      QVERIFY(
          QTest::qWaitFor([&] { return (first = profiledSteps(cli, run)).size() >= 3; }, 60000));
    }
    QVERIFY2(cli.awaitNext(*process, "straggler_over", out), out.right(2000));
    QVERIFY(
        QTest::qWaitFor([&] { return profiledSteps(cli, run).size() >= first.size() + 3; }, 60000));
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    // Three in a row, each time, unless the run has ended among them.
    const std::set<std::int64_t> all = profiledSteps(cli, run);
    QVERIFY(std::ranges::all_of(all, [&](std::int64_t step) {
      return step == *all.rbegin() || all.contains(step - 1) || all.contains(step + 1) ||
             (step - 1) % 50 == 0 || (step + 1) % 50 == 0;
    }));
  }

  // A rank that is suspended again and again is the costliest, and its node.
  void theCostliestRankIsFirst() {
    const Cli cli;
    const auto process = cli.start(training("multi-worker-mirrored", "3", kEndless));
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const QString run = runOf(out);
    const auto workers = cli.workers(run);
    QCOMPARE(workers.size(), qsizetype{3});
    const auto slow = static_cast<pid_t>(workers[1]);
    const QString folder = QFileInfo("/proc/" + QString::number(slow) + "/cwd").symLinkTarget();
    double paused = 0;
    QElapsedTimer clock;
    // For most of the run: what other work on this machine costs the other ranks is little of it.
    for (int i = 0; i < 15; ++i) {
      clock.start();
      ::kill(slow, SIGSTOP);
      QTest::qWait(300);
      ::kill(slow, SIGCONT);
      paused += static_cast<double>(clock.elapsed()) * 1e-3;
      QTest::qWait(60);
    }
    QVERIFY(awaitStep(cli, *process, out, 100));
    const CliResult result = cli.stop(*process, out);
    QVERIFY2(result.exit == 130, result.text());
    const CliResult shown = cli.run({"stragglers", run, "--json"});
    QVERIFY2(shown.exit == 0 && shown.onlyJson, shown.text());
    QVERIFY(shown.first("costs")["step_seconds"].toDouble() > 0);
    const auto costs = shown.all("cost");
    QCOMPARE(costs.size(), qsizetype{3});
    const double cost = costs[0]["seconds"].toDouble();
    QVERIFY2(cost > 0.3 * paused && cost < 1.5 * paused, shown.text());
    QVERIFY2(costs[1]["seconds"].toDouble() < 0.5 * cost, shown.text());
    QVERIFY(costs[0]["late_steps"].toInt() > 0);
    QVERIFY(costs[0]["without_seconds"].toDouble() <
            shown.first("costs")["step_seconds"].toDouble());
    // Told at the end of the run, of each that was named while it went on.
    std::set<int> named, told;
    for (const QJsonObject& over : result.all("straggler_over"))
      if (!over["stopped"].toBool() && over["rank"].toInt() >= 0)
        named.insert(over["rank"].toInt());
    for (const QJsonObject& cost : result.all("straggler_cost")) {
      told.insert(cost["rank"].toInt());
      QVERIFY2(cost["without_seconds"].toDouble() > 0 && cost["step_seconds"].toDouble() > 0 &&
                   cost["text"].toString().contains("replayed, with an error of"),
               result.text());
    }
    QVERIFY2(told == named, result.text());
    // Replayed, as whatif replays it.
    QVERIFY2(costs[0]["replayed"].toBool(), shown.text());
    const CliResult asked =
        cli.run({"whatif", run, "--without", QString::number(costs[0]["rank"].toInt()), "--json"});
    QCOMPARE(costs[0]["without_seconds"], asked.first("whatif")["step_seconds"]);
    QCOMPARE(shown.first("replay")["error"], asked.first("replay")["error"]);
    const CliResult text = cli.run({"stragglers", run});
    QVERIFY2(text.out.contains("by a replay of steps"), text.text());
    const QString node = costs[0]["node"].toString();
    QVERIFY2(!node.isEmpty() && folder.endsWith("/" + node), qPrintable(folder + " " + node));
    std::set<QString> figures;
    for (const QJsonObject& figure : shown.all("figure")) {
      QCOMPARE(figure["rank"], costs[0]["rank"]);
      figures.insert(figure["name"].toString());
    }
    for (const char* name : {"step", "forward", "backward", "waiting", "memory", "cpu"})
      QVERIFY2(figures.contains(name), shown.text());
    const CliResult nodes = cli.run({"stragglers", run, "--nodes", "--json"});
    QCOMPARE(nodes.all("cost")[0]["node"].toString(), node);
    QVERIFY(!nodes.all("cost")[0].contains("rank"));
    const CliResult last50 = cli.run({"stragglers", run, "--last", "50"});
    QVERIFY2(last50.exit == 0 && last50.out.contains("median of the others"), last50.text());
    const int last = result.last()["steps"].toInt();
    const QString shownSteps = QString("steps %1 to %2").arg(last - 49).arg(last);
    QVERIFY2(last50.out.contains(shownSteps.toUtf8()), last50.text());
  }

  void whatCannotBeComparedIsSaid() {
    const Cli cli;
    const CliResult alone =
        cli.run({"run", example("fashion-mlp"), "--json", "--local", "1", "--set",
                 "training.max_steps=20", "--set", "training.epochs=1"});
    QVERIFY2(alone.exit == 0, alone.text());
    const CliResult shown = cli.run({"stragglers", alone.first("started")["run"].toString()});
    QVERIFY2(shown.exit != 0 && shown.err.contains("it has one rank"), shown.text());
    const CliResult unknown = cli.run({"stragglers", "nothing"});
    QVERIFY2(unknown.exit != 0, unknown.text());
  }
};

QTEST_GUILESS_MAIN(CliStragglersTest)
#include "cli_stragglers_test.moc"
