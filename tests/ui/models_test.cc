// Every model of the studio under QAbstractItemModelTester, without a window.
#include <QAbstractItemModelTester>
#include <QElapsedTimer>
#include <QRegularExpression>
#include <QScopeGuard>
#include <QSignalSpy>
#include <QTest>
#include <functional>
#include <random>

#include "app/core/message_json.h"
#include "ui/models/alert_model.h"
#include "ui/models/breakdown_model.h"
#include "ui/models/field_model.h"
#include "ui/models/inspector_model.h"
#include "ui/models/layer_table_model.h"
#include "ui/models/navigator_model.h"
#include "ui/models/node_table_model.h"
#include "ui/models/placement_model.h"
#include "ui/models/plan_figure_model.h"
#include "ui/models/run_table_model.h"
#include "ui/models/spec_diff_model.h"
#include "ui/studio/deploy_job.h"
#include "ui/studio/job_tracker.h"
#include "ui/studio/log_model.h"
#include "ui/studio/run_document.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"
#include "ui/window/command_palette.h"

using namespace lockstep::ui;
namespace app = lockstep::app;
using lockstep::Code;
using lockstep::Error;
using lockstep::makeError;
using lockstep::Message;
using lockstep::message;

namespace {
const char* const kSpec = R"(version: 1
# the example
model:
  name: tiny
  input: {shape: [28, 28, 1]}
  layers:
    - flatten: {}
    - dense: {units: 16, activation: relu}   # hidden
    - dense: {units: 10}
  loss: cross-entropy
  classes: 10
training:
  batch: 64
  epochs: 2
  optimizer: {kind: sgd, learning_rate: 0.1}
strategy:
  kind: mirrored
)";
}  // namespace

class ModelsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { Theme::instance().apply(Theme::Mode::kLight); }

  // The window names every state of the table, in each language.
  void statesAreNamed() {
    const auto restore = qScopeGuard([] { Language::instance().set("en"); });
    const auto english = [](auto&& text) {
      Language::instance().set("en");
      const QString out = text();
      Language::instance().set("zh_CN");
      return out;
    };
    for (int i = 0; i < lockstep::run::v1::RunState_ARRAYSIZE; ++i) {
      const auto state = static_cast<lockstep::run::v1::RunState>(i);
      const QString name = english([&] { return runPhaseText(state); });
      QCOMPARE(name.toStdString(), std::string(app::stateName(state)));
      QVERIFY2(runPhaseText(state) != name, qPrintable(name));
    }
    for (int i = 0; i < lockstep::run::v1::NodeState_ARRAYSIZE; ++i) {
      const auto state = static_cast<lockstep::run::v1::NodeState>(i);
      const QString name = english([&] { return nodePhaseText(state); });
      QVERIFY(!name.isEmpty());
      QVERIFY2(nodePhaseText(state) != name, qPrintable(name));
    }
  }

  void navigator() {
    NavigatorModel model;
    QAbstractItemModelTester tester(&model);
    model.setEntries(NavigatorModel::kModels, {{"a", "A"}, {"b", "B"}});
    model.setEntries(NavigatorModel::kRuns, {{"r1", "run"}, {"r2", "run"}, {"r3", "run"}});
    QCOMPARE(model.indexOf("run:r2").row(), 1);
    // What is selected is the same entry when others come, go and change places.
    const QPersistentModelIndex chosen(model.indexOf("run:r2"));
    std::mt19937 random(11);
    for (int round = 0; round < 200; ++round) {
      QVector<NavigatorEntry> runs{{"r2", QString::number(round)}};
      for (const char* other : {"r1", "r3", "r4", "r5", "r6"})
        if (random() % 2 == 0)
          runs.insert(static_cast<qsizetype>(random() % static_cast<unsigned>(runs.size() + 1)),
                      NavigatorEntry{other, "run"});
      model.setEntries(NavigatorModel::kRuns, runs);
      QCOMPARE(model.entries(NavigatorModel::kRuns), runs);
      QCOMPARE(chosen.data(NavigatorModel::kPageRole).toString(), QString("run:r2"));
      QCOMPARE(chosen.data().toString(), QString::number(round));
    }
    model.setEntries(NavigatorModel::kRuns, {{"r2", "run"}});
    QCOMPARE(model.rowCount(model.index(NavigatorModel::kRuns, 0)), 1);
    model.setEntries(NavigatorModel::kRuns, {});
    model.retranslate();
  }

  void logsAreBoundedAndFiltered() {
    LogModel model;
    QAbstractItemModelTester tester(&model);
    LogFilter filter;
    filter.setLines(&model);
    QAbstractItemModelTester filterTester(&filter);
    model.append(
        {{1, "n1", 0, 1, "epoch 1"}, {2, "n2", 1, 3, "error: nan"}, {3, "n1", -1, 1, "started"}});
    filter.setQuery({.rank = 1});
    QCOMPARE(filter.rowCount(), 1);
    filter.setQuery({.node = "n1"});
    QCOMPARE(filter.rowCount(), 2);
    filter.setQuery({.level = LogQuery::kErrors});
    QCOMPARE(filter.rowCount(), 1);
    filter.setQuery({.text = "EPOCH"});
    QCOMPARE(filter.rowCount(), 1);
    filter.setQuery({});
    QVERIFY(model.isComplete());
    QVector<LogRow> many;
    for (int i = 0; i < LogModel::kKept; ++i) many << LogRow{i, "n", 0, 1, QString::number(i)};
    model.append(many);
    QVERIFY(model.rowCount() <= LogModel::kKept);
    QVERIFY(!model.isComplete());  // the first three were the oldest
    QCOMPARE(model.missingUntil(), qint64{3});
    QCOMPARE(model.index(model.rowCount() - 1, LogModel::kText).data().toString(),
             QString::number(LogModel::kKept - 1));
    model.clear();
  }

  void alertsJobsInspectorPalette() {
    AlertModel alerts;
    QAbstractItemModelTester alertTester(&alerts);
    for (int i = 0; i < 510; ++i)
      alerts.add({{}, Tone::kWarning, "n1", std::to_string(i), {}, false, {}});
    QCOMPARE(alerts.rowCount(), 500);
    QCOMPARE(alerts.index(0, AlertModel::kText).data().toString(), QString("509"));
    alerts.clear();

    JobTracker jobs;
    QAbstractItemModelTester jobTester(&jobs);
    bool cancelled = false;
    const auto a = jobs.start("a", [&] { cancelled = true; });
    const auto b = jobs.start("b");
    jobs.progress(b, 0.5, "half");
    jobs.cancel(a);
    QVERIFY(cancelled);
    QVERIFY(!jobs.cancellable(1));
    jobs.finish(a);
    jobs.finish(b);
    QCOMPARE(jobs.rowCount(), 0);

    InspectorModel inspector;
    QAbstractItemModelTester inspectorTester(&inspector);
    inspector.setRows({{"Run", {}, true}, {"Step", "1"}});
    QSignalSpy reset(&inspector, &QAbstractItemModel::modelReset);
    inspector.setRows({{"Run", {}, true}, {"Step", "2"}});
    QCOMPARE(reset.size(), 0);
    inspector.setRows({});

    CommandModel commands;
    QAbstractItemModelTester commandTester(&commands);
    WordFilter words;
    words.setSourceModel(&commands);
    QAbstractItemModelTester wordTester(&words);
    QAction open("&Open file"), save("&Save file");
    commands.setActions({&open, &save});
    words.setText("file op");
    QCOMPARE(words.rowCount(), 1);
    QCOMPARE(words.index(0, 0).data().toString(), QString("Open file"));
  }

  // What lasts is resolved, once; what is told again keeps its time, from one start to the next
  // too.
  void alertsKeepTheirTimesAndEnd() {
    const auto restore = qScopeGuard([] { Language::instance().set("en"); });
    const Message stopped = message("Rank {} on {} is stopped; the others wait for it.", 1, "n2");
    QTemporaryDir folder;
    const QString file = folder.filePath("alerts.json");
    const QDateTime noon(QDate(2024, 5, 1), QTime(12, 0));
    {
      AlertModel alerts;
      QAbstractItemModelTester tester(&alerts);
      QVERIFY(alerts.add({"straggler", Tone::kWarning, "mlp", stopped, noon, true, {}}));
      QVERIFY(!alerts.add({"straggler", Tone::kWarning, "mlp", stopped, {}, true, {}}));
      QCOMPARE(alerts.rowCount(), 1);
      QCOMPARE(alerts.index(0, AlertModel::kState).data().toString(), QString("active"));
      alerts.resolve("straggler", noon.addSecs(30));
      QCOMPARE(alerts.index(0, AlertModel::kState).data().toString(),
               QString("resolved 05-01 12:00:30"));
      QCOMPARE(alerts.index(0, 0).data(AlertModel::kToneRole).toInt(), int(Tone::kNeutral));
      // another time
      QVERIFY(alerts.add({"straggler", Tone::kWarning, "mlp", "again", {}, true, {}}));
      QCOMPARE(alerts.rowCount(), 2);
      alerts.add({"error", Tone::kBad, "mlp", "the agent has ended", noon.addSecs(60), false, {}});
      // by its time
      QCOMPARE(alerts.index(1, AlertModel::kText).data().toString(),
               QString("the agent has ended"));
      alerts.resolve("error");  // it happened
      QCOMPARE(alerts.index(1, AlertModel::kState).data().toString(), QString());
      QVERIFY(alerts.save(file));
    }
    AlertModel alerts;
    QAbstractItemModelTester tester(&alerts);
    QVERIFY(alerts.load(file));
    QCOMPARE(alerts.rowCount(), 3);
    QVERIFY(alerts.index(0, AlertModel::kState).data().toString().startsWith("resolved "));
    const QDateTime began = alerts.alerts()[0].when;
    QVERIFY(!alerts.add({"error", Tone::kBad, "mlp", "the agent has ended", {}, false, {}}));
    // it goes on
    QVERIFY(!alerts.add({"straggler", Tone::kWarning, "mlp", "again", {}, true, {}}));
    QCOMPARE(alerts.rowCount(), 3);
    QCOMPARE(alerts.alerts()[0].when, began);
    QCOMPARE(alerts.index(0, AlertModel::kState).data().toString(), QString("active"));
    QCOMPARE(alerts.index(1, AlertModel::kTime).data().toString(), QString("05-01 12:01:00"));
    // What was resolved before the program ended and comes again is another, and of now.
    alerts.resolve("straggler");
    QVERIFY(alerts.save(file));
    AlertModel later;
    QVERIFY(later.load(file));
    QVERIFY(later.add({"straggler", Tone::kWarning, "mlp", "again", {}, true, {}}));
    QCOMPARE(later.rowCount(), 4);
    QVERIFY(later.alerts()[0].when > began);
    QCOMPARE(later.alerts()[1].when, began);
    QVERIFY(!later.alerts()[1].resolved.isNull());
    // Of a document that is closed nothing lasts.
    later.add({"run:1:node:n1", Tone::kWarning, "mlp", "away", {}, true, {}});
    later.add({"run:12:node:n1", Tone::kWarning, "mlp", "away", {}, true, {}});
    later.resolveOf("run:1");
    for (const Alert& one : later.alerts()) {
      if (one.key.startsWith("run:")) QCOMPARE(one.resolved.isNull(), one.key.startsWith("run:12"));
    }
    // Old ones are told in the language of now.
    Language::instance().set("zh_CN");
    QCOMPARE(alerts.index(1, AlertModel::kText).data().toString(), QString::fromUtf8("代理已结束"));
    QCOMPARE(alerts.index(2, AlertModel::kText).data().toString(), messageText(stopped));
    QVERIFY(messageText(stopped) != QString::fromStdString(stopped.text()));
    for (const char* damaged : {"", "[]", "{\"alerts\": 3}", "{\"alerts\": [1, {\"tone\": 99}]}"}) {
      QFile broken(folder.filePath("broken"));
      QVERIFY(broken.open(QIODevice::WriteOnly | QIODevice::Truncate));
      broken.write(damaged);
      broken.close();
      (void)alerts.load(broken.fileName());
    }
  }

  // Lines of all ranks are in the order of their time, however they come.
  void logsAreInTimeOrder() {
    std::mt19937 random(3);
    LogModel model;
    QAbstractItemModelTester tester(&model);
    std::vector<qint64> times(400);
    for (auto& time : times)
      time = std::uniform_int_distribution<qint64>(1, 300)(random) * 1'000'000;
    std::size_t at = 0;
    while (at < times.size()) {
      QVector<LogRow> rows;
      for (int n = std::uniform_int_distribution<int>(1, 30)(random); n > 0 && at < times.size();
           --n)
        rows << LogRow{times[at++], "n1", 0, 1, QString::number(at)};
      model.append(rows);
    }
    QCOMPARE(model.rowCount(), 400);
    QStringList shown;
    for (int row = 0; row < model.rowCount(); ++row)
      shown << model.index(row, LogModel::kTime).data().toString();
    QStringList sorted = shown;
    sorted.sort();
    QCOMPARE(shown, sorted);
  }

  void jobsTellTheTimeLeft() {
    JobTracker jobs;
    const auto text = [&] { return jobs.index(0).data().toString(); };
    const auto job = jobs.start("Copying");
    jobs.progress(job, 0.25, "n1");
    QCOMPARE(text(), QString::fromUtf8("Copying · n1"));  // too early to tell
    QTest::qWait(1500);
    jobs.progress(job, 0.5, "n2");
    QVERIFY2(QRegularExpression(QString::fromUtf8("^Copying · n2 · about 0:0[1-9] left$"))
                 .match(text())
                 .hasMatch(),
             qPrintable(text()));
    Language::instance().set("zh_CN");
    const QString chinese = text();
    Language::instance().set("en");
    QVERIFY2(chinese.contains(QString::fromUtf8("约剩 0:0")), qPrintable(chinese));
    jobs.progress(job, -1, "n2");  // it is not known any more
    QCOMPARE(text(), QString::fromUtf8("Copying · n2"));
  }

  // What is copied to several nodes is one job, which lasts until the last has its agent.
  void uploadsAreOneJob() {
    JobTracker jobs;
    const QAbstractItemModelTester tester(&jobs);
    int cancelled = 0;
    DeployJob deploy(jobs, [&] { ++cancelled; });
    const auto told = [&](int node, std::uint64_t done, std::uint64_t size) {
      app::NodeStatus status;
      status.uploaded = done;
      status.uploadSize = size;
      deploy.take(node, status, "Deploying");
    };
    const auto fraction = [&] { return jobs.index(0).data(JobTracker::kProgressRole).toDouble(); };
    told(0, 0, 0);
    QCOMPARE(jobs.rowCount(), 0);
    told(0, 10, 40);
    QCOMPARE(jobs.rowCount(), 1);
    QCOMPARE(jobs.index(0).data().toString(), QString("Deploying"));
    QCOMPARE(fraction(), 0.25);
    told(1, 0, 40);
    told(0, 40, 40);
    told(0, 0, 0);  // its agent starts
    QCOMPARE(fraction(), 0.5);
    jobs.cancel(jobs.jobAt(0));
    QCOMPARE(cancelled, 1);
    told(1, 30, 40);
    QCOMPARE(fraction(), 0.875);
    told(1, 0, 0);
    QCOMPARE(jobs.rowCount(), 0);
    told(2, 5, 40);  // another one, later, alone
    QCOMPARE(fraction(), 0.125);
    deploy.end();
    QCOMPARE(jobs.rowCount(), 0);
  }

  // Each block of a rank's lines falls between the lines that the other ranks have sent before: one
  // gap a line.
  void lateLinesOfManyRanksAreMergedAtOnce() {
    constexpr int kRanks = 8, kBlock = 250, kLines = 50'000;
    LogModel model;
    LogFilter filter;
    filter.setLines(&model);
    filter.setQuery({.rank = 3});
    int appended = 0, signalled = 0;
    const auto count = [&] { ++signalled; };
    connect(&model, &QAbstractItemModel::rowsInserted, &model, count);
    connect(&model, &QAbstractItemModel::rowsRemoved, &model, count);
    connect(&model, &QAbstractItemModel::layoutChanged, &model, count);
    connect(&model, &QAbstractItemModel::modelReset, &model, count);
    connect(&model, &QAbstractItemModel::dataChanged, &model, count);
    const auto append = [&](int block, int rank) {
      QVector<LogRow> rows;
      for (int i = 0; i < kBlock; ++i) {
        const int line = (block * kBlock + i) * kRanks + rank;
        rows << LogRow{1 + line, "n1", rank, 1, QString::number(line)};
      }
      model.append(rows);
      ++appended;
    };
    constexpr int kBlocks = kLines / kBlock / kRanks;
    for (int block = 0; block < kBlocks - 1; ++block)
      for (int rank = kRanks - 1; rank >= 0; --rank) append(block, rank);
    // The last block's lines move what is selected, and its text stays the same.
    append(kBlocks - 1, 3);
    const QAbstractItemModelTester tester(&model), filterTester(&filter);
    const QPersistentModelIndex last = model.index(model.rowCount() - 1, LogModel::kText),
                                shown = filter.index(filter.rowCount() - 1, LogModel::kText);
    const QString text = last.data().toString();
    const int row = last.row();
    QCOMPARE(shown.data().toString(), text);
    append(kBlocks - 1, 1);
    QCOMPARE(last.row(), row + kBlock);
    for (const int rank : {0, 2, 4, 5, 6, 7}) append(kBlocks - 1, rank);
    QCOMPARE(last.data().toString(), text);
    QCOMPARE(shown.data().toString(), text);
    QCOMPARE(appended, kLines / kBlock);
    QVERIFY2(signalled <= 3 * appended, qPrintable(QString::number(signalled)));
    // The newest lines are all there, each once, in order; of rank 3 in the filter too.
    QVERIFY(model.rowCount() >= LogModel::kKept / 2);
    for (int i = 0; i < LogModel::kKept / 2; ++i)
      QCOMPARE(model.line(model.rowCount() - 1 - i).wallNs, qint64{kLines - i});
    for (int i = 0; i < LogModel::kKept / 2 / kRanks; ++i)
      QCOMPARE(filter.line(filter.rowCount() - 1 - i).wallNs, qint64{kLines - 4 - kRanks * i});
  }

  // The figures of plans, alone and beside others.
  void planFigures() {
    std::mt19937 random(7);
    using Unit = app::PlanFigure::Unit;
    const auto made = [&] {
      std::vector<app::PlanFigure> out{{"step", Unit::kSeconds, 0.001 * (random() % 9)}};
      for (const char* name : {"memory/gradients", "sent/all-reduce data", "operations", "energy"})
        if (random() % 2 == 0)
          out.push_back({name, static_cast<Unit>(random() % 6), 1.0 * (random() % 3)});
      return out;
    };
    PlanFigureModel model;
    const QAbstractItemModelTester tester(&model);
    const auto restored = qScopeGuard([] { Language::instance().set("en"); });
    for (int round = 0; round < 200; ++round) {
      const auto plan = made(), other = made();
      const bool hasOther = random() % 2 == 0;
      if (hasOther)
        model.setFigures(plan, other);
      else
        model.setFigures(plan);
      const auto rows = app::sideBySide(plan, hasOther ? other : std::vector<app::PlanFigure>());
      QCOMPARE(model.rowCount(), static_cast<int>(rows.size()));
      QCOMPARE(model.columnCount(), hasOther ? static_cast<int>(PlanFigureModel::kColumns) : 2);
      Language::instance().set(round % 2 == 0 ? "zh_CN" : "en");
      model.retranslate();
      for (int row = 0; row < model.rowCount(); ++row)
        QVERIFY(!model.index(row, PlanFigureModel::kName).data().toString().isEmpty());
    }
    model.setFigures({});
    QCOMPARE(model.rowCount(), 0);
  }

  void specsAreComparedByFields() {
    SpecDiffModel model;
    QAbstractItemModelTester tester(&model);
    const auto fields = app::specFields(kSpec);
    QCOMPARE(fields.at("training.batch"), std::string("64"));
    QCOMPARE(fields.at("model.layers[1].dense.units"), std::string("16"));
    QVERIFY(fields.contains("model.layers[0]"));
    QCOMPARE(fields.at("model.layers[0]"), std::string("flatten"));
    auto other = fields;
    other["training.batch"] = "96";
    other.erase("training.epochs");
    model.setRuns({"a", "b"}, {fields, other});
    QCOMPARE(model.rowCount(), 2);
    QCOMPARE(model.index(0, 0).data().toString(), QString("training.batch"));
    QCOMPARE(model.index(0, 2).data().toString(), QString("96"));
    QCOMPARE(model.index(1, 2).data().toString(), QString(QChar(0x2014)));
    model.setRuns({"a"}, {fields});
    QCOMPARE(model.rowCount(), 0);
    QVERIFY(app::specFields("a: [").empty());
  }

  void longValuesHaveTheWholeWidth() {
    InspectorModel model;
    QAbstractItemModelTester tester(&model);
    const QString error =
        "the worker of rank 1 was killed by signal 9 (SIGKILL), sent by a person or a program";
    model.setRows({{"Run", {}, true}, {"State", "failed"}, {"Error", error}});
    QCOMPARE(model.rowCount(), 4);
    QVERIFY(model.spans(0) && !model.spans(1) && !model.spans(2) && model.spans(3));
    QCOMPARE(model.index(3, 0).data().toString(), error);
    model.setRows({{"Remarks", {}, true}, {{}, error}});
    QCOMPARE(model.rowCount(), 2);
    QVERIFY(model.spans(1));
    QCOMPARE(model.index(1, 0).data().toString(), error);
  }

  // Commands are found by the beginnings of their words first, and in English whatever the
  // language.
  void paletteFindsByWordsFirst() {
    CommandModel commands;
    WordFilter words;
    words.setSourceModel(&commands);
    QAction machine("Run the &example on this machine", nullptr),
        chinese(QString::fromUtf8("中文 (Chinese)"), nullptr),
        tab(QString::fromUtf8("下一个标签页(&T)"), nullptr);
    machine.setObjectName("actionRunHere");
    chinese.setObjectName("actionChinese");
    tab.setObjectName("actionNextTab");
    commands.setActions({&machine, &chinese, &tab});
    words.setText("chin");
    QCOMPARE(words.rowCount(), 2);
    QCOMPARE(words.index(0, 0).data().toString(), QString::fromUtf8("中文 (Chinese)"));
    words.setText("next t");
    QCOMPARE(words.rowCount(), 1);
    QCOMPARE(words.index(0, 0).data().toString(), QString::fromUtf8("下一个标签页"));
    words.setText("");
    QCOMPARE(words.index(0, 0).data().toString(), QString("Run the example on this machine"));
  }

  void runs() {
    RunTableModel model;
    QAbstractItemModelTester tester(&model);
    std::vector<app::RunRow> rows(3);
    for (int i = 0; i < 3; ++i) rows[static_cast<std::size_t>(i)].run = "r" + std::to_string(i);
    model.setRuns(rows);
    QSignalSpy notes(&model, &RunTableModel::notesEdited);
    QVERIFY(model.setData(model.index(1, RunTableModel::kNotes), "good", Qt::EditRole));
    QCOMPARE(notes.size(), 1);
    rows.erase(rows.begin());
    model.setRuns(rows);
    QCOMPARE(model.find("r2"), 1);
    QCOMPARE(model.find("r0"), -1);
    // All of many runs are chosen: each is found at once.
    rows.resize(10'000);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].run = "run" + std::to_string(i);
    RunTableModel many;
    many.setRuns(rows);
    QElapsedTimer clock;
    clock.start();
    for (int i = 0; i < many.rowCount(); ++i)
      if (many.find(QString("run%1").arg(i)) != i) QFAIL(qPrintable(QString::number(i)));
    QVERIFY2(clock.elapsed() < 1000, qPrintable(QString::number(clock.elapsed())));
  }

  void placementAndBreakdown() {
    PlacementModel placement;
    QAbstractItemModelTester tester(&placement);
    placement.setRanks(std::vector<app::RankPreview>(4));
    QCOMPARE(placement.rowCount(), 4);
    BreakdownModel breakdown;
    QAbstractItemModelTester breakdownTester(&breakdown);
    std::vector<BreakdownBar> bars(3);
    bars[1].hasMeasured = true;
    bars[1].measured = {0.001, 0.002, 0.003, 0, 0, 0.004};
    breakdown.setBars(bars);
    QCOMPARE(breakdown.rowCount(), 6);
    QCOMPARE(breakdown.index(2, kPhaseCount + 2).data().toString(), QString("10.0 ms"));
    bars[1].hasMeasured = false;
    bars[1].hasPredicted = true;
    bars[1].predicted = {0.002, 0.002, 0.003, 0, 0, 0.004};
    breakdown.setBars(bars);
    QCOMPARE(breakdown.rowCount(), 3);
    QCOMPARE(breakdown.index(1, 1).data().toString(), QString("predicted"));
    QCOMPARE(breakdown.index(1, kPhaseCount + 2).data().toString(), QString("11.0 ms"));
    breakdown.setBars({});
  }

  void formEditsPatchTheText() {
    QTemporaryDir folder;
    SpecDocument document(app::SpecKind::kRun, folder.filePath("recovery"));
    document.start(kSpec, folder.filePath("tiny.yaml"));
    FieldModel fields(&document);
    QAbstractItemModelTester tester(&fields);
    fields.setSections({{"training", {}}, {"training.optimizer", "Optimizer"}});
    int batch = -1;
    for (int row = 0; row < fields.rowCount(); ++row) {
      if (fields.index(row, 0).data(FieldModel::kPathRole).toString() == "training.batch")
        batch = row;
    }
    QVERIFY(batch >= 0);
    QCOMPARE(fields.index(batch, 1).data(Qt::EditRole).toString(), QString("64"));
    QVERIFY(fields.setData(fields.index(batch, 1), "96", Qt::EditRole));
    QVERIFY(document.text().contains("batch: 96"));
    QVERIFY(document.text().contains("# the example"));
    document.undoStack()->undo();
    QCOMPARE(document.text(), QString(kSpec));
    // A text that does not parse makes the form read-only.
    document.type(QString(kSpec) + "training: [\n");
    QVERIFY(!document.spec().readable());
    QVERIFY(!(fields.flags(fields.index(batch, 1)) & Qt::ItemIsEditable));
    document.undoStack()->undo();
    QVERIFY(fields.flags(fields.index(batch, 1)) & Qt::ItemIsEditable);
  }

  void layersFollowTheText() {
    QTemporaryDir folder;
    SpecDocument document(app::SpecKind::kRun, folder.filePath("recovery"));
    document.start(kSpec, folder.filePath("tiny.yaml"));
    LayerTableModel layers(&document);
    QAbstractItemModelTester tester(&layers);
    QCOMPARE(layers.rowCount(), 3);
    QCOMPARE(layers.index(1, LayerTableModel::kKind).data().toString(), QString("dense"));
    QVERIFY(QTest::qWaitFor([&] { return layers.described(); }, 30'000));
    QCOMPARE(layers.parameters(), 784 * 16 + 16 + 16 * 10 + 10);
    // A view learns of a problem, and of its end.
    QString shown;
    connect(&layers, &QAbstractItemModel::dataChanged, &layers,
            [&] { shown = layers.index(1, 0).data(LayerTableModel::kProblemRole).toString(); });
    document.type(QString(kSpec).replace("units: 16", "unitz: 16"));
    QVERIFY2(shown.contains("unitz"), qPrintable(shown));
    document.undoStack()->undo();
    QCOMPARE(shown, QString());
    // Why a plan is refused is told in another language too.
    Error refusal = makeError(Code::kInvalidArgument, "it does not fit");
    refusal.field = "model.layers[1].dense";
    layers.setPlan(refusal);
    QVERIFY2(shown.contains("it does not fit"), qPrintable(shown));
    layers.retranslate();
    QVERIFY2(shown.contains("it does not fit"), qPrintable(shown));
    QVERIFY(document.insertItem("model.layers", 2, "dense: {units: 12}", "add").ok());
    QCOMPARE(layers.rowCount(), 4);
    QVERIFY(document.moveItem("model.layers", 2, 1, "move").ok());
    QVERIFY(document.removeItem("model.layers", 1, "remove").ok());
    QCOMPARE(layers.rowCount(), 3);
    while (document.undoStack()->canUndo()) document.undoStack()->undo();
    QCOMPARE(document.text(), QString(kSpec));
  }

  void typingMergesAndRecovers() {
    QTemporaryDir folder;
    const QString path = folder.filePath("tiny.yaml");
    {
      SpecDocument document(app::SpecKind::kRun, folder.filePath("recovery"));
      document.start(kSpec, path);
      QVERIFY(document.save(path).ok());
      QString text = kSpec;
      for (const char letter : std::string("# abc")) {
        text += letter;
        document.type(text);
      }
      QVERIFY(document.isModified());
      QVERIFY(document.undoStack()->count() <= 3);
      document.keepRecovery();
    }
    SpecDocument again(app::SpecKind::kRun, folder.filePath("recovery"));
    QVERIFY(again.load(path).ok());
    QVERIFY(again.recovered());
    QVERIFY(again.text().endsWith("# abc"));
    again.undoStack()->undo();
    QCOMPARE(again.text(), QString(kSpec));
  }

  // What was undone does not come back, after a crash neither.
  void textThatWasUndoneIsNotRecovered() {
    QTemporaryDir folder;
    const QString path = folder.filePath("tiny.yaml"), recovery = folder.filePath("recovery");
    SpecDocument document(app::SpecKind::kRun, recovery);
    document.start(kSpec, path);
    QVERIFY(document.save(path).ok());
    const auto isKept = [&] {
      return QFileInfo::exists(SpecDocument::recoveryPath(path, recovery));
    };
    document.type(QString(kSpec) + "# mine");
    QVERIFY(QTest::qWaitFor(isKept, 30'000));
    document.undoStack()->undo();
    QVERIFY(QTest::qWaitFor([&] { return !isKept(); }, 30'000));
    SpecDocument again(app::SpecKind::kRun, recovery);  // of the start after the crash
    QVERIFY(again.load(path).ok());
    QVERIFY(!again.recovered());
  }

  // So does the text of one that has no file yet; closed on purpose, it is not wanted.
  void textThatWasNeverSavedComesBack() {
    QTemporaryDir folder;
    const QString path = folder.filePath("copy.yaml"), recovery = folder.filePath("recovery");
    {
      SpecDocument document(app::SpecKind::kRun, recovery);
      document.start(kSpec, path);
      document.type(QString(kSpec) + "# mine");
      document.keepRecovery();
    }
    {
      SpecDocument again(app::SpecKind::kRun, recovery);
      QVERIFY(again.load(path).ok());
      QVERIFY(again.recovered() && again.isModified());
      QCOMPARE(again.path(), path);
      QCOMPARE(again.text(), QString(kSpec) + "# mine");
    }
    SpecDocument gone(app::SpecKind::kRun, recovery);
    QVERIFY(!gone.load(path).ok());
  }

  void numbersAsPeopleReadThem() {
    QLocale::setDefault(QLocale(QLocale::English, QLocale::UnitedStates));
    QCOMPARE(formatBytes(1536), QString("1.54 kB"));
    QCOMPARE(formatBytes(0), QString("0 B"));
    QCOMPARE(formatSeconds(0.00125), QString("1.25 ms"));
    QCOMPARE(formatSeconds(42e-6), QString::fromUtf8("42 µs"));
    QCOMPARE(formatDuration(3723), QString("1:02:03"));
    QCOMPARE(formatDuration(-75), QString("-1:15"));
    QCOMPARE(formatDuration(-0.4), QString("0:00"));
    QCOMPARE(formatPercent(0.9012, 1), QString("90.1 %"));
    QCOMPARE(formatCount(101770), QString("101,770"));
  }

  // What is large has no power of ten: the watts of nodes with GPUs, the energy of a long run.
  void largeNumbersAreWrittenOut() {
    QLocale::setDefault(QLocale(QLocale::English, QLocale::UnitedStates));
    QCOMPARE(formatNumber(11248, 3), QString("11,248"));
    QCOMPARE(formatNumber(128, 2), QString("128"));  // cores
    QCOMPARE(formatNumber(-1234.4, 3), QString("-1,234"));
    QCOMPARE(formatNumber(999.6, 3), QString("1,000"));
    QCOMPARE(formatNumber(999.4, 3), QString("999"));
    QCOMPARE(formatNumber(0.12345, 3), QString("0.123"));
    QCOMPARE(formatEnergy(4.4424e9), QString("1,234 kWh"));
    QCOMPARE(formatCarbon(999.7), QString("1,000 g"));
    QCOMPARE(formatCarbon(1'234'000), QString("1,234 kg"));
    QVERIFY(formatNumber(3e38, 3).size() < 10);  // a loss that has grown beyond measure
  }

  // On a desktop that writes decimal commas too: English words have English numbers.
  void numbersFollowTheLanguageOfTheStudio() {
    const auto restore = qScopeGuard([] { Language::instance().set("en"); });
    QLocale::setDefault(QLocale(QLocale::German, QLocale::Germany));
    QCOMPARE(formatBytes(1536), QString("1,54 kB"));
    Language::instance().set("en");
    QCOMPARE(formatBytes(1536), QString("1.54 kB"));
    QCOMPARE(formatCount(101770), QString("101,770"));
  }

  // A pattern that no source makes any more translates nothing.
  void fieldsAreExplainedInChinese() {
    Theme::instance().apply(Theme::Mode::kLight);
    const auto restore = qScopeGuard([] { Language::instance().set("en"); });
    Language::instance().set("zh_CN");
    QStringList left;
    int explained = 0;
    const auto name = [](const std::string& path, const app::FieldInfo& field) {
      return QString::fromStdString(path + "." + field.name);
    };
    const std::function<void(app::SpecKind, const std::string&, int)> walk =
        [&](app::SpecKind kind, const std::string& path, int depth) {
          if (depth > 6) return;
          for (const app::FieldInfo& field : app::SpecText::fields(kind, path)) {
            ++explained;
            if (field.help.empty() && field.name != "version")
              left << "no help: " + name(path, field);
            for (const app::OptionText& text : {field.label, field.help, field.unset})
              if (text.english.empty() != text.chinese.empty()) left << name(path, field);
            if (!field.help.empty() && optionText(field.help).toStdString() != field.help.chinese)
              left << "not shown: " + name(path, field);
            walk(kind, path.empty() ? field.name : path + "." + field.name, depth + 1);
          }
        };
    for (const auto kind : {app::SpecKind::kRun, app::SpecKind::kCluster}) walk(kind, "", 0);
    QVERIFY(explained > 100);
    QVERIFY2(left.isEmpty(), qPrintable(left.join('\n')));
  }

  // tests/messages goes through the whole catalogue.
  void messagesInChinese() {
    Theme::instance().apply(Theme::Mode::kLight);  // with it come the compiled-in texts
    const auto restore = qScopeGuard([] { Language::instance().set("en"); });
    const Message needs = message("{} ranks need {} MiB, {} MiB are available", 3, 900, 20);
    QCOMPARE(messageText(needs), QString::fromStdString(needs.text()));
    Language::instance().set("zh_CN");
    QCOMPARE(messageText(needs), QString::fromUtf8("3 个 rank 需要 900 MiB，可用 20 MiB"));
    // A place in an argument is none.
    QCOMPARE(messageText(message("cannot open the data file {}", "/x/%1/y")),
             QString::fromUtf8("无法打开数据文件 /x/%1/y"));
    // Messages in messages, over the wire and out of the history.
    Error error = makeError(Code::kAborted, "the worker of rank {} {}", 1,
                            message("was killed by signal {} ({})", 9, "SIGKILL"));
    error.next = "launch it again";
    error.node = "n2";
    error.rank = 1;
    const QString chinese = QString::fromUtf8(
        "节点 n2，rank 1：rank 1 的工作进程被信号 9（SIGKILL）终止（重新启动它）");
    QCOMPARE(messageText(error.message()), chinese);
    QCOMPARE(messageText(app::messageFromJson(app::toJson(error.message()))), chinese);
    QCOMPARE(messageText("words of nobody"), QString("words of nobody"));
    // A name is no word of the catalogue; a path may hold any bytes; a list may be long.
    QCOMPARE(messageText(message("{}, {}", "nothing", Message("nothing"))),
             QString::fromUtf8("nothing，没有"));
    const Message anyBytes = message("cannot open the data file {}", "/x/\xff\xfe/y");
    QCOMPARE(messageText(app::messageFromJson(app::toJson(anyBytes))),
             QString::fromUtf8("无法打开数据文件 /x/?"
                               "?/y"));
    Message list = "nothing";
    for (int i = 0; i < 300; ++i) list = message("{}, {}", list, i);
    QCOMPARE(QString::fromStdString(app::messageFromJson(app::toJson(list)).text()),
             QString::fromStdString(list.text()));
    // What a wire may bring: places without arguments, an id without a text.
    QCOMPARE(messageText(Message("x", "%1 and %9 of %", {Message("a")})), QString("a and %9 of %"));
    QCOMPARE(messageText(Message()), QString());
  }
};

QTEST_MAIN(ModelsTest)
#include "models_test.moc"
