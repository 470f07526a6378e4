// What a launch would run, in full: each row follows the settings.
#include "app/runs/launch_summary.h"

#include <QTest>
#include <map>
#include <nlohmann/json.hpp>

#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr std::int64_t kSamples = 60'000;

struct Planned {
  LaunchRequest request;
  Preview preview;
};

Planned planned(const char* example, int nodes, const std::vector<std::string>& sets = {}) {
  const auto spec = loadRunSpec(lockstep::test::sourcePath("resources/examples/") + example, sets);
  if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
  Planned out;
  out.request.spec = spec->spec;
  out.request.cluster = localCluster(nodes, "/nowhere", "").spec;
  auto preview = makePreview(out.request, hostsHere(*out.request.cluster));
  if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
  out.preview = std::move(*preview);
  return out;
}

std::map<std::string, std::string> rowsOf(const Planned& launch, std::int64_t samples = kSamples) {
  std::map<std::string, std::string> out;
  for (const SummaryRow& row : launchSummary(launch.request, launch.preview, samples))
    if (!out.emplace(row.label.text(), row.value.text()).second)
      qFatal("%s comes twice", row.label.text().c_str());
  return out;
}
std::map<std::string, std::string> rowsWith(const std::vector<std::string>& sets, int nodes = 3,
                                            std::int64_t samples = kSamples) {
  return rowsOf(planned("fashion-mlp.yaml", nodes, sets), samples);
}

}  // namespace

class LaunchSummaryTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void settingsAreToldAsTheyApply() {
    auto rows =
        rowsWith({"training.epochs=2", "training.batch=64", "training.optimizer.learning_rate=0.01",
                  "training.optimizer.for_batch=32"});
    QCOMPARE(rows["Ranks"], std::string("3 on 3 nodes"));
    QCOMPARE(rows["Length"], std::string("2 epochs of 938 steps: 1876 steps"));
    QCOMPARE(rows["Global batch"], std::string("64 samples"));
    QCOMPARE(rows["Batch per rank"], std::string("21 to 22 samples"));
    QCOMPARE(rows["Learning rate"], std::string("0.02: 0.01 for a batch of 32, in proportion"));
    QCOMPARE(rows["Learning rate schedule"], std::string("constant"));
    QCOMPARE(rows["Precision"], std::string("fp32"));
    QCOMPARE(rows.count("Warm-up"), std::size_t{0});
    rows = rowsWith({"training.epochs=2", "training.batch=64", "training.max_steps=100",
                     "training.schedule.kind=cosine", "training.schedule.warmup_steps=10",
                     "training.precision=bf16"},
                    1);
    QCOMPARE(rows["Ranks"], std::string("1 on node local1"));
    QCOMPARE(rows["Length"], std::string("100 steps; an epoch has 938"));
    QCOMPARE(rows["Learning rate schedule"], std::string("cosine to 0 at step 100"));
    QCOMPARE(rows["Warm-up"], std::string("10 steps"));
    QCOMPARE(rows["Precision"], std::string("bf16"));
    QCOMPARE(rowsWith({"training.epochs=2", "training.max_steps=100"}, 2, 0)["Length"],
             std::string("2 epochs, but at most 100 steps"));
    QCOMPARE(rowsWith({"training.epochs=1"}, 2, 0)["Length"],
             std::string("1 epoch; the data tell how many steps"));
    QCOMPARE(rowsWith({"training.epochs=1099511627776", "training.max_steps=7"}, 2,
                      std::int64_t{1} << 40)["Length"]
                 .substr(0, 8),
             std::string("7 steps;"));
  }

  void checkpointsAreTold() {
    auto rows = rowsWith({"training.checkpoint.every_steps=500", "training.checkpoint.keep=5"});
    QCOMPARE(rows["Checkpoints"],
             std::string("every 500 steps, every 10 min, and at the end of each epoch"));
    QCOMPARE(rows["Checkpoints kept"], std::string("5"));
    QCOMPARE(rows["Checkpoint folder"], std::string("the run's folder on each node"));
    // Local nodes are one host.
    QCOMPARE(rows["Checkpoint copies"], std::string("none"));
    QCOMPARE(rowsWith({"training.checkpoint.copies=1"})["Checkpoint copies"],
             std::string("on 1 other node"));
    QCOMPARE(rowsWith({"training.checkpoint.copies=9"})["Checkpoint copies"],
             std::string("on 2 other nodes"));
    // Nodes of one of several hosts hold none for each other.
    Planned hosts = planned("fashion-mlp.yaml", 3, {"training.checkpoint.copies=9"});
    for (const std::size_t node : {0, 1}) hosts.preview.cluster.devices[node].host = "other";
    QCOMPARE(rowsOf(hosts)["Checkpoint copies"], std::string("on 1 other node"));
    QCOMPARE(rowsWith({"training.checkpoint.path=/data/kept"})["Checkpoint folder"],
             std::string("/data/kept, in a folder of the run's own"));
    Planned allocated = planned("fashion-mlp.yaml", 2);
    auto cluster = std::make_shared<spec::v1::ClusterSpec>(*allocated.request.cluster);
    cluster->mutable_placement()->set_kind("slurm");
    allocated.request.cluster = cluster;
    QCOMPARE(rowsOf(allocated)["Checkpoint folder"],
             std::string("the job's folder, which its nodes share"));
    rows = rowsWith({"training.checkpoint.disabled=true"});
    QCOMPARE(rows["Checkpoints"], std::string("none"));
    QCOMPARE(rows["After a failure"],
             std::string("restarts from the first step, at most 10 times"));
    QCOMPARE(rows.count("Checkpoint size"), std::size_t{0});
    // Parameters and two moments of each, however they are divided over the ranks of a folder.
    const std::string whole = rowsWith({"training.optimizer.kind=adam"}, 1)["Checkpoint size"];
    QVERIFY2(whole.ends_with(" MiB"), whole.c_str());
    for (const char* kind : {"multi-worker-mirrored", "zero-1", "zero-3"})
      QCOMPARE(rowsWith({std::string("strategy.kind=") + kind, "training.optimizer.kind=adam",
                         "training.checkpoint.path=/data/kept"},
                        2)["Checkpoint size"],
               whole);
    // Without shared storage each node writes a whole checkpoint, also to a folder in memory.
    const std::string own = rowsWith({}, 2)["Checkpoint size"];
    QVERIFY(own != whole);
    QCOMPARE(rowsWith({"training.checkpoint.path=/dev/shm/kept", "training.checkpoint.copies=1"},
                      2)["Checkpoint size"],
             own);
  }

  void limitsAreToldWithWhatTheyAreMadeOf() {
    const auto rows = rowsWith({});
    QCOMPARE(rows.at("Heartbeat"), std::string("every 0.5 s"));
    QCOMPARE(rows.at("Node silent after"), std::string("2 s: 4 heartbeats"));
    QCOMPARE(rows.at("Node lost after"), std::string("30 s: 20 heartbeats, but at least 30 s"));
    QVERIFY2(rows.at("Collective fails after").starts_with("30 s without progress: 20 times"),
             rows.at("Collective fails after").c_str());
    QVERIFY2(rows.at("Hang reported after").starts_with("2.0 s: 10 times"),
             rows.at("Hang reported after").c_str());
    QCOMPARE(rowsWith({"recovery.heartbeat_ms=4000"})["Node lost after"],
             std::string("80 s: 20 heartbeats, but at least 30 s"));
    QCOMPARE(rowsWith({}, 1).count("Heartbeat"), std::size_t{0});
    // Asynchronous ranks do not wait for each other.
    const auto asynchronous = rowsWith({"strategy.kind=parameter-server", "strategy.staleness=-1"});
    QCOMPARE(asynchronous.count("Hang reported after"), std::size_t{0});
    QCOMPARE(asynchronous.count("Collective fails after"), std::size_t{1});
  }

  void recoveryIsTold() {
    auto rows = rowsWith({"recovery.policy=shrink", "recovery.max_restarts=3", "recovery.spares=1",
                          "recovery.on=[exit, hang]"});
    QCOMPARE(rows["Ranks"], std::string("2 on 2 nodes"));
    QCOMPARE(rows["Spare nodes"], std::string("local3"));
    QCOMPARE(rows["After a failure"],
             std::string("restarts from the newest checkpoint, also without lost nodes, at most 3 "
                         "times"));
    QCOMPARE(rows["Failures that restart it"], std::string("exit, hang"));
    rows = rowsWith({"recovery.policy=none"});
    QCOMPARE(rows["After a failure"], std::string("the run ends"));
    QCOMPARE(rows.count("Failures that restart it"), std::size_t{0});
    rows = rowsWith({"sinks.csv=/curves", "sinks.otlp=http://collector:4318"});
    QCOMPARE(rows["Curves as CSV"], std::string("/curves"));
    QCOMPARE(rows["Curves as OpenTelemetry"], std::string("http://collector:4318"));
  }

  void aProgramHasNoTraining() {
    const auto rows = rowsOf(planned("ddp.yaml", 2), 0);
    QVERIFY2(rows.at("Program").find("python") != std::string::npos, rows.at("Program").c_str());
    QVERIFY(rows.contains("Hang after") && rows.contains("After a failure"));
    for (const char* label : {"Strategy", "Learning rate", "Checkpoints", "Collective fails after"})
      QVERIFY2(!rows.contains(label), label);
  }

  void textAndJsonHaveTheSameRows() {
    const Planned launch = planned("fashion-cnn.yaml", 2);
    const auto rows = launchSummary(launch.request, launch.preview, kSamples);
    const auto json = nlohmann::json::parse(summaryJson(rows));
    const QStringList lines =
        QString::fromStdString(summaryText(rows)).split('\n', Qt::SkipEmptyParts);
    QCOMPARE(json.size(), rows.size());
    QCOMPARE(lines.size(), static_cast<qsizetype>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      QCOMPARE(json[i]["label"].get<std::string>(), rows[i].label.text());
      QCOMPARE(json[i]["value"].get<std::string>(), rows[i].value.text());
      const QString& line = lines[static_cast<qsizetype>(i)];
      QVERIFY(line.startsWith(QString::fromStdString(rows[i].label.text())) &&
              line.endsWith("  " + QString::fromStdString(rows[i].value.text())));
    }
  }
};

QTEST_GUILESS_MAIN(LaunchSummaryTest)
#include "launch_summary_test.moc"
