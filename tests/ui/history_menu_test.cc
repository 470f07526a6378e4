// What is done with runs of the history: they are opened, compared and deleted, and their menu
// clones, reruns, asks what if and seeks a faster strategy.
#include <QTest>
#include <QtWidgets>

#include "tests/ui/history_fixture.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/what_if_dialog.h"
#include "ui/models/advice_model.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::wait;

class HistoryMenuTest : public QObject, tests::HistoryWindow {
  Q_OBJECT

 private Q_SLOTS:
  void init() { openHistory(); }
  void cleanup() { closeHistory(); }

  void runsAreOpened() {
    const auto isShown = [&](const QString& run) {
      const auto* opened = qobject_cast<RunPage*>(window_->currentPage());
      return opened && opened->document()->run() == run;
    };
    QTest::mouseClick(table_->viewport(), Qt::LeftButton, {}, cellOf(runs_[0]));
    QTest::mouseDClick(table_->viewport(), Qt::LeftButton, {}, cellOf(runs_[0]));
    QVERIFY(isShown(runs_[0]));
    window_->openHistory();
    QTest::mouseClick(table_->viewport(), Qt::LeftButton, {}, cellOf(runs_[1]));
    QTest::mouseClick(page_->findChild<QPushButton*>("openRunButton"), Qt::LeftButton);
    QVERIFY(isShown(runs_[1]));
    window_->openHistory();
    const auto before = window_->pages().size();
    QTest::mouseClick(table_->viewport(), Qt::LeftButton, {}, cellOf(runs_[2]));
    QTest::mouseClick(table_->viewport(), Qt::LeftButton, Qt::ControlModifier, cellOf(runs_[3]));
    QCOMPARE(page_->selectedRuns().size(), 2);
    QTest::keyClick(table_, Qt::Key_Return);
    QVERIFY(isShown(runs_[2]) || isShown(runs_[3]));
    QCOMPARE(window_->pages().size(), before + 2);
  }

  void runsAreComparedAndDeleted() {
    QTest::mouseClick(table_->viewport(), Qt::LeftButton, {}, cellOf(runs_[0]));
    QTest::mouseClick(table_->viewport(), Qt::LeftButton, Qt::ControlModifier, cellOf(runs_[1]));
    auto* button = page_->findChild<QToolButton*>("differencesButton");
    const auto* differences = page_->findChild<QTableView*>("specDifferences");
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(differences->isVisible());
    QVERIFY(wait([&] { return differences->model()->columnCount() == 3; }));
    QVERIFY(differences->model()->rowCount() > 0);
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(!differences->isVisible());
    // Delete asks first, and asks again once the selection is another.
    auto* erase = page_->findChild<QPushButton*>("deleteRunButton");
    QTest::mouseClick(erase, Qt::LeftButton);
    QCOMPARE(page_->message()->what(), QString("Delete 2 runs?"));
    QTest::mouseClick(page_->message()->findChild<QToolButton*>("messageClose"), Qt::LeftButton);
    QTest::mouseClick(table_->viewport(), Qt::LeftButton, {}, cellOf(runs_[2]));
    QTest::mouseClick(erase, Qt::LeftButton);
    QCOMPARE(page_->message()->what(), QString("Delete this run?"));
    QCOMPARE(page_->runs()->rowCount(), 4);
    QTest::mouseClick(page_->message()->findChild<QPushButton*>("messageAction"), Qt::LeftButton);
    QVERIFY(wait([&] { return page_->runs()->rowCount() == 3; }));
    QVERIFY(page_->runs()->find(runs_[2]) < 0);
    const auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(!(*history)->openRun(runs_[2].toStdString()).ok());
  }

