// The whole road through the studio's own window: hosts, fingerprints, deploy, launch, curves that
// grow, the history, an export. Real sshd, real agents, real workers.
#include "tests/ui/studio_road.h"

#include <QAbstractItemModelTester>
#include <QElapsedTimer>
#include <QProgressBar>
#include <QThreadPool>
#include <algorithm>

#include "engine/base/clock.h"
#include "engine/storage/database.h"
#include "lockstep/run/v1/telemetry.pb.h"
#include "tests/support/systemd.h"
#include "ui/dialogs/deploy_dialog.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/dialogs/preflight_dialog.h"
#include "ui/models/preflight_model.h"
#include "ui/models/version_model.h"
#include "ui/plots/custom_plot.h"
#include "ui/theme/format.h"

using namespace lockstep;
using lockstep::tests::StudioHome;
using lockstep::tests::StudioRoad;

class StudioRunTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void init() {
    home_ = std::make_unique<StudioHome>();
    road_ = std::make_unique<StudioRoad>(home_->home());
  }
  void cleanup() {
    if (!road_) return;
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void trainsOnThisMachine() {
    // Its nodes have GPUs, as far as their driver says, which tells of their memory alone.
    qputenv("LOCKSTEP_NVML", LOCKSTEP_FAKE_NVML_FILE);
    const auto restored = qScopeGuard([] { qunsetenv("LOCKSTEP_NVML"); });
    road_->open();
    trainAndExport(nullptr);
  }

  void trainsOverSsh() {
    const test::TempFolder folder;
    test::makeKey(folder / "key");
    std::vector<std::unique_ptr<test::Sshd>> servers;
    std::vector<const test::Sshd*> list;
    for (int i = 1; i <= 3; ++i) {
      const std::string own = folder / ("s" + std::to_string(i));
      QVERIFY(QDir().mkpath(QString::fromStdString(own)));
      std::string why;
      servers.push_back(test::Sshd::start(own, folder / "key", {}, &why));
      if (!servers.back()) QSKIP(why.c_str());
      list.push_back(servers.back().get());
    }
    const std::string config = folder / "ssh_config";
    test::writeText(config, test::sshConfigFor(list, folder / "known_hosts", folder / "key"), 0600);
    road_->open(QString::fromStdString(config));
    std::set<std::string> trusted;
    auto* cluster = road_->addHosts(std::vector<std::string>(3), folder.path(), &trusted, true);
    if (QTest::currentTestFailed()) return;
    for (const auto* server : list) QVERIFY(trusted.contains(server->fingerprint()));
    trainAndExport(cluster);
    if (!QTest::currentTestFailed()) measuresBeforehand(cluster);
    if (!QTest::currentTestFailed()) closesWhileItMeasures(cluster);
    road_->close();
    road_->endAgents();  // before their work folders go
  }

  // With the deploy dialog, on a host that has nothing of Lockstep yet.
  void agentsAreDeployed_data() {
    QTest::addColumn<int>("choice");
    QTest::addColumn<QByteArray>("expected");
    QTest::newRow("detached") << 1 << QByteArray("detached");
    QTest::newRow("systemd user unit") << 2 << QByteArray("unit");
  }
  void agentsAreDeployed() {
    QFETCH(int, choice);
    QFETCH(QByteArray, expected);
    const test::TempFolder folder;
    const std::string workdir = home_->home().root + "/local/n1";  // cleanup() ends agents there
    test::makeKey(folder / "key");
    test::makeSystemd(folder / "systemd");
    for (const char* file : {"manager", "linger"})
      test::writeText(folder / (std::string("systemd/") + file), "");
    test::SshdOptions options;
    options.extraConfig = "SetEnv SHLVL=1 PATH=" + (folder / "systemd") + ":/usr/bin:/bin";
    std::string why;
    const auto server = test::Sshd::start(folder / "sshd", folder / "key", options, &why);
    if (!server) QSKIP(why.c_str());
    test::writeText(folder / "known_hosts", server->knownHostsLine() + "\n", 0600);
    test::writeText(folder / "ssh_config",
                    test::sshConfigFor({server.get()}, folder / "known_hosts", folder / "key"),
                    0600);
    test::writeText(folder / "lab.yaml",
                    "version: 1\nname: lab\nnodes:\n  - {name: n1, ssh: {host: n1}, workdir: " +
                        workdir + "}\n");
    road_->open(QString::fromStdString(folder / "ssh_config"));
    auto* page = qobject_cast<ui::ClusterPage*>(
        road_->window()->openFile(QString::fromStdString(folder / "lab.yaml")));
    QVERIFY(page);
    road_->choose("menuCluster", "actionDeploy");
    auto* dialog = page->findChild<ui::DeployDialog*>();
    QVERIFY(dialog && tests::wait([&] { return dialog->isVisible(); }));
    for (int i = 0; i < choice; ++i)
      QTest::keyClick(dialog->findChild<QComboBox*>("deployStart"), Qt::Key_Down);
    QTest::mouseClick(dialog->findChild<QPushButton*>("deployDialogAccept"), Qt::LeftButton);
    QVERIFY2(tests::wait([&] { return page->connectedCount() == 1; }),
             qPrintable(page->message()->details()));
    const int agent = page->liveIfAny()->session().status(0).inventory.agentPid;
    QCOMPARE(test::startOf(agent), expected.toStdString());
    QVERIFY(QFileInfo::exists(QString::fromStdString(workdir + "/versions")));
  }

  // Agents start and something is measured when it is asked for, not before; from then on every
  // step time in that place is measured, whatever is chosen. Unsaved text is launched as it is
  // saved.
  void benchmarksAndLaunchesWhenAsked() {
    road_->open();
    ui::MainWindow* window = road_->window();
    ui::NewModelDialog* ask = window->newModel();
    ask->chooseKind("mlp");
    ask->findChild<QPushButton*>("newModelDialogAccept")->click();
    auto* model = qobject_cast<ui::ModelPage*>(window->currentPage());
    QVERIFY(model);
    QPointer<ui::LaunchDialog> dialog = window->openLaunch(model, nullptr);
    dialog->findChild<QSpinBox*>("launchNodes")->setValue(2);
    QVERIFY(tests::wait([&] { return dialog->ready(); }));
    QVERIFY(!dialog->benchmarking());  // which would have begun with the prediction
    QVERIFY(road_->processes("serve").empty());
    QVERIFY(!QFileInfo::exists(QString::fromStdString(home_->home().root) + "/local"));
    QVERIFY(!dialog->preview()->measured);
    const auto shown = [&] {
      return std::pair(dialog->findChild<QLabel*>("launchStepTimeValue")->text(),
                       dialog->findChild<QLabel*>("launchStepTimeDetail")->text());
    };
    QCOMPARE(shown().second, QString("rough estimate"));
    dialog->findChild<QPushButton*>("launchBenchmark")->click();
    QVERIFY2(tests::wait([&] { return dialog->ready() && dialog->preview()->measured; }),
             qPrintable(dialog->findChild<ui::MessagePanel*>()->details()));
    QCOMPARE(shown().second, QString("benchmarked"));
    for (const auto& [box, choice] : {std::pair{"launch.strategy.kind", "zero-1"},
                                      {"launch.strategy.kind", "multi-worker-mirrored"}}) {
      auto* choices = dialog->findChild<QComboBox*>(box);
      choices->setCurrentIndex(choices->findData(choice));
      QVERIFY(!dialog->ready());
      QStringList others;
      QVERIFY(tests::wait([&] {
        const auto [value, kind] = shown();
        if (kind != "benchmarked" &&
            !(kind == "not benchmarked" && value == QString(QChar(0x2014))))
          others << value + " " + kind;
        return dialog->ready() && dialog->preview()->measured;
      }));
      QVERIFY2(others.isEmpty(), qPrintable(others.join(", ")));
    }
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(4);
    auto* table = dialog->findChild<QTableView*>("candidateTable")->model();
    QVERIFY(tests::wait([&] { return table->rowCount() > 6; }));
    int benchmarked = 0;
    for (int row = 0; row < table->rowCount(); ++row) {
      benchmarked += table->index(row, 2).data().toString().contains("s");
    }
    QCOMPARE(benchmarked, 2);  // in a column of their own
    dialog->reject();
    QVERIFY(tests::wait([&] { return dialog.isNull(); }));

    QVERIFY(model->document()->setField("training.max_steps", "24", "change").ok());
    QVERIFY(model->document()->setField("training.batch", "32", "change").ok());
    QVERIFY(model->isModified());
    dialog = window->openLaunch(model, nullptr);
    dialog->chooseTarget(dialog->findChild<QComboBox*>("launchCluster")->count() - 1);
    dialog->findChild<QCheckBox*>("launchMeasure")->setChecked(false);
    QString run;
    connect(dialog.data(), &ui::LaunchDialog::launched, window,
            [&](const QString& id) { run = id; });
    auto* nodes = dialog->findChild<QSpinBox*>("launchNodes");
    nodes->setFocus();
    nodes->selectAll();
    QTest::keyClicks(nodes, "2");
    QTest::keyClick(nodes, Qt::Key_Return);  // before the prediction is there
    QVERIFY2(tests::wait([&] { return !run.isEmpty(); }, 120'000),
             qPrintable(dialog ? dialog->findChild<ui::MessagePanel*>()->details() : QString()));
    QVERIFY(!model->isModified());
    QFile file(model->filePath());
    QVERIFY(file.open(QIODevice::ReadOnly));
    const auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok());
    const auto kept = (*history)->documents(run.toStdString());
    QVERIFY(kept.ok());
    QCOMPARE(QString::fromStdString(kept->specYaml), QString::fromUtf8(file.readAll()));
    QVERIFY(QString::fromStdString(kept->specYaml).contains("batch: 32"));
    auto* page = qobject_cast<ui::RunPage*>(window->currentPage());
    QVERIFY(page &&
            tests::wait([&] { return app::isFinal(page->document()->row().phase); }, 120'000));
    QCOMPARE(page->document()->row().figures.steps, 24);
  }

  void aCheckpointIsTakenAndTheRunKilled() {
    road_->open();
    road_->launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 1000000"}}, nullptr, 2);
    if (QTest::currentTestFailed()) return;
    ui::RunPage* page = road_->page();
    QVERIFY(tests::wait([&] { return page->document()->lastStep() > 5; }));
    qint64 saved = 0;
    connect(page->document(), &ui::RunDocument::checkpointSaved, this,
            [&](qint64 step) { saved = step; });
    road_->choose("menuRun", "actionCheckpoint");
    QVERIFY2(tests::wait([&] { return page->message()->what().endsWith(" is saved."); }),
             qPrintable(page->message()->details()));
    QVERIFY(saved > 5);
    QVERIFY2(page->message()->what().contains(ui::formatCount(saved)),
             qPrintable(page->message()->what()));
    auto* kill = page->findChild<QPushButton*>("killButton");
    QVERIFY(kill->isVisible() && kill->isEnabled());
    QTest::mouseClick(kill, Qt::LeftButton);
    QVERIFY(tests::wait([&] { return app::isFinal(page->document()->row().phase); }));
    QVERIFY(tests::wait([&] { return road_->processes("worker", road_->run()).empty(); }));
    // It can go on from there.
    QVERIFY(
        tests::wait([&] { return page->findChild<QPushButton*>("resumeButton")->isEnabled(); }));
  }

  // From the end of a step on its node to the frame that shows it. One host, so one clock.
  void stepsAreOnTheScreenSoon() {
    constexpr int kSteps = 8000;
    road_->open();
    road_->launch("fashion-mlp.yaml",
                  {{"epochs: 5", fmt::format("epochs: 20\n  max_steps: {}", kSteps).c_str()}},
                  nullptr, 2);
    if (QTest::currentTestFailed()) return;
    auto* plot = road_->page()->lossPlot()->findChild<QCustomPlot*>();
    QVERIFY(plot);
    const auto loss = road_->page()->document()->series("loss");
    std::vector<Nanoseconds> shown(kSteps + 1);  // by step
    std::size_t seen = 0;  // points; those of earlier steps may come after later ones
    const Nanoseconds from = monotonicNow();  // before it the page was not there
    connect(plot, &QCustomPlot::afterReplot, this, [&] {
      if (seen == loss->raw().size()) return;
      seen = loss->raw().size();
      for (std::size_t i = 0; i < seen; ++i)
        if (Nanoseconds& at = shown[static_cast<std::size_t>(loss->raw().x(i))]; at == 0)
          at = monotonicNow();
    });
    road_->finish(kSteps, 2);
    if (QTest::currentTestFailed()) return;
    QVERIFY(tests::wait([&] { return seen == static_cast<std::size_t>(kSteps); }));
    disconnect(plot, nullptr, this, nullptr);

    std::vector<double> late;  // milliseconds
    const auto ends = stepEnds();
    QCOMPARE(ends.size(), static_cast<std::size_t>(kSteps));
    for (const auto& [step, end] : ends)
      if (end >= from)
        late.push_back(static_cast<double>(shown.at(static_cast<std::size_t>(step)) - end) * 1e-6);
    QVERIFY2(
        late.size() > 100,
        fmt::format("{} steps of {} ended after the page was there", late.size(), kSteps).c_str());
    std::sort(late.begin(), late.end());
    const double middle = late[late.size() / 2], most = late[late.size() * 95 / 100];
    qInfo("from a node to the screen: median %.1f ms, 95%% within %.1f ms", middle, most);
    QVERIFY(late.front() > 0);  // how late is for a benchmark to judge
  }

 private:
  // The steps of rank 0 and when they ended, as its node's spool has it.
  std::map<std::int64_t, Nanoseconds> stepEnds() {
    std::map<std::int64_t, Nanoseconds> ends;
    QDirIterator files(QString::fromStdString(home_->home().root) + "/local", {"spool.db"},
                       QDir::Files, QDirIterator::Subdirectories);
    while (files.hasNext()) {
      auto spool = storage::Database::open(files.next().toStdString(), {"", ""});
      if (!spool.ok()) continue;
      storage::Statement records(**spool, "SELECT body FROM records ORDER BY seq");
      while (records.step()) {
        const auto bytes = records.blob(0);
        run::v1::Record record;
        if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
        const auto& steps = record.steps();
        if (!record.has_steps() || steps.rank() != 0) continue;
        Nanoseconds begin = 0;
        for (int i = 0; i < steps.begin_ns_size(); ++i) {
          begin += steps.begin_ns(i);
          ends[steps.first_step() + i] = begin + steps.duration_ns(i);
        }
      }
    }
    return ends;
  }

  // By mouse: the first result is compared among the nodes, the second with the first; closing
  // while it measures cancels.
  void measuresBeforehand(ui::ClusterPage* cluster) {
    road_->window()->findChild<QTabWidget*>()->setCurrentWidget(cluster);
    QTest::mouseClick(cluster->findChild<QToolButton*>("preflightButton"), Qt::LeftButton);
    QPointer<ui::PreflightDialog> dialog = cluster->findChild<ui::PreflightDialog*>();
    QVERIFY(dialog && dialog->isVisible());
    std::vector<std::unique_ptr<QAbstractItemModelTester>> testers;
    for (const QTableView* table : dialog->findChildren<QTableView*>())
      testers.push_back(std::make_unique<QAbstractItemModelTester>(table->model()));
    auto* outcome = dialog->findChild<QLabel*>("preflightOutcome");
    auto* again = dialog->findChild<QPushButton*>("preflightDialogAccept");
    QVERIFY(dialog->findChild<QLineEdit*>("preflightDialogCommand")
                ->text()
                .startsWith("lockstep cluster preflight "));
    for (const char* compared : {"among each other", "with earlier results: 1"}) {
      QVERIFY(!again->isEnabled());
      QVERIFY(tests::wait([&] { return outcome->text().endsWith(" left)"); }, 60'000));
      QVERIFY(tests::wait([&] { return !dialog->measuring(); }, 120'000));
      // Matrix products, memory, disk writes and room, clock of three nodes; both ways of three
      // pairs, twice; all-reduce.
      QVERIFY2(dialog->values().rowCount() == 5 * 3 + 2 * 6 + 1, qPrintable(outcome->text()));
      QVERIFY2(outcome->text().contains(compared), qPrintable(outcome->text()));
      savePicture(dialog, "values");
      showsLinksAndVersions(dialog);
      if (QTest::currentTestFailed()) return;
      QTest::mouseClick(again, Qt::LeftButton);
    }
    QVERIFY(dialog->measuring());
    QTest::mouseClick(dialog->findChild<QPushButton*>("preflightDialogReject"), Qt::LeftButton);
    QVERIFY(tests::wait([&] { return dialog.isNull(); }));
  }

  // To look at, in the folder that LOCKSTEP_PICTURES names.
  static void savePicture(QWidget* dialog, const char* name) {
    const QString folder = qEnvironmentVariable("LOCKSTEP_PICTURES");
    if (!folder.isEmpty()) dialog->grab().save(QString("%1/preflight-%2.png").arg(folder, name));
  }

  // By mouse and keyboard.
  void showsLinksAndVersions(ui::PreflightDialog* dialog) {
    auto* tabs = dialog->findChild<QTabWidget*>("preflightTabs");
    const auto open = [&](int tab) {
      QTest::mouseClick(tabs->tabBar(), Qt::LeftButton, {}, tabs->tabBar()->tabRect(tab).center());
    };
    const auto* links = dialog->findChild<QTableView*>("preflightLinks");
    open(1);
    QVERIFY(links->isVisible());
    savePicture(dialog, "links");
    auto* kind = dialog->findChild<QComboBox*>("preflightLinkKind");
    for (const auto& [key, ends] : {std::pair{Qt::Key_Home, "B/s"}, {Qt::Key_Down, "s"}}) {
      QTest::keyClick(kind, key);
      QCOMPARE(links->model()->rowCount(), 3);
      for (int from = 0; from < 3; ++from)
        for (int to = 0; to < 3; ++to) {
          const QString text = links->model()->index(from, to).data().toString();
          QVERIFY2(from == to ? text.isEmpty() : text.endsWith(ends), qPrintable(text));
        }
    }
    QVERIFY(!links->model()->index(0, 1).data().toString().endsWith("B/s"));

    // Nodes of one machine, with one agent.
    const auto* versions = dialog->findChild<QTableView*>("preflightVersions");
    open(2);
    QVERIFY(versions->isVisible());
    savePicture(dialog, "versions");
    QCOMPARE(versions->model()->rowCount(), 3);
    for (const int column : {ui::VersionModel::kAgent, ui::VersionModel::kKernel})
      for (int row = 0; row < 3; ++row) {
        const QModelIndex at = versions->model()->index(row, column);
        QVERIFY2(!at.data().toString().isEmpty() && at.data().toString() != "unknown",
                 qPrintable(at.data().toString()));
        QCOMPARE(at.data(ui::VersionModel::kToneRole).toInt(), int(ui::Tone::kGood));
      }
    open(0);
    QVERIFY(dialog->findChild<QTableView*>("preflightTable")->isVisible());
  }

  // The window's end waits for a measurement, which uses what it destroys.
  void closesWhileItMeasures(ui::ClusterPage* cluster) {
    QThreadPool& waitedFor = road_->window()->workspace().teardownPool();
    QVERIFY(tests::wait([&] { return waitedFor.activeThreadCount() == 0; }));
    QTest::mouseClick(cluster->findChild<QToolButton*>("preflightButton"), Qt::LeftButton);
    auto* dialog = cluster->findChild<ui::PreflightDialog*>();
    QVERIFY(dialog && dialog->measuring());
    auto* progress = dialog->findChild<QProgressBar*>("preflightProgress");
    QVERIFY(tests::wait([&] { return progress->value() > 0; }, 60'000));
    QCOMPARE(waitedFor.activeThreadCount(), 1);
    QElapsedTimer clock;
    clock.start();
    road_->close();
    QVERIFY2(clock.elapsed() < 60'000, qPrintable(QString::number(clock.elapsed())));
  }

  void trainAndExport(ui::ClusterPage* cluster) {
    road_->launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 1\n  max_steps: 300"}}, cluster, 3);
    if (!QTest::currentTestFailed()) road_->watchCurvesGrow();
    if (!QTest::currentTestFailed()) road_->finish(300, 3);
    if (QTest::currentTestFailed()) return;
    const bool gpus = cluster == nullptr;
    QCOMPARE(road_->page()->document()->curves().names().contains("node/local1/gpu/1/memory"),
             gpus);
    auto* tabs = road_->page()->findChild<QTabWidget*>("runTabs");
    tabs->setCurrentIndex(1);  // the curves of nodes are placed when they are looked at
    const auto* memory = road_->page()->findChild<QWidget*>("gpuMemoryPlotCard");
    QCOMPARE(memory != nullptr && !memory->isHidden(), gpus);
    const auto* use = road_->page()->findChild<QWidget*>("gpuPlotCard");
    QVERIFY(use == nullptr || use->isHidden());
    tabs->setCurrentIndex(0);
    road_->findInHistoryAndExport(300);
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<StudioRoad> road_;
};

QTEST_MAIN(StudioRunTest)
#include "studio_run_test.moc"
