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

  Recorded(const LaunchRequest& request, const Preview& preview, double seconds) {
    history = std::move(*History::open(folder.path().toStdString()));
    row.run = "20240501-120010-a1b2c0";
    row.world = 2;
    row.startedNs = static_cast<std::int64_t>(kStart * 1e9);
    row.finishedNs = row.startedNs + static_cast<std::int64_t>(seconds * 1e9);
    documents.clusterYaml = request.clusterYaml;
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
    auto out = measuredEnergy(*store, row, documents);
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
    const EnergyPhases& phases = energy.phases;
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
          std::pair("busy_watts: .inf", "busy_watts"), std::pair("watts: 5", "watts")})
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

  // Loads at random moments: the mean is of time, not of samples, and only of the run's.
  void loadsAreModelled() {
    const LaunchRequest request = requestOf("energy: {idle_watts: 100, busy_watts: 300}\n");
    const auto preview = makePreview(request, hosts(false));
    for (unsigned seed = 1; seed <= 20; ++seed) {
      std::mt19937 random(seed);
      const double seconds = 20 + random() % 200;
      Recorded run(request, *preview, seconds);
      double expected = 0;
      for (const char* node : {"n1", "n2"}) {
        std::vector<Point> points{{kStart - 5, 1.0}};  // before the run
        double busy = 0, before = 0;
        while (before < seconds) {
          const double at = std::min(seconds, before + 0.1 + (random() % 100) / 20.0);
          const double share = (random() % 101) / 100.0;
          points.push_back({kStart + at, share});
          busy += share * (at - before);
          before = at;
        }
        points.push_back({kStart + seconds + 5, 1.0});  // after it
        run.add(std::string("node/") + node + "/cpu", points);
        expected += 100 * seconds + 200 * busy;
      }
      const Energy energy = run.energy();
      QVERIFY2(isNear(energy.joules(), expected, 1e-4),
               qPrintable(QString("%1: %2 for %3").arg(seed).arg(energy.joules()).arg(expected)));
      QVERIFY(isNear(energy.seconds, seconds) && !energy.isMeasured());
    }
  }

  void countersComeBeforeTheModel() {
    const LaunchRequest request = requestOf("energy: {idle_watts: 100, busy_watts: 300}\n");
    const auto preview = makePreview(request, hosts(false));
    Recorded run(request, *preview, 10);
    for (const char* node : {"n1", "n2"}) {
      const std::string prefix = std::string("node/") + node;
      run.add(prefix + "/cpu", {{kStart + 5, 1}, {kStart + 10, 1}});
      run.add(prefix + "/package_power", {{kStart + 5, 40}, {kStart + 10, 60}});
    }
    for (int rank = 0; rank < 2; ++rank) {
      const std::string prefix = "rank/" + std::to_string(rank);
      for (const auto& [phase, value] :
           {std::pair("step", 1.0), std::pair("forward", 0.2), std::pair("backward", 0.3),
            std::pair("transfer", 0.3), std::pair("waiting", 0.1)})
        run.add(prefix + "/" + phase, {{1, value}, {2, value}});
    }
    run.row.figures.steps = 5;  // half of the time
    const Energy energy = run.energy();
    QVERIFY(isNear(energy.joules(), 2 * 500) && energy.isMeasured());
    QVERIFY(isNear(energy.phases.compute, 250) && isNear(energy.phases.transfer, 150));
    QVERIFY(isNear(energy.phases.waiting, 50) && isNear(energy.phases.other, 550));
  }

  // Two nodes of one host see the same processors.
  void aHostCountsOnce() {
    const LaunchRequest request = requestOf("energy: {idle_watts: 100, busy_watts: 300}\n");
    const auto preview = makePreview(request, hosts(true));
    Recorded run(request, *preview, 10);
    for (const char* node : {"n1", "n2"})
      run.add(std::string("node/") + node + "/cpu", {{kStart + 10, 0.5}});
    QVERIFY(isNear(run.energy().joules(), 2000));
  }

  void withoutLoadsNothingIsSaid() {
    const LaunchRequest request = requestOf("");
    const auto preview = makePreview(request, hosts(true));
    const Recorded run(request, *preview, 10);
    const auto energy = measuredEnergy(*run.store, run.row, run.documents);
    QVERIFY(!energy.ok());
    QCOMPARE(energy.error().code, Code::kFailedPrecondition);
  }
};

QTEST_GUILESS_MAIN(EnergyTest)
#include "energy_test.moc"
