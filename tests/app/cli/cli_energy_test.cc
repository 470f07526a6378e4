// `lockstep energy` of real runs.
#include <QJsonArray>
#include <QTest>

#include "app/history/history.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep;
using namespace lockstep::test;

class CliEnergyTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    cluster_ = cli_.write(
        "cluster.yaml",
        "version: 1\nnodes:\n  - {name: a}\n  - {name: b}\n"
        "energy: {idle_watts: 50, busy_watts: 150, price_per_kwh: 0.3, price_per_node_hour: 1.5, "
        "currency: CHF, carbon_per_kwh: 400}\n");
    plan_ = cli_.run({"plan", example("fashion-mlp"), "--cluster", cluster_, "--json"});
    const CliResult ran =
        cli_.run({"run", example("fashion-mlp"), "--cluster", cluster_, "--json", "--no-benchmark",
                  "--set", "training.max_steps=2000", "--set", "training.epochs=100"});
    QVERIFY2(ran.exit == 0, ran.text());
    joules_ = ran.last()["joules"].toDouble();
    run_ = ran.first("started")["run"].toString();
  }

  void thePlanTellsOfAStep() {
    QVERIFY2(plan_.exit == 0, plan_.text());
    const QJsonObject energy = plan_.last()["prediction"].toObject()["energy"].toObject();
    const double watts = energy["watts"].toDouble();
    QVERIFY2(watts >= 50 && watts <= 150, plan_.text());
    QCOMPARE(energy["currency"].toString(), QString("CHF"));
    QVERIFY(energy["cost"].toDouble() > 0 && energy["carbon_grams"].toDouble() > 0);
  }

  void strategiesTellWhatTheyCost() {
    const QStringList words{"advise", example("fashion-mlp"), "--seconds", "2"};
    const QStringList priced = words + QStringList{"--cluster", cluster_};
    const CliResult advice = cli_.run(priced + QStringList{"--json"});
    QVERIFY2(advice.exit == 0 && !advice.all("candidate").isEmpty(), advice.text());
    for (const QJsonObject& one : advice.all("candidate")) {
      const double grams = one["step_joules"].toDouble() / 3.6e6 * 400;
      QVERIFY2(std::abs(one["step_carbon_grams"].toDouble() - grams) < 1e-6 * grams, advice.text());
      QVERIFY(one["step_cost"].toDouble() > one["step_joules"].toDouble() / 3.6e6 * 0.3);
      QCOMPARE(one["currency"].toString(), QString("CHF"));
    }
    const CliResult text = cli_.run(priced);
    QVERIFY2(text.exit == 0 && text.out.contains("1000 steps") && text.out.contains(" CHF, ") &&
                 text.out.contains(" CO2e"),
             text.text());
    const CliResult plain = cli_.run(words + QStringList{"--local", "2"});
    QVERIFY2(plain.exit == 0 && !plain.out.contains("1000 steps"), plain.text());
  }

  void aRunTellsWhatItDrew() {
    const CliResult shown = cli_.run({"energy", run_, "--json"});
    QVERIFY2(shown.exit == 0 && shown.onlyJson, shown.text());
    const QJsonObject line = shown.last();
    QCOMPARE(line["steps"].toInt(), 2000);
    QVERIFY(line["predicted_joules"].toDouble() > 0);
    QVERIFY(line["epoch_joules"].toDouble() > 0 && line["point_joules"].toDouble() > 0);
    const QJsonObject energy = line["energy"].toObject();
    const double seconds = energy["seconds"].toDouble(), joules = energy["joules"].toDouble();
    QCOMPARE(energy["hosts"].toArray().size(), qsizetype{1});  // both nodes are this machine
    if (!energy["measured"].toBool())
      QVERIFY2(joules >= 50 * seconds && joules <= 150 * seconds, shown.text());
    QVERIFY2(std::abs(joules_ - joules) < 0.02 * joules, shown.text());  // as the run's end told
    double parts = 0;
    for (const char* part : {"compute", "transfer", "waiting", "other"})
      parts += energy[QString(part) + "_joules"].toDouble();
    QVERIFY2(std::abs(parts - joules) < 1e-6 * joules, shown.text());
    QVERIFY(energy["compute_joules"].toDouble() > 0);
    const double cost = joules / 3.6e6 * 0.3 + seconds / 3600 * 1.5;
    QVERIFY2(std::abs(energy["cost"].toDouble() - cost) < 1e-6 * cost, shown.text());
    const CliResult text = cli_.run({"energy", run_});
    QVERIFY2(text.exit == 0 && text.out.contains(" CHF, ") && text.out.contains("a step") &&
                 text.out.contains("an epoch") && text.out.contains("a point of accuracy"),
             text.text());
    // The history shows the same.
    const QJsonObject row = cli_.run({"history", "show", run_, "--json"}).first("run");
    for (const char* name : {"energy", "epoch_joules", "point_joules", "predicted_joules"})
      QVERIFY2(!row[name].isNull() && row[name] == line[name], name);
    const CliResult history = cli_.run({"history", "show", run_});
    const QByteArray told = text.out.left(text.out.indexOf("\n\n")).mid(text.out.indexOf('\n'));
    QVERIFY2(told.contains("predicted, of steps") && history.out.contains("energy" + told),
             history.text());
  }

  void whatIsNoRunIsRefused() {
    QCOMPARE(cli_.run({"energy", "no-such-run"}).exit, 2);
    QCOMPARE(cli_.run({"energy"}).exit, 2);
  }

  // Many steps take long to read: the history leaves that to `lockstep energy`.
  void ofALongRunTheHistoryReadsNoSteps() {
    const auto history = app::History::open(cli_.path("home/history").toStdString());
    QVERIFY(history.ok());
    const auto store = (*history)->openRun(run_.toStdString());
    QVERIFY(store.ok() && (*store)->lockForRecording().ok());
    constexpr int kPieces = 21, kPoints = 100'000;
    for (int piece = 0; piece < kPieces; ++piece) {
      std::vector<app::Point> points;
      for (int i = 0; i < kPoints; ++i)
        points.push_back({static_cast<double>(piece * kPoints + i + 1), 0.5});
      app::RunBatch batch;
      batch.series.push_back({"rank/1000/data", std::move(points)});
      QVERIFY((*store)->append(batch).ok());
    }
    const CliResult shown = cli_.run({"history", "show", run_, "--json"});
    const QJsonObject energy = shown.first("run")["energy"].toObject();
    QVERIFY2(energy["joules"].toDouble() > 0 && energy["compute_joules"].isNull(), shown.text());
    const CliResult text = cli_.run({"history", "show", run_});
    QVERIFY2(text.out.contains("  by what ranks did: lockstep energy " + run_.toUtf8()) &&
                 text.out.contains("  a step ") && !text.out.contains("  compute "),
             text.text());
    const CliResult parts = cli_.run({"energy", run_});
    QVERIFY2(parts.exit == 0 && parts.out.contains("  compute "), parts.text());
  }

 private:
  const Cli cli_;
  QString cluster_;
  CliResult plan_;
  double joules_ = 0;
  QString run_;
};

QTEST_GUILESS_MAIN(CliEnergyTest)
#include "cli_energy_test.moc"
