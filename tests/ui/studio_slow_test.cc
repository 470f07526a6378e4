// One rank slowed for real is named on the run page, and no rank of a healthy run is.
#include <QSignalSpy>
#include <QTabBar>
#include <QTableView>

#include "tests/ui/studio_road.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/timeline_view.h"

using namespace lockstep;

namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kWithinSteps = 20;
// Steps of some 80 ms: two bursts, and what the screen is behind, are few of the 20 of them.
const std::vector<std::pair<QString, QString>> kLongSteps = {{"batch: 64", "batch: 3072"},
                                                             {"epochs: 10", "epochs: 100"}};

}  // namespace

class StudioSlowTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void init() {
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    road_->open();
    auto edits = kLongSteps;
    if (QTest::currentTestFunction() == QByteArray("theBatchIsDividedBySpeed"))
      edits.emplace_back("kind: multi-worker-mirrored",
                         "kind: multi-worker-mirrored\n  shares: [4, 1, 1]");
    road_->launch("fashion-cnn.yaml", edits, nullptr, kRanks);
  }
  void cleanup() {
    if (!road_) return;
    if (auto* page = road_->page()) {
      if (page->document()->canKill()) page->document()->ask(app::RunRequest::kKill);
      QVERIFY(tests::wait([&] { return app::isFinal(page->document()->row().phase); }));
    }
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void noRankOfAHealthyRunIsNamed() {
    QVERIFY(!QTest::currentTestFailed());
    ui::RunDocument* run = road_->page()->document();
    const auto named = watchNames();
    QVERIFY2(tests::wait([&] { return run->lastStep() >= 150; }, 120'000), qPrintable(stateText()));
    qInfo("%s", qPrintable(stateText()));
    QVERIFY2(named->isEmpty(), qPrintable(named->join('\n')));
    QVERIFY(road_->page()->straggler().isEmpty());
  }

  // What a run under way has drawn by now is on its page, and grows.
  void energyIsToldMeanwhile() {
    QVERIFY(!QTest::currentTestFailed());
    const auto value = [&](const QString& name) {
      for (const ui::InspectorRow& row : road_->page()->inspectorRows())
        if (row.name == name) return row.value;
      return QString();
    };
    QVERIFY2(tests::wait([&] { return value("Energy").endsWith("J"); }, 120'000),
             qPrintable(stateText()));
    QVERIFY(value("Energy per step").endsWith("J"));
    QVERIFY(value("Energy: computing").isEmpty());
    const QString first = value("Energy");
    QVERIFY2(tests::wait([&] { return value("Energy") != first; }, 120'000), qPrintable(first));
  }

  void aRankStoppedInBurstsIsNamed_data() {
    QTest::addColumn<int>("rank");
    QTest::newRow("the first") << 0;
    QTest::newRow("another") << 1;
  }
  void aRankStoppedInBurstsIsNamed() {
    QVERIFY(!QTest::currentTestFailed());
    QFETCH(int, rank);
    ui::RunDocument* run = road_->page()->document();
    const auto named = watchNames();
    QVERIFY2(tests::wait([&] { return run->lastStep() >= 40; }), qPrintable(stateText()));
    const int victim = road_->workerOf(rank, road_->run());
    QVERIFY(victim > 0);
    const std::int64_t before = run->lastStep();
    const tests::Bursts bursts(victim);
    // What the machine does besides may have another one named first.
    QVERIFY2(tests::wait([&] { return run->slow() && run->slow()->rank == rank; }),
             qPrintable(named->join('\n') + "\n" + stateText()));
    const std::int64_t steps = run->lastStep() - before;
    qInfo("named after %lld steps: %s; %s", static_cast<long long>(steps),
          qPrintable(road_->page()->straggler()), qPrintable(stateText()));
    QVERIFY(road_->page()->straggler().contains(QString("Rank %1 ").arg(rank)));
    QVERIFY2(steps <= kWithinSteps, qPrintable(stateText()));
    // What the agent sees of the process, and what the rank costs, is said beside its name.
    const auto* evidence = road_->page()->findChild<QLabel*>("stragglerEvidence");
    QVERIFY2(
        tests::wait([&] { return evidence->text().contains("Its process was suspended"); }, 10'000),
        qPrintable(evidence->text()));
    QVERIFY2(evidence->text().contains("a step would"), qPrintable(evidence->text()));
    // By a replay, as soon as the history has its steps.
    QVERIFY2(tests::wait([&] { return evidence->text().contains("replayed, with an error of"); }),
             qPrintable(evidence->text()));
    qInfo("%s", qPrintable(evidence->text()));
    profileIt(rank);
    findInCosts(rank);
    excludeIt(rank);
    if (rank == 0) restartAll();
  }

  // Of equal ranks the first has most of the batch, until it is divided evenly.
  void theBatchIsDividedBySpeed() {
    QVERIFY(!QTest::currentTestFailed());
    ui::RunPage* page = road_->page();
    ui::RunDocument* run = page->document();
    QVERIFY2(tests::wait([&] { return run->lastStep() >= 20; }), qPrintable(stateText()));
    auto* button = page->findChild<QToolButton*>("rebalanceButton");
    QVERIFY(button->isEnabled());
    QTest::mouseClick(button, Qt::LeftButton);
    QPointer<QDialog> dialog = page->findChild<QDialog*>("rebalanceDialog");
    QVERIFY(dialog && tests::wait([&] { return dialog->isVisible(); }));
    const auto* outcome = dialog->findChild<QLabel*>("rebalanceOutcome");
    QVERIFY2(tests::wait([&] { return outcome->text().contains("would take about"); }),
             qPrintable(outcome->text()));
    const auto* table = dialog->findChild<QTableView*>("rebalanceTable");
    QCOMPARE(table->model()->rowCount(), kRanks);
    const auto cell = [&](int row, int column) {
      return table->model()->index(row, column).data().toString().remove(',').toInt();
    };
    QCOMPARE(cell(0, 3), 4 * cell(1, 3));
    QVERIFY(cell(0, 5) < cell(0, 3));
    QCOMPARE(cell(0, 5) + cell(1, 5) + cell(2, 5), cell(0, 3) + cell(1, 3) + cell(2, 3));
    QCOMPARE(dialog->findChild<QLineEdit*>("rebalanceDialogCommand")->text(),
             "lockstep rebalance " + run->run() + " --apply");
    const double proposed = cell(0, 5);
    QTest::keyClick(dialog, Qt::Key_Return);
    QVERIFY(tests::wait([&] { return dialog.isNull(); }));
    QVERIFY2(tests::wait([&] { return run->plan().sharesFrom > 1; }, 60'000),
             qPrintable(stateText()));
    QCOMPARE(run->plan().shares.of(kRanks)[0], proposed);
    const std::int64_t before = run->lastStep();
    QVERIFY2(tests::wait([&] { return run->lastStep() >= before + 10; }, 60'000),
             qPrintable(stateText()));
  }

 private:
  // The steps are recorded and shown: the first of them, of the slow rank.
  void profileIt(int rank) {
    ui::RunPage* page = road_->page();
    QSignalSpy profiled(page->document(), &ui::RunDocument::profiled);
    auto* button = page->findChild<QToolButton*>("profileButton");
    QVERIFY(button->isEnabled());
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY2(tests::wait([&] { return profiled.size() == 1; }), qPrintable(stateText()));
    const qint64 first = profiled[0][0].toLongLong();
    const auto* map = page->findChild<ui::HeatMapView*>("heatMap");
    QVERIFY2(tests::wait([&] { return map->isVisible() && map->chosenStep() == first; }, 60'000),
             qPrintable(stateText()));
    QCOMPARE(map->chosenRank(), rank);
    const auto* timeline = page->findChild<ui::TimelineView*>("timeline");
    QVERIFY(
        tests::wait([&] { return timeline->measured() && timeline->measured()->step == first; }));
  }
  // By the panel's button: other processes, which train on.
  void restartAll() {
    ui::RunPage* page = road_->page();
    const auto before = road_->processes("worker", road_->run());
    QTest::mouseClick(page->findChild<QToolButton*>("restartRanksButton"), Qt::LeftButton);
    QPointer<QDialog> dialog = page->findChild<QDialog*>("restartDialog");
    QVERIFY(dialog && tests::wait([&] { return dialog->isVisible(); }));
    QCOMPARE(dialog->findChild<QLineEdit*>("restartDialogCommand")->text(),
             "lockstep restart " + page->document()->run());
    QTest::keyClick(dialog, Qt::Key_Return);
    QVERIFY2(tests::wait(
                 [&] {
                   const auto now = road_->processes("worker", road_->run());
                   return now.size() == kRanks &&
                          std::none_of(now.begin(), now.end(), [&](int one) {
                            return std::find(before.begin(), before.end(), one) != before.end();
                          });
                 },
                 60'000),
             qPrintable(stateText()));
    const std::int64_t step = page->document()->lastStep();
    QVERIFY2(tests::wait(
                 [&] {
                   return page->document()->lastStep() >= step + 10 &&
                          page->document()->canExclude() && page->document()->canProfile();
                 },
                 60'000),
             qPrintable(stateText()));
  }
  // It is the costliest, and stands beside its peers.
  void findInCosts(int rank) {
    ui::RunPage* page = road_->page();
    auto* tabs = page->findChild<QTabWidget*>("runTabs");
    for (int i = 0; i < tabs->count(); ++i)
      if (tabs->tabText(i) == "Stragglers")
        QTest::mouseClick(tabs->tabBar(), Qt::LeftButton, {}, tabs->tabBar()->tabRect(i).center());
    const auto* table = page->findChild<QTableView*>("costTable");
    const auto cell = [&](int row, int column) {
      return table->model()->index(row, column).data().toString();
    };
    QVERIFY2(tests::wait([&] { return cell(0, 0) == QString("rank %1").arg(rank); }),
             qPrintable(cell(0, 0)));
    QCOMPARE(cell(0, 1), QString("local%1").arg(rank + 1));
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {},  // another was the first before
                      table->visualRect(table->model()->index(0, 0)).center());
    const auto* peers = page->findChild<QTableView*>("peerTable");
    QVERIFY(tests::wait([&] { return peers->model()->rowCount() > 7; }));
    // What can be done about it stands beside it.
    QTest::mouseClick(page->findChild<QToolButton*>("costExclude"), Qt::LeftButton);
    QPointer<QDialog> exclude = page->findChild<QDialog*>("excludeDialog");
    QVERIFY(exclude && tests::wait([&] { return exclude->isVisible(); }));
    QCOMPARE(exclude->findChild<QComboBox*>("excludeNode")->currentText(), cell(0, 1));
    QVERIFY(exclude->findChild<QLabel*>("excludeReason")->text().contains("The others waited"));
    QTest::keyClick(exclude, Qt::Key_Escape);
    QVERIFY(tests::wait([&] { return exclude.isNull(); }));
    QTest::mouseClick(page->findChild<QToolButton*>("costDebug"), Qt::LeftButton);
    QPointer<QDialog> debug = page->findChild<QDialog*>("debugDialog");
    QVERIFY(debug && tests::wait([&] { return debug->isVisible(); }));
    debug->close();
    QVERIFY(tests::wait([&] { return debug.isNull(); }));
    tabs->setCurrentIndex(0);
  }
  // By the panel's button. The first node coordinates the run, and stays.
  void excludeIt(int rank) {
    ui::RunPage* page = road_->page();
    ui::RunDocument* run = page->document();
    auto* button = page->findChild<QToolButton*>("excludeNodeButton");
    QVERIFY(button->isEnabled());
    QTest::mouseClick(button, Qt::LeftButton);
    QPointer<QDialog> dialog = page->findChild<QDialog*>("excludeDialog");
    QVERIFY(dialog && tests::wait([&] { return dialog->isVisible(); }));
    const QString node = QString("local%1").arg(rank + 1);
    QCOMPARE(dialog->findChild<QComboBox*>("excludeNode")->currentText(), node);
    QVERIFY(dialog->findChild<QLabel*>("excludeReason")->text().contains("a step would"));
    QCOMPARE(dialog->findChild<QLineEdit*>("excludeDialogCommand")->text(),
             "lockstep exclude " + run->run() + " " + node);
    QTest::keyClick(dialog, Qt::Key_Return);
    QVERIFY(tests::wait([&] { return dialog.isNull(); }));
    if (rank == 0) {
      QVERIFY2(tests::wait([&] { return page->message()->details().contains("coordinates"); }),
               qPrintable(stateText()));
      return;
    }
    const std::int64_t before = run->lastStep();
    QVERIFY2(tests::wait([&] { return road_->processes("worker", road_->run()).size() == 2; }),
             qPrintable(stateText()));
    QVERIFY2(tests::wait([&] { return run->lastStep() >= before + 30; }, 60'000),
             qPrintable(stateText()));
    QVERIFY2(tests::wait([&] { return !run->slow(); }, 30'000), qPrintable(page->straggler()));
    QCOMPARE(run->breakdown().size(), std::size_t{2});
    QVERIFY(!app::isFinal(run->row().phase));
  }

  // Every name the run page has shown since.
  std::shared_ptr<QStringList> watchNames() {
    auto names = std::make_shared<QStringList>();
    ui::RunPage* page = road_->page();
    connect(page->document(), &ui::RunDocument::slowChanged, this, [names, page] {
      const auto& slow = page->document()->slow();
      if (!slow) return;
      *names << QString("at step %1: rank %2, %3")
                    .arg(page->document()->lastStep())
                    .arg(slow->rank)
                    .arg(page->straggler());
    });
    return names;
  }
  QString stateText() const {
    const auto& run = *road_->page()->document();
    const double step = run.breakdown().empty() ? 0 : run.breakdown()[0].step;
    return QString("%1, step %2, %3 ms a step; %4")
        .arg(ui::runPhaseText(run.row().phase))
        .arg(run.lastStep())
        .arg(1e3 * step)
        .arg(road_->page()->message()->details());
  }

  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
};

QTEST_MAIN(StudioSlowTest)
#include "studio_slow_test.moc"
