// Energy of a prediction, and of made-up loads of nodes in a real history.
#include "app/runs/energy.h"

#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <random>

#include "app/history/history.h"
#include "app/history/run_store.h"
#include "app/runs/preview.h"
#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr double kStart = 1.7e9;  // wall clock, seconds

// Nodes n1 and n2 on hosts of their own, or both on one.
LaunchRequest requestOf(const std::string& energy) {
  const auto spec = loadRunSpec(test::sourcePath("resources/examples/fashion-mlp.yaml"), {});
  if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
  LaunchRequest out;
  out.spec = spec->spec;
  out.clusterYaml =
      "version: 1\nnodes:\n  - {name: n1, ssh: {host: n1}}\n  - {name: n2, ssh: {host: n2}}\n" +
      energy;
  const auto cluster = completeClusterSpec(out.clusterYaml, "cluster.yaml");
  if (!cluster.ok()) qFatal("%s", cluster.error().text().c_str());
  out.cluster = cluster->spec;
  return out;
}

std::vector<HostFacts> hosts(bool one) {
  return {{.node = "n1", .host = "a", .cores = 8},
          {.node = "n2", .host = one ? "a" : "b", .cores = 8}};
}

bool isNear(double value, double expected, double within = 1e-6) {
  return std::abs(value - expected) <= within * std::abs(expected);
}

struct Recorded {
  QTemporaryDir folder;
  std::unique_ptr<History> history;
  std::unique_ptr<RunStore> store;
  RunRow row;
  RunDocuments documents;

  Recorded(const LaunchRequest& request, const Preview& preview) {
    history = std::move(*History::open(folder.path().toStdString()));
    row.run = "20240501-120010-a1b2c0";
    row.world = 2;
    documents.clusterYaml = request.clusterYaml;
    documents.specResolved = toYaml(*request.spec);
    documents.prediction = predictionJson(preview);
    if (!history->add(row, documents).ok()) qFatal("the history takes no run");
    store = std::move(*history->openRun(row.run));
    if (!store->lockForRecording().ok()) qFatal("the run cannot be recorded");
  }
  void add(const std::string& series, std::vector<Point> points) {
    RunBatch batch;
    batch.series.push_back({series, std::move(points)});
    if (!store->append(batch).ok()) qFatal("the history takes no values");
  }
  Energy energy() const {
    auto out = measuredEnergy(*store, documents);
    if (!out.ok()) qFatal("%s", out.error().text().c_str());
    return std::move(*out);
  }
};

}  // namespace

class EnergyTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void aPredictionFollowsPowersAndPrices() {
    const LaunchRequest request = requestOf(
        "energy: {idle_watts: 100, busy_watts: 300, overhead: 1.5, price_per_kwh: 0.4, "
        "price_per_node_hour: 2, currency: USD, carbon_per_kwh: 250}\n");
    const auto preview = makePreview(request, hosts(false));
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    const Energy energy = predictedEnergy(*preview);
    const double step = preview->stepSeconds;
    QCOMPARE(energy.hosts.size(), std::size_t{2});
    // One of eight cores computes for most of a step.
    for (const HostEnergy& host : energy.hosts)
      QVERIFY(host.joules() > 100 * step && host.joules() <= (100 + 200 / 8.0) * step * 1.000001);
    const double sum = energy.hosts[0].joules() + energy.hosts[1].joules();
    QVERIFY(isNear(energy.joules(), 1.5 * sum));
    const EnergyPhases phases = predictedPhases(*preview, energy);
    QVERIFY(
        isNear(phases.compute + phases.transfer + phases.waiting + phases.other, energy.joules()));
    QVERIFY(phases.compute > phases.waiting);
    QVERIFY(isNear(*energy.cost, energy.joules() / 3.6e6 * 0.4 + 2 * step / 3600 * 2));
    QCOMPARE(energy.currency, std::string("USD"));
    QVERIFY(isNear(*energy.carbonGrams, energy.joules() / 3.6e6 * 250));
    QVERIFY(!energy.isMeasured());
  }

  void withoutASpecAHostDrawsByItsCores() {
    const auto preview = makePreview(requestOf(""), hosts(true));
    QVERIFY(preview.ok());
    const Energy energy = predictedEnergy(*preview);
    QCOMPARE(energy.hosts.size(), std::size_t{1});  // both nodes are there
    const double watts = energy.watts();
    QVERIFY2(watts > 0.74 * 8 && watts <= 0.74 * 8 + (3.5 - 0.74) * 2 + 1e-9,
             qPrintable(QString::number(watts)));
    QVERIFY(!energy.cost && !energy.carbonGrams);
  }

  void whatIsNoPowerIsRefused_data() {
    QTest::addColumn<QString>("energy");
    QTest::addColumn<QString>("field");
    for (const auto& [energy, field] :
         {std::pair("idle_watts: -1", "idle_watts"), std::pair("overhead: 0.5", "overhead"),
          std::pair("price_per_kwh: cheap", "price_per_kwh"),
          std::pair("busy_watts: .inf", "busy_watts"), std::pair("watts: 5", "watts"),
          std::pair("idle_watts: 180", "idle_watts"),
          std::pair("idle_watts: 500, busy_watts: 100", "busy_watts"),
          std::pair("currency: 'E\\aR'", "currency"),
          std::pair("currency: Ducats of 1515", "currency")})
      QTest::newRow(energy) << QString(energy) << QString(field);
  }
  void whatIsNoPowerIsRefused() {
    QFETCH(QString, energy);
    QFETCH(QString, field);
    const auto cluster = completeClusterSpec(
        "version: 1\nnodes:\n  - {name: n1}\nenergy: {" + energy.toStdString() + "}\n", "c.yaml");
    QVERIFY(!cluster.ok());
    QVERIFY2(cluster.error().text().find(field.toStdString()) != std::string::npos,
             cluster.error().text().c_str());
  }

  // Loads at random moments: the mean is of time, not of samples, however many there are.
  void loadsAreIntegrated() {
    const LaunchRequest request = requestOf("energy: {idle_watts: 100, busy_watts: 300}\n");
    const auto preview = makePreview(request, hosts(false));
    for (unsigned seed = 1; seed <= 12; ++seed) {
      std::mt19937 random(seed);
      const int count = seed == 1 ? 120'000 : 2 + static_cast<int>(random() % 500);
      Recorded run(request, *preview);
      double expected = 0, longest = 0;
      for (const char* node : {"n1", "n2"}) {
        double at = 0;
        std::vector<Point> points{{kStart, 1.0}};  // of the time before
        for (int i = 1; i < count; ++i) {
          const double gap = 0.05 + (random() % 100) / 20.0;
          // Mostly idle, with spikes.
          const double share = random() % 16 == 0 ? 1.0 : (random() % 11) / 100.0;
          at += gap;
          points.push_back({kStart + at, share});
          expected += (100 + 200 * share) * gap;
        }
        run.add(std::string("node/") + node + "/cpu", std::move(points));
        longest = std::max(longest, at);
      }
      const Energy energy = run.energy();
      QVERIFY2(isNear(energy.joules(), expected, 1e-4),
               qPrintable(QString("%1: %2 for %3").arg(seed).arg(energy.joules()).arg(expected)));
      QVERIFY(isNear(energy.seconds, longest, 1e-4) && !energy.isMeasured() && energy.isComplete());
    }
  }

  // Counters come before the model, but for a spec that knows better; the ranks' times divide it.
  void countersAreTaken() {
    for (const bool told : {false, true}) {
      const LaunchRequest request = requestOf(told ? "energy: {busy_watts: 300}\n" : "");
      const auto preview = makePreview(request, hosts(false));
      Recorded run(request, *preview);
      for (const char* node : {"n1", "n2"}) {
        const std::string prefix = std::string("node/") + node;
        run.add(prefix + "/cpu", {{kStart, 0}, {kStart + 5, 1}, {kStart + 10, 1}});
        run.add(prefix + "/package_power", {{kStart + 5, 40}, {kStart + 10, 50}});
      }
      for (int rank = 0; rank < 2; ++rank)
        for (const auto& [phase, value] :
             {std::pair("step", 1.0), std::pair("forward", 0.2), std::pair("backward", 0.3),
              std::pair("transfer", 0.3), std::pair("waiting", 0.1)})
          run.add("rank/" + std::to_string(rank) + "/" + phase,
                  {{101, value}, {102, value}, {103, value}, {104, value}, {105, value}});
      const Energy energy = run.energy();
      const double joules = told ? 2 * 3000 : 2 * 500;
      QVERIFY2(isNear(energy.joules(), joules) && energy.isMeasured() == !told,
               energyText(energy).c_str());
      const auto phases = measuredPhases(*run.store, run.documents, energy);
      QVERIFY(phases.ok());
      QVERIFY(isNear(phases->compute, 0.25 * joules) && isNear(phases->transfer, 0.15 * joules));
      QVERIFY(isNear(phases->waiting, 0.05 * joules) && isNear(phases->other, 0.55 * joules));
      QCOMPARE(recordedSteps(*run.store), std::int64_t{5});  // the run was resumed
      QVERIFY(energyJson(energy, {}).find("\"compute_joules\":null") != std::string::npos);
      QVERIFY(energyJson(energy, *phases).find("\"compute_joules\":null") == std::string::npos);
    }
  }

  // Two nodes of one host see the same processors; one that came later has a host of its own; and
  // a host that was lost counts as long as it was there.
  void aHostCountsOnceAndAsLongAsItIsThere() {
    const LaunchRequest request = requestOf("energy: {idle_watts: 100, busy_watts: 300}\n");
    const auto preview = makePreview(request, hosts(true));
    Recorded run(request, *preview);
    run.add("node/n1/cpu", {{kStart, 0.5}, {kStart + 10, 0.5}});
    run.add("node/n2/cpu", {{kStart, 0.5}, {kStart + 4, 0.5}});
    QVERIFY(isNear(run.energy().joules(), 2000));
    run.add("node/spare/cpu", {{kStart + 4, 0.5}, {kStart + 10, 0.5}});
    QVERIFY(isNear(run.energy().joules(), 3200));
    // Hours between two jobs of the run do not count.
    run.add("node/n1/cpu", {{kStart + 40'000, 0}, {kStart + 40'010, 0.5}});
    QVERIFY(run.energy().joules() < 3200 + 2000 + 300 * 300);
  }

  // Epochs that the limit of steps did not end are whole.
  void anEpochIsOfWholeEpochs_data() {
    QTest::addColumn<int>("limit");
    QTest::addColumn<QList<int>>("ends");  // of its epochs: steps
    QTest::addColumn<qint64>("steps");     // of a whole one
    QTest::newRow("whole") << 0 << QList<int>{400, 800} << qint64{400};
    QTest::newRow("two") << 500 << QList<int>{400, 500} << qint64{400};
    QTest::newRow("one") << 0 << QList<int>{400} << qint64{400};
    QTest::newRow("a part") << 100 << QList<int>{100} << qint64{0};
    QTest::newRow("under way") << 500 << QList<int>{} << qint64{0};
  }
  void anEpochIsOfWholeEpochs() {
    QFETCH(int, limit);
    QFETCH(QList<int>, ends);
    QFETCH(qint64, steps);
    LaunchRequest request = requestOf("energy: {idle_watts: 100, busy_watts: 100}\n");
    const auto preview = makePreview(request, hosts(false));
    auto spec = std::make_shared<spec::v1::RunSpec>(*request.spec);
    spec->mutable_training()->set_max_steps(limit);
    request.spec = spec;
    Recorded run(request, *preview);
    for (const char* node : {"node/n1/cpu", "node/n2/cpu"})
      run.add(node, {{kStart, 0.5}, {kStart + 10, 0.5}});
    run.add("rank/0/step", {{1, 0.1}, {500, 0.1}});
    RunBatch batch;
    for (const int step : ends)
      batch.epochs.push_back({static_cast<std::int64_t>(batch.epochs.size()) + 1, step, 1, 1, 0.5});
    QVERIFY(run.store->append(batch).ok());
    const auto drawn = readEnergySoFar(*run.history, run.row.run);
    QVERIFY2(drawn.ok(), drawn.ok() ? "" : drawn.error().text().c_str());
    QCOMPARE(qint64{drawn->epochSteps}, steps);
    QVERIFY(isNear(drawn->stepJoules(), 2000 / 500.0));
    QVERIFY(isNear(drawn->epochJoules(), 4.0 * static_cast<double>(steps)));
  }

  void aPointOfAccuracy() {
    RunRow row;
    row.phase = RunState::SUCCEEDED;
    row.figures.metric = "accuracy";
    row.figures.evalMetric = 0.8;
    QVERIFY(isNear(pointJoules(row, 1000), 12.5));
    for (const double unknown : {0.0, std::nan("")}) {
      RunRow other = row;
      other.figures.evalMetric = unknown;
      QCOMPARE(pointJoules(other, 1000), 0.0);
    }
    RunRow other = row;
    other.figures.metric = "perplexity";
    QCOMPARE(pointJoules(other, 1000), 0.0);
    other = row;
    other.phase = RunState::RUNNING;
    QCOMPARE(pointJoules(other, 1000), 0.0);
    other = row;
    other.resumedFrom = "20261129-000000-abcd";
    QCOMPARE(pointJoules(other, 1000), 0.0);
  }

  // Large amounts are whole numbers, without a power of ten.
  void largeAmountsAreReadable() {
    QCOMPARE(joulesText(4.4424e9), std::string("1234 kWh"));
    QCOMPARE(joulesText(999.7), std::string("1000 J"));
    QCOMPARE(carbonText(1.5e6), std::string("1500 kg"));
    Energy energy;
    energy.seconds = 10;
    energy.hosts.push_back({.host = "n1", .hostJoules = 104'400, .isKnown = true});
    QCOMPARE(energyText(energy), std::string("104 kJ (10440 W, modelled)"));
  }

  void whatIsNotKnownIsNamed() {
    const LaunchRequest request = requestOf("");
    const auto preview = makePreview(request, hosts(false));
    Recorded run(request, *preview);
    QCOMPARE(measuredEnergy(*run.store, run.documents).error().code, Code::kFailedPrecondition);
    run.add("node/n1/cpu",
            {{kStart, 0.5}, {kStart + 10, 0.5}, {kStart + 11, -1}, {kStart + 12, 1e300}});
    const Energy energy = run.energy();
    QVERIFY(!energy.isComplete());
    QVERIFY2(energyText(energy).ends_with(", without n2)"), energyText(energy).c_str());
    QVERIFY(isNear(energy.joules(), (0.74 + (3.5 - 0.74) / 2) * 8 * 10));
    run.documents.prediction = "{}";
    (void)measuredEnergy(*run.store, run.documents);
    run.documents.clusterYaml = "nodes: [";
    QVERIFY(!measuredEnergy(*run.store, run.documents).ok());
  }
};

QTEST_GUILESS_MAIN(EnergyTest)
#include "energy_test.moc"
