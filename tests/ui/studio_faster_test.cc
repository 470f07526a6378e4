// A run goes on with a strategy that was found for its nodes as measured: one that is under way is
// stopped and resumed. Real agents and workers.
#include <QTableView>
#include <algorithm>

#include "app/history/history.h"
#include "tests/ui/studio_road.h"
#include "ui/models/advice_model.h"

using namespace lockstep;

class StudioFasterTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void init() {
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    road_->open();
    road_->launch(
        "fashion-mlp.yaml",
        {{"epochs: 5", "epochs: 1000000"}, {"strategy:", "recovery: {policy: none}\nstrategy:"}},
        nullptr, 2);
    resumed_.clear();
  }
  void cleanup() {
    if (!road_) return;
    if (dialog_) dialog_->close();
    for (const auto* page : road_->window()->findChildren<ui::RunPage*>()) {
      ui::RunDocument* run = page->document();
      const auto isOver = [&] { return app::isFinal(run->row().phase); };
      QVERIFY(tests::wait([&] { return run->canKill() || isOver(); }));  // else it is still read
      if (run->canKill()) run->ask(app::RunRequest::kKill);
      QVERIFY(tests::wait(isOver));
    }
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void theRunIsStoppedAndResumed() {
    QVERIFY(!QTest::currentTestFailed());
    chooseFaster();
    if (QTest::currentTestFailed()) return;
    const ui::RunDocument* run = road_->page()->document();
    QVERIFY2(
        dialog_->command().startsWith(QString("lockstep stop %1 ").arg(road_->run())) &&
            dialog_->command().contains(QString("&& lockstep resume %1 --set ").arg(road_->run())),
        qPrintable(dialog_->command()));
    press("launchDialogAccept");
    awaitResumed();
    if (QTest::currentTestFailed()) return;
    QCOMPARE(run->row().phase, app::RunState::STOPPED);
    auto* page = qobject_cast<ui::RunPage*>(road_->window()->currentPage());
    QVERIFY(page);
    const ui::RunDocument* next = page->document();
    QCOMPARE(next->run(), resumed_);
    QVERIFY2(tests::wait([&] { return next->lastStep() > run->row().figures.steps + 10; }),
             qPrintable(page->message()->details()));
    QCOMPARE(QString::fromStdString(next->row().resumedFrom), road_->run());
  }

  // Its page was closed: it is opened again.
  void aRunUnderWayIsAskedFromTheHistory() {
    QVERIFY(!QTest::currentTestFailed());
    QVERIFY(tests::wait([&] { return isSampled(); }));
    auto* tabs = qobject_cast<QTabWidget*>(road_->window()->centralWidget());
    QVERIFY(tabs);
    Q_EMIT tabs->tabCloseRequested(tabs->indexOf(road_->page()));
    ui::HistoryPage* history = road_->window()->openHistory();
    QVERIFY(tests::wait([&] { return history->runs()->find(road_->run()) >= 0; }));
    history->selectRun(road_->run());
    auto* faster = history->findChild<QAction*>("historyFaster");
    QVERIFY(faster->isEnabled());
    faster->trigger();
    chooseFound();
    if (QTest::currentTestFailed()) return;
    const auto* page = qobject_cast<ui::RunPage*>(road_->window()->currentPage());
    QVERIFY(page && page->document()->run() == road_->run());
    const QPointer<ui::RunDocument> run = page->document();
    press("launchDialogAccept");
    awaitResumed();
    if (QTest::currentTestFailed()) return;
    QCOMPARE(run->row().phase, app::RunState::STOPPED);
  }

  void anEndedRunIsResumed() {
    QVERIFY(!QTest::currentTestFailed());
    QVERIFY(tests::wait([&] { return isSampled(); }));
    ui::RunDocument* run = road_->page()->document();
    run->stop();
    QVERIFY(tests::wait([&] { return run->row().phase == app::RunState::STOPPED; }));
    QVERIFY(tests::wait([&] { return run->canAdvise(); }));
    chooseFaster();
    if (QTest::currentTestFailed()) return;
    QVERIFY2(dialog_->command().startsWith(QString("lockstep resume %1 --set ").arg(road_->run())),
             qPrintable(dialog_->command()));
    press("launchDialogAccept");
    awaitResumed();
  }

  // The stop is a kept decision: the run is not resumed, and can be later, from the same dialog.
  void theWaitForTheStopIsCancelled() {
    QVERIFY(!QTest::currentTestFailed());
    chooseFaster();
    if (QTest::currentTestFailed()) return;
    const ui::RunDocument* run = road_->page()->document();
    press("launchDialogAccept");
    press("launchDialogReject");
    QVERIFY2(said().contains("is not resumed"), qPrintable(said()));
    QVERIFY(tests::wait([&] { return run->row().phase == app::RunState::STOPPED; }));
    QVERIFY(run->canResume());
    QVERIFY(dialog_ && resumed_.isEmpty());
    QVERIFY(tests::wait([&] { return button("launchDialogAccept")->isEnabled(); }));
    press("launchDialogAccept");
    awaitResumed();
  }

  void aRunThatEndsOtherwiseIsNotResumed() {
    QVERIFY(!QTest::currentTestFailed());
    chooseFaster();
    if (QTest::currentTestFailed()) return;
    const ui::RunDocument* run = road_->page()->document();
    const int worker = road_->workerOf(1, road_->run());
    QVERIFY(worker > 0);
    ::kill(worker, SIGKILL);
    QVERIFY(tests::wait([&] { return app::isFinal(run->row().phase); }));
    QCOMPARE(run->row().phase, app::RunState::FAILED);
    QVERIFY(tests::wait([&] { return button("launchDialogAccept")->isEnabled(); }));
    press("launchDialogAccept");
    QVERIFY2(tests::wait([&] { return said().contains("ended before it could be stopped"); }),
             qPrintable(said()));
    QVERIFY(dialog_ && resumed_.isEmpty());
    QVERIFY(tests::wait([&] { return button("launchDialogAccept")->isEnabled(); }));
  }

  // A scheduler places a run that is launched again on other nodes than those that are connected.
  void nodesOfTheRunAreNotThoseOfTheNext() {
    QVERIFY(!QTest::currentTestFailed());
    const auto nodes = road_->window()->workspace().clusterForRun(road_->run());
    QVERIFY(nodes && tests::wait([&] { return nodes->session().allConnected(); }));
    QFile example(QString::fromStdString(tests::examplePath("fashion-mlp.yaml")));
    QVERIFY(example.open(QFile::ReadOnly));
    ui::LaunchModel model;
    model.title = "mlp";
    model.file = example.fileName();
    model.text = [text = example.readAll().toStdString()] { return text; };
    ui::LaunchTarget target;
    target.title = "hpc";
    target.file = "hpc.yaml";
    target.yaml = [] {
      return std::string("version: 1\nname: hpc\nplacement: {kind: slurm, nodes: 2}\n");
    };
    target.connected = target.live = [nodes] { return nodes; };
    ui::MainWindow* window = road_->window();
    dialog_ = new ui::LaunchDialog({model}, {target}, window->workspace(), window);
    dialog_->setAttribute(Qt::WA_DeleteOnClose);
    dialog_->open();
    QVERIFY2(tests::wait([&] { return dialog_->ready(); }), qPrintable(said()));
    QVERIFY(!dialog_->benchmarking());  // the session has none of its nodes
    QVERIFY(button("launchDialogAccept")->isEnabled());
  }

 private:
  // From the run's page: the first strategy that is another than the run's.
  void chooseFaster() {
    ui::RunPage* page = road_->page();
    auto* faster = page->findChild<QToolButton*>("fasterButton");
    QVERIFY(tests::wait([&] { return isSampled(); }));
    QVERIFY(faster->isEnabled());
    QTest::mouseClick(faster, Qt::LeftButton);
    chooseFound();
  }

  void chooseFound() {
    QVERIFY(tests::wait([&] {
      dialog_ = road_->window()->findChild<ui::LaunchDialog*>();
      return dialog_ && dialog_->isVisible();
    }));
    connect(dialog_, &ui::LaunchDialog::launched, this,
            [this](const QString& run) { resumed_ = run; });
    dialog_->findChild<QCheckBox*>("launchMeasure")->setChecked(false);
    const auto* tabs = dialog_->findChild<QTabWidget*>("launchTabs");
    QCOMPARE(tabs->tabText(tabs->currentIndex()), QString("Fastest"));
    search();
    if (QTest::currentTestFailed()) return;
    const auto* note = dialog_->findChild<QLabel*>("adviceNote");
    QVERIFY2(note->text().contains("as the run measured them"), qPrintable(note->text()));
    QVERIFY(tests::wait([&] { return dialog_->ready(); }));
    QVERIFY(!button("launchDialogAccept")->isEnabled());  // it would change nothing
    auto* table = dialog_->findChild<QTableView*>("adviceTable");
    const auto& found = qobject_cast<ui::AdviceModel*>(table->model())->strategies();
    const auto other = std::find_if(found.begin(), found.end(),
                                    [](const auto& one) { return !one.settings.empty(); });
    QVERIFY(other != found.end());
    table->selectRow(static_cast<int>(other - found.begin()));
    press("adviceChoose");
    QVERIFY2(tests::wait([&] { return button("launchDialogAccept")->isEnabled(); }),
             qPrintable(said()));
  }

  // Whether the history has the events of a step after the first ones: what was measured is known.
  bool isSampled() const {
    const auto history = app::History::open(home_->home().historyFolder());
    if (!history.ok()) return false;
    const auto store = (*history)->openRun(road_->run().toStdString());
    if (!store.ok()) return false;
    const auto steps = (*store)->eventSteps();
    return std::any_of(steps.begin(), steps.end(), [](const auto& one) {
      return !one.slow && one.step > 50 && one.ranks == 2;
    });
  }

  // It has begun with the dialog, and ends with the first that it has found.
  void search() {
    constexpr int kEnough = 10;
    const auto* bar = dialog_->findChild<QProgressBar*>("adviceProgress");
    const auto* text = dialog_->findChild<QLabel*>("adviceProgressText");
    QVERIFY(tests::wait(
        [&] { return bar->isHidden() || text->text().section(' ', 0, 0).toInt() >= kEnough; }));
    if (!bar->isHidden()) press("adviceSearch");
    QVERIFY(tests::wait([&] { return bar->isHidden(); }));
  }

  void awaitResumed() {
    QVERIFY2(tests::wait([&] { return !resumed_.isEmpty() || !said().isEmpty(); }),
             "the run was neither resumed nor an error told");
    QVERIFY2(!resumed_.isEmpty(), qPrintable(said()));
  }

  QPushButton* button(const char* name) const { return dialog_->findChild<QPushButton*>(name); }
  void press(const char* name) { button(name)->click(); }
  QString said() const {
    return dialog_ ? dialog_->findChild<ui::MessagePanel*>()->details() : QString();
  }

  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
  QPointer<ui::LaunchDialog> dialog_;
  QString resumed_;
};

QTEST_MAIN(StudioFasterTest)
#include "studio_faster_test.moc"
