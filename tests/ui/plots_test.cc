// Pyramid, series and plot: what is drawn is what was measured, and cheaply.
#include <QElapsedTimer>
#include <QImage>
#include <QAbstractItemModelTester>
#include <QTest>
#include <cmath>
#include <random>

#include "ui/plots/custom_plot.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/pyramid.h"
#include "ui/plots/series.h"
#include "ui/plots/series_table_model.h"
#include "ui/theme/theme.h"

using namespace lockstep::ui;

class PlotsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { Theme::instance().apply(Theme::Mode::kLight); }

  void pyramidEqualsBruteForce() {
    std::mt19937 random(7);
    std::normal_distribution<double> noise;
    Pyramid pyramid;
    std::vector<double> values;
    for (int i = 0; i < 5000; ++i) {
      const double y = i % 97 == 0 ? std::nan("") : noise(random);
      values.push_back(y);
      pyramid.append(i, y);
    }
    std::uniform_int_distribution<std::size_t> pick(0, values.size());
    for (int trial = 0; trial < 2000; ++trial) {
      std::size_t a = pick(random), b = pick(random);
      if (a > b) std::swap(a, b);
      MinMax expected;
      for (std::size_t i = a; i < b; ++i) expected.add(values[i]);
      const MinMax got = pyramid.range(a, b);
      QCOMPARE(got.min, expected.min);
      QCOMPARE(got.max, expected.max);
    }
  }

  void pyramidKeepsOrder() {
    Pyramid pyramid;
    pyramid.append(1, 1);
    pyramid.append(3, 2);
    pyramid.append(2, 3);  // late: raised to 3
    QCOMPARE(pyramid.x(2), 3.0);
    QCOMPARE(pyramid.lower(3), std::size_t{1});
    QCOMPARE(pyramid.upper(3), std::size_t{3});
  }

  void smoothingStartsUnbiased() {
    Series series("loss", 0, true);
    series.setSmoothing(0.9);
    series.append(0, 5);
    QCOMPARE(series.shown().y(0), 5.0);
    series.append(1, 5);
    QVERIFY(std::abs(series.shown().y(1) - 5) < 1e-12);
    series.append(2, std::nan(""));
    QVERIFY(std::isnan(series.shown().y(2)));
    series.setSmoothing(0);
    QCOMPARE(series.shown().size(), std::size_t{3});
  }

  // A single sample far out among 200,000 must be seen on a plot 600 pixels wide.
  void outlierIsDrawn() {
    PlotView view("plot");
    auto series = std::make_shared<Series>("loss", 1);
    for (int i = 0; i < 200'000; ++i) series->append(i, i == 77'777 ? 100 : 1);
    view.addSeries(series);
    view.resize(600, 300);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().upper > 99; }, 3000));
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    const QImage image = canvas->toPixmap().toImage();
    const QColor wanted = Theme::instance().series(1);
    const int x = static_cast<int>(canvas->xAxis->coordToPixel(77'777));
    const int y = static_cast<int>(canvas->yAxis->coordToPixel(60));
    bool found = false;
    for (int dx = -2; dx <= 2; ++dx) found = found || image.pixelColor(x + dx, y).rgb() == wanted.rgb();
    QVERIFY(found);
  }

  void manySeriesAreCheap() {
    PlotView view("plot");
    for (int s = 0; s < 64; ++s) {
      auto series = std::make_shared<Series>(QString::number(s), s);
      for (int i = 0; i < 100'000; ++i) series->append(i, std::sin(i * 0.001 + s) + s);
      view.addSeries(series);
    }
    view.resize(1600, 900);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->xAxis->range().upper > 9e4; }, 3000));
    std::vector<qint64> times;
    for (int i = 0; i < 9; ++i) {
      QElapsedTimer timer;
      timer.start();
      canvas->replot(QCustomPlot::rpImmediateRefresh);
      times.push_back(timer.nsecsElapsed());
    }
    std::sort(times.begin(), times.end());
    qInfo("replot of 64 x 100k samples: %.1f ms", static_cast<double>(times[times.size() / 2]) / 1e6);
    QVERIFY(times[times.size() / 2] < 100'000'000);
  }

  void zoomIsShared() {
    QObject owner;
    auto* group = new PlotGroup(&owner);
    PlotView a("a"), b("b");
    for (PlotView* view : {&a, &b}) {
      auto series = std::make_shared<Series>("s", 0);
      for (int i = 0; i < 100; ++i) series->append(i, i);
      view->addSeries(series);
      group->add(view);
      view->resize(300, 200);
      view->show();
    }
    auto* canvasA = a.findChild<QCustomPlot*>("plotCanvas");
    auto* canvasB = b.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvasB->xAxis->range().upper > 90 && canvasA->xAxis->range().upper > 90; }, 3000));
    canvasA->xAxis->setRange(10, 20);
    QVERIFY(!group->following());
    QCOMPARE(canvasB->xAxis->range().lower, 10.0);
    QCOMPARE(canvasB->xAxis->range().upper, 20.0);
    group->follow();
    QVERIFY(QTest::qWaitFor([&] { return canvasA->xAxis->range().upper > 90; }, 3000));
    // Paused, the picture stands still while data go on arriving.
    group->setPaused(true);
    a.series()[0]->append(500, 1);
    group->dataChanged();
    QTest::qWait(100);
    QVERIFY(canvasA->xAxis->range().upper < 200);
    group->setPaused(false);
    QVERIFY(QTest::qWaitFor([&] { return canvasA->xAxis->range().upper > 400; }, 3000));
  }

  void tableShowsTheSamples() {
    SeriesTableModel model;
    QAbstractItemModelTester tester(&model);
    auto a = std::make_shared<Series>("a", 0), b = std::make_shared<Series>("b", 1);
    for (int i = 0; i < 10; ++i) a->append(i, i * 2);
    b->append(4, 40);
    model.setSeries({a, b});
    QCOMPARE(model.rowCount(), 10);
    QCOMPARE(model.columnCount(), 3);
    QCOMPARE(model.index(5, 1).data().toString(), QString("8"));   // newest first
    QCOMPARE(model.index(5, 2).data().toString(), QString("40"));
    a->append(10, 20);
    model.refresh();
    QCOMPARE(model.rowCount(), 11);
  }

  void emptyPlotSaysSo() {
    PlotView view("plot");
    view.setTexts("Loss", "step", {}, "No data yet.");
    view.resize(300, 200);
    view.show();
    auto* empty = view.findChild<QLabel*>("plotEmpty");
    QVERIFY(QTest::qWaitFor([&] { return empty->isVisible() && empty->width() > 100; }, 3000));
    QCOMPARE(empty->text(), QString("No data yet."));
  }
};

QTEST_MAIN(PlotsTest)
#include "plots_test.moc"
