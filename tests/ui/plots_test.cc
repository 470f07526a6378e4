// Pyramid, series and plot: what is drawn is what was measured, and cheaply.
#include <QAbstractItemModelTester>
#include <QElapsedTimer>
#include <QImage>
#include <QLabel>
#include <QScrollArea>
#include <QSignalSpy>
#include <QTest>
#include <QVBoxLayout>
#include <cmath>
#include <ctime>
#include <limits>
#include <memory>
#include <random>

#include "ui/plots/custom_plot.h"
#include "ui/plots/frame_clock.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/pyramid.h"
#include "ui/plots/series.h"
#include "ui/plots/series_plottable.h"
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

  // A norm that overflows is no value: the axis is of the others, and goes on.
  void infinitySetsNoRange() {
    auto series = std::make_shared<Series>("gradient norm", 0);
    const double most = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 100; ++i) series->append(i, i == 40 ? most : i == 41 ? -most : i);
    QCOMPARE(series->raw().range(0, 100).min, 0.0);
    QCOMPARE(series->raw().range(0, 100).max, 99.0);
    QVERIFY(series->raw().range(40, 42).empty());
    Series thinned("gradient norm", 0);
    thinned.setLimit(100);
    for (int i = 0; i < 1000; ++i) thinned.append(i, i == 40 ? most : i == 41 ? 1e6 : i);
    QVERIFY(thinned.raw().size() <= 100);
    QCOMPARE(thinned.raw().range(0, 100).max, 1e6);  // the peak beside it is kept
    PlotView view("plot");
    view.addSeries(series);
    view.resize(420, 260);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().upper > 99; }, 30'000));
    QVERIFY(canvas->yAxis->range().upper < 200);
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

  // What came ahead leaves no trace once the samples between are there.
  void samplesAheadAreReplaced() {
    Series series("loss", 0, true), plain("loss", 0, true);
    for (Series* one : {&series, &plain}) one->setSmoothing(0.9);
    const auto add = [](Series& to, int from, int end) {
      for (int x = from; x < end; ++x) to.append(x, std::sin(x));
    };
    add(series, 0, 100);
    for (int x = 500; x < 600; ++x) series.appendAhead(x, 7);
    QCOMPARE(series.raw().size(), std::size_t{201});  // with a gap
    QVERIFY(std::isnan(series.raw().y(100)));
    QCOMPARE(series.raw().range(0, 201).max, 7.0);
    add(series, 100, 300);
    series.appendAhead(599, 7);
    series.setSmoothing(0.9);
    add(series, 300, 700);
    add(plain, 0, 700);
    for (const auto& [one, other] :
         {std::pair{&series.raw(), &plain.raw()}, {&series.shown(), &plain.shown()}}) {
      QCOMPARE(one->size(), other->size());
      for (std::size_t i = 0; i < one->size(); ++i) QCOMPARE(one->y(i), other->y(i));
      QCOMPARE(one->range(3, 650).max, other->range(3, 650).max);
      QCOMPARE(one->range(3, 650).min, other->range(3, 650).min);
    }
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
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().upper > 99; }, 30'000));
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    const QImage image = canvas->toPixmap().toImage();
    const QColor wanted = Theme::instance().series(1);
    const int x = static_cast<int>(canvas->xAxis->coordToPixel(77'777));
    const int y = static_cast<int>(canvas->yAxis->coordToPixel(60));
    bool found = false;
    for (int dx = -2; dx <= 2; ++dx)
      found = found || image.pixelColor(x + dx, y).rgb() == wanted.rgb();
    QVERIFY(found);
  }

  // Views that are costly to paint share the thread's time with the person, each in its turn.
  void paintingTakesTurns() {
    struct View : QObject {
      int painted = 0;
      bool waits = false;
    };
    View views[3];
    auto gone = std::make_unique<QObject>();
    bool goneWasPainted = false;
    FrameClock& clock = FrameClock::instance();
    clock.await(gone.get(), [&] { goneWasPainted = true; });
    gone.reset();
    qint64 spent = 0;
    const auto ask = [&](View& view) {
      if (std::exchange(view.waits, true)) return;
      clock.await(&view, [&] {
        view.waits = false;
        ++view.painted;
        QElapsedTimer busy;
        busy.start();
        while (busy.elapsed() < 20) {
        }
        spent += busy.elapsed();
      });
    };
    const auto connection = connect(&clock, &FrameClock::paint, this, [&] {
      for (View& view : views) ask(view);
    });
    QElapsedTimer total;
    total.start();
    while (total.elapsed() < 4000) {
      QCoreApplication::processEvents(QEventLoop::AllEvents, 5);
      QThread::msleep(1);
    }
    disconnect(connection);
    const auto share = static_cast<double>(spent) / static_cast<double>(total.elapsed());
    QVERIFY2(share < 0.4, qPrintable(QString::number(share)));
    for (const View& view : views) QVERIFY(view.painted >= 3);
    QVERIFY(std::abs(views[0].painted - views[2].painted) <= 1);
    QVERIFY(!goneWasPainted);
    QTest::qWait(200);  // until the last turns are over: the views end here
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
    QVERIFY(QTest::qWaitFor([&] { return canvas->xAxis->range().upper > 9e4; }, 30'000));
    // Of the processor: others may use it meanwhile.
    const auto spent = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
    };
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
      const double begin = spent();
      canvas->replot(QCustomPlot::rpImmediateRefresh);
      times.push_back(spent() - begin);
    }
    std::sort(times.begin(), times.end());
    qInfo("replot of 64 x 100k samples: %.1f ms", times[times.size() / 2]);
    QVERIFY(times[times.size() / 2] < 100);
  }

  static bool alike(const QColor& a, const QColor& b) {
    return std::abs(a.red() - b.red()) + std::abs(a.green() - b.green()) +
               std::abs(a.blue() - b.blue()) <
           24;
  }

  // Lines that are many pixels long in all are drawn quickly, without gaps between their samples.
  void longLinesHaveNoGaps() {
    PlotView view("plot");
    for (int s = 0; s < 40; ++s) {
      auto series = std::make_shared<Series>(QString("n%1").arg(s), 1);
      for (int i = 0; i <= 150; ++i) series->append(i, s == 0 ? 200 : i % 2 ? 100 : 0);
      view.addSeries(series);
    }
    view.resize(800, 500);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().upper > 199; }, 30'000));
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    const QImage image = canvas->toPixmap().toImage();
    const int row = static_cast<int>(canvas->yAxis->coordToPixel(200));
    for (int x = canvas->axisRect()->left() + 2; x < canvas->axisRect()->right() - 2; ++x)
      QVERIFY2(alike(image.pixelColor(x, row), Theme::instance().series(1)),
               qPrintable(QString::number(x)));
  }

  // However long a run, each part of it has its share of the samples that are kept.
  void longSeriesAreThinnedEvenly() {
    Series series("power", 0);
    series.setLimit(2048);
    for (int i = 0; i < 100'000; ++i) series.append(i * 0.1, i == 777 ? 50 : i % 7);
    const Pyramid& kept = series.raw();
    QVERIFY(kept.size() <= 2048 && kept.size() >= 512);
    for (int part = 0; part < 10; ++part) {
      const std::size_t in = kept.lower((part + 1) * 1000.0) - kept.lower(part * 1000.0);
      QVERIFY2(in >= 40, qPrintable(QString("%1: %2").arg(part).arg(in)));
    }
    QCOMPARE(kept.range(0, kept.size()).max, 50.0);
    QCOMPARE(kept.range(0, kept.size()).min, 0.0);
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
    QVERIFY(QTest::qWaitFor(
        [&] { return canvasB->xAxis->range().upper > 90 && canvasA->xAxis->range().upper > 90; },
        30'000));
    canvasA->xAxis->setRange(10, 20);
    QVERIFY(!group->following());
    QCOMPARE(canvasB->xAxis->range().lower, 10.0);
    QCOMPARE(canvasB->xAxis->range().upper, 20.0);
    group->follow();
    QVERIFY(QTest::qWaitFor([&] { return canvasA->xAxis->range().upper > 90; }, 30'000));
    // Paused, the picture stands still while data go on arriving; zoom is shared all the same.
    group->setPaused(true);
    a.series()[0]->append(500, 1);
    group->dataChanged();
    QTest::qWait(100);
    QVERIFY(canvasA->xAxis->range().upper < 200);
    QSignalSpy painted(canvasB, &QCustomPlot::afterReplot);
    canvasA->xAxis->setRange(30, 50);
    QCOMPARE(canvasB->xAxis->range().lower, 30.0);
    QVERIFY(QTest::qWaitFor([&] { return painted.size() > 0; }, 30'000));
    group->follow();  // asked for: with what has come meanwhile
    QVERIFY(QTest::qWaitFor([&] { return canvasB->xAxis->range().upper > 90; }, 30'000));
    a.series()[0]->append(900, 1);
    QSignalSpy meanwhile(canvasA, &QCustomPlot::afterReplot);
    a.markDirty();
    QVERIFY(QTest::qWaitFor([&] { return meanwhile.size() > 0; }, 30'000));
    group->setPaused(false);  // it was painted with all that has come, and follows now
    QVERIFY(QTest::qWaitFor([&] { return canvasA->xAxis->range().upper > 800; }, 30'000));
  }

  // Added twice, a view is one; added to another group, it is in that alone; and a view that comes
  // leaves the others their zoom, on a logarithmic axis too.
  void viewIsInOneGroup() {
    QObject owner;
    auto* steps = new PlotGroup(&owner);
    auto* time = new PlotGroup(&owner);
    PlotView a("a"), b("b");
    for (PlotView* view : {&a, &b}) {
      auto series = std::make_shared<Series>("s", 0);
      for (int i = 1; i <= 100; ++i) series->append(i, i);
      view->addSeries(series);
      view->resize(300, 200);
      view->show();
    }
    auto* canvas = a.findChild<QCustomPlot*>("plotCanvas");
    auto* other = b.findChild<QCustomPlot*>("plotCanvas");
    steps->add(&a);
    steps->setLogX(true);
    QVERIFY(QTest::qWaitFor([&] { return canvas->xAxis->range().upper > 90; }, 30'000));
    canvas->xAxis->setRange(10, 20);
    QVERIFY(!steps->following());
    steps->add(&b);
    steps->add(&b);
    QVERIFY(!steps->following());
    QCOMPARE(other->xAxis->range().upper, 20.0);
    QCOMPARE(other->xAxis->scaleType(), QCPAxis::stLogarithmic);
    time->add(&b);
    QCOMPARE(other->xAxis->scaleType(), QCPAxis::stLinear);
    QVERIFY(QTest::qWaitFor([&] { return other->xAxis->range().upper > 90; }, 30'000));
    steps->setXRange(30, 40, nullptr);
    QCOMPARE(canvas->xAxis->range().upper, 40.0);
    QVERIFY(other->xAxis->range().upper > 90);
  }

  // A view that has not been seen yet leaves the others what they show, on a logarithmic axis too.
  void aNewViewChoosesNoRange() {
    QObject owner;
    auto* steps = new PlotGroup(&owner);
    PlotView seen("seen"), fresh("fresh"), later("later");
    auto series = std::make_shared<Series>("s", 0);
    for (int i = 1; i <= 100; ++i) series->append(i, i);
    seen.addSeries(series);
    seen.resize(300, 200);
    seen.show();
    auto* canvas = seen.findChild<QCustomPlot*>("plotCanvas");
    steps->add(&seen);
    steps->setLogX(true);
    QVERIFY(QTest::qWaitFor([&] { return canvas->xAxis->range().upper > 90; }, 30'000));
    steps->add(&fresh);
    QVERIFY(steps->following());
    QVERIFY(canvas->xAxis->range().upper > 90);
    canvas->xAxis->setRange(10, 20);
    steps->add(&later);
    QCOMPARE(canvas->xAxis->range().upper, 20.0);
    QCOMPARE(later.findChild<QCustomPlot*>("plotCanvas")->xAxis->range().upper, 20.0);
  }

  // A part that was chosen while a plot was out of view is told once it is shown.
  void aHiddenPlotTellsItsPartLater() {
    QObject owner;
    auto* group = new PlotGroup(&owner);
    PlotView a("a"), b("b");
    for (PlotView* view : {&a, &b}) {
      auto series = std::make_shared<Series>("s", 0);
      for (int i = 1; i <= 100; ++i) series->append(i, i);
      view->addSeries(series);
      group->add(view);
      view->resize(300, 200);
      view->show();
    }
    auto* canvas = a.findChild<QCustomPlot*>("plotCanvas");
    auto* other = b.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor(
        [&] { return canvas->xAxis->range().upper > 90 && other->xAxis->range().upper > 90; },
        30'000));
    QSignalSpy told(&a, &PlotView::rangeShown), toldLater(&b, &PlotView::rangeShown);
    b.hide();
    canvas->xAxis->setRange(10, 20);
    QVERIFY(QTest::qWaitFor([&] { return told.count() == 1; }, 30'000));
    QTest::qWait(100);
    QCOMPARE(toldLater.count(), 0);
    b.show();
    QVERIFY(QTest::qWaitFor([&] { return toldLater.count() == 1; }, 30'000));
    QCOMPARE(toldLater[0][1].toDouble(), 20.0);
  }

  // Of a part between two samples the line that joins them is seen.
  void aLineBetweenSamplesIsInSight() {
    PlotView view("plot");
    auto series = std::make_shared<Series>("evaluated", 0);
    series->append(0, 5);
    series->append(100, 7);
    view.addSeries(series);
    view.resize(300, 200);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().lower > 4; }, 30'000));
    QSignalSpy painted(canvas, &QCustomPlot::afterReplot);
    canvas->xAxis->setRange(40, 60);
    QVERIFY(QTest::qWaitFor([&] { return painted.count() > 0; }, 30'000));
    QVERIFY(canvas->yAxis->range().contains(5.8) && canvas->yAxis->range().contains(6.2));
  }

  // A later unit replaces the earlier one, whatever the scale is.
  void unitIsReplaced() {
    PlotView view("plot");
    auto series = std::make_shared<Series>("s", 0);
    for (int i = 1; i <= 100; ++i) series->append(i, i * 1e9);
    view.addSeries(series);
    view.resize(420, 260);
    view.setLogY(true);
    view.setUnit(PlotView::Unit::kPercent);
    view.setUnit(PlotView::Unit::kBytes);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().upper > 9e10; }, 30'000));
    const auto labels = [&] {
      canvas->replot(QCustomPlot::rpImmediateRefresh);
      const QVector<QString> all = canvas->yAxis->tickVectorLabels();
      return QStringList(all.begin(), all.end());
    };
    QVERIFY2(labels().contains("10 GB"), qPrintable(labels().join("|")));
    QVERIFY(canvas->yAxis->range().lower > 0);
    view.setLogY(false);
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().lower <= 0; }, 30'000));
    QVERIFY2(labels().filter("GB").size() > 1, qPrintable(labels().join("|")));
    view.setUnit(PlotView::Unit::kPercent);
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().upper < 2; }, 30'000));
    view.setUnit(PlotView::Unit::kNumber);
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().upper > 9e10; }, 30'000));
    QVERIFY(labels().filter("B").isEmpty() && labels().filter("%").isEmpty());
  }

  // Out of sight in a scroll area nothing is drawn; what has come is there when it is scrolled to.
  void outOfSightIsNotDrawn() {
    QScrollArea area;
    auto* page = new QWidget;
    auto* column = new QVBoxLayout(page);
    std::vector<PlotView*> views;
    for (int i = 0; i < 6; ++i) {
      auto* view = new PlotView(QString::number(i), page);
      view->setMinimumHeight(300);
      view->addSeries(std::make_shared<Series>("s", 0));
      column->addWidget(view);
      views.push_back(view);
    }
    area.setWidget(page);
    area.setWidgetResizable(true);
    area.resize(400, 320);
    area.show();
    QVERIFY(QTest::qWaitForWindowExposed(&area));
    QTest::qWait(100);
    const auto canvasOf = [](PlotView* view) {
      return view->findChild<QCustomPlot*>("plotCanvas");
    };
    QSignalSpy near(canvasOf(views[0]), &QCustomPlot::afterReplot);
    QSignalSpy far(canvasOf(views[5]), &QCustomPlot::afterReplot);
    for (PlotView* view : views)
      for (int x = 0; x < 50; ++x) view->series()[0]->append(x, x);
    for (PlotView* view : views) view->markDirty();
    QVERIFY(QTest::qWaitFor([&] { return near.size() > 0; }, 30'000));
    QTest::qWait(80);
    QCOMPARE(far.size(), 0);
    area.ensureWidgetVisible(views[5]);
    QVERIFY(QTest::qWaitFor([&] { return canvasOf(views[5])->xAxis->range().upper > 40; }, 30'000));
  }

  // However long the legend of a picture is, the plot keeps its room.
  void pictureOfManySeries() {
    PlotView view("plot");
    view.resize(640, 360);
    const int few = view.picture().size.height();
    for (int i = 0; i < 64; ++i) {
      auto series = std::make_shared<Series>(QString("the rank %1 of all").arg(i), i);
      for (int x = 0; x < 50; ++x) series->append(x, 1);
      view.addSeries(series);
    }
    const Picture picture = view.picture();
    QVERIFY2(picture.size.height() > few + 100, qPrintable(QString::number(picture.size.height())));
    QImage image(picture.size, QImage::Format_RGB32);
    image.fill(Qt::white);
    QCPPainter painter;
    painter.begin(&image);
    picture.draw(painter);
    painter.end();
    // The last line of all lies over the others, below the legend.
    const QColor wanted = Theme::instance().series(63);
    int seen = 0;
    for (int y = picture.size.height() - few * 3 / 4; y < picture.size.height(); ++y)
      for (int x = 0; x < picture.size.width(); ++x) {
        const QColor got = image.pixelColor(x, y);
        seen += std::abs(got.red() - wanted.red()) + std::abs(got.green() - wanted.green()) +
                    std::abs(got.blue() - wanted.blue()) <
                120;
      }
    QVERIFY2(seen > 200, qPrintable(QString::number(seen)));
  }

  // A name is text, whatever it looks like.
  void namesAreNoMarkup() {
    PlotView view("plot");
    view.setTexts("<EMA> of <img src=x>", "step", {}, "Nothing matches <b>.");
    view.resize(700, 300);
    view.show();
    for (const char* name : {"plotTitle", "plotEmpty"})
      QCOMPARE(view.findChild<QLabel*>(name)->textFormat(), Qt::PlainText);
    QVERIFY(view.findChild<QLabel*>("plotTitle")->text().contains("<EMA>"));
  }

  // Of all series kinds and sizes: a box is what is in sight, a double click shows all again, and
  // by no gesture is a place shown where there are no data.
  void dragZoomsIntoABox() {
    QObject owner;
    auto* group = new PlotGroup(&owner);
    PlotView view("a"), other("b");
    for (PlotView* one : {&view, &other}) {
      auto series = std::make_shared<Series>("s", 0);
      for (int i = 0; i <= 1000; ++i) series->append(i, std::sin(i * 0.01) * 10);
      one->addSeries(series);
      group->add(one);
      one->setTexts("Loss", "step", {}, {});
      one->resize(500, 300);
      one->show();
    }
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    auto* canvasB = other.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor(
        [&] { return canvas->xAxis->range().upper > 990 && canvasB->xAxis->range().upper > 990; },
        30'000));
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    const auto drag = [&](QPoint from, QPoint to, Qt::KeyboardModifiers keys = Qt::NoModifier) {
      QTest::mousePress(canvas, Qt::LeftButton, keys, from);
      for (int part = 1; part <= 4; ++part) {
        QMouseEvent move(QEvent::MouseMove, from + (to - from) * part / 4,
                         canvas->mapToGlobal(from + (to - from) * part / 4), Qt::NoButton,
                         Qt::LeftButton, keys);
        QCoreApplication::sendEvent(canvas, &move);
      }
      QTest::mouseRelease(canvas, Qt::LeftButton, keys, to);
    };
    const auto at = [&](double x, double y) {
      return QPoint(qRound(canvas->xAxis->coordToPixel(x)), qRound(canvas->yAxis->coordToPixel(y)));
    };
    drag(at(200, 8), at(600, 0));
    const double pixel = canvas->xAxis->range().size() / canvas->axisRect()->width();
    QVERIFY2(std::abs(canvas->xAxis->range().lower - 200) < 4 * pixel,
             qPrintable(QString::number(canvas->xAxis->range().lower)));
    QVERIFY(std::abs(canvas->xAxis->range().upper - 600) < 4);
    QVERIFY(!group->following());
    QTest::qWait(100);  // some frames
    QVERIFY(std::abs(canvas->yAxis->range().upper - 8) < 0.4 &&
            std::abs(canvas->yAxis->range().lower) < 0.4);
    // x is shared, y its own
    QCOMPARE(canvasB->xAxis->range().lower, canvas->xAxis->range().lower);
    QVERIFY(canvasB->yAxis->range().upper > 9);
    // Shift+drag pans, not beyond the data.
    drag(at(300, 4), at(500, 4), Qt::ShiftModifier);
    QVERIFY(canvas->xAxis->range().upper < 450);
    QVERIFY(std::abs(canvas->xAxis->range().size() - 400) < 8);
    drag(at(canvas->xAxis->range().center(), 4), at(canvas->xAxis->range().center() + 5000, 4),
         Qt::ShiftModifier);
    QCOMPARE(canvas->xAxis->range().lower, 0.0);
    QTest::mouseDClick(canvas, Qt::LeftButton, {}, canvas->rect().center());
    QVERIFY(group->following());
    QVERIFY(QTest::qWaitFor(
        [&] { return canvas->xAxis->range().upper > 990 && canvas->yAxis->range().upper > 9.9; },
        30'000));
    // A low box is along x alone, a click none.
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    drag(at(400, 1), at(500, 0.8));
    QTest::qWait(100);
    QVERIFY(canvas->xAxis->range().upper < 510);
    QVERIFY(canvas->yAxis->range().lower < -9);
    group->follow();
    QVERIFY(QTest::qWaitFor([&] { return canvas->xAxis->range().upper > 990; }, 30'000));
    QTest::mouseClick(canvas, Qt::LeftButton, {}, canvas->rect().center());
    QVERIFY(group->following());
    // By keys: out of all there is nothing to see.
    canvas->setFocus();
    QTest::keyClick(canvas, Qt::Key_Plus);
    QVERIFY(!group->following());
    for (int i = 0; i < 8; ++i) QTest::keyClick(canvas, Qt::Key_Minus);
    QVERIFY(group->following());
    QTest::qWait(100);
    QVERIFY(canvas->xAxis->range().lower >= 0 && canvas->xAxis->range().upper <= 1000);
  }

  void crosshairTellsTheStep() {
    PlotView view("plot");
    auto series = std::make_shared<Series>("training", 0);
    for (int i = 0; i <= 2000; ++i) series->append(i, i * 6.5);
    view.addSeries(series);
    view.setTexts("Loss", "step", {}, {});
    view.resize(400, 240);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->xAxis->range().upper > 1900; }, 30'000));
    view.showCrosshair(1240.3, true);
    const auto texts = [&] {
      QStringList out;
      for (int i = 0; i < canvas->itemCount(); ++i)
        if (auto* text = qobject_cast<QCPItemText*>(canvas->item(i)); text && text->visible())
          out << text->text();
      return out;
    };
    QCOMPARE(texts(), QStringList{"step 1,240"});
    view.showCrosshair(0, false);
    QVERIFY(texts().isEmpty());
    view.setXAxis(PlotView::XAxis::kTime);
    view.showCrosshair(83, true);
    QCOMPARE(texts(), QStringList{"1:23"});
  }

  // Whatever the range, no two ticks of an axis are labelled alike.
  void ticksAreToldApart_data() {
    QTest::addColumn<int>("kind");
    for (int kind = 0; kind < 5; ++kind) QTest::addRow("%d", kind) << kind;
  }
  void ticksAreToldApart() {
    QFETCH(int, kind);
    std::mt19937 random(11);
    std::uniform_real_distribution<double> digits(1, 10), exponent(0, 6);
    PlotView view("plot");
    if (kind == 1) view.setUnit(PlotView::Unit::kBytes);
    if (kind == 2) view.setUnit(PlotView::Unit::kByteRate);
    if (kind == 3) view.setUnit(PlotView::Unit::kPercent);
    if (kind == 4) view.setXAxis(PlotView::XAxis::kTime);
    view.setFromZero(kind == 1 || kind == 2);
    auto series = std::make_shared<Series>("s", 0);
    view.addSeries(series);
    view.resize(420, 260);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    for (int trial = 0; trial < 60; ++trial) {
      const double most =
          trial == 0 ? 0.8
                     : digits(random) * std::pow(10, exponent(random)) * (kind == 3 ? 1e-7 : 1);
      series->clear();
      for (int i = 0; i < 40; ++i)
        series->append(i * most / (kind == 4 ? 20 : 1), most * (0.5 + 0.5 * std::sin(i)));
      QSignalSpy painted(canvas, &QCustomPlot::afterReplot);
      view.resetZoom();
      QVERIFY(QTest::qWaitFor([&] { return painted.size() > 0; }, 30'000));
      canvas->replot(QCustomPlot::rpImmediateRefresh);
      for (QCPAxis* axis : {canvas->xAxis, canvas->yAxis}) {
        const QVector<QString> labels = axis->tickVectorLabels();
        QVERIFY2(QSet<QString>(labels.begin(), labels.end()).size() == labels.size(),
                 qPrintable(QString("%1: %2").arg(most).arg(
                     QStringList(labels.begin(), labels.end()).join(" | "))));
      }
    }
  }

  // The evaluations' line is seen whatever is behind it.
  void fewSamplesAreSeenAmongMany() {
    PlotView view("plot");
    std::mt19937 random(5);
    std::normal_distribution<double> noise;
    auto training = std::make_shared<Series>("training", 0, true),
         evaluation = std::make_shared<Series>("evaluation", 1);
    for (int i = 0; i < 20'000; ++i) training->append(i, 1 + 0.3 * noise(random));
    evaluation->dots = true;
    for (int i = 1; i <= 5; ++i) evaluation->append(i * 3800, 1);
    training->setSmoothing(0);
    view.addSeries(evaluation);  // first or last, it lies on top
    view.addSeries(training);
    view.resize(600, 300);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->xAxis->range().upper > 19'000; }, 30'000));
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    const QImage image = canvas->toPixmap().toImage();
    const QColor wanted = Theme::instance().series(1);
    int seen = 0, columns = 0;
    for (int x = qRound(canvas->xAxis->coordToPixel(3800));
         x < qRound(canvas->xAxis->coordToPixel(19000)); ++x, ++columns) {
      for (int dy = -2; dy <= 2; ++dy) {
        const QColor got = image.pixelColor(x, qRound(canvas->yAxis->coordToPixel(1)) + dy);
        if (std::abs(got.red() - wanted.red()) + std::abs(got.green() - wanted.green()) +
                std::abs(got.blue() - wanted.blue()) <
            130) {
          ++seen;
          break;
        }
      }
    }
    QVERIFY2(seen > columns * 9 / 10, qPrintable(QString("%1 of %2").arg(seen).arg(columns)));
  }

  void seriesOfNodesAreInOrder() {
    PlotView view("plot");
    view.setSorted(true);
    for (const char* name : {"n3", "n10", "n1", "n2"})
      view.addSeries(std::make_shared<Series>(name, 7));
    QStringList names;
    for (std::size_t i = 0; i < view.series().size(); ++i) {
      names << view.series()[i]->name;
      QCOMPARE(view.series()[i]->colorIndex, static_cast<int>(i));
    }
    QCOMPARE(names, (QStringList{"n1", "n2", "n3", "n10"}));
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
    QCOMPARE(model.index(5, 1).data().toString(), QString("8"));  // newest first
    QCOMPARE(model.index(5, 2).data().toString(), QString("40"));
    a->append(10, 20);
    model.refresh();
    QCOMPARE(model.rowCount(), 11);
  }

  // The wheel over a plot that has no data yet, on the way through a page, chooses nothing.
  void anEmptyPlotChoosesNoRange() {
    QObject owner;
    auto* group = new PlotGroup(&owner);
    PlotView view("plot");
    group->add(&view);
    view.resize(300, 200);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    canvas->xAxis->scaleRange(0.8);  // as the wheel does
    QVERIFY(group->following());
    auto series = std::make_shared<Series>("s", 0);
    for (int i = 1; i <= 100; ++i) series->append(i, i);
    view.addSeries(series);
    QVERIFY(QTest::qWaitFor([&] { return canvas->xAxis->range().upper > 90; }, 30'000));
    canvas->xAxis->scaleRange(0.8);
    QVERIFY(!group->following());
  }

  void emptyPlotSaysSo() {
    PlotView view("plot");
    view.setTexts("Loss", "step", {}, "No data yet.");
    view.resize(300, 200);
    view.show();
    auto* empty = view.findChild<QLabel*>("plotEmpty");
    QVERIFY(QTest::qWaitFor([&] { return empty->isVisible() && empty->width() > 100; }, 30'000));
    QCOMPARE(empty->text(), QString("No data yet."));
  }
};

QTEST_MAIN(PlotsTest)
#include "plots_test.moc"
