// The plots of a run page by mouse and keyboard: smoothing, logarithmic axes, pause, the values
// under the pointer, the data as a table, and which curves they show.
#include <QTest>
#include <QtWidgets>
#include <algorithm>
#include <cmath>

#include "tests/ui/studio_fixture.h"
#include "ui/pages/run_page.h"
#include "ui/plots/custom_plot.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/series.h"
#include "ui/theme/format.h"
#include "ui/widgets/breakdown_bars.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

constexpr int kSteps = 300;
constexpr int kSomeFramesMs = 150;

}  // namespace

class RunPlotsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_, {1400, 900});
    const auto run = home_->addRun(0, app::RunState::SUCCEEDED, kSteps);
    page_ = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] {
      return page_->document()->loaded() &&
             canvasOf("lossPlot")->xAxis->range().upper > kSteps - 5 &&
             canvasOf("metricPlot")->xAxis->range().upper > kSteps - 5;
    }));
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  // Without it the curve is the samples themselves, which are always drawn.
  void smoothingByKeys() {
    auto* slider = page_->findChild<QSlider*>("smoothSlider");
    const auto loss = page_->document()->series("loss");
    QVERIFY(loss->smoothed());
    slider->setFocus();
    QVERIFY(wait([&] { return slider->hasFocus(); }));
    QTest::keyClick(slider, Qt::Key_Home);
    QVERIFY(!loss->smoothed());
    QCOMPARE(&loss->shown(), &loss->raw());
    QTest::keyClick(slider, Qt::Key_Right);
    QVERIFY(loss->smoothed());
    const auto last = [&] { return loss->shown().y(loss->shown().size() - 1); };
    const double little = last();
    QTest::keyClick(slider, Qt::Key_End);
    QVERIFY(last() != little);
    QCOMPARE(loss->raw().size(), static_cast<std::size_t>(kSteps));
  }

  // x is that of all plots over steps, y of one.
  void logarithmicAxes() {
    auto* loss = canvasOf("lossPlot");
    auto* metric = canvasOf("metricPlot");
    auto* logX = page_->findChild<QToolButton*>("logXButton");
    for (const auto type : {QCPAxis::stLogarithmic, QCPAxis::stLinear}) {
      QTest::mouseClick(logX, Qt::LeftButton);
      QCOMPARE(logX->isChecked(), type == QCPAxis::stLogarithmic);
      QCOMPARE(loss->xAxis->scaleType(), type);
      QCOMPARE(metric->xAxis->scaleType(), type);
      QVERIFY(wait([&] { return loss->xAxis->range().upper > kSteps - 5; }));
    }
    auto* logY = page_->lossPlot()->findChild<QToolButton*>("plotLogY");
    logY->setFocus();
    QTest::keyClick(logY, Qt::Key_Space);
    QVERIFY(logY->isChecked());
    QCOMPARE(loss->yAxis->scaleType(), QCPAxis::stLogarithmic);
    QCOMPARE(metric->yAxis->scaleType(), QCPAxis::stLinear);
  }

  // Samples arrive meanwhile, and are drawn when it goes on.
  void pausedPlotsStandStill() {
    auto* pause = page_->findChild<QToolButton*>("pauseButton");
    auto* loss = canvasOf("lossPlot");
    QTest::mouseClick(pause, Qt::LeftButton);
    QVERIFY(pause->isChecked());
    app::RunUpdate update;
    update.series.push_back({"loss", {}});
    for (int step = kSteps + 1; step <= 2 * kSteps; ++step)
      update.series[0].points.push_back({static_cast<double>(step), 0.5});
    page_->document()->take(update);
    QCOMPARE(page_->document()->series("loss")->raw().size(), std::size_t{2 * kSteps});
    QTest::qWait(kSomeFramesMs);
    QVERIFY(loss->xAxis->range().upper < kSteps + 20);
    QTest::mouseClick(pause, Qt::LeftButton);
    QVERIFY(!pause->isChecked());
    QVERIFY(wait([&] { return loss->xAxis->range().upper > 2 * kSteps - 5; }));
  }

  // Over one plot the step is told in all of them: in each the nearest one that it has.
  void thePointerTellsTheStep() {
    auto* loss = canvasOf("lossPlot");
    auto* metric = canvasOf("metricPlot");
    for (const int step : {40, 150, 260}) {
      const QPoint at(qRound(loss->xAxis->coordToPixel(step)), loss->axisRect()->center().y());
      QTest::mouseMove(loss, at);
      const int pixel = static_cast<int>(loss->xAxis->range().size() / loss->axisRect()->width());
      constexpr int kBetweenEvaluations = 60;
      for (const auto& [plot, away] :
           {std::pair{loss, pixel + 1}, {metric, pixel + kBetweenEvaluations / 2}})
        QVERIFY2(
            wait([&] { return stepTold(plot) > 0 && std::abs(stepTold(plot) - step) <= away; }),
            qPrintable(QString::number(stepTold(plot))));
    }
    QEvent leave(QEvent::Leave);
    QCoreApplication::sendEvent(loss, &leave);
    for (QCustomPlot* plot : {loss, metric}) QCOMPARE(stepTold(plot), -1);
  }

  void theDataAreATable() {
    auto* button = page_->lossPlot()->findChild<QToolButton*>("plotTable");
    auto* table = page_->lossPlot()->findChild<QTableView*>("plotData");
    button->setFocus();
    QTest::keyClick(button, Qt::Key_Space);
    QVERIFY(wait([&] { return table->isVisible() && table->model()->rowCount() >= kSteps; }));
    QVERIFY(!canvasOf("lossPlot")->isVisible());
    QTest::keyClick(button, Qt::Key_Space);
    QVERIFY(wait([&] { return canvasOf("lossPlot")->isVisible(); }));
  }

  // Learning rate, gradient norm, update ratio and tokens a second stand in their plots, and in the
  // tables behind them.
  void theCourseOfTrainingIsShown() {
    app::RunUpdate update;
    update.series = {{"update_ratio", {}}, {"tokens_per_second", {}}};
    for (int step = 1; step <= kSteps; ++step)
      for (app::RunBatch::Series& one : update.series)
        one.points.push_back(
            {static_cast<double>(step), one.name == "update_ratio" ? 1e-3 * step : 1000.0 + step});
    page_->document()->take(update);
    constexpr int kStep = 151;
    const double rate = 5e-4 * (1 + std::cos(3.14 * kStep / kSteps));
    struct Curve {
      const char* plot;
      QString name;
      double value, tolerance;
    };
    for (const Curve& curve : {Curve{"learningRatePlot", "learning rate", rate, 1e-9},
                               {"gradientNormPlot", "gradient norm", 0.22, 0.2},
                               {"gradientNormPlot", "update ratio", 1e-3 * kStep, 1e-9},
                               {"throughputPlot", "tokens per second", 1000.0 + kStep, 1e-9}}) {
      auto* plot = page_->findChild<PlotView*>(curve.plot);
      const auto& lines = plot->series();
      const auto isDrawn = [&](const auto& line) {
        return line->name == curve.name && line->visible && line->raw().size() > 0;
      };
      QVERIFY2(wait([&] { return std::ranges::any_of(lines, isDrawn); }), curve.plot);
      auto* asTable = plot->findChild<QToolButton*>("plotTable");
      QTest::mouseClick(asTable, Qt::LeftButton);
      const auto* table = plot->findChild<QTableView*>("plotData");
      QVERIFY(wait([&] { return table->isVisible(); }));
      const QString text = textAt(table->model(), curve.name, kStep);
      bool isNumber = false;
      const double value = QLocale().toDouble(text, &isNumber);
      QVERIFY2(isNumber && std::abs(value - curve.value) <= curve.tolerance,
               qPrintable(curve.name + ": " + text));
      QTest::mouseClick(asTable, Qt::LeftButton);
      QVERIFY(wait([&] { return canvasOf(curve.plot)->isVisible(); }));
    }
  }

  // Measured and predicted time of each rank.
  void theStepTimesAreATable() {
    const auto* bars = page_->findChild<BreakdownBars*>("breakdownBars");
    const auto* table = page_->findChild<QTableView*>("breakdownTable");
    auto* asTable = page_->findChild<QToolButton*>("breakdownAsTable");
    QVERIFY(wait([&] { return bars->isVisible() && bars->bars().size() == 3; }));
    QTest::mouseClick(asTable, Qt::LeftButton);
    QVERIFY(table->isVisible() && !bars->isVisible());
    QCOMPARE(table->model()->rowCount(), 6);
    for (int row = 0; row < 6; ++row) {
      const BreakdownBar& bar = bars->bars()[static_cast<std::size_t>(row / 2)];
      const bool isMeasured = row % 2 == 0;
      const auto cell = [&](int column) {
        return table->model()->index(row, column).data().toString();
      };
      QVERIFY(bar.hasMeasured && bar.hasPredicted);
      QCOMPARE(cell(0), QString("rank %1").arg(row / 2));
      QCOMPARE(cell(1), isMeasured ? QString("measured") : QString("predicted"));
      QCOMPARE(cell(4), formatSeconds((isMeasured ? bar.measured : bar.predicted)[2]));
      QCOMPARE(table->model()->headerData(4, Qt::Horizontal).toString(), phaseName(2));
    }
    asTable->setFocus();
    QTest::keyClick(asTable, Qt::Key_Space);
    QVERIFY(bars->isVisible() && !table->isVisible());
  }

  // With Tab alone every tool of the page is reached, in the order in which it lies.
  void toolsAreReachedWithTab() {
    auto* first = page_->findChild<QWidget*>("smoothSlider");
    first->setFocus();
    QVERIFY(wait([&] { return first->hasFocus(); }));
    for (const char* name : {"pauseButton", "logXButton", "xAxisButton", "followButton"}) {
      QTest::keyClick(window_->focusWidget(), Qt::Key_Tab);
      QCOMPARE(window_->focusWidget()->objectName(), QString(name));
    }
    for (const char* name : {"xAxisButton", "logXButton", "pauseButton", "smoothSlider"}) {
      QTest::keyClick(window_->focusWidget(), Qt::Key_Backtab, Qt::ShiftModifier);
      QCOMPARE(window_->focusWidget()->objectName(), QString(name));
    }
  }

 private:
  QCustomPlot* canvasOf(const char* plot) const {
    return page_->findChild<PlotView*>(plot)->findChild<QCustomPlot*>("plotCanvas");
  }
  // Of the table behind a plot.
  static QString textAt(const QAbstractItemModel* table, const QString& curve, int step) {
    for (int column = 1; column < table->columnCount(); ++column)
      for (int row = 0; row < table->rowCount(); ++row)
        if (table->headerData(column, Qt::Horizontal).toString() == curve &&
            table->index(row, 0).data().toString() == QString::number(step))
          return table->index(row, column).data().toString();
    return {};
  }
  // The step beside the crosshair; -1: there is none.
  static int stepTold(QCustomPlot* plot) {
    for (int i = 0; i < plot->itemCount(); ++i) {
      const auto* text = qobject_cast<QCPItemText*>(plot->item(i));
      if (text && text->visible() && text->text().startsWith("step "))
        return text->text().mid(5).section(' ', 0, 0).remove(',').toInt();
    }
    return -1;
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  RunPage* page_ = nullptr;
};

QTEST_MAIN(RunPlotsTest)
#include "run_plots_test.moc"
