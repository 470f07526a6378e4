// Alert rules on made-up runs: healthy ones raise nothing, each trouble raises one alert, which
// ends; and the file of the rules.
#include <sys/stat.h>

#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include "app/alerts/alert_file.h"
#include "app/alerts/alert_watch.h"
#include "engine/base/file.h"
#include "engine/base/random.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr double kGiB = 1073741824.0;
constexpr Nanoseconds kSecond = 1'000'000'000;

// A run whose updates are made up, and the alerts it raised.
class MadeUpRun {
 public:
  // `told`: the steps that the history has of it.
  explicit MadeUpRun(AlertSettings settings = {}, RunScope scope = {}, std::int64_t told = 0)
      : watch_(std::move(settings)) {
    row_.run = "r1";
    row_.name = "mlp";
    row_.phase = RunState::RUNNING;
    row_.world = 2;
    row_.figures.steps = told;
    RunProgress progress;
    progress.begin(std::move(scope));
    watch_.begin(row_, std::move(progress), now_);
  }

  void step(double loss, double seconds = 0.1) {
    ++step_;
    pass(seconds);
    update({{"loss", {{step_, loss}}}, {"rank/0/step", {{step_, seconds}}}});
  }
  void sample(const std::string& series, double value) {
    pass(1);
    update({{series, {{static_cast<double>(now_) * 1e-9, value}}}});
  }
  void update(std::vector<RunBatch::Series> series) {
    RunUpdate update;
    update.series = std::move(series);
    take(update);
  }
  void take(const RunUpdate& update) { keep(watch_.take(update, now_, now_)); }
  void setPhase(RunState phase) {
    RunUpdate update;
    row_.phase = phase;
    update.row = row_;
    take(update);
  }
  void pass(double seconds) { now_ += static_cast<Nanoseconds>(seconds * 1e9); }
  void wait(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      pass(1);
      keep(watch_.tick(now_, now_));
    }
  }
  AlertWatch& watch() { return watch_; }
  Nanoseconds now() const { return now_; }
  void keep(const std::vector<AlertEvent>& events) {
    for (const AlertEvent& event : events) {
      QVERIFY(event.run == "r1" && event.name == "mlp" && event.wallNs == now_);
      QVERIFY(!event.text.empty());
      told_ << QString("%1%2 %3").arg(event.raised ? "+" : "-",
                                      QString::fromUtf8(alertRuleInfo(event.rule).name.data()),
                                      QString::fromStdString(event.subject));
      texts_ << QString::fromStdString(event.text.text());
    }
  }
  // "+loss-spike ", "-loss-spike ": raised, over.
  QStringList told() { return std::exchange(told_, {}); }
  QString lastText() const { return texts_.isEmpty() ? QString() : texts_.back(); }

 private:
  AlertWatch watch_;
  RunRow row_;
  double step_ = 0;
  Nanoseconds now_ = 1000 * kSecond;
  QStringList told_, texts_;
};

AlertSettings with(std::initializer_list<std::pair<const char*, const char*>> options) {
  AlertSettings out;
  for (const auto& [path, value] : options) {
    const Status set = setAlertOption(out, path, value);
    if (!set.ok()) qFatal("%s", set.error().text().c_str());
  }
  return out;
}

// A loss that falls, with noise in proportion, as of small batches.
double healthyLoss(std::uint64_t seed, int step) {
  const double noise = 0.05 + 0.3 * randomUniform(seed, 1);
  const double floor = randomUniform(seed, 2);
  const double base = floor + 2.5 * std::exp(-step / (100 + 900 * randomUniform(seed, 3)));
  return base * std::exp(noise * randomNormal(seed + 1000, static_cast<std::uint64_t>(step)));
}

QStringList pair(const QString& rule, const QString& subject = {}) {
  return {"+" + rule + " " + subject, "-" + rule + " " + subject};
}

}  // namespace

class AlertRulesTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void theTableIsInOrder() {
    QCOMPARE(alertRuleTable().size(), kAlertRules);
    for (std::size_t i = 0; i < kAlertRules; ++i) {
      const AlertRuleInfo& info = alertRuleTable()[i];
      QCOMPARE(static_cast<std::size_t>(info.rule), i);
      for (const AlertFieldInfo& field : info.fields)
        QVERIFY(field.unit.empty() || (field.value >= field.low && field.value <= field.high));
    }
  }

  // Any settings, made of any others.
  void changesLeadFromOneToTheOther() {
    std::mt19937 random(17);
    const auto any = [&] {
      AlertSettings out;
      for (const AlertRuleInfo& info : alertRuleTable()) {
        AlertRuleSettings& rule = out.of(info.rule);
        rule.enabled = random() % 2 == 0;
        for (bool& acts : rule.actions) acts = random() % 2 == 0;
        for (std::size_t i = 0; i < info.fields.size(); ++i)
          if (!info.fields[i].unit.empty() && random() % 2 == 0)
            rule.values[i] = random() % 2 == 0 ? info.fields[i].low : info.fields[i].high;
      }
      out.notification = random() % 2 == 0;
      if (random() % 2 == 0) out.command = "notify 'a b'";
      if (random() % 2 == 0) out.webhook = "https://h.example/x=1";
      return out;
    };
    for (int time = 0; time < 200; ++time) {
      AlertSettings now = any();
      const AlertSettings wanted = any();
      for (const std::string& change : alertChanges(now, wanted)) {
        const std::size_t equals = change.find('=');
        QVERIFY2(setAlertOption(now, change.substr(0, equals), change.substr(equals + 1)).ok(),
                 change.c_str());
      }
      QVERIFY(now == wanted && alertChanges(now, wanted).empty());
    }
  }

  void healthyRunsRaiseNothing() {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      MadeUpRun run;
      RunUpdate nodes;
      nodes.nodes = {{"n1", true, true, {}}, {"n2", true, true, {}}};
      run.take(nodes);
      run.update({{"node/n1/memory_total", {{1, 64 * kGiB}}}});
      for (int step = 0; step < 1500; ++step) {
        // Steps are slow now and then; evaluations take a while.
        const double jitter = std::exp(0.4 * randomNormal(seed + 2000, step));
        run.step(healthyLoss(seed, step), step % 300 == 299 ? 20 : 0.1 * jitter);
        if (step % 10 != 0) continue;
        const std::uint64_t at = seed * 1000 + step;
        run.sample("node/n1/disk_free", (50 - 0.01 * step + randomUniform(at, 3)) * kGiB);
        run.sample("node/n1/memory", (40 + 10 * randomUniform(at, 4)) * kGiB);
        run.sample("node/n1/gpu/0/temperature", 70 + 5 * randomNormal(at, 5));
        run.sample("node/n1/gpu/0/slowed", randomUniform(at, 6) < 0.02 ? 1 : 0);
        run.sample("node/n1/gpu/0/throttled", 1);  // at its power limit
      }
      const QStringList told = run.told();
      QVERIFY2(told.isEmpty(), qPrintable(QString("seed %1: %2").arg(seed).arg(told.join(", "))));
    }
  }

  void aSpikeRaisesOnceAndEnds() {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      MadeUpRun run;
      for (int step = 0; step < 600; ++step) {
        const bool spike = step >= 300 && step < 320;
        run.step(healthyLoss(seed, step) * (spike ? 40 : 1));
      }
      QCOMPARE(run.told(), pair("loss-spike"));
      QVERIFY2(run.lastText().contains("MAD above the median"), qPrintable(run.lastText()));
    }
  }

  // One hard batch is no spike; a loss without noise may change by a little.
  void smallThingsAreNoSpikes() {
    MadeUpRun run;
    for (int step = 0; step < 600; ++step) run.step(step == 300 ? 90 : healthyLoss(1, step));
    for (int step = 0; step < 300; ++step) run.step(1);
    for (int step = 0; step < 300; ++step) run.step(1.1);
    QCOMPARE(run.told(), QStringList());
  }

  void aLossThatIsNotFiniteRaisesOnceAndEnds() {
    for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      MadeUpRun run;
      for (int step = 0; step < 100; ++step)
        run.step(step >= 50 && step < 60 && step % 3 == 0 ? loss : healthyLoss(3, step));
      QCOMPARE(run.told(), pair("loss-not-finite"));
    }
    // A run that diverged says so in its error, and ends.
    MadeUpRun run;
    run.step(1);
    RunUpdate update;
    Error error = makeError(Code::kInvalidArgument, "the training diverged: {}", message("x"));
    error.step = 2;
    update.errors = {error};
    run.take(update);
    QCOMPARE(run.told(), QStringList{"+loss-not-finite "});
    run.setPhase(RunState::FAILED);
    QCOMPARE(run.told(), QStringList({"-loss-not-finite ", "+run-ended "}));
    run.step(std::nan(""));
    QCOMPARE(run.told(), QStringList());
  }

  // fp16 finds its loss scale by updates that it leaves out.
  void lossesOfSkippedUpdatesRaiseNothing() {
    MadeUpRun run;
    const double infinite = std::numeric_limits<double>::infinity();
    run.update(
        {{"loss", {{1, infinite}, {2, std::nan("")}, {3, 2}}}, {"skipped", {{1, 1}, {2, 1}}}});
    QCOMPARE(run.told(), QStringList());
    run.update({{"loss", {{4, infinite}}}});
    QCOMPARE(run.told(), QStringList{"+loss-not-finite "});
  }

  void aPlateauRaisesOnceAndEnds() {
    MadeUpRun run(with({{"loss-plateau.enabled", "true"}, {"loss-plateau.window", "300"}}));
    const auto noise = [](int step) { return 1 + 0.01 * randomNormal(7, step); };
    for (int step = 0; step < 500; ++step) run.step((3 - step * 0.004) * noise(step));
    QCOMPARE(run.told(), QStringList());
    for (int step = 0; step < 900; ++step) run.step(1 * noise(step));
    QCOMPARE(run.told(), QStringList{"+loss-plateau "});
    for (int step = 0; step < 300; ++step) run.step((1 - step * 0.001) * noise(step));
    QCOMPARE(run.told(), QStringList{"-loss-plateau "});
  }

  void aStallRaisesOnceAndEnds() {
    MadeUpRun run;
    for (int step = 0; step < 100; ++step) run.step(1, 0.1);
    run.wait(59);
    QCOMPARE(run.told(), QStringList());
    run.wait(300);
    QCOMPARE(run.told(), QStringList{"+stall "});
    run.step(1, 0.1);
    QCOMPARE(run.told(), QStringList{"-stall "});
    // Of slow steps it takes longer.
    for (int step = 0; step < 101; ++step) run.step(1, 10);
    run.wait(99);
    QCOMPARE(run.told(), QStringList());
    run.wait(2);
    QCOMPARE(run.told(), QStringList{"+stall "});
    run.step(1, 10);
    run.told();
    // What a run does while it recovers is no stall, nor are steps it trains again.
    RunUpdate restart;
    restart.restarts.emplace_back();
    run.take(restart);
    run.setPhase(RunState::RECOVERING);
    run.wait(1000);
    run.setPhase(RunState::RUNNING);
    run.wait(1000);
    QCOMPARE(run.told(), QStringList());
    // Nor what it waits for at its end.
    run.step(1, 10);
    RunUpdate end;
    end.awaited = message("waits for copies");
    run.take(end);
    run.wait(1000);
    QCOMPARE(run.told(), QStringList());
    run.step(1, 10);
    end.awaited = Message();
    run.take(end);
    run.wait(101);
    QCOMPARE(run.told(), QStringList{"+stall "});
  }

  // Between the last step of an epoch and the next there is an evaluation, which may take ten times
  // as long. It may hang, too.
  void anEvaluationIsNoStall_data() {
    QTest::addColumn<bool>("known");  // how long an epoch is
    QTest::newRow("of a length that is known") << true;
    QTest::newRow("of the length of the first") << false;
  }
  void anEvaluationIsNoStall() {
    QFETCH(bool, known);
    MadeUpRun run({}, known ? RunScope{3, 0, 32, 320, {}} : RunScope{3, 0, 0, 0, {}});
    for (int epoch = 1; epoch <= 3; ++epoch) {
      for (int step = 0; step < 5; ++step) run.step(1);
      run.wait(61);  // amid the epoch
      QCOMPARE(run.told(), QStringList{"+stall "});
      for (int step = 0; step < 5; ++step) run.step(1);
      QCOMPARE(run.told(), QStringList{"-stall "});
      run.wait(known || epoch > 1 ? 590 : 50);
      QCOMPARE(run.told(), QStringList());
      if (epoch == 2) {
        run.wait(15);
        QCOMPARE(run.told(), QStringList{"+stall "});
      }
      RunUpdate update;
      update.epochs = {{epoch, 10 * epoch, 1, 1, 0.5}};
      run.take(update);
      run.wait(59);
      QCOMPARE(run.told(), QStringList());
      if (epoch == 3) break;
      run.wait(2);
      QCOMPARE(run.told(), QStringList{"+stall "});
      run.step(1);
      QCOMPARE(run.told(), QStringList{"-stall "});
      for (int step = 0; step < 9; ++step) run.step(1);
      update.epochs = {{++epoch, 10 * epoch, 1, 1, 0.5}};
      run.take(update);
    }
    run.wait(500);  // it is trained: the model is written
    QCOMPARE(run.told(), QStringList());
    run.wait(100);
    QCOMPARE(run.told(), QStringList{"+stall "});
  }

  // Steps that the history has come again; later ones are compared with them.
  void whatTheHistoryHasIsNotJudgedAgain() {
    constexpr int kTold = 200;
    for (const double bad : {std::nan(""), 1000.0}) {
      MadeUpRun run({}, {}, kTold);
      for (int step = 1; step <= kTold; ++step)
        run.step(step >= 150 && step < 170 ? bad : healthyLoss(4, step));
      QCOMPARE(run.told(), QStringList());
      for (int step = 0; step < 10; ++step) run.step(healthyLoss(4, kTold));
      for (int step = 0; step < 20; ++step) run.step(bad);
      const QString rule = std::isnan(bad) ? "+loss-not-finite " : "+loss-spike ";
      QCOMPARE(run.told(), QStringList{rule});
    }
  }

  void stragglersAndNodes() {
    MadeUpRun run;
    RunUpdate slow;
    slow.slowChanged = true;
    slow.slow = Straggler{1, "n2", 1.8, 0.004, 0.002, 120, "backward", {}};
    run.take(slow);
    run.wait(4);
    slow.slow.reset();  // not for long enough
    run.take(slow);
    run.wait(10);
    QCOMPARE(run.told(), QStringList());
    slow.slow = Straggler{1, "n2", 1.8, 0.004, 0.002, 120, "backward", {}};
    run.take(slow);
    run.wait(6);
    QCOMPARE(run.told(), QStringList{"+straggler rank 1 (n2)"});
    QCOMPARE(run.lastText(), QString::fromUtf8("Rank 1 on n2 takes 1.8× the median compute time."));
    slow.slow->rank = 0;
    run.take(slow);
    run.wait(6);
    QCOMPARE(run.told(), QStringList({"-straggler rank 1 (n2)", "+straggler rank 0 (n2)"}));
    slow.slow->withoutSeconds = 0.0039;  // costs next to nothing
    run.take(slow);
    run.wait(6);
    QCOMPARE(run.told(), QStringList{"-straggler rank 0 (n2)"});

    RunUpdate node;
    node.nodes = {{"n2", false, true, {}}};
    run.take(node);
    run.wait(6);
    node.nodes[0].reachable = true;
    run.take(node);
    QCOMPARE(run.told(), pair("node-unreachable", "n2"));
  }

  // What a node has that the run goes on without is no trouble of the run, until it comes back.
  void alertsOfNodesThatAreLeftOutEnd() {
    MadeUpRun run(with({{"disk-free.hold", "0"}, {"gpu-temperature.hold", "0"}}));
    RunUpdate lost;
    lost.nodes = {{"n2", false, true, {}}, {"n20", false, true, {}}};
    run.take(lost);
    run.wait(6);
    run.sample("node/n2/disk_free", kGiB);
    run.sample("node/n2/gpu/0/temperature", 99);
    QCOMPARE(run.told(), QStringList({"+node-unreachable n2", "+node-unreachable n20",
                                      "+disk-free n2", "+gpu-temperature n2 GPU 0"}));
    RunUpdate left;
    left.leftOut = std::set<std::string>{"n2"};
    run.take(left);
    QStringList over = run.told();
    over.sort();
    QCOMPARE(over,
             QStringList({"-disk-free n2", "-gpu-temperature n2 GPU 0", "-node-unreachable n2"}));
    run.sample("node/n2/disk_free", kGiB);
    run.wait(10);
    QCOMPARE(run.told(), QStringList());
    left.leftOut = std::set<std::string>();
    left.nodes = {{"n2", true, true, {}}};
    run.take(left);
    run.sample("node/n2/disk_free", kGiB);
    QCOMPARE(run.told(), QStringList{"+disk-free n2"});
  }

  void valuesOfNodesRaiseOnceAndEnd_data() {
    QTest::addColumn<QString>("rule");
    QTest::addColumn<QString>("series");
    QTest::addColumn<QString>("subject");
    QTest::addColumn<QVector<double>>("values");  // fine, bad, just short of fine
    QTest::newRow("temperature") << "gpu-temperature"
                                 << "node/n1/gpu/3/temperature"
                                 << "n1 GPU 3" << QVector<double>{70, 93, 88};
    QTest::newRow("throttled") << "gpu-throttled"
                               << "node/n1/gpu/3/slowed"
                               << "n1 GPU 3" << QVector<double>{0, 1, 1};
    QTest::newRow("disk") << "disk-free"
                          << "node/n1/disk_free"
                          << "n1" << QVector<double>{80 * kGiB, 2 * kGiB, 5.1 * kGiB};
    QTest::newRow("memory") << "node-memory"
                            << "node/n1/memory"
                            << "n1" << QVector<double>{20 * kGiB, 62 * kGiB, 60.5 * kGiB};
  }
  void valuesOfNodesRaiseOnceAndEnd() {
    QFETCH(QString, rule);
    QFETCH(QString, series);
    QFETCH(QString, subject);
    QFETCH(QVector<double>, values);
    MadeUpRun run;
    run.update({{"node/n1/memory_total", {{1, 64 * kGiB}}}});
    const auto samples = [&](double value, int count) {
      for (int i = 0; i < count; ++i) run.sample(series.toStdString(), value);
    };
    samples(values[0], 100);
    samples(values[1], 8);  // not for long enough
    samples(values[0], 100);
    QCOMPARE(run.told(), QStringList());
    samples(values[1], 100);
    for (int i = 0; i < 50; ++i) {  // to and fro about the threshold
      samples(values[2], 1);
      samples(values[1], 1);
    }
    QCOMPARE(run.told(), QStringList{"+" + rule + " " + subject});
    samples(values[0], 120);
    QCOMPARE(run.told(), QStringList{"-" + rule + " " + subject});
  }

  void disabledRulesAreSilentAndTheirAlertsEnd() {
    MadeUpRun run;
    for (int i = 0; i < 100; ++i) run.sample("node/n1/disk_free", kGiB);
    QCOMPARE(run.told(), QStringList{"+disk-free n1"});
    run.keep(run.watch().setSettings(with({{"disk-free.enabled", "false"}}), run.now()));
    QCOMPARE(run.told(), QStringList{"-disk-free n1"});
    for (int i = 0; i < 100; ++i) run.sample("node/n1/disk_free", kGiB);
    QCOMPARE(run.told(), QStringList());
  }

  void pointsThatRepeatAndPreviewsRaiseNothing() {
    MadeUpRun run;
    for (int step = 0; step < 200; ++step) run.step(healthyLoss(1, step));
    RunUpdate update;
    update.series = {{"loss", {{5, std::nan("")}}}};
    run.take(update);
    update.preview = true;
    update.series = {{"loss", {{500, std::nan("")}}}};
    run.take(update);
    QCOMPARE(run.told(), QStringList());
  }

  void anAlertIsOneLineOfJson() {
    AlertEvent event = sampleAlert(AlertRule::kLossSpike);
    event.subject = "n1\n\"\xff";
    const std::string text = alertJson(event);
    QVERIFY(text.find('\n') == std::string::npos);
    QVERIFY(text.starts_with(R"({"event":"alert","rule":"loss-spike","state":"raised",)"));
  }

  void theFileKeepsTheSettings() {
    const QTemporaryDir folder;
    const std::string file = folder.filePath("alert-rules.yaml").toStdString();
    QVERIFY(*loadAlertSettings(file) == AlertSettings());
    AlertSettings settings = with({{"loss-spike.threshold", "6.5"},
                                   {"loss-plateau.enabled", "true"},
                                   {"straggler.actions", "command, webhook"},
                                   {"stall.actions", ""},
                                   {"actions.notification", "false"},
                                   {"actions.command", "notify 'a: b' \"c\" # \\\\"},
                                   {"actions.webhook", "https://h.example/secret?x=1"}});
    QVERIFY(saveAlertSettings(file, settings).ok());
    const auto again = loadAlertSettings(file);
    QVERIFY2(again.ok(), again.ok() ? "" : again.error().text().c_str());
    QVERIFY(*again == settings);
    struct stat info {};
    QVERIFY(stat(file.c_str(), &info) == 0 && (info.st_mode & 0777) == 0600);
    // What is left out has its default.
    const auto one = parseAlertSettings("rules: {stall: {hold: 9}}\n", "f");
    QVERIFY(one.ok() && *one == with({{"stall.hold", "9"}}));
  }

  void mistakesNameFileLineAndField_data() {
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<QByteArray>("error");
    const auto row = [](const char* text, const char* error) {
      QTest::newRow(text) << QByteArray(text) << QByteArray(error);
    };
    row("rules:\n  los-spike: {}\n", "f.yaml:2:3: there is no alert rule 'los-spike'");
    row("rules:\n  loss-spike: {treshold: 3}\n", "did you mean threshold?");
    row("rules:\n  loss-spike:\n    threshold: 1e9\n",
        "f.yaml:3:5: '1e9' is no number from 2 to 1000");
    row("rules: {loss-spike: {window: 20.5}}\n", "no whole number from 20 to 2000 steps");
    row("rules: {loss-spike: {enabled: maybe}}\n", "expected true or false");
    row("rules: {loss-spike: {actions: [email]}}\n", "there is no action 'email'");
    row("rules: {stall: {window: 3}}\n", "there is no field 'window'");
    row("rules: [1]\n", "no map");
    row("rules: {stall: 3}\n", "no map");
    row("rules: {stall: {hold: {a: b}}}\n", "a map, expected a value");
    row("actions: {webhook: ftp://h/x}\n", "the webhook is no URL");
    row("actions: {command: \"a 'b\"}\n", "no closing quote");
    row("action: {}\n", "f.yaml:1:1: there is no field 'action'");
    row("rules: {stall: {hold: 1}\n", "f.yaml:");
    row("&a [*a]\n", "f.yaml:1:");
  }
  void mistakesNameFileLineAndField() {
    QFETCH(QByteArray, text);
    QFETCH(QByteArray, error);
    const auto parsed = parseAlertSettings(text.toStdString(), "f.yaml");
    QVERIFY(!parsed.ok());
    QVERIFY2(parsed.error().text().find(error.toStdString()) != std::string::npos,
             parsed.error().text().c_str());
    QVERIFY(parsed.error().text().starts_with("f.yaml:"));
  }

  // Whatever happens to the file, it is read or refused with its place.
  void damagedFilesAreRefused() {
    const std::string whole = alertYaml(with({{"actions.command", "a b"}}));
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      std::string text = whole;
      const auto random = [&](std::uint64_t index, std::size_t below) {
        return static_cast<std::size_t>(randomBits(seed, index) % below);
      };
      if (seed % 3 == 0) text.resize(random(0, text.size()));
      for (std::uint64_t i = 0; i < 1 + seed % 4 && !text.empty(); ++i)
        text[random(10 + i, text.size())] = static_cast<char>(random(20 + i, 256));
      const auto parsed = parseAlertSettings(text, "f.yaml");
      if (!parsed.ok()) {
        QVERIFY2(parsed.error().text().starts_with("f.yaml:"), parsed.error().text().c_str());
        continue;
      }
      const auto again = parseAlertSettings(alertYaml(*parsed), "f.yaml");
      QVERIFY2(again.ok() && *again == *parsed, text.c_str());
    }
  }

  // Whatever escapes a text is written with.
  void escapesAreKept() {
    static constexpr const char* kEscapes[] = {
        "\\0", "\\a", "\\b", "\\t", "\\n",   "\\v",     "\\f",         "\\r", "\\e",
        "\\N", "\\_", "\\L", "\\P", "\\x85", "\\u00e9", "\\U0001F600", "é",   "["};
    int kept = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      std::string text = "actions: {command: \"";
      for (std::uint64_t i = 0; i < 1 + seed % 9; ++i)
        text += kEscapes[randomBits(seed, i) % std::size(kEscapes)];
      text += "\"}";
      const auto parsed = parseAlertSettings(text, "f.yaml");
      if (!parsed.ok()) continue;  // of lines
      ++kept;
      const auto again = parseAlertSettings(alertYaml(*parsed), "f.yaml");
      QVERIFY2(again.ok() && *again == *parsed, text.c_str());
    }
    QVERIFY(kept > 50);
    QCOMPARE(parseAlertSettings("actions: {command: \"a\\Nb\"}", "f")->command, "a\u0085b");
  }

  void commandsAreSplitIntoWords() {
    using Words = std::vector<std::string>;
    QCOMPARE(*commandWords("  a  b\tc "), (Words{"a", "b", "c"}));
    QCOMPARE(*commandWords("a 'b c' \"d \\\" e\"f '' \\ x"),
             (Words{"a", "b c", "d \" ef", "", " x"}));
    QCOMPARE(*commandWords(""), Words{});
    QVERIFY(!commandWords("a \"b").ok());
    QVERIFY(!commandWords("'' b").ok());
    QVERIFY(!commandWords("a\nb").ok());
  }

  void secretsOfWebhooksAreNotShown() {
    QCOMPARE(webhookHost("https://me:pw@h.example:8443/hooks/T0/secret?k=1"),
             std::string("https://h.example:8443/…"));
    QVERIFY(checkWebhook("https://h.example").ok());
    for (const char* bad : {"h.example", "https://", "https:///x", "file:///etc/passwd",
                            "https://h/ x", "https://h/\n", "gopher://h/"})
      QVERIFY2(!checkWebhook(bad).ok(), bad);
  }
};

QTEST_GUILESS_MAIN(AlertRulesTest)
#include "alert_rules_test.moc"
