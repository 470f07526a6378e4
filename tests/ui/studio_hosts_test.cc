// The road once more over hosts of their own: each in its own network and process namespace with
// its own sshd on its own address. The studio is on the bridge between them. Needs root.
#include <QDirIterator>

#include "tests/cluster/hosts.h"
#include "tests/ui/studio_road.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/models/layer_table_model.h"

using namespace lockstep;

class StudioHostsTest : public QObject {
  Q_OBJECT

 public:
  // Before there are threads: they all have to be on the studio's host.
  StudioHostsTest() {
    test::makeKey(folder_ / "key");
    hosts_ = test::Hosts::start(kHosts, folder_.path(), folder_ / "key", &why_);
    if (hosts_ && !hosts_->enter()) {
      hosts_.reset();
      why_ = "the bridge's namespace cannot be entered";
    }
  }

 private Q_SLOTS:
  void trainsOnHostsOfTheirOwn() {
    if (!hosts_) QSKIP(why_.c_str());
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    const tests::StudioHome home;
    tests::StudioRoad road(home.home());
    const std::string config = folder_ / "ssh_config";
    test::writeText(config, hosts_->sshConfig(folder_ / "known_hosts", folder_ / "key"), 0600);
    test::writeText(folder_ / "known_hosts", "", 0600);  // every host is asked about
    road.open(QString::fromStdString(config));
    std::set<std::string> trusted;
    auto* cluster =
        road.addHosts(std::vector<std::string>(kHosts), folder_.path(), &trusted, false);
    if (QTest::currentTestFailed()) return;
    for (int i = 1; i <= kHosts; ++i) QVERIFY(trusted.contains(hosts_->sshd(i).fingerprint()));
    road.launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 1\n  max_steps: 300"}}, cluster,
                kHosts);
    if (!QTest::currentTestFailed()) road.watchCurvesGrow();
    if (!QTest::currentTestFailed()) road.finish(300, kHosts);
    if (!QTest::currentTestFailed()) road.findInHistoryAndExport(300);
  }

  // As a new user, in the window alone: a GPT made from nothing, trained on two hosts whose
  // addresses nobody gave, a worker killed, and the run resumed.
  void aNewUserTrainsAGptThroughAFault() {
    if (!hosts_) QSKIP(why_.c_str());
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    constexpr int kSteps = 800;
    const tests::StudioHome home;
    tests::StudioRoad road(home.home());
    const std::string config = folder_ / "ssh_config_new";
    test::writeText(config, hosts_->sshConfig(folder_ / "known_hosts_new", folder_ / "key"), 0600);
    test::writeText(folder_ / "known_hosts_new", "", 0600);
    road.open(QString::fromStdString(config));
    ui::MainWindow* window = road.window();
    std::set<std::string> trusted;
    const std::string workdirs = folder_ / "new";
    QVERIFY(QDir().mkpath(QString::fromStdString(workdirs)));
    ui::ClusterPage* cluster = road.addHosts({"", ""}, workdirs, &trusted, false);
    if (QTest::currentTestFailed()) return;
    QVERIFY(!cluster->document()->text().contains("address"));

    makeSmallGpt(window, kSteps);
    if (QTest::currentTestFailed()) return;
    window->currentPage()->findChild<QPushButton*>("modelLaunchButton")->click();
    const QString first = launchAsProposed(window);
    QVERIFY(!first.isEmpty());
    QPointer<ui::RunPage> page = qobject_cast<ui::RunPage*>(window->currentPage());
    QVERIFY(page);
    killAWorker(road, page, first, QString::fromStdString(workdirs));
    if (QTest::currentTestFailed()) return;
    auto* resume = page->findChild<QPushButton*>("resumeButton");
    QVERIFY(tests::wait([&] { return resume->isVisible() && resume->isEnabled(); }));
    resume->click();
    const QString second = launchAsProposed(window);
    QVERIFY(!second.isEmpty() && second != first);
    page = qobject_cast<ui::RunPage*>(window->currentPage());
    QVERIFY(page);
    QVERIFY2(tests::wait([&] { return app::isFinal(page->document()->row().phase); }, 180'000),
             qPrintable(page->message()->details()));
    QCOMPARE(page->document()->row().phase, app::RunState::SUCCEEDED);
    QCOMPARE(page->document()->lastStep(), kSteps);
    // from the checkpoint on
    QVERIFY(static_cast<int>(page->document()->series("loss")->raw().size()) < kSteps);
  }

 private:
  static void makeSmallGpt(ui::MainWindow* window, int steps) {
    window->findChild<QAction*>("actionNewModel")->trigger();
    auto* ask = window->findChild<ui::NewModelDialog*>();
    QVERIFY(ask);
    ask->chooseKind("gpt");
    ask->findChild<QPushButton*>("newModelDialogAccept")->click();
    auto* model = qobject_cast<ui::ModelPage*>(window->currentPage());
    QVERIFY(model);
    auto* table = model->findChild<QTableView*>("fieldTable");
    for (const auto& [path, value] : {std::pair{"training.max_steps", QString::number(steps)},
                                      {"recovery.policy", QString("none")},
                                      {"training.schedule.warmup_steps", QString("10")}}) {
      QVERIFY(model->showField(path));
      QVERIFY(table->model()->setData(table->currentIndex(), value));
    }
    while (model->layers()->rowCount() > 5) {  // so small that it is quick
      model->selectLayer(2);
      model->findChild<QToolButton*>("removeLayerButton")->click();
    }
    QVERIFY2(model->document()->spec().ok(), qPrintable(model->document()->text()));
  }

  // What the dialog proposes; "": it did not come to a run.
  static QString launchAsProposed(ui::MainWindow* window) {
    QPointer<ui::LaunchDialog> dialog;
    (void)tests::wait(
        [&] { return (dialog = window->findChild<ui::LaunchDialog*>()) && dialog->ready(); });
    QString run;
    if (!dialog) return run;
    dialog->findChild<QCheckBox*>("launchMeasure")->setChecked(false);
    (void)tests::wait([&] { return dialog->ready(); });
    QObject::connect(dialog.data(), &ui::LaunchDialog::launched, window,
                     [&](const QString& id) { run = id; });
    dialog->findChild<QPushButton*>("launchDialogAccept")->click();
    (void)tests::wait(
        [&] {
          return !run.isEmpty() ||
                 (dialog && !dialog->findChild<ui::MessagePanel*>()->details().isEmpty());
        },
        120'000);
    if (run.isEmpty() && dialog)
      qWarning("%s", qPrintable(dialog->findChild<ui::MessagePanel*>()->details()));
    return run;
  }

  // After a checkpoint; the run fails.
  static void killAWorker(const tests::StudioRoad& road, ui::RunPage* page, const QString& run,
                          const QString& workdirs) {
    const auto hasCheckpoint = [&] {
      QDirIterator found(workdirs, {"manifest.json"}, QDir::Files, QDirIterator::Subdirectories);
      int hosts = 0;
      while (found.hasNext()) hosts += found.next().contains("/step-") ? 1 : 0;
      return hosts >= 2;  // each host publishes its part
    };
    QVERIFY2(
        tests::wait([&] { return hasCheckpoint() || app::isFinal(page->document()->row().phase); },
                    120'000),
        qPrintable(page->message()->details()));
    const auto workers = road.processes("worker", run);
    QVERIFY(!workers.empty());
    ::kill(workers.front(), SIGKILL);
    QVERIFY(tests::wait([&] { return app::isFinal(page->document()->row().phase); }, 60'000));
    QCOMPARE(page->document()->row().phase, app::RunState::FAILED);
  }

  static constexpr int kHosts = 3;
  test::TempFolder folder_;
  std::string why_;
  std::unique_ptr<test::Hosts> hosts_;  // ends every process on them
};

int main(int argc, char** argv) {
  StudioHostsTest test;
  QApplication app(argc, argv);
  return QTest::qExec(&test, argc, argv);
}
#include "studio_hosts_test.moc"
