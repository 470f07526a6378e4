// Heat map, timeline and traffic of a run's page, driven by mouse and keyboard, on runs as the
// history keeps them.
#include <QAbstractItemModelTester>
#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QSignalSpy>
#include <QSlider>
#include <QSpinBox>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <QToolButton>
#include <cmath>

#include "tests/ui/by_hand.h"
#include "tests/ui/studio_fixture.h"
#include "ui/models/cost_model.h"
#include "ui/models/step_table_model.h"
#include "ui/models/timeline_table_model.h"
#include "ui/models/traffic_model.h"
#include "ui/pages/run_page.h"
#include "ui/plots/color_map.h"
#include "ui/plots/custom_plot.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/legend_bar.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/series_plottable.h"
#include "ui/plots/timeline_view.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/widgets/breakdown_bars.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

constexpr int kSteps = 400;
constexpr int kNodesTab = 1, kStepsTab = 3, kStragglersTab = 4, kTrafficTab = 5;

}  // namespace

class StepsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    run_ = QString::fromStdString(home_->addRun(0, app::RunState::SUCCEEDED, kSteps));
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->resize(1400, 900);
    window_->show();
    page_ = window_->openRun(run_);
    QVERIFY(wait([&] { return page_->document()->loaded(); }));
    page_->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kStepsTab);
    map_ = page_->findChild<HeatMapView*>("heatMap");
    timeline_ = page_->findChild<TimelineView*>("timeline");
    QVERIFY(wait([&] { return timeline_->measured() && map_->xRange().end > kSteps; }));
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  // The node of the rank is marked in the plots of nodes, until another or none is chosen.
  void aClickMarksTheNode_data() {
    QTest::addColumn<int>("others");
    QTest::newRow("few nodes") << 0;
    QTest::newRow("70 nodes") << 67;
  }
  void aClickMarksTheNode() {
    QFETCH(int, others);
    if (others > 0) {
      run_ = QString::fromStdString(home_->addRun(2, app::RunState::SUCCEEDED, kSteps));
      addNodes(others);
      page_ = window_->openRun(run_);
      QVERIFY(wait([&] { return page_->document()->loaded(); }));
      page_->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kStepsTab);
      map_ = page_->findChild<HeatMapView*>("heatMap");
      QVERIFY(wait([&] { return map_->xRange().end > kSteps; }));
    }
    QTest::mouseClick(map_, Qt::LeftButton, {}, map_->centreOf(1, 213));
    QCOMPARE(map_->chosenRank(), 1);
    // Though their tab is opened only now.
    page_->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kNodesTab);
    const QStringList network{"local2 in", "local2 out"};
    const auto sorted = [&](const char* plot) {
      QStringList out = markedIn(plot);
      out.sort();
      return out;
    };
    QVERIFY(wait([&] {
      return markedIn("cpuPlot") == QStringList{"local2"} && sorted("networkPlot") == network;
    }));
    QVERIFY(!std::isnan(cursorOf("cpuPlot")));
    const bool isSpread = legendOf("cpuPlot").contains("median");
    QCOMPARE(isSpread, others > 0);
    QVERIFY(legendOf("cpuPlot").contains("local2"));
    QCOMPARE(legendOf("cpuPlot").contains("local1"), !isSpread);
    // A line that is kept by hand stays.
    page_->findChild<PlotView*>("cpuPlot")->toggleKept("local3");
    page_->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kStepsTab);
    QTest::mouseClick(map_, Qt::LeftButton, {}, map_->centreOf(0, 100));
    QVERIFY(wait([&] { return markedIn("cpuPlot").contains("local1"); }));
    QVERIFY(!markedIn("cpuPlot").contains("local2"));
    page_->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kNodesTab);
    auto* canvas = page_->findChild<PlotView*>("cpuPlot")->findChild<QCustomPlot*>("plotCanvas");
    QTest::keyClick(canvas, Qt::Key_Escape);
    QVERIFY(wait([&] { return map_->chosenRank() == -1; }));
    QCOMPARE(markedIn("cpuPlot"), isSpread ? QStringList{"local3"} : QStringList());
    QVERIFY(markedIn("networkPlot").isEmpty() && std::isnan(cursorOf("cpuPlot")));
  }

  void aClickChoosesRankAndStepEverywhere() {
    QSignalSpy chosen(map_, &HeatMapView::cellChosen);
    QTest::mouseClick(map_, Qt::LeftButton, {}, map_->centreOf(1, 213));
    QCOMPARE(chosen.size(), 1);
    QCOMPARE(map_->chosenRank(), 1);
    // A pixel is a third of a step wide at most.
    QVERIFY(std::abs(map_->chosenStep() - 213) <= 1);
    const std::int64_t step = map_->chosenStep();
    QVERIFY(wait([&] { return timeline_->measured()->step == 200; }));
    const QString title =
        page_->findChild<QWidget*>("timelineCard")->findChild<QLabel*>("timelineCardTitle")->text();
    QCOMPARE(title, QString("Timeline of step 200, the sampled step nearest to step %1").arg(step));
    const QString cell = page_->findChild<QLabel*>("heatMapCell")->text();
    QVERIFY2(cell.startsWith(QString("step %1 · local2 · rank 1 · Compute ").arg(step)) &&
                 cell.endsWith("% of the step time above the median rank"),
             qPrintable(cell));
    QCOMPARE(map_->accessibleDescription(), cell);
    // Logs of that rank alone, at that time.
    auto* logRank = page_->findChild<QComboBox*>("logRank");
    QCOMPARE(logRank->currentData().toInt(), 1);
    const auto* logs = page_->findChild<QTableView*>("logTable");
    QVERIFY(logs->currentIndex().isValid());
    const double began = page_->document()->steps().began(1, step);
    const auto lineNs = logs->currentIndex().data(LogModel::kTimeRole).toLongLong();
    QVERIFY(static_cast<double>(lineNs) * 1e-9 <= began || logs->currentIndex().row() == 0);
    const QModelIndex next = logs->model()->index(logs->currentIndex().row() + 1, 0);
    QVERIFY(!next.isValid() ||
            static_cast<double>(next.data(LogModel::kTimeRole).toLongLong()) * 1e-9 > began);
    // The same moment in the plots, over steps and over time.
    QCOMPARE(cursorOf("lossPlot"), static_cast<double>(step));
    QVERIFY(std::abs(cursorOf("cpuPlot") - page_->document()->secondsIntoRun(began)) < 0.05);
    // Escape gives all of it back.
    QTest::keyClick(map_, Qt::Key_Escape);
    QCOMPARE(map_->chosenRank(), -1);
    QCOMPARE(logRank->currentIndex(), 0);
    QVERIFY(std::isnan(cursorOf("lossPlot")) && std::isnan(cursorOf("cpuPlot")));
  }

  // A slow step is shown to who looks for it, and said to be one, if all ranks have told it.
  void aSlowStepIsNamed() {
    addSlowSteps();
    const auto* title = page_->findChild<QLabel*>("timelineCardTitle");
    const auto says = [&](std::int64_t step, const QString& text) {
      map_->chooseCell(1, step);
      QTRY_COMPARE_WITH_TIMEOUT(title->text(), text, 60'000);
    };
    says(260, "Timeline of slow step 260");
    says(270, "Timeline of slow step 260, the recorded step nearest to step 270");
    says(240, "Timeline of step 250, the sampled step nearest to step 240");
  }

  void keysMoveTheCell() {
    map_->setFocus();
    QTest::keyClick(map_, Qt::Key_Right);
    QCOMPARE(map_->chosenRank(), 0);
    QCOMPARE(map_->chosenStep(), 1);
    QTest::keyClick(map_, Qt::Key_Down);
    QTest::keyClick(map_, Qt::Key_Right);
    QTest::keyClick(map_, Qt::Key_Right, Qt::ControlModifier);
    QCOMPARE(map_->chosenRank(), 1);
    QCOMPARE(map_->chosenStep(), 12);
    QTest::keyClick(map_, Qt::Key_Left);
    QTest::keyClick(map_, Qt::Key_Up);
    QTest::keyClick(map_, Qt::Key_Up);  // there is no row above
    QCOMPARE(map_->chosenRank(), 0);
    QCOMPARE(map_->chosenStep(), 11);
    // Zoomed in about the cell, which stays in view as it moves.
    for (int i = 0; i < 20; ++i) QTest::keyClick(map_, Qt::Key_Plus);
    QVERIFY(map_->xRange().span() < 10);
    for (int i = 0; i < 30; ++i) QTest::keyClick(map_, Qt::Key_Right);
    QCOMPARE(map_->chosenStep(), 41);
    QVERIFY(map_->xRange().begin <= 41 && map_->xRange().end >= 42);
    QTest::keyClick(map_, Qt::Key_Home);
    QCOMPARE(map_->xRange().span(), static_cast<double>(kSteps));
  }

  void theSlowRankIsSeen() {
    const auto colorAt = [&](int rank, int step) {
      const QImage image = map_->grab().toImage();
      return image.pixelColor(map_->centreOf(rank, step) * image.devicePixelRatio());
    };
    const int slow = kSteps / 2 + 10;
    for (const Theme::Mode mode : {Theme::Mode::kLight, Theme::Mode::kDark}) {
      Theme::instance().apply(mode);
      const QColor usual = colorAt(1, 50), late = colorAt(1, slow);
      QVERIFY(late.red() > late.blue() + 60);
      QVERIFY(std::abs(usual.red() - usual.blue()) < 60);
    }
    Theme::instance().apply(Theme::Mode::kLight);
    // By node, which its name says too, and by rank the rows follow each other; by cost it is the
    // first, and waited for.
    const int left = map_->cellsRect().left();
    for (const int order : {1, 0}) {
      choose("heatMapOrder", order);
      QCOMPARE(map_->cellsRect().left() > left, order == 1);
      QVERIFY(map_->centreOf(0, 1).y() < map_->centreOf(1, 1).y());
      QVERIFY(map_->centreOf(1, 1).y() < map_->centreOf(2, 1).y());
    }
    choose("heatMapOrder", 2);
    QVERIFY(map_->centreOf(1, 1).y() < map_->centreOf(0, 1).y());
    choose("heatMapMeasure", 1);  // waiting
    QVERIFY(wait([&] { return map_->updatesEnabled(); }));
    QVERIFY(map_->centreOf(1, 1).y() > map_->centreOf(0, 1).y());
    const QColor waits = colorAt(1, slow);
    QVERIFY(waits.blue() > waits.red() + 40);
    choose("heatMapScale", 1);
    QVERIFY(wait([&] { return map_->updatesEnabled(); }));
    QVERIFY(colorAt(0, slow).lightness() > colorAt(1, slow).lightness());
  }

  // Clocks of GPUs are offered as soon as the run has some. Rank 2 has no GPU, and of step 300
  // nothing was sampled.
  void gpuClocksAreAMeasureWhereTheyAreKnown() {
    auto* measure = page_->findChild<QComboBox*>("heatMapMeasure");
    QCOMPARE(measure->findText("GPU clock"), -1);
    constexpr int kSince = 201, kWithout = 300;
    app::RunUpdate update;
    for (int rank = 0; rank < 2; ++rank) {
      app::RunBatch::Series series{"rank/" + std::to_string(rank) + "/gpu_clock", {}};
      for (int step = 1; step <= kSteps; ++step)
        if (step != kWithout)
          series.points.push_back(
              {static_cast<double>(step), rank == 1 && step >= kSince ? 600 : 1980.0});
      update.series.push_back(std::move(series));
    }
    page_->document()->take(update);
    QVERIFY(wait([&] { return measure->findText("GPU clock") >= 0; }));
    const auto* cell = page_->findChild<QLabel*>("heatMapCell");
    map_->chooseCell(1, 250);
    choose("heatMapMeasure", measure->findText("GPU clock"));
    QVERIFY(wait([&] { return map_->updatesEnabled(); }));
    QVERIFY2(cell->text().contains(" · GPU clock 600 MHz · 69.7 % below the median rank"),
             qPrintable(cell->text()));
    for (const auto& [rank, step] : {std::pair{2, 250}, {0, kWithout}}) {
      map_->chooseCell(rank, step);
      QVERIFY2(cell->text().endsWith("no data"), qPrintable(cell->text()));
    }
    map_->chooseCell(-1, 0);
    const auto colorAt = [&](int rank, int step) {
      const QImage image = map_->grab().toImage();
      return image.pixelColor(map_->centreOf(rank, step) * image.devicePixelRatio());
    };
    QVERIFY(colorAt(1, 250).red() > colorAt(1, 250).blue() + 60);  // as a slow rank has
    choose("heatMapOrder", 2);
    QVERIFY(map_->centreOf(1, 1).y() < map_->centreOf(0, 1).y());
    QCOMPARE(page_->findChild<QComboBox*>("heatMapScale")->itemText(1), QString("in MHz"));
    choose("heatMapScale", 1);
    QVERIFY(wait([&] { return map_->updatesEnabled(); }));
    QVERIFY(colorAt(1, 250).lightness() > colorAt(0, 250).lightness());
    page_->findChild<QToolButton*>("heatMapAsTable")->click();
    const auto* table = page_->findChild<QTableView*>("heatMapTable")->model();
    QCOMPARE(table->index(249, 1).data().toString(), QString("600 MHz"));
    QCOMPARE(table->index(249, 2).data().toString(), QString(QChar(0x2014)));
    QCOMPARE(table->index(kWithout - 1, 0).data().toString(), QString(QChar(0x2014)));
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return measure->currentText() == QString::fromUtf8("GPU 时钟"); }));
    Language::instance().set("en");
    QVERIFY(wait([&] { return measure->currentText() == "GPU clock"; }));
    choose("heatMapMeasure", 0);
    QCOMPARE(page_->findChild<QComboBox*>("heatMapScale")->itemText(1), QString("in seconds"));
  }

  void mouseZoomsPansAndShowsAll() {
    const QRect cells = map_->cellsRect();
    const auto drag = [&](QPoint from, QPoint to, Qt::KeyboardModifiers modifiers) {
      QTest::mousePress(map_, Qt::LeftButton, modifiers, from);
      QMouseEvent move(QEvent::MouseMove, to, map_->mapToGlobal(to), Qt::NoButton, Qt::LeftButton,
                       modifiers);
      QApplication::sendEvent(map_, &move);
      QTest::mouseRelease(map_, Qt::LeftButton, modifiers, to);
    };
    const int quarter = cells.width() / 4;
    drag(cells.center() - QPoint(quarter, 0), cells.center() + QPoint(quarter, 0), {});
    QVERIFY(std::abs(map_->xRange().span() - kSteps / 2.0) < 4);
    QCOMPARE(map_->rowRange().span(), 3.0);  // a flat box
    QCOMPARE(map_->chosenRank(), -1);
    const double before = map_->xRange().begin;
    drag(cells.center(), cells.center() - QPoint(quarter, 0), Qt::ShiftModifier);
    QVERIFY(std::abs(map_->xRange().begin - before - kSteps / 8.0) < 3);
    drag(cells.center(), cells.center() + QPoint(40 * quarter, 0), Qt::ShiftModifier);
    QCOMPARE(map_->xRange().begin, 1.0);  // not beyond the data
    QWheelEvent wheel(cells.center(), map_->mapToGlobal(cells.center()), {}, {0, 240}, {},
                      Qt::ControlModifier, Qt::NoScrollPhase, false);
    QApplication::sendEvent(map_, &wheel);
    QVERIFY(map_->rowRange().span() < 3);
    QTest::mouseDClick(map_, Qt::LeftButton, {}, cells.center());
    QCOMPARE(map_->xRange().span(), static_cast<double>(kSteps));
    QCOMPARE(map_->rowRange().span(), 3.0);
    // Beside the cells there is nothing to zoom into.
    drag(QPoint(2, cells.top() + 4), QPoint(2, cells.bottom() - 4), {});
    QCOMPARE(map_->xRange().span(), static_cast<double>(kSteps));
  }

  void spansTellWhoIsWaitedFor() {
    const auto& lanes = timeline_->measured()->lanes;
    QCOMPARE(lanes.size(), std::size_t{3});
    const auto waiting =
        std::find_if(lanes[0].spans.begin(), lanes[0].spans.end(), [](const auto& span) {
          return span.kind == app::SpanKind::kWaiting && span.collective >= 0;
        });
    QVERIFY(waiting != lanes[0].spans.end());
    const auto middle = static_cast<double>(waiting->begin + waiting->end) / 2;
    QTest::mouseClick(timeline_, Qt::LeftButton, {},
                      timeline_->pixelOf(middle, timeline_->rowOf(0) + 0.15));
    QVERIFY(timeline_->chosenSpan() == &*waiting);
    const QString text = page_->findChild<QLabel*>("timelineSpan")->text();
    QVERIFY2(text.startsWith("rank 0 · waiting · ") && text.endsWith("last to arrive: rank 1"),
             qPrintable(text));
    QCOMPARE(timeline_->accessibleDescription(), text);
    QTest::keyClick(timeline_, Qt::Key_Right);
    QVERIFY(timeline_->chosenSpan() == &*waiting + 1);
    QTest::keyClick(timeline_, Qt::Key_Down);
    QCOMPARE(timeline_->rankOf(timeline_->chosenRow()), 1);
    // The median rank is above them.
    for (int i = 0; i < 2; ++i) QTest::keyClick(timeline_, Qt::Key_Up);
    QCOMPARE(timeline_->chosenRow(), 0);
    const QString usual = page_->findChild<QLabel*>("timelineSpan")->text();
    QVERIFY2(usual.startsWith(QString::fromUtf8("median rank · ")), qPrintable(usual));
    QTest::keyClick(timeline_, Qt::Key_Escape);
    QVERIFY(timeline_->chosenSpan() == nullptr);
    // The prediction beside it can be left out.
    QVERIFY(timeline_->predicted());
    page_->findChild<QCheckBox*>("timelinePredicted")->click();
    QVERIFY(!timeline_->predicted() && timeline_->measured());
    // So can the median rank above it.
    QCOMPARE(timeline_->medianRows(), 1);
    QCOMPARE(timeline_->rowRange().end, 4.0);
    page_->findChild<QCheckBox*>("timelineMedian")->click();
    QCOMPARE(timeline_->medianRows(), 0);
    QCOMPARE(timeline_->rowRange().end, 3.0);
  }

  // The slow rank of the made-up run, as fast as its peers, and a link.
  void whatIfIsAnswered() {
    page_->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kStragglersTab);
    auto* rank = page_->findChild<QComboBox*>("whatIfRank");
    QVERIFY(wait([&] { return rank->count() == 4; }));
    const auto figure = [&](const char* name) { return page_->findChild<Figure*>(name)->value(); };
    QVERIFY(wait([&] {
      return figure("whatIfError").endsWith("%") &&
             figure("whatIfStep") == figure("whatIfMeasured");
    }));
    rank->setCurrentIndex(2);
    QVERIFY(wait([&] { return figure("whatIfStep") != figure("whatIfMeasured"); }));
    const QString without = figure("whatIfStep");
    auto* rate = page_->findChild<QSlider*>("whatIfRate");
    QVERIFY(!rate->isEnabled());
    page_->findChild<QComboBox*>("whatIfLink")->setCurrentIndex(1);
    QVERIFY(rate->isEnabled());
    rate->setValue(0);
    QVERIFY(wait([&] { return figure("whatIfStep") != without; }));
    page_->findChild<QCheckBox*>("whatIfIdealNetwork")->click();
    QVERIFY(!rate->isEnabled());
    QVERIFY(!page_->findChild<QCheckBox*>("whatIfNoBubble")->isEnabled());
    choose("whatIfRank", 0);
    page_->findChild<QComboBox*>("whatIfLink")->setCurrentIndex(0);
    page_->findChild<QCheckBox*>("whatIfIdealNetwork")->click();
    QVERIFY(wait([&] { return figure("whatIfStep") == figure("whatIfMeasured"); }));
  }

  // What the run drew is divided by what its ranks did.
  void energyIsDivided() {
    const auto value = [&](const QString& name) {
      for (const InspectorRow& row : page_->inspectorRows())
        if (row.name == name) return row.value;
      return QString();
    };
    QVERIFY(wait([&] { return !value("Energy: computing").isEmpty(); }));
    int percent = 0;
    for (const char* part : {"computing", "communication", "waiting", "other"}) {
      const QString text = value(QString("Energy: %1").arg(part));
      QVERIFY2(text.contains("J (") && text.endsWith(" %)"), qPrintable(text));
      percent += text.section('(', 1).section(' ', 0, 0).toInt();
    }
    QVERIFY2(percent >= 98 && percent <= 102, qPrintable(QString::number(percent)));
    QVERIFY(value("Energy per step").endsWith("J"));
    QVERIFY(value("Energy per epoch").endsWith("J"));
    QVERIFY(value("Predicted energy of its steps").endsWith("J"));
  }

  // What the launch said stays with the run, in the language of the window.
  void remarksOfTheLaunchAreShown() {
    const std::string run = home_->addRun(2, app::RunState::SUCCEEDED, 100);
    app::Preview predicted = home_->preview("fashion-cnn.yaml", tests::MadeUpCurves::kRanks);
    predicted.remarks = {message("auto chose {} with {}: {} per step predicted ({})", "zero-2",
                                 message("{} ranks", 3), "5 ms", "the least traffic"),
                         message("node {} is a spare: it replaces a lost node", "n4")};
    {
      const auto history = app::History::open(home_->home().historyFolder());
      auto documents = *(*history)->documents(run);
      documents.prediction = app::predictionJson(predicted);
      QVERIFY((*history)->setDocuments(run, documents).ok());
    }
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    const auto told = [&] {
      QStringList out;
      for (const InspectorRow& row : page->inspectorRows())
        if (row.name.isEmpty()) out << row.value;
      return out;
    };
    QVERIFY2(told().contains("auto chose zero-2 with 3 ranks: 5 ms per step predicted (the least "
                             "traffic)"),
             qPrintable(told().join('\n')));
    Language::instance().set("zh_CN");
    const QStringList chinese = told();
    Language::instance().set("en");
    QVERIFY2(chinese.size() == 2 && chinese[0].contains("zero-2") &&
                 !chinese[0].contains("auto chose") && !chinese[1].contains("replaces"),
             qPrintable(chinese.join('\n')));
  }

  // Each question stands as a command; while the slider moves, the last answer is of where it
  // stops.
  void whatIfIsACommand() {
    page_->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kStragglersTab);
    auto* rank = page_->findChild<QComboBox*>("whatIfRank");
    QVERIFY(wait([&] { return rank->count() == 4; }));
    const auto figure = [&](const char* name) { return page_->findChild<Figure*>(name)->value(); };
    auto* command = page_->findChild<QLabel*>("whatIfCommand");
    const QString begin = "lockstep whatif " + run_;
    QCOMPARE(command->text(), begin);
    rank->setCurrentIndex(2);
    page_->findChild<QComboBox*>("whatIfLink")->setCurrentIndex(1);
    auto* rate = page_->findChild<QSlider*>("whatIfRate");
    for (int at = rate->maximum(); at >= 0; at -= 10) rate->setValue(at);
    QVERIFY2(command->text().startsWith(begin + " --without 1 --link ") &&
                 command->text().endsWith("=0.01Gbit/s"),
             qPrintable(command->text()));
    QVERIFY(wait([&] { return figure("whatIfStep") != figure("whatIfMeasured"); }));
    page_->findChild<QCheckBox*>("whatIfIdealNetwork")->click();
    QCOMPARE(command->text(),
             begin + " --without 1 " + command->text().section(' ', 5, 6) + " --ideal-network");
    // What is planned anew stands alone.
    auto* ranks = page_->findChild<QSpinBox*>("whatIfRanks");
    ranks->setFocus();
    ranks->selectAll();
    QTest::keyClicks(ranks, "6");
    QTest::keyClick(ranks, Qt::Key_Return);
    QCOMPARE(command->text(), begin + " --with ranks=6");
    QVERIFY(!rank->isEnabled() && !rate->isEnabled());
    auto* note = page_->findChild<QLabel*>("whatIfNote");
    QVERIFY(wait([&] { return note->text().startsWith("Planned anew"); }));
    page_->findChild<QCheckBox*>("whatIfBf16")->click();
    QCOMPARE(command->text(), begin + " --with ranks=6 --with training.precision=bf16");
    page_->findChild<QCheckBox*>("whatIfBf16")->click();
    ranks->setValue(0);
    QVERIFY(rank->isEnabled());
    QVERIFY(wait([&] { return note->text().startsWith("Steps "); }));
  }

  void whatARankCostsIsListed() {
    auto* tabs = page_->findChild<QTabWidget*>("runTabs");
    tabs->setCurrentIndex(kStragglersTab);
    auto* table = page_->findChild<QTableView*>("costTable");
    const auto cell = [&](int row, int column) {
      return table->model()->index(row, column).data().toString();
    };
    QVERIFY(wait([&] { return table->isVisible() && table->model()->rowCount() == 3; }));
    QCOMPARE(cell(0, CostModel::kName), QString("rank 1"));
    QCOMPARE(cell(0, CostModel::kNode), QString("local2"));
    QVERIFY2(cell(0, CostModel::kLate).endsWith("(201 to 240)"),
             qPrintable(cell(0, CostModel::kLate)));
    QCOMPARE(cell(1, CostModel::kLate), QString(QChar(0x2014)));
    const auto* summary = page_->findChild<QLabel*>("costSummary");
    QVERIFY2(summary->text().startsWith(QString("Steps 6 to %1").arg(kSteps)),
             qPrintable(summary->text()));
    // The late one by a replay of its steps, with the error; the others as an estimate.
    QVERIFY(wait([&] { return summary->text().contains("replayed"); }));
    QVERIFY2(summary->text().contains(QString("Steps 6 to %1 replayed: ").arg(kSteps)) &&
                 summary->text().endsWith("%."),
             qPrintable(summary->text()));
    QVERIFY(!cell(0, CostModel::kWithout).contains(QChar(0x2248)));
    QVERIFY(cell(1, CostModel::kWithout).startsWith(QChar(0x2248)));
    // Its figures beside the others'; of another rank, when that is chosen.
    auto* peers = page_->findChild<QTableView*>("peerTable");
    const auto peersOf = [&] {
      return peers->model()->headerData(PeerModel::kOwn, Qt::Horizontal).toString();
    };
    QVERIFY(wait([&] { return peersOf() == "Rank 1" && peers->model()->rowCount() >= 7; }));
    table->setFocus();
    QTest::keyClick(table, Qt::Key_Down);
    QVERIFY(wait([&] { return peersOf() == "Rank " + cell(1, CostModel::kName).mid(5); }));
    // By node, and of the last steps alone.
    choose("costRows", 1);
    QCOMPARE(cell(0, CostModel::kName), QString("local2"));
    choose("costSpan", 0);
    QVERIFY(wait([&] {
      return summary->text().startsWith(QString("Steps %1 to %2:").arg(kSteps - 99).arg(kSteps));
    }));
    auto* find = page_->findChild<QToolButton*>("costFind");
    QVERIFY(!find->isEnabled());  // none of them was late
    // From there to the map, by mouse and by key.
    choose("costRows", 0);
    choose("costSpan", 2);
    QVERIFY(wait([&] { return summary->text().startsWith("Steps 6 to"); }));
    table->setCurrentIndex(table->model()->index(0, 0));
    QTest::mouseClick(find, Qt::LeftButton);
    QCOMPARE(tabs->currentIndex(), kStepsTab);
    QVERIFY(wait([&] { return map_->chosenRank() == 1 && map_->chosenStep() == 240; }));
    QTest::keyClick(map_, Qt::Key_Escape);
    tabs->setCurrentIndex(kStragglersTab);
    table->setFocus();
    QTest::keyClick(table, Qt::Key_Return);
    QCOMPARE(tabs->currentIndex(), kStepsTab);
    QVERIFY(wait([&] { return map_->chosenRank() == 1; }));
  }

  void trafficOfThePlanAndOfTheNodes() {
    tests::clickTab(page_->findChild<QTabWidget*>("runTabs"), kTrafficTab);
    auto* matrix = page_->findChild<QTableView*>("trafficTable");
    const auto* ranks = matrix->model();
    QVERIFY(wait([&] { return ranks->rowCount() == 3 && matrix->isVisible(); }));
    QTest::mouseClick(matrix->viewport(), Qt::LeftButton, {},
                      matrix->visualRect(ranks->index(0, 1)).center());
    QCOMPARE(matrix->currentIndex(), ranks->index(0, 1));
    QTest::keyClick(matrix, Qt::Key_Right);
    QCOMPARE(matrix->currentIndex(), ranks->index(0, 2));
    QTest::keyClick(matrix, Qt::Key_Down);
    QCOMPARE(matrix->currentIndex(), ranks->index(1, 2));
    QCOMPARE(ranks->columnCount(), 3);
    QCOMPARE(ranks->index(1, 1).data().toString(), QString());
    QVERIFY(ranks->index(0, 1).data().toString().endsWith("B"));
    QVERIFY(ranks->index(0, 1).data(Qt::AccessibleTextRole).toString().startsWith("rank 0 sends "));
    auto* nodeTable = page_->findChild<QTableView*>("nodeTrafficTable");
    const auto* nodes = nodeTable->model();
    QCOMPARE(nodes->rowCount(), 3);
    QCOMPARE(nodes->index(0, 0).data().toString(), QString("local1"));
    QTest::mouseClick(nodeTable->viewport(), Qt::LeftButton, {},
                      nodeTable->visualRect(nodes->index(1, 0)).center());
    QTest::keyClick(nodeTable, Qt::Key_Down);
    QCOMPARE(nodeTable->currentIndex().row(), 2);
    for (const int column : {NodeTrafficModel::kPlannedOut, NodeTrafficModel::kMeasuredOut})
      QTRY_VERIFY_WITH_TIMEOUT(nodes->index(0, column).data().toString().endsWith("B"), 60'000);
  }

  // Links as the agents count them, beside the plan; of a run without them the matrix says why.
  void trafficBetweenNodesIsMeasured() {
    auto* tabs = page_->findChild<QTabWidget*>("runTabs");
    tabs->setCurrentIndex(kTrafficTab);
    const auto* why = page_->findChild<QLabel*>("linkTrafficEmpty");
    QVERIFY(wait([&] { return why->isVisible() && why->text().contains("TCP"); }));
    const std::string run = home_->addRun(2, app::RunState::SUCCEEDED, 100);
    const double stepSeconds = addLinks(run);
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kTrafficTab);
    const auto* table = page->findChild<QTableView*>("linkTrafficTable");
    QVERIFY(wait([&] { return table->isVisible(); }));
    const auto* links = table->model();
    const auto* planned = page->findChild<QTableView*>("trafficTable")->model();
    QVERIFY(wait([&] { return planned->rowCount() == 3; }));
    const auto cell = [&](int from, int to) { return links->index(from, to); };
    QCOMPARE(links->rowCount(), 3);
    QCOMPARE(links->headerData(0, Qt::Vertical).toString(), QString("from local1"));
    QCOMPARE(links->headerData(1, Qt::Horizontal).toString(), QString("to local2"));
    const QString sent = formatBytes(std::round(3e6 * stepSeconds));
    QVERIFY(wait([&] { return cell(0, 1).data().toString() == sent; }));
    QCOMPARE(cell(1, 0).data().toString(), formatBytes(std::round(5e6 * stepSeconds)));
    QCOMPARE(cell(0, 2).data().toString(), QString());
    QVERIFY(!cell(0, 2).data(Qt::BackgroundRole).isValid());
    // One rank a node: what the plan says of ranks is true of nodes.
    QTRY_COMPARE_WITH_TIMEOUT(cell(0, 1).data(Qt::ToolTipRole).toString(),
                              QString("local1 sends %1 to local2 per step; planned: %2")
                                  .arg(sent, planned->index(0, 1).data().toString()),
                              60'000);
  }

  void theMapIsATableToo() {
    page_->findChild<QToolButton*>("heatMapAsTable")->click();
    auto* table = page_->findChild<QTableView*>("heatMapTable");
    QVERIFY(table->isVisible());
    const auto* model = table->model();
    QCOMPARE(model->rowCount(), kSteps);
    QCOMPARE(model->columnCount(), 3);
    QVERIFY(model->index(7, 2).data().toString().endsWith("ms") ||
            model->index(7, 2).data().toString().endsWith("s"));
    table->setCurrentIndex(model->index(99, 2));
    QCOMPARE(map_->chosenRank(), 2);
    QCOMPARE(map_->chosenStep(), 100);
  }

  // The spans of the shown step, with one selection in both; another step is another table.
  void theTimelineIsATableToo() {
    QTest::mouseClick(page_->findChild<QToolButton*>("timelineAsTable"), Qt::LeftButton);
    auto* table = page_->findChild<QTableView*>("timelineTable");
    QVERIFY(table->isVisible() && !timeline_->isVisible());
    const auto* model = table->model();
    const auto spansOf = [](const auto& lanes) {
      std::size_t out = 0;
      for (const auto& lane : lanes) out += lane.spans.size() + lane.communication.size();
      return static_cast<int>(out);
    };
    const auto rows = [&] {
      return spansOf(timeline_->measured()->medians) + spansOf(timeline_->measured()->lanes);
    };
    QCOMPARE(model->rowCount(), rows());
    const auto cell = [&](int row, int column) { return model->index(row, column); };
    QCOMPARE(cell(0, TimelineTableModel::kRank).data().toString(), QString("median rank"));
    int waiting = 0;
    while (waiting < model->rowCount() &&
           cell(waiting, TimelineTableModel::kWaitsFor).data().toString() != "rank 1")
      ++waiting;
    QVERIFY(waiting < model->rowCount());
    table->scrollTo(cell(waiting, TimelineTableModel::kOperation));
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {},
                      table->visualRect(cell(waiting, TimelineTableModel::kOperation)).center());
    QVERIFY(timeline_->chosenSpan() && timeline_->chosenSpan()->waitsFor == 1);
    const QString said = page_->findChild<QLabel*>("timelineSpan")->text();
    QVERIFY2(said.endsWith("last to arrive: rank 1"), qPrintable(said));
    page_->findChild<QCheckBox*>("timelineMedian")->click();
    QCOMPARE(model->rowCount(), spansOf(timeline_->measured()->lanes));
    map_->chooseCell(1, 213);
    QVERIFY(wait([&] { return timeline_->measured()->step == 200; }));
    QCOMPARE(model->rowCount(), spansOf(timeline_->measured()->lanes));
    QVERIFY(!table->currentIndex().isValid());
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] {
      const auto title = model->headerData(TimelineTableModel::kWaitsFor, Qt::Horizontal);
      return !table->accessibleName().contains("Data") && title.toString() != "Waits for";
    }));
    Language::instance().set("en");
  }

  void aLiveRunGrows() {
    app::RunUpdate update;
    for (int rank = 0; rank < 3; ++rank) {
      const std::string prefix = "rank/" + std::to_string(rank) + "/";
      for (const char* part : {"step", "forward", "backward", "optimizer"}) {
        app::RunBatch::Series series{prefix + part, {}};
        for (int step = kSteps + 1; step <= kSteps + 60; ++step)
          series.points.push_back({static_cast<double>(step), 0.001});
        update.series.push_back(std::move(series));
      }
    }
    page_->document()->take(update);
    QVERIFY(wait([&] { return map_->xRange().end == kSteps + 61; }));
    // What is zoomed into stays.
    QTest::keyClick(map_, Qt::Key_Plus);
    const auto before = map_->xRange();
    for (auto& series : update.series)
      for (auto& point : series.points) point.x += 60;
    page_->document()->take(update);
    QTest::qWait(500);
    QVERIFY(map_->xRange() == before);
    QTest::keyClick(map_, Qt::Key_Home);
    QTRY_COMPARE_WITH_TIMEOUT(map_->xRange().end, kSteps + 121.0, 60'000);
  }

  void otherLanguageAndEmptyStates() {
    QTest::mouseClick(map_, Qt::LeftButton, {}, map_->centreOf(1, 20));
    Language::instance().set("zh_CN");
    auto* measure = page_->findChild<QComboBox*>("heatMapMeasure");
    QVERIFY(wait([&] { return measure->itemText(0) != "Compute"; }));
    const QString cell = page_->findChild<QLabel*>("heatMapCell")->text();
    QVERIFY2(!cell.contains("step") && !cell.contains("median"), qPrintable(cell));
    QCOMPARE(map_->chosenRank(), 1);
    Language::instance().set("en");
    QVERIFY(wait([&] { return measure->itemText(0) == "Compute"; }));
    // A run whose history has nothing of its steps.
    app::RunRow row;
    row.run = "20240601-120010-a1b2c9";
    row.phase = app::RunState::FAILED;
    row.world = 2;
    auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok() && (*history)->add(row, {}).ok());
    RunPage* empty = window_->openRun(QString::fromStdString(row.run));
    QVERIFY(wait([&] { return empty->document()->loaded(); }));
    for (const int tab : {kStepsTab, kStragglersTab, kTrafficTab}) {
      empty->findChild<QTabWidget*>("runTabs")->setCurrentIndex(tab);
      QTest::qWait(300);
    }
    QVERIFY(wait([&] { return empty->findChild<QLabel*>("trafficEmpty")->isVisible(); }));
    empty->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kStragglersTab);
    QVERIFY(wait([&] { return empty->findChild<QLabel*>("costEmpty")->isVisible(); }));
    QVERIFY(!empty->findChild<QToolButton*>("costFind")->isEnabled());
    empty->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kStepsTab);
    auto* map = empty->findChild<HeatMapView*>("heatMap");
    QTest::keyClick(map, Qt::Key_Right);
    QTest::mouseClick(map, Qt::LeftButton, {}, map->rect().center());
    QCOMPARE(map->chosenRank(), -1);
  }

  void modelsKeepTheRules() {
    app::StepMatrix steps;
    StepTableModel table(steps);
    TrafficModel traffic;
    NodeTrafficModel nodes;
    CostModel costs;
    PeerModel peers;
    const QAbstractItemModelTester testers[] = {
        QAbstractItemModelTester(&costs, QAbstractItemModelTester::FailureReportingMode::QtTest),
        QAbstractItemModelTester(&peers, QAbstractItemModelTester::FailureReportingMode::QtTest),
        QAbstractItemModelTester(&table, QAbstractItemModelTester::FailureReportingMode::QtTest),
        QAbstractItemModelTester(&traffic, QAbstractItemModelTester::FailureReportingMode::QtTest),
        QAbstractItemModelTester(&nodes, QAbstractItemModelTester::FailureReportingMode::QtTest)};
    for (int step = 1; step < 20; ++step) {
      steps.add({"rank/" + std::to_string(step % 4) + "/forward", {{double(step), 0.5}}});
      table.refresh();
    }
    app::StepMatrix few(8);  // cells, each of several steps
    StepTableModel folded(few);
    const QAbstractItemModelTester tester(&folded,
                                          QAbstractItemModelTester::FailureReportingMode::QtTest);
    folded.setMeasure(app::StepMeasure::kForward);
    for (int step = 1; step < 20; ++step) {
      few.add({"rank/0/forward", {{double(step), step == 7 ? 4 : 0.5}}});
      folded.refresh();
    }
    QCOMPARE(folded.rowCount(), 5);
    QCOMPARE(folded.headerData(1, Qt::Vertical, Qt::DisplayRole).toString(),
             QString::fromUtf8("5–8"));
    QCOMPARE(folded.headerData(4, Qt::Vertical, Qt::DisplayRole).toString(),
             QString::fromUtf8("17–19"));
    QCOMPARE(folded.index(1, 0).data().toString(), formatSeconds(4));
    QCOMPARE(folded.index(4, 0).data().toString(), formatSeconds(0.5));
    QCOMPARE(folded.firstStep(4), 17);
    table.setMeasure(app::StepMeasure::kForward);
    QCOMPARE(table.rowCount(), 19);
    QCOMPARE(table.index(18, 3).data().toString(), formatSeconds(0.5));
    QCOMPARE(table.index(17, 3).data().toString(), QString(QChar(0x2014)));
    traffic.setTraffic({{0, 1, 1000, false}, {1, 0, 500, true}, {7, 0, 9, false}}, 2);
    QCOMPARE(traffic.index(1, 0).data().toString(), QString::fromUtf8("≤ 500 B"));
    QCOMPARE(traffic.most(), 1000);
    traffic.setNodeTraffic({{0, 1, 700, false}}, {{0, 1, 400, false}, {0, 1, 200, false}},
                           {"a", "b"});
    QCOMPARE(traffic.index(0, 1).data(Qt::AccessibleTextRole).toString(),
             QString("a sends 700 B to b per step; planned: 600 B"));
    traffic.setNodeTraffic({{0, 1, 900, false}}, {}, {"a", "b"});
    QCOMPARE(traffic.index(0, 1).data().toString(), QString("900 B"));
    QCOMPARE(traffic.headerData(1, Qt::Vertical, Qt::DisplayRole).toString(), QString("from b"));
    traffic.setTraffic({}, 0);
    nodes.setRows({{"n1", 10, 20, 5.0, {}, {}}});
    nodes.setRows({{"n1", 10, 20, 6.0, {}, {}}});
    nodes.setRows({});
    costs.setCosts({{.rank = 1, .node = "n2", .seconds = 2}, {.rank = 0, .node = "n1"}});
    costs.setCosts({{.rank = 1, .node = "n2", .seconds = 3}, {.rank = 0, .node = "n1"}});
    QCOMPARE(costs.rowOf(0), 1);
    QCOMPARE(costs.index(0, CostModel::kPhase).data().toString(), phaseName(0));
    costs.setCosts({{.node = "n2"}});
    QCOMPARE(costs.headerData(0, Qt::Horizontal, Qt::DisplayRole).toString(), QString("Node"));
    costs.retranslate();
    costs.setCosts({});
    peers.setFigures({{"node/gpu/sm_clock", 900, 1980}, {"waiting", 0, 0}, {"new", 1, 2}}, 3);
    QCOMPARE(peers.index(0, PeerModel::kOwn).data().toString(), QString("900 MHz"));
    QCOMPARE(peers.index(0, PeerModel::kFactor).data().toString(), QString::fromUtf8("× 0.45"));
    QCOMPARE(peers.index(1, PeerModel::kFactor).data().toString(), QString(QChar(0x2014)));
    peers.retranslate();
    peers.setFigures({}, 0);
  }

  // Both scales can be told apart in grey, step by step away from the middle.
  void coloursAreToldApartInGrey() {
    for (const Theme::Mode mode : {Theme::Mode::kLight, Theme::Mode::kDark}) {
      Theme::instance().apply(mode);
      const ColorMap sequential(ColorMap::Kind::kSequential);
      const ColorMap diverging(ColorMap::Kind::kDiverging);
      const int sign = mode == Theme::Mode::kLight ? -1 : 1;
      for (float share = 0.1f; share <= 1; share += 0.1f) {
        QVERIFY(qGray(sequential.at(share)) > qGray(sequential.at(share - 0.1f)));
        for (const int side : {-1, 1})
          QVERIFY(sign * qGray(diverging.at(static_cast<float>(side) * share)) >
                  sign * qGray(diverging.at(static_cast<float>(side) * (share - 0.1f))));
      }
      QCOMPARE(diverging.at(9), diverging.at(1));
      QCOMPARE(diverging.at(-9), diverging.at(-1));
    }
    Theme::instance().apply(Theme::Mode::kLight);
  }

 private:
  void choose(const char* box, int index) {
    tests::chooseByKeys(page_->findChild<QComboBox*>(box), index);
  }

  // Adds a minute of load of nodes that have no ranks.
  void addNodes(int count) const {
    auto history = app::History::open(home_->home().historyFolder());
    LOCKSTEP_CHECK(history.ok(), "{}", history.error().text());
    const auto row = (*history)->find(run_.toStdString());
    app::RunBatch batch;
    for (int node = 1; node <= count; ++node)
      for (const char* what : {"cpu", "net_in", "net_out"}) {
        auto& series = batch.series.emplace_back();
        series.name = fmt::format("node/n{}/{}", node, what);
        for (int i = 0; i < 120; ++i)
          series.points.push_back(
              {static_cast<double>(row->startedNs) * 1e-9 + i * 0.5, node / (count + 1.0)});
      }
    auto store = (*history)->openRun(run_.toStdString());
    LOCKSTEP_CHECK(store.ok() && (*store)->lockForRecording().ok());
    LOCKSTEP_CHECK((*store)->append(batch).ok());
  }

  // The names of the lines that a plot draws by themselves, above the others.
  QStringList markedIn(const char* plot) const {
    auto* canvas = page_->findChild<PlotView*>(plot)->findChild<QCustomPlot*>("plotCanvas");
    auto* marks = dynamic_cast<SeriesPlottable*>(canvas->plottable(1));
    QStringList out;
    for (const auto& line : marks->series()) out << line->name;
    return out;
  }
  QStringList legendOf(const char* plot) const {
    return page_->findChild<PlotView*>(plot)->findChild<LegendBar*>("plotLegend")->entryNames();
  }

  // Adds a minute of traffic of two links to the store of a run, in bytes/s. Returns the run's step
  // time.
  double addLinks(const std::string& run) const {
    auto history = app::History::open(home_->home().historyFolder());
    LOCKSTEP_CHECK(history.ok(), "{}", history.error().text());
    const auto row = (*history)->find(run);
    LOCKSTEP_CHECK(row.ok(), "{}", row.error().text());
    app::RunBatch batch;
    batch.series = {{"node/local1/to/local2/sent", {}}, {"node/local2/to/local1/sent", {}}};
    for (int i = 0; i < 120; ++i) {
      const double x = static_cast<double>(row->startedNs) * 1e-9 + i * 0.5;
      batch.series[0].points.push_back({x, i % 2 == 0 ? 2e6 : 4e6});
      batch.series[1].points.push_back({x, 5e6});
    }
    auto store = (*history)->openRun(run);
    LOCKSTEP_CHECK(store.ok() && (*store)->lockForRecording().ok());
    LOCKSTEP_CHECK((*store)->append(batch).ok());
    return row->measuredStepSeconds;
  }

  // Told since they were slow: step 260 by all ranks, 270 by one of them.
  void addSlowSteps() const {
    auto history = app::History::open(home_->home().historyFolder());
    LOCKSTEP_CHECK(history.ok(), "{}", history.error().text());
    auto store = (*history)->openRun(run_.toStdString());
    LOCKSTEP_CHECK(store.ok() && (*store)->lockForRecording().ok());
    app::RunBatch batch;
    for (const app::SpanEvents& one : (*store)->events(250, 250)) {
      batch.events.push_back({one.rank, 260, one.packed, true});
      if (one.rank == 0) batch.events.push_back({one.rank, 270, one.packed, true});
    }
    LOCKSTEP_CHECK((*store)->append(batch).ok());
  }

  // Where the plot shows the moment; NaN: nowhere.
  double cursorOf(const char* plot) const {
    auto* canvas = page_->findChild<PlotView*>(plot)->findChild<QCustomPlot*>("plotCanvas");
    for (int i = 0; i < canvas->itemCount(); ++i) {
      auto* line = qobject_cast<QCPItemStraightLine*>(canvas->item(i));
      if (line != nullptr && line->pen().style() == Qt::SolidLine && line->visible())
        return line->point1->key();
    }
    return std::nan("");
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  QString run_;
  RunPage* page_ = nullptr;
  HeatMapView* map_ = nullptr;
  TimelineView* timeline_ = nullptr;
};

QTEST_MAIN(StepsTest)
#include "steps_test.moc"
