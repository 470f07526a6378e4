// The page of a run: what the history has of it, and how the run is followed, given up, and
// launched again.
#include <fmt/format.h>

#include <QTest>
#include <QtWidgets>

#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/models/navigator_model.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/plots/custom_plot.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

class RunPageTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

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

  // The texts that a run was launched with are read, copied and saved; not before they are looked
  // at.
  void documentsOfARunAreRead() {
    window_->resize(1600, 900);
    const std::string run = home_->addRun(0, app::RunState::SUCCEEDED, 60);
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    const app::RunDocuments& documents = page->document()->documents();
    auto* text = page->findChild<QPlainTextEdit*>("documentText");
    auto* kind = page->findChild<QComboBox*>("documentKind");
    QVERIFY(text->toPlainText().isEmpty() && text->isReadOnly() && kind->count() == 0);
    auto* bar = page->findChild<QTabWidget*>("runTabs")->tabBar();
    QVERIFY(bar->tabText(7) == "Documents" && bar->rect().contains(bar->tabRect(7)));
    QTest::mouseClick(bar, Qt::LeftButton, {}, bar->tabRect(7).center());
    QVERIFY(text->isVisible());
    kind->setFocus();
    const auto shows = [&](const char* title, const std::string& wanted) {
      return !wanted.empty() && kind->currentText() == title &&
             text->toPlainText() == QString::fromStdString(wanted);
    };
    QVERIFY(shows("Spec as written", documents.specYaml));
    QTest::keyClick(kind, Qt::Key_Down);
    QVERIFY(shows("Spec as run", documents.specResolved));
    QTest::keyClick(kind, Qt::Key_Down);
    QVERIFY(shows("Cluster", documents.clusterYaml));
    QTest::keyClick(kind, Qt::Key_Down);
    QVERIFY(shows("Plan", documents.plan) && kind->count() == 4);  // no program, no code
    auto* copy = page->findChild<QPushButton*>("documentCopy");
    QTest::mouseClick(copy, Qt::LeftButton);
    QCOMPARE(QApplication::clipboard()->text().toStdString(), documents.plan);
    QTest::mouseClick(page->findChild<QPushButton*>("documentSave"), Qt::LeftButton);
    auto* dialog = page->findChild<QFileDialog*>("saveDocumentDialog");
    QVERIFY(dialog);
    const QString path = home_->path("plan.txt");
    Q_EMIT dialog->fileSelected(path);
    dialog->reject();
    QVERIFY(page->message()->what().contains(path));
    QFile saved(path);
    QVERIFY(saved.open(QFile::ReadOnly));
    QCOMPARE(saved.readAll().toStdString(), documents.plan);
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return kind->currentText() == "计划" && bar->tabText(7) == "文档"; }));
    Language::instance().set("en");
    // News of the run leave the place in the text.
    text->verticalScrollBar()->setValue(text->verticalScrollBar()->maximum());
    const int place = text->verticalScrollBar()->value();
    app::RunUpdate update;
    update.row = page->document()->row();
    page->document()->take(update);
    QVERIFY(place > 0 && text->verticalScrollBar()->value() == place);
  }

  // The window does not lay out many megabytes; a copy and a file have them.
  void aLongDocumentIsShownInPart() {
    const std::string run = home_->addRun(0, app::RunState::SUCCEEDED, 60);
    const auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok());
    app::RunDocuments documents = *(*history)->documents(run);
    documents.specYaml = "# long\n";
    for (int i = 0; i < 300'000; ++i) documents.specYaml += fmt::format("key{}: {}\n", i, i);
    QVERIFY((*history)->setDocuments(run, documents).ok());
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(7);
    const QString text = page->findChild<QPlainTextEdit*>("documentText")->toPlainText();
    QVERIFY(text.size() > 300'000 && text.size() <= 400'000);
    QVERIFY(documents.specYaml.starts_with(text.toStdString() + "\n"));
    const QString about = page->findChild<QLabel*>("documentAbout")->text();
    QVERIFY2(about.startsWith("The first "), qPrintable(about));
    page->findChild<QPushButton*>("documentCopy")->click();
    QVERIFY(QApplication::clipboard()->text().toStdString() == documents.specYaml);
    page->findChild<QPushButton*>("documentSave")->click();
    auto* dialog = page->findChild<QFileDialog*>("saveDocumentDialog");
    QVERIFY(dialog);
    Q_EMIT dialog->fileSelected(home_->path("long.yaml"));
    dialog->reject();
    QFile saved(home_->path("long.yaml"));
    QVERIFY(saved.open(QFile::ReadOnly) && saved.readAll().toStdString() == documents.specYaml);
    page->findChild<QComboBox*>("documentKind")->setCurrentIndex(1);
    QCOMPARE(page->findChild<QPlainTextEdit*>("documentText")->toPlainText().toStdString(),
             documents.specResolved);
  }

  // The tools beside the tabs give way to them.
  void allTabsAreInSight() {
    RunPage* page =
        window_->openRun(QString::fromStdString(home_->addRun(0, app::RunState::SUCCEEDED, 60)));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    const auto* bar = page->findChild<QTabWidget*>("runTabs")->tabBar();
    const auto* slider = page->findChild<QSlider*>("smoothSlider");
    const auto all = [&] { return bar->rect().contains(bar->tabRect(bar->count() - 1)); };
    for (const int width : {1920, 1400, 1920}) {
      window_->resize(width, 900);
      QVERIFY(wait(all));
      QVERIFY(slider->width() >= 36 && (width < 1920 || slider->width() == 110));
    }
    window_->resize(1280, 800);
    QVERIFY(wait([&] { return all() || slider->width() == 36; }));
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return bar->tabText(7) == "文档" && all(); }));
  }

  // A plot that is zoomed shows the whole run again once its end is followed. The straggler panel,
  // when it comes, does not move what stands below.
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

  // The run fails before the steps that were to be recorded: why it failed stays on its page.
  void anErrorOutlastsWhatWasAskedFor() {
    const std::string run = home_->addRun(0, app::RunState::RUNNING, 200);
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    Q_EMIT page->document()->profiled(500, 20);
    QVERIFY(page->message()->what().contains("500"));
    app::RunUpdate update;
    update.errors = {makeError(Code::kUnavailable, "the node {} is gone", "n1")};
    update.row = page->document()->row();
    update.row->phase = app::RunState::FAILED;
    update.finished = true;
    page->document()->take(update);
    const QString told = page->message()->what();
    QVERIFY2(told.contains("n1"), qPrintable(told));
    QTest::qWait(2500);  // the page looks once a second
    QVERIFY(page->message()->isVisible());
    QCOMPARE(page->message()->what(), told);
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
    dialog = dialogOf(page->findChild<QToolButton*>("fasterButton"));
    QVERIFY(dialog && dialog->ready());
    QCOMPARE(dialog->command(), "lockstep resume " + id + home);
    QVERIFY(!dialog->findChild<QPushButton*>("launchDialogAccept")->isEnabled());
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

  // A note that comes later leaves the way out, also in another language, and is not taken by it.
  void givingUpIsOfferedBesideALaterNote() {
    const std::string run = home_->addRun(0, app::RunState::RUNNING, 200);
    auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok());
    app::RunRow row = *(*history)->row(run);
    row.unreachableNs = row.startedNs + 60'000'000'000;
    QVERIFY((*history)->update(row).ok());
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    const MessagePanel* message = page->message();
    auto* giveUp = message->findChild<QPushButton*>("messageAction");
    QVERIFY(giveUp->isVisible());
    window_->findChild<QAction*>("actionCopyLink")->trigger();
    QCOMPARE(message->what(), QString("The link was copied."));
    QVERIFY(giveUp->isVisible());
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return giveUp->text() != "Give up"; }));
    Language::instance().set("en");
    QVERIFY(wait([&] { return giveUp->text() == "Give up"; }));
    giveUp->click();
    QVERIFY(wait([&] { return page->document()->row().phase == app::RunState::FAILED; }));
    QVERIFY(!giveUp->isVisible());
    QCOMPARE(message->what(), QString("The link was copied."));
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

 private:
  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(RunPageTest)
#include "run_page_test.moc"