  void theMenuOfARunClonesAndReruns() {
    QVERIFY(chooseInMenu("historyRerun"));
    LaunchDialog* dialog = nullptr;
    QVERIFY(
        wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }));
    QVERIFY(dialog->command().startsWith("lockstep rerun " + runs_[0]));
    // The fastest strategies are those for the nodes as the run measured them.
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(5);
    QTest::mouseClick(dialog->findChild<QPushButton*>("adviceSearch"), Qt::LeftButton);
    auto* note = dialog->findChild<QLabel*>("adviceNote");
    QVERIFY(wait([&] { return !note->text().isEmpty(); }));
    QVERIFY2(note->text().contains("as the run measured them"), qPrintable(note->text()));
    QVERIFY(dialog->findChild<QTableView*>("adviceTable")->model()->rowCount() > 0);
    // On other ranks nothing was measured.
    const auto fields = dialog->findChildren<QSpinBox*>(QRegularExpression("^launchRanks_"));
    QVERIFY(!fields.isEmpty());
    fields.front()->setValue(2);
    QVERIFY(wait([&] { return dialog->ready() && note->text().isEmpty(); }));
    QTest::mouseClick(dialog->findChild<QPushButton*>("adviceSearch"), Qt::LeftButton);
    QVERIFY(wait([&] { return !note->text().isEmpty(); }));
    QVERIFY2(note->text().contains("For assumed costs"), qPrintable(note->text()));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
    QVERIFY(chooseInMenu("historyClone"));
    QVERIFY(
        wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }));
    auto* model = qobject_cast<ModelPage*>(window_->currentPage());
    QVERIFY(model && model->isModified() && !QFileInfo::exists(model->filePath()));
    dialog->reject();
  }

  // Of an ended run, without opening it.
  void theMenuOfARunAsksWhatIf() {
    QVERIFY(chooseInMenu("historyWhatIf"));
    WhatIfDialog* dialog = nullptr;
    QVERIFY(
        wait([&] { return (dialog = page_->findChild<WhatIfDialog*>()) && dialog->isVisible(); }));
    auto* rank = dialog->findChild<QComboBox*>("whatIfRank");
    QVERIFY(wait([&] { return rank->isVisible() && rank->count() == 4; }));
    const auto figure = [&](const char* name) { return dialog->findChild<Figure*>(name)->value(); };
    QVERIFY(wait([&] { return figure("whatIfStep") == figure("whatIfMeasured"); }));
    rank->setFocus();
    QTest::keyClick(rank, Qt::Key_Down);
    QTest::keyClick(rank, Qt::Key_Down);
    QVERIFY(wait([&] { return figure("whatIfStep") != figure("whatIfMeasured"); }));
    QCOMPARE(dialog->findChild<QLabel*>("whatIfCommand")->text(),
             "lockstep whatif " + runs_[0] + " --without 1");
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return !dialog->windowTitle().startsWith("What"); }));
    Language::instance().set("en");
    // Enter ends a number, and leaves the dialog.
    auto* ranks = dialog->findChild<QSpinBox*>("whatIfRanks");
    ranks->setFocus();
    ranks->selectAll();
    QTest::keyClicks(ranks, "4");
    QTest::keyClick(ranks, Qt::Key_Return);
    QVERIFY(dialog->isVisible() && ranks->value() == 4);
    QTest::keyClick(dialog, Qt::Key_Escape);
    QVERIFY(wait([&] { return !page_->findChild<WhatIfDialog*>(); }));
    // Several runs are not asked at once.
    table_->selectAll();
    QVERIFY(!page_->findChild<QAction*>("historyWhatIf")->isEnabled());
  }

  // Of an ended run, as its page does: resumed, or rerun where it has trained to its end.
  void theMenuOfARunSeeksAFasterStrategy() {
    QVERIFY(chooseInMenu("historyFaster"));
    LaunchDialog* dialog = nullptr;
    const auto isReady = [&] {
      return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready();
    };
    QVERIFY(wait(isReady));
    const auto* tabs = dialog->findChild<QTabWidget*>("launchTabs");
    QCOMPARE(tabs->tabText(tabs->currentIndex()), QString("Fastest"));
    QVERIFY2(dialog->command().startsWith("lockstep rerun " + runs_[0]),
             qPrintable(dialog->command()));
    const auto* note = dialog->findChild<QLabel*>("adviceNote");
    QVERIFY(wait([&] { return !note->text().isEmpty() && dialog->ready(); }));
    QVERIFY2(note->text().contains("as the run measured them"), qPrintable(note->text()));
    const auto* accept = dialog->findChild<QPushButton*>("launchDialogAccept");
    QVERIFY(!accept->isEnabled());  // it would change nothing
    auto* table = dialog->findChild<QTableView*>("adviceTable");
    const auto& found = qobject_cast<AdviceModel*>(table->model())->strategies();
    const auto other = std::find_if(found.begin(), found.end(),
                                    [](const auto& one) { return !one.settings.empty(); });
    QVERIFY(other != found.end());
    table->selectRow(static_cast<int>(other - found.begin()));
    QTest::mouseClick(dialog->findChild<QPushButton*>("adviceChoose"), Qt::LeftButton);
    QVERIFY(wait([&] { return accept->isEnabled(); }));
    QVERIFY2(dialog->command().startsWith("lockstep rerun " + runs_[0] + " --set "),
             qPrintable(dialog->command()));
    QCOMPARE(window_->currentPage(), static_cast<Page*>(page_));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
    page_->selectRun(runs_[1]);  // failed; from the menu of the window
    QVERIFY(wait([&] { return window_->findChild<QAction*>("actionFaster")->isEnabled(); }));
    window_->findChild<QAction*>("actionFaster")->trigger();
    QVERIFY(wait(isReady));
    QVERIFY2(dialog->command().startsWith("lockstep resume " + runs_[1]),
             qPrintable(dialog->command()));
    dialog->reject();
    table_->selectAll();
    QVERIFY(!page_->findChild<QAction*>("historyFaster")->isEnabled());
  }

  // The page of a run under way is opened: it is stopped first, and only while it trains.
  void aRunUnderWayThatDoesNotTrainIsNotStopped() {
    const QString run = QString::fromStdString(home_->addRun(4, app::RunState::RUNNING, 120));
    {
      const auto history = app::History::open(home_->home().historyFolder());
      app::RunDocuments documents = *(*history)->documents(run.toStdString());
      documents.clusterYaml = app::localCluster(3, home_->home().root + "/local", "").yaml;
      documents.nodes = R"([{"node": "local1", "folder": "/nowhere/runs/x"}])";
      QVERIFY((*history)->setDocuments(run.toStdString(), documents).ok());
    }
    page_->reload();
    QVERIFY(wait([&] { return page_->runs()->find(run) >= 0; }));
    page_->selectRun(run);
    page_->findChild<QAction*>("historyFaster")->trigger();
    LaunchDialog* dialog = nullptr;
    QVERIFY2(
        wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }),
        qPrintable(dialog ? dialog->findChild<MessagePanel*>()->details()
                          : window_->currentPage()->message()->details()));
    QVERIFY2(dialog->command().startsWith("lockstep stop " + run), qPrintable(dialog->command()));
    auto* opened = qobject_cast<RunPage*>(window_->currentPage());
    QVERIFY(opened && opened->document()->run() == run);
    QVERIFY(wait([&] { return opened->document()->loaded(); }));
    app::RunUpdate update;
    update.row = opened->document()->row();
    update.row->phase = app::RunState::RECOVERING;
    opened->document()->take(update);
    const auto* accept = dialog->findChild<QPushButton*>("launchDialogAccept");
    QVERIFY(!accept->isEnabled() && accept->toolTip().contains("it is not training"));
    dialog->reject();
  }

 private:
  QPoint cellOf(const QString& run) const {
    return table_->visualRect(page_->runs()->index(page_->runs()->find(run), 0)).center();
  }
  // By the right mouse button on the first run.
  bool chooseInMenu(const char* name) {
    page_->selectRun(runs_[0]);
    const QRect row = table_->visualRect(page_->runs()->index(page_->runs()->find(runs_[0]), 0));
    QContextMenuEvent event(QContextMenuEvent::Mouse, row.center(),
                            table_->viewport()->mapToGlobal(row.center()));
    QApplication::sendEvent(table_->viewport(), &event);
    auto* menu = page_->findChild<QMenu*>("runMenu");
    if (!wait([&] { return menu->isVisible(); })) return false;
    for (QAction* action : menu->actions())
      if (action->objectName() == name) {
        QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(action).center());
        return true;
      }
    return false;
  }
};

QTEST_MAIN(HistoryMenuTest)
#include "history_menu_test.moc"
