// The window, driven offscreen: its pages, docks and dialogs, in each language and theme.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QScopeGuard>
#include <QSignalSpy>
#include <QTest>
#include <QtWidgets>
#include <random>

#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/add_host_dialog.h"
#include "ui/dialogs/alert_rules_dialog.h"
#include "ui/dialogs/deploy_dialog.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/models/alert_model.h"
#include "ui/models/inspector_model.h"
#include "ui/models/layer_table_model.h"
#include "ui/models/navigator_model.h"
#include "ui/models/node_table_model.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/plots/custom_plot.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

class WindowTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void formAndTextAreOneDocument() {
    const QString path = home_->path("cnn.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-cnn.yaml")), path));
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    auto* page = qobject_cast<ModelPage*>(window_->openFile(path));
    QVERIFY(page);
    auto* editor = page->findChild<YamlEditor*>("yamlEditor");
    const QString before = editor->toPlainText();
    page->selectLayer(1);
    page->addLayer("dense: {units: 64, activation: relu}");
    QVERIFY(editor->toPlainText().contains("units: 64"));
    QVERIFY(page->isModified());
    // The inspector has the layer that is selected.
    const auto* inspector = window_->findChild<QTableView*>("inspector")->model();
    for (const int row : {0, 2, 1}) {
      page->selectLayer(row);
      QCOMPARE(inspector->index(0, 0).data().toString(),
               page->layers()->index(row, LayerTableModel::kName).data().toString());
    }
    QAction* undo = window_->findChild<QAction*>("actionUndo");
    QVERIFY(undo->isEnabled());
    undo->trigger();
    QCOMPARE(editor->toPlainText(), before);
    QVERIFY(!page->isModified());
    // By hand: an error is marked at its line.
    editor->setFocus();
    QTextCursor cursor = editor->document()->find("kernel");
    cursor.insertText("kernal");
    QVERIFY(!editor->marks().isEmpty());
    QCOMPARE(editor->marks()[0].line, editor->document()->find("kernal").blockNumber() + 1);
    QVERIFY(page->findChild<QListWidget*>("problemList")->isVisibleTo(page));
    QVERIFY(!page->findChild<QPushButton*>("modelLaunchButton")->isEnabled());
    undo->trigger();
    QCOMPARE(editor->toPlainText(), before);
    QVERIFY(page->findChild<QPushButton*>("modelLaunchButton")->isEnabled());
    // Saved through the action.
    page->addLayer("dense: {units: 64, activation: relu}");
    window_->findChild<QAction*>("actionSave")->trigger();
    QFile saved(path);
    QVERIFY(saved.open(QIODevice::ReadOnly));
    QCOMPARE(QString::fromUtf8(saved.readAll()), editor->toPlainText());
    QVERIFY(!page->isModified());
  }

  void hostsAreAddedToTheText() {
    ClusterPage* page = window_->newCluster();
    QVERIFY(page);
    page->addHost();
    auto* dialog = page->findChild<AddHostDialog*>();
    QVERIFY(dialog);
    QVERIFY(!dialog->findChild<QPushButton*>("addHostDialogAccept")->isEnabled());
    dialog->findChild<QComboBox*>("addHostHost")->setEditText("anna@n1.lab");
    dialog->findChild<QSpinBox*>("addHostPort")->setValue(2201);
    QCOMPARE(dialog->findChild<QLineEdit*>("addHostName")->text(), QString("n1"));
    dialog->findChild<QComboBox*>("addHostDevice")->setCurrentIndex(1);
    QCOMPARE(dialog->findChild<QLineEdit*>("addHostDialogCommand")->text(),
             "lockstep cluster add " + page->filePath() + " anna@n1.lab --port 2201 --device cuda");
    dialog->findChild<QPushButton*>("addHostDialogAccept")->click();
    QVERIFY2(page->document()->text().contains("devices: [{kind: cuda, count: 1}]"),
             qPrintable(page->document()->text()));
    QCOMPARE(page->nodes()->rowCount(), 1);
    QCOMPARE(page->nodes()->rows()[0].name, QString("n1"));
    QCOMPARE(page->nodes()->rows()[0].target, QString("anna@n1.lab"));
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));
    page->undoStack()->undo();
    QCOMPARE(page->nodes()->rowCount(), 0);
  }

  // Names and hosts that a range stands for are taken, each of them.
  void hostsOfARangeAreTaken() {
    ClusterPage* page = window_->newCluster();
    QVERIFY(page->addNode("{name: \"n[1-8]\", ssh: {host: \"n[1-8].lab\"}}").ok());
    page->addHost();
    auto* dialog = page->findChild<AddHostDialog*>();
    QVERIFY(dialog);
    auto* host = dialog->findChild<QComboBox*>("addHostHost");
    auto* accept = dialog->findChild<QPushButton*>("addHostDialogAccept");
    host->setEditText("n5.lab");
    QVERIFY(!accept->isEnabled());
    QCOMPARE(dialog->findChild<QLabel*>("addHostWrong")->text(),
             QString("The cluster already has a node n5."));
    host->setEditText("n9.lab");
    QVERIFY(accept->isEnabled());
    dialog->reject();
  }

  void aHostfileIsImported() {
    QTemporaryDir folder;
    QFile file(folder.filePath("mpi hosts"));
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write("n1 slots=2\nn2\n") > 0);
    file.close();
    const auto choose = [&](const QString& path) {
      window_->findChild<QAction*>("actionImport")->trigger();
      auto* dialog = window_->findChild<QFileDialog*>("importDialog");
      Q_EMIT dialog->fileSelected(path);
      delete dialog;
    };
    choose(file.fileName());
    auto* page =
        qobject_cast<ClusterPage*>(window_->findChild<QTabWidget*>("documents")->currentWidget());
    QVERIFY(page);
    QCOMPARE(page->nodes()->rowCount(), 2);
    QVERIFY(page->isModified());
    const MessagePanel* said = page->message();
    QVERIFY2(said->details().contains("lockstep cluster import '" + file.fileName() + "'"),
             qPrintable(said->details()));
    choose(folder.filePath("absent"));
    QVERIFY2(said->isVisible() && said->details().contains("absent"), qPrintable(said->details()));
  }

  // The dialog says the command, in each way that agents can start.
  void agentsAreDeployed() {
    auto* action = window_->findChild<QAction*>("actionDeploy");
    window_->newCluster();
    QVERIFY(!action->isEnabled());  // of no nodes
    const QString file = QString::fromStdString(examplePath("local-3.yaml"));
    auto* page = qobject_cast<ClusterPage*>(window_->openFile(file));
    QVERIFY(page && action->isEnabled());
    action->trigger();
    auto* dialog = page->findChild<DeployDialog*>();
    QVERIFY(dialog && dialog->isVisible() && !dialog->start());
    auto* starts = dialog->findChild<QComboBox*>("deployStart");
    auto* command = dialog->findChild<QLineEdit*>("deployDialogCommand");
    QVERIFY2(command->text().endsWith("local-3.yaml"), qPrintable(command->text()));
    for (const char* name : {"detached", "systemd", "auto"}) {
      QTest::keyClick(starts, Qt::Key_Down);
      QCOMPARE(QString::fromStdString(std::string(app::agentStartName(*dialog->start()))),
               QString(name));
      QVERIFY2(command->text().startsWith("lockstep cluster deploy ") &&
                   command->text().endsWith(QString(" --start ") + name),
               qPrintable(command->text()));
    }
    QTest::keyClick(dialog, Qt::Key_Escape);
    QVERIFY(!page->liveIfAny());
  }

  // Columns, plots and alerts of GPUs are there where a node has one, and only there.
  void gpusShowWhereThereAreAny() {
    auto* page = qobject_cast<ClusterPage*>(
        window_->openFile(QString::fromStdString(examplePath("local-3.yaml"))));
    auto* table = page->findChild<QTableView*>("nodeTable");
    auto* button = page->findChild<QToolButton*>("clusterGpuButton");
    auto* cpu = page->findChild<PlotView*>("clusterCpuPlot");
    QSignalSpy alerts(page, &Page::alertRaised);
    const auto alert = [&](int at) { return alerts[at][0].value<Alert>(); };
    const auto shown = [&] {
      bool any = button->isVisibleTo(page);
      for (int column = 0; column < NodeTableModel::kColumns; ++column)
        any = any || (NodeTableModel::isGpuColumn(column) && !table->isColumnHidden(column));
      return any;
    };
    app::NodeLoad load;
    load.receivedNs = monotonicNow();
    load.cpu = 0.5;
    page->showLoad("local1", load);
    QVERIFY(!shown());
    QVERIFY(!page->findChild<PlotView*>("clusterGpuPlot"));
    QVERIFY(cpu->isVisibleTo(page));
    load.gpus.resize(2);
    load.gpus[1].index = 1;
    load.gpus[0].utilisation = 0.9;
    load.gpus[0].throttle = {"power"};
    load.gpus[1].throttle = {"heat"};
    load.receivedNs += 1'000'000'000;
    page->showLoad("local1", load);
    page->showLoad("local1", load);
    QVERIFY(shown());
    auto* use = page->findChild<PlotView*>("clusterGpuPlot");
    QVERIFY(use);
    QVERIFY(!table->isColumnHidden(NodeTableModel::kGpuPower));
    QCOMPARE(use->series().size(), std::size_t{1});  // the other does not tell
    QCOMPARE(use->series()[0]->name, QString("local1:0"));
    QCOMPARE(use->series()[0]->raw().size(), std::size_t{2});
    QVERIFY(!use->isVisibleTo(page));
    button->click();
    QVERIFY(use->isVisibleTo(page));
    QVERIFY(!cpu->isVisibleTo(page));
    // Heat is told of, once; the power limit is where a busy GPU stands.
    QCOMPARE(alerts.size(), 1);
    QCOMPARE(alert(0).tone, Tone::kWarning);
    QCOMPARE(alert(0).where, QString("local1"));
    QCOMPARE(alert(0).text, std::string("GPU 1: slowed down for heat"));
    load.gpus[0].problem = "GPU is lost";
    page->showLoad("local1", load);
    QCOMPARE(alerts.size(), 2);
    QCOMPARE(alert(1).tone, Tone::kBad);
    table->selectRow(0);
    QStringList rows;
    for (const InspectorRow& row : page->inspectorRows()) rows << row.name + "=" + row.value;
    QVERIFY2(rows.contains("Attention=does not answer: GPU is lost, held at its power limit"),
             qPrintable(rows.join('\n')));
    // Where the last one goes, so does what showed it.
    load.gpus.clear();
    page->showLoad("local1", load);
    QVERIFY(!shown());
    QVERIFY(cpu->isVisibleTo(page));
  }

  void runPageShowsGpusOfTheHistory() {
    const std::string without = home_->addRun(0, app::RunState::SUCCEEDED, 300);
    RunPage* page = window_->openRun(QString::fromStdString(without));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(1);
    for (const char* name :
         {"gpuPlotCard", "gpuMemoryPlotCard", "temperaturePlotCard", "powerPlotCard",
          "clockPlotCard", "pciePlotCard", "nvlinkPlotCard", "throttledPlotCard"})
      QVERIFY2(!page->findChild<QWidget*>(name), name);
    const std::string run = home_->addRun(1, app::RunState::SUCCEEDED, 300, 2);
    page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(1);
    for (const char* name : {"gpuPlotCard", "gpuMemoryPlotCard", "temperaturePlotCard",
                             "powerPlotCard", "clockPlotCard", "pciePlotCard", "throttledPlotCard"})
      QVERIFY2(page->findChild<QWidget*>(name)->isVisibleTo(page), name);
    // these tell of no NVLink
    QVERIFY(!page->findChild<QWidget*>("nvlinkPlotCard")->isVisibleTo(page));
    QCOMPARE(page->findChild<PlotView*>("gpuPlot")->series().size(), std::size_t{6});
    // the nodes' own
    QCOMPARE(page->findChild<PlotView*>("memoryPlot")->series().size(), std::size_t{3});
    QCOMPARE(page->findChild<PlotView*>("pciePlot")->series().size(), std::size_t{12});
    app::RunUpdate update;
    update.slowChanged = true;
    auto* evidence = page->findChild<QLabel*>("stragglerEvidence");
    update.slow = app::Straggler{2, "local3", 1.8, 0.004, 0.003999, 295, "backward"};
    page->document()->take(update);
    QVERIFY2(evidence->text().contains("Without this rank a step would still take 4.00 ms."),
             qPrintable(evidence->text()));
    update.slow->withoutSeconds = 0.002;
    update.slow->slowRanks = 2;
    page->document()->take(update);
    QVERIFY2(evidence->text().contains("Without the 2 slow ranks a step would take 2.00 ms"),
             qPrintable(evidence->text()));
    update.slow = app::Straggler{2, "local3", 1.8, 0.004, 0.002, 120, "backward"};
    update.slow->evidence = {
        .cause = app::SlowCause::kGpuHeat, .share = 0.4, .cores = 0.6, .gpu = 3};
    page->document()->take(update);
    QVERIFY2(evidence->text().contains("Its GPU 3 was thermally throttled 40 % of the time."),
             qPrintable(evidence->text()));
    update.slow->evidence = {
        .cause = app::SlowCause::kGpuLink, .cores = 0.6, .gpu = 3, .lanes = 8, .lanesMax = 16};
    page->document()->take(update);
    QVERIFY2(evidence->text().contains("The PCIe link of its GPU 3 has 8 of 16 lanes."),
             qPrintable(evidence->text()));
    const auto says = [&](const app::SlowEvidence& one, const char* text) {
      update.slow->evidence = one;
      page->document()->take(update);
      QVERIFY2(evidence->text().contains(QString::fromUtf8(text)), qPrintable(evidence->text()));
    };
    says({.cause = app::SlowCause::kGpuClock, .gpu = 3, .clock = {900, 1980}},
         "Its GPU 3 ran at 900 MHz, the others' at 1,980 MHz.");
    says(
        {.cause = app::SlowCause::kDisk, .reading = {0.085, 0.002}, .diskBusy = {{0.97, 0.04}}},
        "It waited 85.0 ms a step for its data files, the others 2.00 ms. Its node's disk was busy "
        "97 % of the time, the others' 4 %.");
    says({.cause = app::SlowCause::kMoreData, .elements = {131072, 62000}},
         "Its batches had 131,072 elements, the others' 62,000.");
    Language::instance().set("zh_CN");
    says({.cause = app::SlowCause::kMoreData, .elements = {131072, 62000}},
         "其他 rank 为 62,000 个");
    says({.cause = app::SlowCause::kGpuLink, .gpu = 3, .lanes = 8, .lanesMax = 16}, "8 条通道");
    Language::instance().set("en");
    QVERIFY(wait([&] { return evidence->text().contains("8 of 16"); }));
  }

  void launchDialogPredictsAndShowsTheCommand() {
    auto* model = qobject_cast<ModelPage*>(
        window_->openFile(QString::fromStdString(examplePath("fashion-mlp.yaml"))));
    LaunchDialog* dialog = window_->openLaunch(model, nullptr);
    QVERIFY(dialog);
    QVERIFY(wait([&] { return dialog->ready(); }));
    QCOMPARE(dialog->preview()->ranks.size(), std::size_t{3});
    QVERIFY(dialog->command().contains("--local 3"));
    dialog->findChild<QSpinBox*>("launchNodes")->setValue(2);
    dialog->findChild<QSpinBox*>("launchBatch")->setValue(100);
    QVERIFY(dialog->command().contains("--set training.batch=100"));
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 2; }));
    QCOMPARE(dialog->findChild<QTableView*>("placementTable")->model()->rowCount(), 2);
    QCOMPARE(
        dialog->findChild<QTableView*>("placementTable")->model()->index(0, 4).data().toString(),
        QString("50"));
    auto* plan = dialog->findChild<QPlainTextEdit*>("planText");
    QVERIFY(plan->toPlainText().size() > 100);
    QVERIFY(!plan->toPlainText().contains("bf16"));
    auto* precision = dialog->findChild<QComboBox*>("launchPrecision");
    QCOMPARE(precision->currentText(), QString("fp32"));
    QVERIFY(!dialog->command().contains("training.precision"));
    precision->setCurrentText("bf16");
    QVERIFY(dialog->command().contains("--set training.precision=bf16"));
    QVERIFY(wait([&] { return dialog->ready() && plan->toPlainText().contains("bf16"); }));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
  }

  void ranksOfEachNodeAreChosenInTheLaunchDialog() {
    auto* cluster = qobject_cast<ClusterPage*>(
        window_->openFile(QString::fromStdString(examplePath("local-3.yaml"))));
    auto* model = qobject_cast<ModelPage*>(
        window_->openFile(QString::fromStdString(examplePath("fashion-mlp.yaml"))));
    LaunchDialog* dialog = window_->openLaunch(model, cluster);
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 3; }));
    QVERIFY(!dialog->command().contains("--ranks"));
    dialog->findChild<QSpinBox*>("launchRanks_local2")->setValue(2);
    QVERIFY(dialog->command().contains("--ranks local2=2"));
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 4; }));
    QCOMPARE(dialog->preview()->ranks[2].node, std::string("local2"));
    dialog->chooseTarget(dialog->findChild<QComboBox*>("launchCluster")->count() - 1);
    QVERIFY(!dialog->findChild<QSpinBox*>("launchRanks_local2"));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
  }

  // A host that takes the connection and says nothing holds its thread up, and nothing else.
  void closingAPageWaitsForNoHost() {
    const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto closed = qScopeGuard([&] { ::close(silent); });
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    QVERIFY(::bind(silent, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
            ::listen(silent, 4) == 0);
    QVERIFY(::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const QString path = home_->path("silent.yaml");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(
        QString(
            "version: 1\nname: silent\nnodes:\n  - name: n1\n    ssh: {host: 127.0.0.1, port: %1}\n"
            "    address: 127.0.0.1\n")
            .arg(ntohs(address.sin_port))
            .toUtf8());
    file.close();
    QPointer<ClusterPage> page = qobject_cast<ClusterPage*>(window_->openFile(path));
    QVERIFY(page);
    page->connectAll();
    pollfd arrived{silent, POLLIN, 0};
    QVERIFY(wait([&] { return ::poll(&arrived, 1, 0) == 1; }));
    QElapsedTimer timer;
    timer.start();
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    const qint64 took = timer.elapsed();
    QVERIFY(!page);
    QVERIFY2(took < 2000, qPrintable(QString("%1 ms").arg(took)));
  }

  void runPageShowsHistory() {
    const std::string run = home_->addRun(0, app::RunState::SUCCEEDED, 2000);
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait(
        [&] { return page->document()->loaded() && page->lossPlot()->sampleCount() >= 2000; }));
    QCOMPARE(page->document()->row().phase, app::RunState::SUCCEEDED);
    QCOMPARE(page->findChild<QTableView*>("logTable")->model()->rowCount(), 90);
    QVERIFY(page->straggler().isEmpty());
    QVERIFY(!page->findChild<QPushButton*>("killButton")->isVisibleTo(page));
    // What a recorder would tell.
    app::RunUpdate update;
    update.run = run;
    update.slowChanged = true;
    update.slow = app::Straggler{2,     "local3", 1.8,        0.004,
                                 0.002, 120,      "backward", {app::SlowCause::kStopped, 0.4, 0.6}};
    update.breakdown = {{0, 0, .001, .002, .003, 0, .001, .007},
                        {1, 0, .001, .002, .003, 0, .001, .007},
                        {2, 0, .002, .004, 0, 0, .001, .007}};
    update.series.push_back({"loss", {{1999, 9}, {2001, 0.5}}});
    page->document()->take(update);
    QVERIFY(page->straggler().contains("2"));
    QVERIFY(page->straggler().contains("local3"));
    auto* evidence = page->findChild<QLabel*>("stragglerEvidence");
    QVERIFY2(evidence->text().contains("suspended 40 % of the time"), qPrintable(evidence->text()));
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] {
      return evidence->text().contains(QString::fromUtf8("它的进程有 40 % 的时间被暂停。"));
    }));
    Language::instance().set("en");
    QVERIFY(wait([&] { return evidence->text().contains("suspended 40 %"); }));
    QCOMPARE(page->document()->lastStep(), 2001);
    // the overlap once
    QCOMPARE(page->document()->series("loss")->raw().size(), std::size_t{2001});
    update = {};
    update.slowChanged = true;
    page->document()->take(update);
    QVERIFY(page->straggler().isEmpty());
  }

  // What ran is launched again from its page and from the history: from its checkpoint, anew, or as
  // a new model.
  void aRunIsResumedRerunAndCloned() {
    const std::string run = home_->addRun(0, app::RunState::FAILED, 300);
    const QString id = QString::fromStdString(run);
    RunPage* page = window_->openRun(id);
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    QVERIFY(!page->findChild<QPushButton*>("stopButton")->isVisibleTo(page));
    const auto dialogOf = [&](QAbstractButton* button) -> LaunchDialog* {
      button->click();
      LaunchDialog* dialog = nullptr;
      (void)wait([&] {
        return (dialog = window_->findChild<LaunchDialog*>()) != nullptr && dialog->ready();
      });
      return dialog;
    };
    const auto closed = [&](LaunchDialog* dialog) {
      dialog->reject();
      return wait([&] { return !window_->findChild<LaunchDialog*>(); });
    };
    LaunchDialog* dialog = dialogOf(page->findChild<QPushButton*>("resumeButton"));
    QVERIFY(dialog && dialog->ready());
    // not the usual one
    const QString home = " --home " + QString::fromStdString(home_->home().root);
    QCOMPARE(dialog->command(), "lockstep resume " + id + home);
    QCOMPARE(dialog->preview()->ranks.size(), std::size_t{3});
    dialog->findChild<QSpinBox*>("launchEpochs")->setValue(9);
    QCOMPARE(dialog->command(), "lockstep resume " + id + " --set training.epochs=9" + home);
    QVERIFY(closed(dialog));
    dialog = dialogOf(page->findChild<QPushButton*>("rerunButton"));
    QVERIFY(dialog && dialog->ready());
    QCOMPARE(dialog->command(), "lockstep rerun " + id + home);
    QVERIFY(closed(dialog));
    HistoryPage* history = window_->openHistory();
    QVERIFY(wait([&] { return history->runs()->rowCount() == 1; }));
    auto* again = history->findChild<QPushButton*>("relaunchButton");
    QVERIFY(!again->isEnabled());
    history->selectRun(id);
    QVERIFY(again->isEnabled());
    history->findChild<QAction*>("historyResume")->trigger();
    QVERIFY(
        wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }));
    QCOMPARE(dialog->command(), "lockstep resume " + id + home);
    QVERIFY(closed(dialog));
    // A clone is a document of its own, not saved yet; another has another name.
    QSet<QString> paths;
    for (int i = 0; i < 2; ++i) {
      window_->openRun(id);
      window_->findChild<QAction*>("actionClone")->trigger();
      QVERIFY(
          wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }));
      auto* model = qobject_cast<ModelPage*>(window_->currentPage());
      QVERIFY(model && model->isModified());
      QVERIFY(!QFileInfo::exists(model->filePath()));
      QVERIFY(model->document()->spec().ok());
      paths << model->filePath();
      QVERIFY(closed(dialog));
    }
    QCOMPARE(paths.size(), 2);
  }

  // A run that goes on from step 600 says what it has done itself, and of how much.
  void aResumedRunCountsOn() {
    const std::string first = home_->addRun(0, app::RunState::STOPPED, 600);
    auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok());
    app::RunRow row = *(*history)->row(first);
    app::RunDocuments documents = *(*history)->documents(first);
    auto spec =
        app::completeRunSpec(documents.specYaml, examplePath("fashion-cnn.yaml"),
                             {"training.epochs=4", "training.batch=100", "training.max_steps=0"});
    QVERIFY(spec.ok());
    documents.specResolved = app::toYaml(*spec->spec);
    documents.nodes = documents.clusterYaml = {};
    row.run = "20240502-120000-000000";
    row.phase = app::RunState::RUNNING;
    row.resumedFrom = first;
    row.startedNs = wallNow() - 100'000'000'000;
    row.finishedNs = 0;
    row.figures = {};
    QVERIFY((*history)->add(row, documents).ok());
    RunPage* page = window_->openRun(QString::fromStdString(row.run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    const std::int64_t perEpoch = page->document()->progress().stepsPerEpoch();
    QVERIFY(perEpoch > 0);
    app::RunUpdate update;
    app::RunBatch::Series loss{"loss", {}}, seconds{"rank/0/step", {}},
        rate{"samples_per_second", {}};
    for (int step = 601; step <= 800; ++step) {
      loss.points.push_back({double(step), 1});
      // a hitch now and then
      seconds.points.push_back({double(step), step % 10 == 0 ? 0.1 : 0.01});
      rate.points.push_back({double(step), 100 / seconds.points.back().y});
    }
    update.series = {loss, seconds, rate};
    page->document()->take(update);
    const auto& progress = page->document()->progress();
    QCOMPARE(progress.totalSteps(), 4 * perEpoch);
    QCOMPARE(progress.epoch(), 799 / perEpoch + 1);
    // 200 steps took 100 s: so the others will.
    const double left = page->document()->remainingSeconds(),
                 expected = double(4 * perEpoch - 800) / 2;
    QVERIFY2(std::abs(left / expected - 1) < 0.05,
             qPrintable(QString("%1 of %2").arg(left).arg(expected)));
    const app::Pace pace = page->document()->pace();
    QVERIFY(std::abs(pace.stepSeconds * pace.samplesPerSecond - 100) < 1e-6);
    QVERIFY(std::abs(pace.stepSeconds - 0.019) < 0.001);
    // Where no step is completed for a while both figures say so.
    QVERIFY(wait([&] { return page->document()->stalledSeconds() > 0; }));
    QCOMPARE(page->document()->pace().samplesPerSecond, 0.0);
    const auto detail = [&](const char* name) { return page->findChild<QLabel*>(name)->text(); };
    QVERIFY(wait([&] { return detail("runThroughputDetail").startsWith("no step for"); }));
    QCOMPARE(detail("runThroughputDetail"), detail("runStepTimeDetail"));
  }

  // What lasts on a cluster is told once, in the language of now, and ends with its cause: a GPU's
  // heat, a node that cannot be reached. So it does when nobody looks any more.
  void alertsOfAClusterEnd() {
    const QString path = home_->path("lab.yaml");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(
        "version: 1\nname: lab\nnodes:\n  - name: n1\n    ssh: {host: nowhere.invalid}\n    "
        "address: 10.0.0.1\n");
    file.close();
    auto* page = qobject_cast<ClusterPage*>(window_->openFile(path));
    const auto* alerts = window_->findChild<QTableView*>("alerts")->model();
    auto* status = window_->findChild<QLabel*>("statusText");
    const auto told = [&](int row, int column) {
      return alerts->index(row, column).data().toString();
    };
    app::NodeLoad load;
    load.receivedNs = monotonicNow();
    load.gpus.resize(1);
    load.gpus[0].throttle = {"heat"};
    const auto after = [&](double seconds) {
      load.receivedNs += static_cast<Nanoseconds>(seconds * 1e9);
      page->showLoad("n1", load);
    };
    for (int i = 0; i < 3; ++i) after(1);
    QCOMPARE(alerts->rowCount(), 1);
    QCOMPARE(told(0, AlertModel::kText), QString("GPU 0: slowed down for heat"));
    QCOMPARE(told(0, AlertModel::kState), QString("active"));
    QCOMPARE(status->text(), QString("n1: GPU 0: slowed down for heat"));
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return status->text().contains(QString::fromUtf8("因过热而降速")); }));
    QVERIFY(told(0, AlertModel::kText).contains(QString::fromUtf8("因过热而降速")));
    Language::instance().set("en");
    load.gpus[0].throttle.emplace();
    after(5);  // what comes and goes is one
    load.gpus[0].throttle = {"heat"};
    after(5);
    QCOMPARE(alerts->rowCount(), 1);
    QCOMPARE(told(0, AlertModel::kState), QString("active"));
    load.gpus.clear();
    after(11);
    QVERIFY(told(0, AlertModel::kState).startsWith("resolved"));
    QVERIFY(status->text().isEmpty());
    load.gpus.resize(1);
    load.gpus[0].throttle = {"heat"};
    after(1);  // again, and of now
    QCOMPARE(alerts->rowCount(), 2);
    QCOMPARE(told(0, AlertModel::kState), QString("active"));

    page->connectAll();
    QVERIFY(wait([&] { return page->nodes()->rows()[0].phase == app::NodeState::UNAVAILABLE; },
                 30'000));
    const auto failure = [&] {
      for (int row = 0; row < alerts->rowCount(); ++row) {
        if (told(row, AlertModel::kText).contains("nowhere.invalid")) return row;
      }
      return -1;
    };
    QVERIFY(failure() >= 0);
    // of a GPU nobody hears of
    QVERIFY(told(failure() == 0 ? 1 : 0, AlertModel::kState).startsWith("resolved"));
    QCOMPARE(told(failure(), AlertModel::kState), QString("active"));
    QVERIFY(page->message()->isVisible());
    const QString english = page->message()->what();
    const int count = alerts->rowCount();
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return page->message()->what() != english; }));
    Language::instance().set("en");
    QVERIFY(wait([&] { return page->message()->what() == english; }));
    QCOMPARE(alerts->rowCount(), count);
    page->findChild<QTableView*>("nodeTable")->selectRow(0);
    page->removeSelected();
    QVERIFY(!page->message()->isVisible());
    QVERIFY(told(failure(), AlertModel::kState).startsWith("resolved"));
    // A page that is closed.
    page->undoStack()->undo();
    after(1);
    QCOMPARE(told(0, AlertModel::kState), QString("active"));
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    QVERIFY(told(0, AlertModel::kState).startsWith("resolved"));
  }

  // What a page asks is asked in the language of now.
  void questionsFollowTheLanguage() {
    home_->addRun(0, app::RunState::SUCCEEDED, 50);
    HistoryPage* history = window_->openHistory();
    QVERIFY(wait([&] { return history->runs()->rowCount() == 1; }));
    history->findChild<QTableView*>("runTable")->selectRow(0);
    history->findChild<QPushButton*>("deleteRunButton")->click();
    QCOMPARE(history->message()->what(), QString("Delete this run?"));
    auto* action = history->message()->findChild<QPushButton*>("messageAction");
    QCOMPARE(action->text(), QString("Delete"));
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] {
      return history->message()->what() != "Delete this run?" && action->text() != "Delete";
    }));
    QVERIFY(action->isVisible());
    Language::instance().set("en");
    QVERIFY(wait([&] {
      return history->message()->what() == "Delete this run?" && action->text() == "Delete";
    }));
    action->click();
    QVERIFY(wait([&] { return history->runs()->rowCount() == 0; }));
  }

  // A run whose coordinating node is gone is given up in its page; the history then says so.
  void aRunOutOfReachIsGivenUp() {
    const std::string run = home_->addRun(0, app::RunState::RUNNING, 200);
    auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok());
    app::RunRow row = *(*history)->row(run);
    const std::int64_t since = row.startedNs + 60'000'000'000;
    row.unreachableNs = since;
    QVERIFY((*history)->update(row).ok());
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    const MessagePanel* message = page->message();
    QVERIFY(message->isVisible());
    QVERIFY2(message->what().startsWith("The run has been unreachable since 2024-05-01"),
             qPrintable(message->what()));
    QVERIFY(message->details().contains(
        "Giving up ends the run in the history and on all nodes that answer"));
    auto* giveUp = message->findChild<QPushButton*>("messageAction");
    QCOMPARE(giveUp->text(), QString("Give up"));
    QVERIFY(page->findChild<QLabel*>("runState")->text().startsWith("unreachable since"));
    QVERIFY(!page->findChild<QPushButton*>("rerunButton")->isVisible());
    Language::instance().set("zh_CN");
    QVERIFY(wait(
        [&] { return giveUp->text() != "Give up" && !message->what().contains("unreachable"); }));
    Language::instance().set("en");
    QVERIFY(wait([&] { return giveUp->text() == "Give up"; }));
    // Nothing happens before it is asked for.
    QCOMPARE((*history)->row(run)->phase, app::RunState::RUNNING);
    giveUp->click();
    QVERIFY(wait([&] { return page->document()->row().phase == app::RunState::FAILED; }));
    QVERIFY(!message->isVisible());
    QCOMPARE(page->findChild<QLabel*>("runState")->text(), QString("failed"));
    QVERIFY(page->findChild<QPushButton*>("rerunButton")->isVisible());
    const auto given = (*history)->row(run);
    QCOMPARE(given->phase, app::RunState::FAILED);
    QCOMPARE(given->finishedNs, since);
    QVERIFY(QString::fromStdString(given->error)
                .startsWith("given up: the node that coordinates the run is out of reach"));
    HistoryPage* list = window_->openHistory();
    QVERIFY(wait([&] { return list->runs()->rowCount() == 1; }));
    QCOMPARE(list->runs()->runs()[0].phase, app::RunState::FAILED);
    const auto* tree = window_->findChild<QTreeView*>("navigator")->model();
    QVERIFY(wait([&] {
      const QModelIndex entry = tree->index(0, 0, tree->index(NavigatorModel::kRuns, 0));
      return entry.data(Qt::AccessibleDescriptionRole).toString() == "failed";
    }));
  }

  // A failure that the history tells of is an alert once, of its own time, also after a restart.
  void alertsOfTheHistoryKeepTheirTime() {
    const QString run = QString::fromStdString(home_->addRun(2, app::RunState::FAILED, 300));
    const auto rows = [&] {
      QStringList out;
      const auto* alerts = window_->findChild<QTableView*>("alerts")->model();
      for (int row = 0; row < alerts->rowCount(); ++row)
        out << alerts->index(row, AlertModel::kTime).data().toString();
      return out;
    };
    RunPage* page = window_->openRun(run);
    QVERIFY(wait([&] { return rows().size() == 1; }));
    QVERIFY2(rows()[0].startsWith("05-01 "), qPrintable(rows()[0]));
    const QStringList before = rows();
    window_->close();
    for (int start = 0; start < 2; ++start) {
      window_ = std::make_unique<MainWindow>(home_->options());
      window_->show();
      window_->restoreSession();
      page = qobject_cast<RunPage*>(window_->currentPage());
      QVERIFY(page);
      QVERIFY(wait([&] { return page->document()->loaded(); }));
      QTest::qWait(50);
      QCOMPARE(rows(), before);
      window_->close();
    }
  }

  void sameNamesAreToldApart() {
    const std::string one = home_->addRun(0, app::RunState::SUCCEEDED, 100),
                      two = home_->addRun(2, app::RunState::SUCCEEDED, 100);
    const QString path = home_->path("fashion-cnn.yaml"),
                  other = home_->path("other/fashion-cnn.yaml");
    QDir().mkpath(home_->path("other"));
    for (const QString& to : {path, other})
      QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-cnn.yaml")), to));
    window_->openFile(path);
    window_->openFile(other);
    for (const std::string& run : {one, two}) {
      RunPage* page = window_->openRun(QString::fromStdString(run));
      QVERIFY(wait([&] { return page->document()->loaded(); }));
    }
    auto* tabs = window_->findChild<QTabWidget*>("documents");
    QSet<QString> names;
    for (int i = 0; i < tabs->count(); ++i) names << tabs->tabText(i);
    QCOMPARE(names.size(), 4);
    const auto* tree = window_->findChild<QTreeView*>("navigator")->model();
    QVERIFY(wait([&] { return tree->rowCount(tree->index(NavigatorModel::kRuns, 0)) == 2; }));
    for (const auto group : {NavigatorModel::kModels, NavigatorModel::kRuns}) {
      const QModelIndex heading = tree->index(group, 0);
      QSet<QString> entries;
      for (int row = 0; row < tree->rowCount(heading); ++row) {
        const QModelIndex at = tree->index(row, 0, heading);
        entries << at.data().toString() + at.data(NavigatorModel::kDetailRole).toString();
      }
      QCOMPARE(entries.size(), 2);
    }
    // The example of that name is the one that is open.
    const int count = tabs->count();
    window_->openReady("fashion-cnn", "");
    QVERIFY(wait([&] { return window_->findChild<LaunchDialog*>() != nullptr; }));
    QCOMPARE(tabs->count(), count);
    window_->findChild<LaunchDialog*>()->reject();
  }

  // Runs of another program, such as the command line, appear while the window is open.
  void runsOfOthersAppear() {
    const auto* tree = window_->findChild<QTreeView*>("navigator")->model();
    HistoryPage* history = window_->openHistory();
    QVERIFY(wait([&] {
      return QFileInfo::exists(QString::fromStdString(home_->home().historyFolder()) +
                               "/history.db");
    }));
    home_->addRun(0, app::RunState::SUCCEEDED, 50);
    QVERIFY(wait([&] { return tree->rowCount(tree->index(NavigatorModel::kRuns, 0)) == 1; }));
    QVERIFY(wait([&] { return history->runs()->rowCount() == 1; }));
  }

  // From small to large and back, over a restart: nothing is lost or too small to read.
  void docksComeBackWithTheRoom() {
    auto* inspector = window_->findChild<QDockWidget*>("inspectorDock");
    auto* navigator = window_->findChild<QDockWidget*>("navigatorDock");
    const auto whole = [&](QSize size) {
      return wait(
                 [&] {
                   // as a drag: docks at both sides need more, and come to one when it is narrow
                   window_->resize(size);
                   return window_->size() == size && navigator->width() >= 160 &&
                          inspector->width() >= 165 && inspector->height() >= 100 &&
                          navigator->height() >= 100 &&
                          window_->centralWidget()->width() >= size.width() / 2;
                 },
                 15000) &&
             window_->minimumSizeHint().width() <= size.width() &&
             window_->minimumSizeHint().height() <= size.height();
    };
    window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    window_->openFile(QString::fromStdString(examplePath("fashion-cnn.yaml")));
    window_->openHistory();
    RunPage* run =
        window_->openRun(QString::fromStdString(home_->addRun(0, app::RunState::FAILED, 100)));
    QVERIFY(wait([&] { return run->document()->loaded(); }));
    QStringList least;  // by page
    for (Page* page : window_->pages())
      least << QString("%1 %2x%3")
                   .arg(page->objectName())
                   .arg(page->minimumSizeHint().width())
                   .arg(page->minimumSizeHint().height());
    const auto said = [&] {
      return least.join(", ") +
             QString("; least %1x%2; ")
                 .arg(window_->minimumSizeHint().width())
                 .arg(window_->minimumSizeHint().height()) +
             QString("%1: navigator %2x%3, inspector %4x%5, centre %6")
                 .arg(window_->width())
                 .arg(navigator->width())
                 .arg(navigator->height())
                 .arg(inspector->width())
                 .arg(inspector->height())
                 .arg(window_->centralWidget()->width());
    };
    for (const QSize size : {QSize(1440, 860), QSize(1000, 700), QSize(1400, 900), QSize(1000, 660),
                             QSize(1920, 1000)})
      QVERIFY2(whole(size), qPrintable(said()));
    QVERIFY2(whole({1000, 700}), qPrintable(said()));
    window_->close();
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->show();
    inspector = window_->findChild<QDockWidget*>("inspectorDock");
    navigator = window_->findChild<QDockWidget*>("navigatorDock");
    QVERIFY2(whole({1440, 860}), qPrintable(said()));
    QVERIFY(wait([&] { return window_->dockWidgetArea(inspector) == Qt::RightDockWidgetArea; }));
    QVERIFY(window_->statusBar()->geometry().bottom() <= window_->rect().bottom());
  }

  // In one step, as a tiling desktop makes it, with every page in front: nothing is cut, and the
  // docks are at both sides again where there is room.
  void aWindowIsMadeSmallInOneStep() {
    auto* inspector = window_->findChild<QDockWidget*>("inspectorDock");
    auto* navigator = window_->findChild<QDockWidget*>("navigatorDock");
    window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    window_->openFile(QString::fromStdString(examplePath("fashion-cnn.yaml")));
    window_->openHistory();
    RunPage* run =
        window_->openRun(QString::fromStdString(home_->addRun(0, app::RunState::FAILED, 100)));
    QVERIFY(wait([&] { return run->document()->loaded(); }));
    QString wrong;
    const auto whole = [&] {
      Page* page = window_->currentPage();
      wrong.clear();
      for (QWidget* one : QList<QWidget*>{navigator, inspector, page, window_->statusBar()}) {
        const QRect at(one->mapTo(window_.get(), QPoint()), one->size());
        const QSize least = one->minimumSizeHint();
        if (!window_->rect().contains(at) || at.width() < least.width() ||
            at.height() < least.height()) {
          wrong += QString("%1 at %2,%3 %4x%5 least %6x%7; ")
                       .arg(one->objectName())
                       .arg(at.x())
                       .arg(at.y())
                       .arg(at.width())
                       .arg(at.height())
                       .arg(least.width())
                       .arg(least.height());
        }
      }
      return wrong.isEmpty();
    };
    auto* tabs = window_->findChild<QTabWidget*>("documents");
    for (int i = 0; i < tabs->count(); ++i) {
      tabs->setCurrentIndex(i);
      for (const QSize large : {QSize(1440, 860), QSize(1920, 1000)}) {
        window_->resize(large);
        QVERIFY(
            wait([&] { return window_->dockWidgetArea(inspector) == Qt::RightDockWidgetArea; }));
        QVERIFY2(wait(whole), qPrintable(wrong));
        for (const QSize small : {QSize(1000, 700)}) {
          window_->resize(small);
          QStringList least;  // what each needs
          for (QWidget* one : QList<QWidget*>{navigator, inspector,
                                              window_->findChild<QDockWidget*>("messageDock")})
            least << QString("%1 %2").arg(one->objectName()).arg(one->minimumSizeHint().width());
          for (Page* page : window_->pages())
            least << QString("%1 %2").arg(page->objectName()).arg(page->minimumSizeHint().width());
          QVERIFY2(window_->size() == small, qPrintable(QString("%1x%2: %3")
                                                            .arg(window_->width())
                                                            .arg(window_->height())
                                                            .arg(least.join(", "))));
          QVERIFY2(wait(whole), qPrintable(wrong));
          QCOMPARE(window_->size(), small);
          QCOMPARE(window_->dockWidgetArea(inspector), Qt::LeftDockWidgetArea);
          window_->resize(large);
          QCOMPARE(window_->size(), large);
        }
      }
    }
    // One that was closed large and comes back on a smaller screen.
    window_->resize(1440, 860);
    QVERIFY(wait([&] { return window_->dockWidgetArea(inspector) == Qt::RightDockWidgetArea; }));
    window_->close();
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->restoreSession();
    window_->resize(1000, 700);
    window_->show();
    inspector = window_->findChild<QDockWidget*>("inspectorDock");
    navigator = window_->findChild<QDockWidget*>("navigatorDock");
    QVERIFY2(wait(whole), qPrintable(wrong));
    QCOMPARE(window_->size(), QSize(1000, 700));
  }

  // With its frame the window lies on the screen, whatever it was before.
  void theWindowFitsItsScreen() {
    const QRect screen(0, 24, 1440, 876);
    const QMargins frame(4, 28, 4, 4);
    std::mt19937 random(9);
    for (int trial = 0; trial < 500; ++trial) {
      const auto pick = [&](int from, int to) {
        return std::uniform_int_distribution<int>(from, to)(random);
      };
      const QRect before(pick(-3000, 3000), pick(-2000, 2000), pick(300, 4000), pick(200, 3000));
      const QRect after = MainWindow::withinScreen(before, frame, screen);
      QVERIFY(screen.contains(after.marginsAdded(frame)));
      QVERIFY(after.width() <= before.width() && after.height() <= before.height());
      QCOMPARE(MainWindow::withinScreen(after, frame, screen), after);
    }
    window_->resize(3000, 2500);
    window_->fitToScreen();
    QVERIFY(wait(
        [&] { return window_->screen()->availableGeometry().contains(window_->frameGeometry()); }));
  }

  void keysAreAsElsewhere() {
    const auto keys = [&](const char* name) {
      return window_->findChild<QAction*>(name)->shortcuts();
    };
    QVERIFY(keys("actionRedo").contains(QKeySequence(Qt::CTRL | Qt::Key_Y)));
    QHash<QString, QString> used;  // no keys are of two commands
    for (const QAction* action : window_->findChildren<QAction*>()) {
      for (const QKeySequence& key : action->shortcuts()) {
        QVERIFY2(!used.contains(key.toString()),
                 qPrintable(action->objectName() + " and " + used.value(key.toString())));
        used[key.toString()] = action->objectName();
      }
    }
    window_->findChild<QAction*>("actionShortcuts")->trigger();
    auto* table = window_->findChild<QTableWidget*>("shortcutsTable");
    QVERIFY(table && table->rowCount() > 12);
    QDialog* shortcuts = qobject_cast<QDialog*>(table->window());
    shortcuts->accept();
    HistoryPage* history = window_->openHistory();
    window_->findChild<QAction*>("actionFind")->trigger();
    QCOMPARE(window_->focusWidget(), history->findChild<QLineEdit*>("historySearch"));
    window_->findChild<QAction*>("actionPreferences")->trigger();
    auto* language = window_->findChild<QComboBox*>("preferencesLanguage");
    QVERIFY(language);
    language->setCurrentIndex(1);
    Q_EMIT language->activated(1);
    QVERIFY(wait([&] { return Language::instance().code() == "zh_CN"; }));
    qobject_cast<QDialog*>(language->window())->accept();
    window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    QWidget* second = window_->currentPage();
    window_->findChild<QAction*>("actionPreviousTab")->trigger();
    QVERIFY(window_->currentPage() != second);
    window_->findChild<QAction*>("actionNextTab")->trigger();
    QVERIFY(window_->currentPage() == second);
  }

  // Ctrl+F looks for a text in a spec: forwards, backwards, round the end, and again after an edit.
  void textIsFoundInASpec() {
    const QString path = home_->path("cnn.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-cnn.yaml")), path));
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    for (const QString& file : {path, QString::fromStdString(examplePath("local-3.yaml"))}) {
      Page* page = window_->openFile(file);
      auto* editor = page->findChild<YamlEditor*>("yamlEditor");
      auto* bar = page->findChild<QWidget*>("yamlFind");
      QVERIFY(!bar->isVisible());
      QVERIFY(window_->findChild<QAction*>("actionFind")->isEnabled());
      window_->findChild<QAction*>("actionFind")->trigger();
      auto* edit = page->findChild<QLineEdit*>("yamlFindText");
      QVERIFY(bar->isVisible());
      QCOMPARE(window_->focusWidget(), edit);
      QTest::keyClicks(edit, "NAME");
      const int all = editor->toPlainText().count("name", Qt::CaseInsensitive);
      QVERIFY(all > 0);
      const auto count = [&] { return page->findChild<QLabel*>("yamlFindCount")->text(); };
      QCOMPARE(count(), QString("1/%1").arg(all));
      QCOMPARE(editor->textCursor().selectedText().toLower(), QString("name"));
      for (int at = 1; at <= all; ++at) {
        QTest::keyClick(edit, Qt::Key_Return);
        QCOMPARE(count(), QString("%1/%2").arg(at % all + 1).arg(all));
      }
      QTest::keyClick(edit, Qt::Key_Return, Qt::ShiftModifier);
      QCOMPARE(count(), QString("%1/%1").arg(all));
      page->findChild<QToolButton*>("yamlFindNext")->click();
      QCOMPARE(count(), QString("1/%1").arg(all));
      QTest::keyClicks(edit, "less");
      QCOMPARE(count(), QString("0/0"));
      QVERIFY(!page->findChild<QToolButton*>("yamlFindNext")->isEnabled());
      for (int i = 0; i < 4; ++i) QTest::keyClick(edit, Qt::Key_Backspace);
      QCOMPARE(editor->foundCount(), all);
      QVERIFY(!page->isModified());
      if (file == path) {  // what is written meanwhile counts
        qobject_cast<ModelPage*>(page)->addLayer("dense: {units: 8, name: head}");
        QCOMPARE(editor->foundCount(), all + 1);
        window_->findChild<QAction*>("actionUndo")->trigger();
        QCOMPARE(editor->foundCount(), all);
      }
      QTest::keyClick(edit, Qt::Key_Escape);
      QVERIFY(!bar->isVisible());
      QCOMPARE(window_->focusWidget(), editor);
      QCOMPARE(editor->foundCount(), 0);
    }
  }

  void helpNeedsNoDisplay() {
    QProcess studio;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
      environment.remove(name);
    studio.setProcessEnvironment(environment);
    for (const QStringList& words : {QStringList{"--help"}, {"-h"}, {"--version"}}) {
      studio.start(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-studio", words);
      QVERIFY(studio.waitForFinished(60'000));
      QCOMPARE(studio.exitStatus(), QProcess::NormalExit);
      QCOMPARE(studio.exitCode(), 0);
      QVERIFY(
          studio.readAllStandardOutput().contains(words[0] == "--version" ? "Lockstep" : "--open"));
    }
    studio.start(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-studio", QStringList());
    QVERIFY(studio.waitForFinished(60'000));
    QCOMPARE(studio.exitStatus(), QProcess::NormalExit);
    QCOMPARE(studio.exitCode(), 3);
    QVERIFY(studio.readAllStandardError().contains("no display"));
  }

  // Zoomed into a run that goes on, its end shows all again; the straggler's panel moves nothing.
  void runPageFollowsAtTheEndAndStandsStill() {
    RunPage* page =
        window_->openRun(QString::fromStdString(home_->addRun(0, app::RunState::SUCCEEDED, 300)));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    window_->resize(1000, 700);
    QTest::qWait(100);
    auto* follow = page->findChild<QToolButton*>("followButton");
    QVERIFY(follow->isChecked());
    auto* canvas = page->lossPlot()->findChild<QCustomPlot*>("plotCanvas");
    QTest::keyClick(canvas, Qt::Key_Plus);
    QVERIFY(!follow->isChecked());
    follow->click();
    QVERIFY(follow->isChecked());
    QTest::keyClick(canvas, Qt::Key_Plus);
    app::RunUpdate update;
    update.row = page->document()->row();
    update.row->phase = app::RunState::RUNNING;
    page->document()->take(update);
    const auto places = [&] {
      QList<QRect> out;
      for (const char* name : {"lossPlot", "throughputPlot", "runTabs", "stragglerPanel"}) {
        const auto* widget = page->findChild<QWidget*>(name);
        out << QRect(widget->mapTo(page, QPoint()), widget->size());
      }
      return out;
    };
    QTest::qWait(50);
    const auto before = places();
    update.slowChanged = true;
    update.slow = app::Straggler{2,     "local3", 1.8,        0.004,
                                 0.002, 120,      "backward", {app::SlowCause::kStopped, 0.4, 0.6}};
    page->document()->take(update);
    QTest::qWait(50);
    QCOMPARE(places(), before);
    auto* panel = page->findChild<QWidget*>("stragglerPanel");
    QVERIFY(panel->isVisible() &&
            page->rect().contains(QRect(panel->mapTo(page, QPoint()), panel->size())));
    QVERIFY(!follow->isChecked());
    update.row->phase = app::RunState::SUCCEEDED;
    update.finished = true;
    page->document()->take(update);
    QVERIFY(follow->isChecked());
  }

  void historyFindsExportsAndDeletes() {
    const std::string first = home_->addRun(0, app::RunState::SUCCEEDED, 300);
    const std::string second = home_->addRun(1, app::RunState::FAILED, 300);
    HistoryPage* page = window_->openHistory();
    QVERIFY(wait([&] { return page->runs()->rowCount() == 2; }));
    page->findChild<QLineEdit*>("historySearch")->setText("mlp");
    QVERIFY(wait([&] { return page->runs()->rowCount() == 1; }));
    page->findChild<QLineEdit*>("historySearch")->clear();
    QVERIFY(wait([&] { return page->runs()->rowCount() == 2; }));
    // What is selected is what is shown, exported and deleted.
    page->findChild<QTableView*>("runTable")->selectAll();
    QVERIFY(wait([&] {
      return page->overlay()->series().size() == 2 && page->overlay()->sampleCount() == 600;
    }));
    QVERIFY(page->overlay()->series()[0]->name != page->overlay()->series()[1]->name);
    QVERIFY(page->selectedRun().isEmpty());
    QVERIFY(!page->findChild<QPushButton*>("relaunchButton")->isEnabled());
    page->findChild<QToolButton*>("differencesButton")->click();
    auto* differences = page->findChild<QTableView*>("specDifferences");
    QVERIFY(differences->isVisible());
    QStringList fields;
    for (int row = 0; row < differences->model()->rowCount(); ++row)
      fields << differences->model()->index(row, 0).data().toString();
    QVERIFY2(fields.contains("model.name") && !fields.contains("model.loss"),
             qPrintable(fields.join(' ')));
    QCOMPARE(differences->model()->columnCount(), 3);
    page->findChild<QToolButton*>("differencesButton")->click();
    const QDir folder(home_->path("."));
    page->exportTo(folder.path());
    for (const std::string& run : {first, second})
      QVERIFY(wait([&] {
        return QFileInfo(folder.filePath(QString::fromStdString(run) + ".csv")).size() > 1000;
      }));
    page->selectRun(QString::fromStdString(first));
    const QString csv = home_->path("run.csv");
    page->exportTo(csv);
    QVERIFY(wait([&] { return QFileInfo(csv).size() > 1000; }));
    page->runs()->setData(page->runs()->index(page->runs()->find(QString::fromStdString(second)),
                                              RunTableModel::kNotes),
                          "see log", Qt::EditRole);
    page->selectRun(QString::fromStdString(first));
    page->findChild<QPushButton*>("deleteRunButton")->click();
    QVERIFY(page->message()->isVisibleTo(page));
    page->message()->findChild<QPushButton*>("messageAction")->click();
    QVERIFY(wait([&] { return page->runs()->rowCount() == 1; }));
    QVERIFY(wait([&] { return page->runs()->runs()[0].notes == "see log"; }));
  }

  void languageAndThemeSwitchWithoutRestart() {
    auto* page = window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    auto* connectButton = page->findChild<QPushButton*>("connectButton");
    QCOMPARE(connectButton->text(), QString("Connect"));
    window_->findChild<QAction*>("actionChinese")->trigger();
    QVERIFY(wait([&] { return connectButton->text() == QString::fromUtf8("连接"); }));
    QVERIFY(window_->findChild<QAction*>("actionChinese")->isChecked());
    window_->findChild<QAction*>("actionEnglish")->trigger();
    QVERIFY(wait([&] { return connectButton->text() == "Connect"; }));
    const QColor light = window_->palette().color(QPalette::Window);
    window_->findChild<QAction*>("actionDark")->trigger();
    QVERIFY(window_->palette().color(QPalette::Window).lightness() < light.lightness());
    window_->findChild<QAction*>("actionDark")->trigger();
    QCOMPARE(window_->palette().color(QPalette::Window), light);
  }

  void paletteRunsCommands() {
    window_->findChild<QAction*>("actionPalette")->trigger();
    auto* edit = window_->findChild<QLineEdit*>("commandPaletteEdit");
    QVERIFY(edit->isVisible());
    QTest::keyClicks(edit, "history");
    QTest::keyClick(edit, Qt::Key_Return);
    QVERIFY(qobject_cast<HistoryPage*>(window_->currentPage()));
    QVERIFY(!edit->isVisible());
  }

  void documentsAndLayoutComeBack() {
    const QString path = home_->path("mine.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("local-3.yaml")), path));
    window_->openFile(path);
    window_->openHistory();
    window_->findChild<QDockWidget*>("inspectorDock")->hide();
    window_->close();
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->restoreSession();
    window_->show();
    QCOMPARE(window_->pages().size(), 2);
    QVERIFY(qobject_cast<HistoryPage*>(window_->currentPage()));
    QVERIFY(!window_->findChild<QDockWidget*>("inspectorDock")->isVisible());
    window_->findChild<QAction*>("actionDefaultLayout")->trigger();
    QVERIFY(window_->findChild<QDockWidget*>("inspectorDock")->isVisible());
  }

  void runsThatGoOnAreOpenedAgain() {
    const std::string run = home_->addRun(0, app::RunState::RUNNING, 200);
    home_->addRun(1, app::RunState::SUCCEEDED, 200);
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->show();
    window_->restoreSession();
    RunPage* page = nullptr;
    QVERIFY(
        wait([&] { return (page = qobject_cast<RunPage*>(window_->currentPage())) != nullptr; }));
    QCOMPARE(page->document()->run().toStdString(), run);
    QVERIFY(wait([&] { return page->lossPlot()->sampleCount() >= 200; }));
  }

  void droppedFilesOpen() {
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(QString::fromStdString(examplePath("fashion-mlp.yaml")))});
    QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(window_.get(), &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent drop(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(window_.get(), &drop);
    QVERIFY(qobject_cast<ModelPage*>(window_->currentPage()));
  }

  // The problem of a spec: what is wrong where, and what was expected, as the command line says it.
  void wrongSpecSaysWhere_data() {
    QTest::addColumn<QString>("text");
    QTest::addColumn<int>("line");
    QTest::addColumn<int>("column");
    QTest::addColumn<QString>("says");
    QTest::newRow("misspelt field") << "version: 1\ntraining:\n  optimiser: {kind: sgd}\n"
                                    << 3 << 3 << "optimizer";
    QTest::newRow("wrong type") << "version: 1\ntraining:\n  batch: many\n" << 3 << 10 << "batch";
    QTest::newRow("no YAML") << "version: 1\ntraining: {batch\n" << 3 << 1 << "";
  }
  void wrongSpecSaysWhere() {
    QFETCH(QString, text);
    QFETCH(int, line);
    QFETCH(int, column);
    QFETCH(QString, says);
    const QString path = home_->path("wrong.yaml");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(text.toUtf8());
    file.close();
    auto* page = qobject_cast<ModelPage*>(window_->openFile(path));
    QVERIFY(page);
    auto* problems = page->findChild<QListWidget*>("problemList");
    QVERIFY(problems->isVisibleTo(page));
    const QString place = QString("wrong.yaml:%1:%2: ").arg(line).arg(column);
    bool found = false;
    QString all;
    for (int row = 0; row < problems->count(); ++row) {
      const auto* item = problems->item(row);
      all += item->toolTip() + "\n";
      const bool helps =
          item->toolTip().contains("expected") || item->toolTip().contains("did you mean");
      found = found ||
              (item->toolTip().contains(place) && helps &&
               item->text().contains(QString("Line %1").arg(line)) && item->text().contains(says));
    }
    QVERIFY2(found, qPrintable(all));
    QVERIFY(!page->findChild<QPushButton*>("modelLaunchButton")->isEnabled());
  }

  void missingFileSaysWhatAndWhy() {
    QVERIFY(!window_->openFile(home_->path("absent.yaml")));
    MessagePanel* message = window_->currentPage()->message();
    QVERIFY(message->isVisibleTo(window_->currentPage()));
    QVERIFY(message->what().contains("absent.yaml"));
    QVERIFY(!message->details().isEmpty());
  }

  void unsavedTabAsksInThePage() {
    const QString path = home_->path("mine.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-mlp.yaml")), path));
    auto* page = qobject_cast<ModelPage*>(window_->openFile(path));
    page->addLayer("dense: {units: 8}");
    QPointer<Page> alive(page);
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    QVERIFY(window_->pages().contains(page));
    page->message()->findChild<QPushButton*>("messageAction")->click();
    QVERIFY(wait([&] { return alive.isNull(); }));
  }

 private:
  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(WindowTest)
#include "window_test.moc"
