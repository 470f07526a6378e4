// Places: links, back and forward, and the moment that a link says.
#include <QApplication>
#include <QClipboard>
#include <QInputDialog>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTest>
#include <QToolButton>
#include <cmath>
#include <random>

#include "tests/ui/studio_fixture.h"
#include "ui/pages/history_page.h"
#include "ui/pages/run_page.h"
#include "ui/plots/custom_plot.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/timeline_view.h"
#include "ui/studio/run_document.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using tests::StudioHome;

class PlacesTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    run_ = QString::fromStdString(home_->addRun(0, app::RunState::SUCCEEDED, 400));
    tests::openWindow(window_, *home_);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void linksComeBack() {
    std::mt19937 random(3);
    for (int i = 0; i < 200; ++i) {
      Place place{"run:2026-" + QString::number(random() % 10000) + "_a.b", {}, -1, 0};
      if (random() % 2) place.part = QStringList{"steps", "logs", "overview"}[random() % 3];
      if (random() % 2) {
        place.rank = static_cast<int>(random() % 5000);
        place.step = 1 + static_cast<qint64>(random()) % 1'000'000'000;
      }
      const auto back = placeOf(" " + linkOf(place) + "\n");
      QVERIFY2(back && *back == place, qPrintable(linkOf(place)));
    }
    QVERIFY(linkOf({"history", {}, -1, 0}).isEmpty());
    const Place lesson{"learn", "06-pipeline", -1, 0, {{"schedule", "1f1b"}, {"a", "b & c=d"}}};
    QCOMPARE(placeOf(linkOf(lesson)), lesson);
  }

  void otherTextIsNoLink() {
    for (const char* text :
         {"", "lockstep:", "lockstep:run/", "lockstep:run/../../etc", "lockstep:run/a/b",
          "http:run/a", "lockstep:run/a?rank=1", "lockstep:run/a?rank=-1&step=3",
          "lockstep:run/a?rank=x&step=3", "lockstep:run/a?rank=1&step=0",
          "lockstep:run/a?rank=99999999999&step=1", "lockstep:run/a?part=<b>", "run:a",
          "lockstep:run/a b", "lockstep:run/a%2Fb", "lockstep:learn/", "lockstep:learn/../x"})
      QVERIFY2(!placeOf(text), text);
  }

  // A person chooses a slow cell and copies the link; another studio opens it.
  void aCopiedLinkShowsTheMoment() {
    RunPage* page = openSteps();
    auto* map = page->findChild<HeatMapView*>();
    QTest::mouseClick(map, Qt::LeftButton, {}, map->centreOf(1, 37));
    QCOMPARE(map->chosenRank(), 1);
    const qint64 step = map->chosenStep();
    QTest::keyClick(window_.get(), Qt::Key_L, Qt::ControlModifier | Qt::ShiftModifier);
    const QString link = QApplication::clipboard()->text();
    QCOMPARE(link, QString("lockstep:run/%1?part=steps&rank=1&step=%2").arg(run_).arg(step));
    tests::closeWindow(window_);
    tests::openWindow(window_, *home_);
    window_->findChild<QAction*>("actionOpenLink")->trigger();
    auto* dialog = window_->findChild<QInputDialog*>("linkDialog");
    QVERIFY(dialog);
    QCOMPARE(dialog->textValue(), link);
    dialog->accept();
    page = qobject_cast<RunPage*>(window_->currentPage());
    QVERIFY(page);
    map = page->findChild<HeatMapView*>();
    QTRY_COMPARE_WITH_TIMEOUT(map->chosenStep(), step, 60'000);
    QCOMPARE(map->chosenRank(), 1);
    QCOMPARE(page->findChild<QTabWidget*>("runTabs")->currentIndex(), 3);
  }

  // The documents of a run were its code alone.
  void anEarlierLinkToTheCodeShowsTheDocuments() {
    RunPage* page = openSteps();
    const auto place = placeOf("lockstep:run/" + run_ + "?part=code");
    QVERIFY(place);
    page->go(*place);
    QCOMPARE(page->place().part, QString("documents"));
  }

  // Another studio shows the parts that a person zoomed into, and all again after Home.
  void zoomsComeBack() {
    RunPage* page = openSteps();
    auto* map = page->findChild<HeatMapView*>();
    auto* timeline = page->findChild<TimelineView*>("timeline");
    QTest::mouseClick(map, Qt::LeftButton, {}, map->centreOf(1, 37));
    QTRY_VERIFY_WITH_TIMEOUT(timeline->measured() && timeline->measured()->step == 50, 60'000);
    for (int i = 0; i < 5; ++i) QTest::keyClick(map, Qt::Key_Plus);
    QTest::keyClick(map, Qt::Key_Plus, Qt::ControlModifier);
    for (int i = 0; i < 3; ++i) QTest::keyClick(timeline, Qt::Key_Plus);
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(0);
    // The plots over steps show the part that the map shows, and it follows them.
    const auto isShared = [&] {
      return std::abs(lossRange(page).lower - map->xRange().begin) < 1e-6 &&
             std::abs(lossRange(page).upper + 1 - map->xRange().end) < 1e-6;
    };
    QVERIFY(map->xRange().span() < 200);
    QTRY_VERIFY_WITH_TIMEOUT(isShared(), 60'000);
    for (int i = 0; i < 2; ++i) QTest::keyClick(lossCanvas(page), Qt::Key_Plus);
    QVERIFY(isShared());
    const QCPRange loss = lossRange(page);
    const GridView::Zoom cells{map->xRange(), map->rowRange()},
        spans{timeline->xRange(), timeline->rowRange()};
    QVERIFY(cells.x.span() < 100 && cells.rows.span() < 3);
    page = restarted();
    QVERIFY(page);
    QVERIFY(!page->findChild<QToolButton*>("followButton")->isChecked());
    QCOMPARE(page->findChild<QTabWidget*>("runTabs")->currentIndex(), 0);
    QTRY_VERIFY_WITH_TIMEOUT(page->lossPlot()->sampleCount() > 0, 60'000);
    QTest::qWait(200);
    QTRY_COMPARE_WITH_TIMEOUT(lossRange(page).lower, loss.lower, 60'000);
    QCOMPARE(lossRange(page).upper, loss.upper);
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(3);
    map = page->findChild<HeatMapView*>();
    timeline = page->findChild<TimelineView*>("timeline");
    const auto shows = [](const GridView* view, const GridView::Zoom& zoom) {
      const auto isNear = [](const GridView::Range& a, const GridView::Range& b) {
        return std::abs(a.begin - b.begin) + std::abs(a.end - b.end) < 1e-6 * b.span();
      };
      return isNear(view->xRange(), zoom.x) && isNear(view->rowRange(), zoom.rows);
    };
    QTRY_VERIFY_WITH_TIMEOUT(shows(map, cells) && shows(timeline, spans), 60'000);
    QCOMPARE(map->chosenRank(), 1);
    QTest::keyClick(map, Qt::Key_Home);
    QVERIFY(page->findChild<QToolButton*>("followButton")->isChecked());
    page = restarted();
    QVERIFY(page);
    map = page->findChild<HeatMapView*>();
    QTRY_COMPARE_WITH_TIMEOUT(map->xRange().end, 401.0, 60'000);
    QCOMPARE(map->rowRange().span(), 3.0);
    QTRY_VERIFY_WITH_TIMEOUT(shows(page->findChild<TimelineView*>("timeline"), spans), 60'000);
    QVERIFY(page->findChild<QToolButton*>("followButton")->isChecked());
  }

  void aLinkPastTheEndShowsTheLastStep() {
    window_->openLink(linkOf({"run:" + run_, "steps", 0, 100'000}));
    auto* page = qobject_cast<RunPage*>(window_->currentPage());
    QVERIFY(page);
    auto* map = page->findChild<HeatMapView*>();
    QTRY_COMPARE_WITH_TIMEOUT(map->chosenRank(), 0, 60'000);
    QCOMPARE(map->chosenStep(), page->document()->steps().steps());
    window_->openLink(linkOf({"run:" + run_, "steps", 77, 3}));  // there is no such rank
    QTRY_COMPARE_WITH_TIMEOUT(map->chosenRank(), -1, 60'000);
  }

  // The moment is chosen also while its heat map is not shown; what the person chooses stays.
  void aLinkToAnotherPart() {
    window_->openLink(linkOf({"run:" + run_, "logs", 1, 37}));
    auto* page = qobject_cast<RunPage*>(window_->currentPage());
    QVERIFY(page);
    auto* map = page->findChild<HeatMapView*>();
    auto* tabs = page->findChild<QTabWidget*>("runTabs");
    QCOMPARE(tabs->currentIndex(), 2);
    QTRY_COMPARE_WITH_TIMEOUT(map->chosenStep(), qint64{37}, 60'000);
    QCOMPARE(map->chosenRank(), 1);
    QCOMPARE(tabs->currentIndex(), 2);
    // A run that goes on: a step that is to come is awaited until another is chosen.
    const QString live = QString::fromStdString(home_->addRun(1, app::RunState::RUNNING, 400));
    window_->openLink(linkOf({"run:" + live, "steps", 1, 5000}));
    page = qobject_cast<RunPage*>(window_->currentPage());
    QVERIFY(page && page->document()->run() == live);
    QTRY_VERIFY_WITH_TIMEOUT(page->document()->loaded(), 60'000);
    map = page->findChild<HeatMapView*>();
    QTRY_COMPARE_WITH_TIMEOUT(map->xRange().end, 401.0, 60'000);
    QTest::qWait(300);
    QCOMPARE(map->chosenRank(), -1);
    QTest::mouseClick(map, Qt::LeftButton, {}, map->centreOf(0, 30));
    QCOMPARE(map->chosenRank(), 0);
    const qint64 chosen = map->chosenStep();
    QCOMPARE(page->place().step, chosen);
    app::RunUpdate update;
    update.series = {{"rank/1/step", {}}};
    for (int step = 401; step <= 5010; ++step)
      update.series[0].points.push_back({static_cast<double>(step), 0.1});
    page->document()->take(update);
    QTRY_COMPARE_WITH_TIMEOUT(page->document()->steps().steps(), std::int64_t{5010}, 60'000);
    QTest::qWait(500);
    QCOMPARE(map->chosenRank(), 0);
    QCOMPARE(map->chosenStep(), chosen);
  }

  // However many cells are gone through, going back leaves the part.
  void cellsAreOnePlace() {
    RunPage* page = openSteps();
    auto* tabs = page->findChild<QTabWidget*>("runTabs");
    auto* map = page->findChild<HeatMapView*>();
    QTest::mouseClick(map, Qt::LeftButton, {}, map->centreOf(1, 37));
    map->setFocus();
    for (int i = 0; i < 8; ++i) QTest::keyClick(map, Qt::Key_Right);
    QTest::keyClick(window_.get(), Qt::Key_Left, Qt::AltModifier);
    QCOMPARE(tabs->currentIndex(), 0);
  }

  void aDeletedRunIsPassedOver() {
    const QString second = QString::fromStdString(home_->addRun(1, app::RunState::SUCCEEDED, 100));
    RunPage* page = window_->openRun(run_);
    (void)QTest::qWaitFor([&] { return page->document()->loaded(); });
    RunPage* gone = window_->openRun(second);
    (void)QTest::qWaitFor([&] { return gone->document()->loaded(); });
    HistoryPage* history = window_->openHistory();
    auto* tabs = qobject_cast<QTabWidget*>(gone->parentWidget()->parentWidget());
    QVERIFY(tabs);
    Q_EMIT tabs->tabCloseRequested(tabs->indexOf(gone));
    QCOMPARE(window_->currentPage(), history);
    {
      auto files = app::History::open(home_->home().historyFolder());
      QVERIFY((*files)->remove(second.toStdString()).ok());
    }
    QTest::keyClick(window_.get(), Qt::Key_Left, Qt::AltModifier);
    QTRY_COMPARE_WITH_TIMEOUT(window_->currentPage(), page, 60'000);
    QTest::keyClick(window_.get(), Qt::Key_Right, Qt::AltModifier);
    QTRY_COMPARE_WITH_TIMEOUT(window_->currentPage(), history, 60'000);
  }

  void aDeletedFileIsPassedOver() {
    RunPage* run = window_->openRun(run_);
    (void)QTest::qWaitFor([&] { return run->document()->loaded(); });
    const QString path = home_->path("one.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(tests::examplePath("fashion-mlp.yaml")), path));
    Page* gone = window_->openFile(path);
    Page* history = window_->openHistory();
    auto* tabs = qobject_cast<QTabWidget*>(gone->parentWidget()->parentWidget());
    QVERIFY(tabs);
    Q_EMIT tabs->tabCloseRequested(tabs->indexOf(gone));
    QVERIFY(QFile::remove(path));
    window_->findChild<QAction*>("actionBack")->trigger();
    QCOMPARE(window_->currentPage(), run);
    QVERIFY(!history->message()->isVisibleTo(history));
    window_->findChild<QAction*>("actionForward")->trigger();
    QCOMPARE(window_->currentPage(), history);
  }

  // Going back leads to a document that was saved under another name, not to the file it was.
  void aDocumentIsGoneBackToUnderItsNewName() {
    const QString path = home_->path("one.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(tests::examplePath("fashion-mlp.yaml")), path));
    Page* page = window_->openFile(path);
    window_->findChild<QAction*>("actionSaveAs")->trigger();
    auto* dialog = window_->findChild<QFileDialog*>("saveAsDialog");
    Q_EMIT dialog->fileSelected(home_->path("two.yaml"));
    delete dialog;
    QCOMPARE(page->filePath(), home_->path("two.yaml"));
    window_->openHistory();
    const qsizetype open = window_->pages().size();
    window_->findChild<QAction*>("actionBack")->trigger();
    QCOMPARE(window_->currentPage(), page);
    QCOMPARE(window_->pages().size(), open);
  }

  void aBadLinkIsTold() {
    window_->openLink("lockstep:nothing");
    QVERIFY(window_->currentPage()->message()->what().contains("lockstep:nothing"));
  }

  void backAndForward() {
    RunPage* page = openSteps();
    auto* tabs = page->findChild<QTabWidget*>("runTabs");
    tabs->setCurrentIndex(2);
    HistoryPage* history = window_->openHistory();
    auto* back = window_->findChild<QAction*>("actionBack");
    auto* forward = window_->findChild<QAction*>("actionForward");
    QVERIFY(back->isEnabled() && !forward->isEnabled());
    const auto press = [&](Qt::Key key) { QTest::keyClick(window_.get(), key, Qt::AltModifier); };
    press(Qt::Key_Left);
    QCOMPARE(window_->currentPage(), page);
    QCOMPARE(tabs->currentIndex(), 2);
    press(Qt::Key_Left);
    QCOMPARE(tabs->currentIndex(), 3);
    press(Qt::Key_Left);
    QCOMPARE(tabs->currentIndex(), 0);
    press(Qt::Key_Right);
    QCOMPARE(tabs->currentIndex(), 3);
    press(Qt::Key_Right);
    press(Qt::Key_Right);
    QCOMPARE(window_->currentPage(), history);
    QVERIFY(!forward->isEnabled());
    press(Qt::Key_Left);
    tabs->setCurrentIndex(1);  // elsewhere: what was ahead is forgotten
    QVERIFY(!forward->isEnabled());
  }

 private:
  RunPage* openSteps() {
    RunPage* page = window_->openRun(run_);
    (void)QTest::qWaitFor([&] { return page->document()->loaded(); });
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(3);
    const auto* map = page->findChild<HeatMapView*>();
    (void)QTest::qWaitFor([&] { return map->isVisible() && map->xRange().end > 400; }, 60'000);
    QTest::qWait(100);  // laid out
    return page;
  }

  RunPage* restarted() {
    window_->close();
    tests::closeWindow(window_);
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->restoreSession();
    window_->show();
    (void)QTest::qWaitForWindowExposed(window_.get());
    return qobject_cast<RunPage*>(window_->currentPage());
  }
  static QCustomPlot* lossCanvas(const RunPage* page) {
    return page->lossPlot()->findChild<QCustomPlot*>("plotCanvas");
  }
  static QCPRange lossRange(const RunPage* page) { return lossCanvas(page)->xAxis->range(); }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  QString run_;
};

QTEST_MAIN(PlacesTest)
#include "places_test.moc"
