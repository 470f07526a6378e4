// The steps of a real run: times, timeline, traffic.
#include <QJsonArray>
#include <QTest>

#include "app/history/history.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep;
using namespace lockstep::test;

class CliStepsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    const CliResult ran =
        cli_.run({"run", example("fashion-mlp"), "--local", "2", "--json", "--no-benchmark",
                  "--set", "training.max_steps=240", "--set", "training.epochs=100"});
    QVERIFY2(ran.exit == 0, ran.text());
    run_ = ran.first("started")["run"].toString();
  }

  void timesOfStepsAreShown() {
    const CliResult text = cli_.run({"steps", run_});
    QVERIFY2(text.exit == 0 && text.out.contains("waiting ms"), text.text());
    const CliResult json = cli_.run({"steps", run_, "--last", "20", "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    const auto ranks = json.all("steps");
    QCOMPARE(ranks.size(), 2);
    for (const QJsonObject& rank : ranks) {
      QCOMPARE(rank["first_step"].toInt(), 221);
      QCOMPARE(rank["stride"].toInt(), 1);
      const QJsonArray steps = rank["step_seconds"].toArray();
      QCOMPARE(steps.size(), 20);
      for (const QJsonValue& step : steps) QVERIFY2(step.toDouble() > 0, json.text());
      QCOMPARE(rank["waiting_seconds"].toArray().size(), 20);
    }
    QCOMPARE(ranks[1]["node"].toString(), QString("local2"));
  }

  // Where the driver of a rank's GPU told its clock, it is shown: here of rank 1, except for a
  // step.
  void clocksOfGpusAreShown() {
    const CliResult without = cli_.run({"steps", run_, "--json"});
    QVERIFY2(!without.first("steps").contains("gpu_clock_mhz"), without.text());
    {
      app::RunBatch batch;
      auto& clocks = batch.series.emplace_back();
      clocks.name = "rank/1/gpu_clock";
      for (int step = 1; step <= 240; ++step)
        if (step != 230) clocks.points.push_back({double(step), step <= 235 ? 1980.0 : 600.0});
      auto history = app::History::open(cli_.path("home/history").toStdString());
      QVERIFY(history.ok());
      auto store = (*history)->openRun(run_.toStdString());
      QVERIFY(store.ok() && (*store)->lockForRecording().ok() && (*store)->append(batch).ok());
    }
    const CliResult json = cli_.run({"steps", run_, "--last", "20", "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    const auto ranks = json.all("steps");
    const QJsonArray none = ranks[0]["gpu_clock_mhz"].toArray(),
                     clocks = ranks[1]["gpu_clock_mhz"].toArray();
    QCOMPARE(none.size(), 20);
    QCOMPARE(clocks.size(), 20);
    for (int i = 0; i < 20; ++i) {
      const int step = 221 + i;
      QVERIFY2(none[i].isNull(), json.text());
      QVERIFY2(step == 230 ? clocks[i].isNull() : clocks[i].toInt() == (step <= 235 ? 1980 : 600),
               json.text());
    }
    const CliResult text = cli_.run({"steps", run_});
    QVERIFY2(text.exit == 0 && text.out.contains("GPU MHz") && text.out.contains(" 1951 "),
             text.text());
  }

  // A recorded step, and the step that was predicted: each rank computes, in order, within it, and
  // waits for the other alone.
  void aStepIsDrawn() {
    const CliResult text = cli_.run({"timeline", run_});
    QVERIFY2(text.exit == 0 && text.out.contains("one step, ") && text.out.contains("1 local2"),
             text.text());
    for (const QStringList& more : {QStringList{"--step", "100"}, QStringList{"--predicted"}}) {
      const CliResult json = cli_.run(QStringList{"timeline", run_, "--json"} + more);
      QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
      const QJsonObject head = json.first("timeline");
      QCOMPARE(head["predicted"].toBool(), more.size() == 1);
      const double length = head["seconds"].toDouble() * 1e9;
      QVERIFY2(length > 0, json.text());
      int forward[2] = {0, 0};
      double sent = 0;
      for (const QJsonObject& span : json.all("span")) {
        const double begin = span["begin_ns"].toDouble(), end = span["end_ns"].toDouble();
        QVERIFY2(begin >= 0 && end >= begin && end <= length * (1 + 1e-6), json.text());
        const int rank = span["rank"].toInt();
        if (span["kind"].toString() == "forward") ++forward[rank];
        sent += span["bytes"].toDouble();
        if (span.contains("waits_for")) QCOMPARE(span["waits_for"].toInt(), 1 - rank);
      }
      QVERIFY2(forward[0] > 0 && forward[1] > 0 && sent > 0, json.text());
    }
  }

  // Two ranks, one on each node: what ranks send is what nodes send.
  void trafficIsPlanned() {
    const CliResult text = cli_.run({"traffic", run_});
    QVERIFY2(text.exit == 0 && text.out.contains("from node"), text.text());
    const CliResult json = cli_.run({"traffic", run_, "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    const auto ranks = json.all("traffic"), nodes = json.all("node_traffic");
    QCOMPARE(ranks.size(), 2);
    QCOMPARE(nodes.size(), 2);
    for (int i = 0; i < 2; ++i) {
      QVERIFY(ranks[i]["bytes"].toDouble() > 0);
      QCOMPARE(ranks[i]["bytes"].toDouble(), nodes[i]["planned_bytes"].toDouble());
      QCOMPARE(nodes[i]["from"].toString(), QString("local%1").arg(ranks[i]["from"].toInt() + 1));
    }
  }

  // Its schedule names a program that it does not have.
  void aDamagedPlanIsRefused() {
    const auto replaced = [&](const char* was, const char* is) {
      const auto history = app::History::open(cli_.path("home/history").toStdString());
      if (!history.ok()) return false;
      auto documents = (*history)->documents(run_.toStdString());
      if (!documents.ok()) return false;
      QString plan = QString::fromStdString(documents->plan);
      if (!plan.contains(was)) return false;
      documents->plan = plan.replace(was, is).toStdString();
      return (*history)->setDocuments(run_.toStdString(), *documents).ok();
    };
    const char *const whole = "schedule 0: \"step\"", *const damaged = "schedule 0: \"stap\"";
    QVERIFY(replaced(whole, damaged));
    for (const QStringList& command :
         {QStringList{"traffic", run_}, {"timeline", run_}, {"timeline", run_, "--predicted"}}) {
      const CliResult refused = cli_.run(command);
      QVERIFY2(refused.exit != 0 && refused.err.contains("damaged"), refused.text());
    }
    QVERIFY(replaced(damaged, whole));
  }

  void mistakesAreRefused() {
    for (const char* command : {"steps", "timeline", "traffic"})
      QCOMPARE(cli_.run({command, "no-such-run"}).exit, 2);
    QCOMPARE(cli_.run({"timeline", run_, "--step", "1", "--predicted"}).exit, 2);
    QCOMPARE(cli_.run({"steps", run_, "--last", "0"}).exit, 2);
  }

 private:
  const Cli cli_;
  QString run_;
};

QTEST_GUILESS_MAIN(CliStepsTest)
#include "cli_steps_test.moc"
