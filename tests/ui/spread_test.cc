// Spreads: what many lines do together, in one plot and in a group, cheaply while they grow.
#include <QAbstractItemModelTester>
#include <QImage>
#include <QItemSelectionModel>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>
#include <QToolButton>
#include <cmath>
#include <memory>
#include <new>
#include <random>

#include "ui/plots/custom_plot.h"
#include "ui/plots/legend_bar.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/series.h"
#include "ui/plots/series_plottable.h"
#include "ui/plots/series_table_model.h"
#include "ui/plots/spread.h"
#include "ui/theme/theme.h"

using namespace lockstep::ui;

constexpr int kLimitMs = 30'000;  // of what comes with a frame

class SpreadTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { Theme::instance().apply(Theme::Mode::kLight); }

  // Lines that are no clean sines, whose samples do not lie at the same x.
  static std::vector<std::shared_ptr<Series>> manyLines(int count, int samples) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> noise(0, 1);
    std::vector<std::shared_ptr<Series>> out;
    for (int s = 0; s < count; ++s) {
      out.push_back(std::make_shared<Series>(QString("n%1").arg(s), s));
      for (int i = 0; i < samples; ++i)
        out.back()->append(1 + i + noise(random), s + noise(random));
    }
    return out;
  }

  void spreadEqualsBruteForce_data() {
    QTest::addColumn<bool>("log");
    QTest::newRow("linear") << false;
    QTest::newRow("logarithmic") << true;
  }
  void spreadEqualsBruteForce() {
    QFETCH(bool, log);
    const auto lines = manyLines(90, 700);
    Spread spread;
    // Stretches of several samples, and several stretches of a sample.
    for (const int pixels : {200, 3000}) {
      spread.update(lines, {20, 600, (log ? std::log10(30.0) : 580.0) / pixels, log});
      QCOMPARE(spread.lines(), lines.size());
      const auto count = static_cast<int>(spread.stretches().size());
      QVERIFY2(count > pixels / 3 && count <= pixels + 20, qPrintable(QString::number(count)));
      for (const Spread::Stretch& one : spread.stretches()) {
        MinMax all;
        std::vector<double> lows, highs;
        for (const auto& line : lines) {
          MinMax own;
          for (std::size_t i = 0; i < line->raw().size(); ++i)
            if (line->raw().x(i) >= spread.begin(one) && line->raw().x(i) < spread.end(one))
              own.add(line->raw().y(i));
          if (own.empty()) {  // between the samples around it
            const double middle = (spread.begin(one) + spread.end(one)) / 2;
            const auto& raw = line->raw();
            const std::size_t after = raw.lower(middle);
            if (after == 0 || after == raw.size()) continue;
            const double part = (middle - raw.x(after - 1)) / (raw.x(after) - raw.x(after - 1));
            own.add(raw.y(after - 1) + part * (raw.y(after) - raw.y(after - 1)));
          }
          all.add(own);
          lows.push_back(own.min);
          highs.push_back(own.max);
        }
        std::sort(lows.begin(), lows.end());
        std::sort(highs.begin(), highs.end());
        const auto at = [&](double part) {
          return static_cast<std::size_t>(std::lround(part * static_cast<double>(lows.size() - 1)));
        };
        QCOMPARE(one.all.min, all.min);
        QCOMPARE(one.all.max, all.max);
        QCOMPARE(one.middle.min, lows[at(0.25)]);
        QCOMPARE(one.middle.max, highs[at(0.75)]);
        QCOMPARE(one.median.min, lows[at(0.5)]);
        QCOMPARE(one.median.max, highs[at(0.5)]);
      }
    }
  }

  // A line that has no samples for a while is there all the same, but not where it is no number,
  // and not beyond its end.
  void spreadHasEveryLineEverywhere() {
    std::vector<std::shared_ptr<Series>> lines = manyLines(80, 1000);
    auto sparse = std::make_shared<Series>("sparse", 0);
    for (const auto& [x, y] :
         {std::pair(0.0, 500.0), std::pair(300.0, 500.0), std::pair(400.0, std::nan("")),
          std::pair(500.0, 500.0), std::pair(700.0, 500.0)})
      sparse->append(x, y);
    lines.push_back(sparse);
    Spread spread;
    spread.update(lines, {0, 1000, 1, false});
    for (const Spread::Stretch& one : spread.stretches()) {
      const double x = (spread.begin(one) + spread.end(one)) / 2;
      const bool there = (x > 1 && x < 299) || (x > 501 && x < 699);
      if (x > 2 && std::abs(x - 300) > 2 && std::abs(x - 500) > 2 && std::abs(x - 700) > 2)
        QVERIFY2((one.all.max == 500) == there, qPrintable(QString::number(x)));
    }
    // Of what cannot be seen there is nothing.
    spread.update(lines, {-100, -1, 1, true});
    QVERIFY(spread.stretches().empty());
    spread.update(lines, {0, 0, 0, false});
    QVERIFY(spread.stretches().empty());
  }

  static bool isAsMadeAtOnce(const Spread& grown, const std::vector<std::shared_ptr<Series>>& lines,
                             const Spread::View& view) {
    Spread atOnce;
    atOnce.update(lines, view);
    if (grown.stretches().size() != atOnce.stretches().size()) return false;
    for (std::size_t i = 0; i < grown.stretches().size(); ++i) {
      const Spread::Stretch &a = grown.stretches()[i], &b = atOnce.stretches()[i];
      if (a.index != b.index || a.all.min != b.all.min || a.all.max != b.all.max ||
          a.middle.min != b.middle.min || a.median.max != b.median.max)
        return false;
    }
    return true;
  }

  // New samples, some late, cost a few stretches and give what all samples at once would.
  void spreadGrowsWithItsLines() {
    const auto all = manyLines(80, 1000);
    std::vector<std::shared_ptr<Series>> lines;
    for (const auto& line : all) lines.push_back(std::make_shared<Series>(line->name, 0));
    Spread grown;
    std::size_t firstTime = 0;
    for (std::size_t until = 900; until <= 1000; ++until) {
      for (std::size_t s = 0; s < lines.size(); ++s) {
        const std::size_t late = s % 7;
        for (std::size_t i = lines[s]->raw().size(); i < until - late; ++i)
          lines[s]->append(all[s]->raw().x(i), all[s]->raw().y(i));
      }
      grown.update(lines, {0, static_cast<double>(until), 3, false});
      if (until == 900) firstTime = grown.made();
    }
    QVERIFY(firstTime > 150);
    QVERIFY2(grown.made() - firstTime < 600, qPrintable(QString::number(grown.made())));
    const auto same = [&] { return isAsMadeAtOnce(grown, lines, {0, 1000, 3, false}); };
    grown.update(lines, {0, 1000, 3, false});
    QVERIFY(same());
    // Samples that are replaced are seen too.
    lines[5]->appendAhead(995, 1e6);
    grown.update(lines, {0, 1000, 3, false});
    QVERIFY(same());
    lines[5]->append(1000.5, 5);
    grown.update(lines, {0, 1000, 3, false});
    QVERIFY(same());
    lines[6]->clear();
    grown.update(lines, {0, 1000, 3, false});
    QVERIFY(same());
  }

  // Views go left and right, grow and jump, while samples come: what is seen is as made at once.
  void everyViewIsAsMadeAtOnce() {
    const auto all = manyLines(80, 3000);
    std::vector<std::shared_ptr<Series>> lines;
    for (const auto& line : all) lines.push_back(std::make_shared<Series>(line->name, 0));
    Spread grown;
    std::mt19937 random(11);
    std::size_t samples = 200;
    double lower = 0, upper = 200;
    for (int round = 0; round < 200; ++round) {
      if (random() % 3 == 0) samples = std::min<std::size_t>(samples + random() % 60, 3000);
      for (std::size_t s = 0; s < lines.size(); ++s)
        for (std::size_t i = lines[s]->raw().size(); i < samples; ++i)
          lines[s]->append(all[s]->raw().x(i), all[s]->raw().y(i));
      const auto shift = static_cast<double>(random() % 120) - 60;
      if (round % 5 != 0) lower += shift;
      if (round % 3 != 0) upper += shift;
      if (upper < lower + 20 || random() % 25 == 0) {
        lower = static_cast<double>(random() % samples);
        upper = lower + 20 + static_cast<double>(random() % 300);
      }
      const Spread::View view{lower, upper, 2, false};
      grown.update(lines, view);
      Spread atOnce;
      atOnce.update(lines, view);
      for (double x = lower; x <= upper; x += 2) {
        const Spread::Stretch *a = grown.at(x), *b = atOnce.at(x);
        QCOMPARE(a == nullptr, b == nullptr);
        if (a == nullptr) continue;
        QCOMPARE(a->all.min, b->all.min);
        QCOMPARE(a->all.max, b->all.max);
        QCOMPARE(a->middle.min, b->middle.min);
        QCOMPARE(a->middle.max, b->middle.max);
        QCOMPARE(a->median.min, b->median.min);
        QCOMPARE(a->median.max, b->median.max);
      }
    }
  }

  // Made in several goes, it is what it would be at once; meanwhile what was there is shown, unless
  // that is out of the view.
  void whatTakesLongIsMadeInSeveralGoes() {
    const auto lines = manyLines(80, 1000);
    const auto over = Spread::Clock::now();  // each go makes as little as it can
    const auto goes = [&](Spread& spread, const Spread::View& view) {
      int out = 1;
      while (!spread.update(lines, view, over) && out < 1000) ++out;
      return out;
    };
    Spread spread;
    const Spread::View left{0, 500, 0.5, false}, far{900, 990, 0.5, false};
    QVERIFY(!spread.update(lines, left, over));
    QVERIFY(!spread.stretches().empty());  // so far
    QVERIFY(goes(spread, left) > 5);
    QVERIFY(isAsMadeAtOnce(spread, lines, left));
    // Wider stretches of the same.
    const Spread::View whole{0, 1000, 2, false};
    const std::size_t before = spread.stretches().size();
    QVERIFY(!spread.update(lines, whole, over));
    QCOMPARE(spread.stretches().size(), before);
    QVERIFY(goes(spread, whole) > 3);
    QVERIFY(isAsMadeAtOnce(spread, lines, whole));
    QVERIFY(spread.update(lines, whole, over));
    // To the left of what there is, and far away.
    goes(spread, far);
    QVERIFY(isAsMadeAtOnce(spread, lines, far));
    const Spread::View more{700, 990, 0.5, false};
    QVERIFY(goes(spread, more) > 3);
    QVERIFY(isAsMadeAtOnce(spread, lines, more));
    QVERIFY(!spread.update(lines, left, over));
    QVERIFY(spread.begin(spread.stretches().front()) < 5);
  }

  // Samples that are thinned leave the stretches that were made of all of them.
  void thinnedSamplesStayInTheSpread() {
    const auto all = manyLines(80, 3000);
    std::vector<std::shared_ptr<Series>> lines;
    for (const auto& line : all) {
      lines.push_back(std::make_shared<Series>(line->name, 0));
      lines.back()->setLimit(400);
    }
    Spread grown;
    std::uint64_t thinnings = 0;
    for (std::size_t i = 0; i < 3000; ++i) {
      for (std::size_t s = 0; s < lines.size(); ++s)
        lines[s]->append(all[s]->raw().x(i), all[s]->raw().y(i));
      if (i % 10 == 9) grown.update(lines, {0, static_cast<double>(i + 2), 4, false});
    }
    for (const auto& line : lines) thinnings += line->thinnings();
    QVERIFY(thinnings > 5 * lines.size());
    QVERIFY2(grown.made() < 3000, qPrintable(QString::number(grown.made())));
    QVERIFY(isAsMadeAtOnce(grown, all, {0, 3001, 4, false}));
    // Also where later samples come before earlier ones.
    for (int i = 0; i < 100; ++i) {
      const auto& line = lines[static_cast<std::size_t>(i) % lines.size()];
      line->appendAhead(3005 + i, 1e6);
      grown.update(lines, {0, 3200, 4, false});
      QCOMPARE(grown.at(3005 + i)->all.max, 1e6);
      line->append(3002, i);
      line->setLimit(static_cast<std::size_t>(390 - i));
      grown.update(lines, {0, 3200, 4, false});
      QVERIFY(grown.at(3002)->all.max >= i && grown.at(3002)->all.max < 1000);
    }
  }

  // A series that lies where another one was is not taken for it, nor a copy for its original.
  void anotherSeriesIsNotTakenForTheOneBefore() {
    alignas(Series) std::byte room[sizeof(Series)];
    const auto made = [&](double y) {
      auto* series = new (room) Series("reused", 0);
      for (int i = 0; i < 100; ++i) series->append(i, y);
      return std::shared_ptr<Series>(series, [](Series* one) { one->~Series(); });
    };
    Spread spread;
    const Spread::View view{0, 100, 1, false};
    {
      const auto first = made(1);
      spread.update({first}, view);
      QCOMPARE(spread.at(50)->all.max, 1.0);
    }
    const auto second = made(2);
    spread.update({second}, view);
    QCOMPARE(spread.at(50)->all.max, 2.0);
    const Series copy(*second);
    QVERIFY(copy.revision() != second->revision());
    const auto before = second->revision();
    *second = copy;
    QVERIFY(before != second->revision() && copy.revision() != second->revision());
  }

  // While earlier samples are read, each of them replaces all that came ahead; what was there
  // before stays as it was made.
  void spreadIsCheapWhileSamplesAreAhead() {
    const auto all = manyLines(80, 1000);
    std::vector<std::shared_ptr<Series>> lines;
    for (const auto& line : all) {
      lines.push_back(std::make_shared<Series>(line->name, 0));
      for (std::size_t i = 0; i < 900; ++i)
        lines.back()->append(line->raw().x(i), line->raw().y(i));
    }
    const auto goAhead = [&](std::size_t from) {
      for (std::size_t s = 0; s < lines.size(); ++s)
        for (std::size_t i = from; i < 1000; ++i)
          lines[s]->appendAhead(all[s]->raw().x(i), all[s]->raw().y(i));
    };
    const Spread::View view{0, 1000, 1, false};
    goAhead(990);
    Spread grown;
    grown.update(lines, view);
    const std::size_t firstTime = grown.made();
    QVERIFY(firstTime > 900);
    for (std::size_t at = 900; at < 950; ++at) {
      for (std::size_t s = 0; s < lines.size(); ++s)
        lines[s]->append(all[s]->raw().x(at), all[s]->raw().y(at));
      goAhead(990);
      grown.update(lines, view);
    }
    const std::size_t made = (grown.made() - firstTime) / 50;  // each time
    QVERIFY2(made <= 110, qPrintable(QString::number(made)));
    QVERIFY(isAsMadeAtOnce(grown, lines, view));
    // The rest is known at once.
    for (std::size_t s = 0; s < lines.size(); ++s)
      for (std::size_t i = 950; i < 1000; ++i)
        lines[s]->append(all[s]->raw().x(i), all[s]->raw().y(i));
    grown.update(lines, view);
    QVERIFY(isAsMadeAtOnce(grown, lines, view));
  }

  static bool alike(const QColor& a, const QColor& b) {
    return std::abs(a.red() - b.red()) + std::abs(a.green() - b.green()) +
               std::abs(a.blue() - b.blue()) <
           24;
  }

  // Too many lines are bands, which nothing falls out of; each is found by the pointer.
  void manyLinesAreTheirSpread() {
    PlotView view("plot");
    for (int s = 0; s < 101; ++s) {
      auto series = std::make_shared<Series>(QString("n%1").arg(s), s);
      for (int i = 0; i <= 400; ++i) series->append(i, s == 100 && i >= 100 && i <= 300 ? 300 : s);
      view.addSeries(series);
    }
    view.setTexts("Heat", "step", {}, {});
    view.resize(600, 400);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    QVERIFY(QTest::qWaitFor([&] { return canvas->yAxis->range().upper > 299; }, 30'000));
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    const auto pixel = [&](double x, double y) {
      return QPoint(static_cast<int>(canvas->xAxis->coordToPixel(x)),
                    static_cast<int>(canvas->yAxis->coordToPixel(y)));
    };
    const QImage image = canvas->toPixmap().toImage();
    const auto is = [&](double x, double y, SpreadPart part) {
      return alike(image.pixelColor(pixel(x, y)), spreadColor(part));
    };
    bool median = false;  // a line; it may lie between rows
    for (double y = 48; y <= 52; y += 0.5) median = median || is(210, y, SpreadPart::kMedian);
    QVERIFY(median);
    QVERIFY(is(210, 65, SpreadPart::kMiddle));
    QVERIFY(is(210, 35, SpreadPart::kMiddle));
    QVERIFY(is(210, 90, SpreadPart::kAll));
    QVERIFY(is(210, 290, SpreadPart::kAll));  // as far as a single line goes
    QVERIFY(!is(50, 290, SpreadPart::kAll));
    const auto texts = [&] {
      QStringList out;
      for (int i = 0; i < canvas->itemCount(); ++i)
        if (auto* text = qobject_cast<QCPItemText*>(canvas->item(i)); text && text->visible())
          out << text->text();
      return out.join(' ');
    };
    QTest::mouseMove(canvas, pixel(200, 299));
    QTRY_VERIFY2_WITH_TIMEOUT(texts().contains("n100") && texts().contains("300"),
                              qPrintable(texts()), kLimitMs);
    const QPoint low = pixel(200, 20);
    const int nearest = qRound(canvas->yAxis->pixelToCoord(low.y()));
    QTest::mouseMove(canvas, low);
    QTRY_VERIFY2_WITH_TIMEOUT(texts().contains(QString("n%1 ").arg(nearest)), qPrintable(texts()),
                              kLimitMs);
    // A click keeps the line, another on it lets it go.
    const auto seen = [&](double x, double y) {
      canvas->replot(QCustomPlot::rpImmediateRefresh);
      const QImage now = canvas->toPixmap().toImage();
      bool found = false;
      for (int row = -2; row <= 2; ++row)
        found = found ||
                alike(now.pixelColor(pixel(x, y) + QPoint(0, row)), Theme::instance().series(1));
      return found;
    };
    QVERIFY(!seen(250, 300));
    QTest::mouseClick(canvas, Qt::LeftButton, Qt::NoModifier, pixel(200, 300));
    view.showCrosshair(0, false);
    QVERIFY(seen(250, 300));
    QTest::mouseClick(canvas, Qt::LeftButton, Qt::NoModifier, pixel(200, 300));
    view.showCrosshair(0, false);
    QVERIFY(!seen(250, 300));
    // Where most are hidden the others are lines again.
    for (int s = 0; s < 60; ++s) view.series()[static_cast<std::size_t>(s)]->visible = false;
    view.markDirty();
    QTRY_VERIFY_WITH_TIMEOUT(!alike(canvas->toPixmap().toImage().pixelColor(pixel(200, 290)),
                                    spreadColor(SpreadPart::kAll)),
                             kLimitMs);
    int moved = 0;
    const auto tellsNoLine = [&] {  // from the next frame on
      QTest::mouseMove(canvas, pixel(250 + moved++ % 2, 20));
      return !texts().isEmpty() && !texts().contains('n');
    };
    QTRY_VERIFY2_WITH_TIMEOUT(tellsNoLine(), qPrintable(texts()), kLimitMs);
  }

  // At some scales stretches are a little narrower than a pixel. Each column and each peak is drawn
  // all the same.
  void nothingOfASpreadIsMissing() {
    PlotView view("plot");
    addLines(view, {}, 101, 0);
    auto peaks = std::make_shared<Series>("peaks", 101);
    for (int i = 0; i <= 400; ++i) peaks->append(i, i % 20 == 10 ? 300 : 50);
    view.addSeries(peaks);
    QCustomPlot* canvas = shown(view);
    for (double upper = 100; upper < 400; upper *= 1.013) {
      canvas->xAxis->setRange(0, upper);
      canvas->xAxis->grid()->setVisible(false);
      canvas->replot(QCustomPlot::rpImmediateRefresh);
      const QImage image = canvas->toPixmap().toImage();
      const QRect area = canvas->axisRect()->rect();
      const auto is = [&](int column, double y, SpreadPart part) {
        return alike(image.pixelColor(column, pixelOf(canvas, 0, y).y()), spreadColor(part));
      };
      for (int column = area.left() + 1; column < area.right(); ++column)
        QVERIFY2(is(column, 36, SpreadPart::kMiddle),
                 qPrintable(QString("column %1, up to %2").arg(column).arg(upper)));
      for (int x = 10; x < upper - 1; x += 20) {
        const int column = pixelOf(canvas, x, 0).x();
        bool isThere = false;
        for (int near = -2; near <= 2; ++near)
          isThere = isThere || is(column + near, 270, SpreadPart::kAll);
        QVERIFY2(isThere, qPrintable(QString("the peak at %1, up to %2").arg(x).arg(upper)));
      }
    }
  }

  // A line's own colour is that of a plot with few lines.
  void aKeptLineHasItsOwnColourAgain() {
    PlotView view("plot");
    addLines(view, "", 101, 0);
    QCustomPlot* canvas = shown(view);
    QTest::mouseClick(canvas, Qt::LeftButton, Qt::NoModifier, pixelOf(canvas, 200, 100));
    QTest::mouseMove(canvas, pixelOf(canvas, 200, 80));
    const auto colored = [&] {
      int out = 0;
      for (const auto& line : view.series()) out += line->shownColor() != line->colorIndex ? 1 : 0;
      return out;
    };
    QTRY_COMPARE_WITH_TIMEOUT(colored(), 2, kLimitMs);
    for (std::size_t s = 0; s < 60; ++s) view.series()[s]->visible = false;
    view.markDirty();
    QTRY_COMPARE_WITH_TIMEOUT(colored(), 0, kLimitMs);
    for (std::size_t s = 0; s < 101; ++s)
      QCOMPARE(view.series()[s]->shownColor(), static_cast<int>(s));
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    const QImage image = canvas->toPixmap().toImage();
    bool own = false;
    for (int row = -2; row <= 2; ++row)
      own = own || alike(image.pixelColor(pixelOf(canvas, 300, 100) + QPoint(0, row)),
                         Theme::instance().series(100));
    QVERIFY(own);
  }

  // The tables of a group keep their selection and scroll position when a click marks a line, and
  // when lines are added.
  void tablesStayAsTheyAre() {
    QObject owner;
    auto* group = new PlotGroup(&owner);
    PlotView plot("plot"), other("other");
    other.setSorted(true);
    for (PlotView* view : {&plot, &other}) {
      addLines(*view, "", 80, 0);
      group->add(view);
    }
    QCustomPlot* canvas = shown(plot);
    shown(other);
    other.findChild<QToolButton*>("plotTable")->click();
    auto* table = other.findChild<QTableView*>("plotData");
    QTRY_VERIFY_WITH_TIMEOUT(table->isVisible() && table->model()->rowCount() == 401, kLimitMs);
    table->selectRow(200);
    table->scrollTo(table->model()->index(200, 40));
    const int scrolled = table->verticalScrollBar()->value();
    QVERIFY(scrolled > 0);
    QSignalSpy reset(table->model(), &QAbstractItemModel::modelReset);
    const auto isAsBefore = [&] {
      const auto chosen = table->selectionModel()->selectedIndexes();
      return reset.isEmpty() && chosen.size() == 81 && chosen.front().row() == 200 &&
             chosen.back().row() == 200 && table->verticalScrollBar()->value() == scrolled;
    };
    auto* legend = plot.findChild<LegendBar*>("plotLegend");
    const qsizetype named = legend->entryNames().size();
    QTest::mouseClick(canvas, Qt::LeftButton, Qt::NoModifier, pixelOf(canvas, 200, 40));
    QTRY_COMPARE_WITH_TIMEOUT(legend->entryNames().size(), named + 1, kLimitMs);
    QVERIFY(isAsBefore());
    addLines(other, "a", 3, 90);
    QTRY_COMPARE_WITH_TIMEOUT(table->model()->columnCount(), 84, kLimitMs);
    QVERIFY(isAsBefore());
    QCOMPARE(table->model()->headerData(1, Qt::Horizontal).toString(), QString("a0"));
    QCOMPARE(table->model()->headerData(4, Qt::Horizontal).toString(), QString("n0"));
  }

  void seriesComeInTheirPlaces() {
    std::minstd_rand random(5);
    for (int trial = 0; trial < 200; ++trial) {
      SeriesTableModel model;
      const QAbstractItemModelTester tester(&model);
      QSignalSpy reset(&model, &QAbstractItemModel::modelReset);
      std::vector<std::shared_ptr<Series>> lines;
      for (int round = 0; round < 5; ++round) {
        const auto some = random() % 4 + (round == 0 ? 1 : 0);
        for (unsigned i = 0; i < some; ++i) {
          auto line = std::make_shared<Series>(QString("s%1").arg(random() % 1000), 0);
          for (unsigned sample = 0; sample < random() % 20; ++sample) line->append(sample, sample);
          const auto at = static_cast<std::ptrdiff_t>(random() % (lines.size() + 1));
          lines.insert(lines.begin() + at, line);
        }
        model.setSeries(lines);
        QCOMPARE(model.columnCount(), static_cast<int>(lines.size()) + 1);
        std::size_t most = 0;
        for (std::size_t i = 0; i < lines.size(); ++i) {
          most = std::max(most, lines[i]->raw().size());
          const auto head =
              model.headerData(static_cast<int>(i) + 1, Qt::Horizontal, Qt::DisplayRole);
          QCOMPARE(head.toString(), lines[i]->name);
        }
        QCOMPARE(model.rowCount(), static_cast<int>(most));
      }
      QCOMPARE(reset.size(), 1);
      lines.erase(lines.begin());
      model.setSeries(lines);
      QCOMPARE(reset.size(), 2);
    }
  }

  // What is sent and what is received are not one thing: between two spreads there is nothing.
  void eachQuantityHasItsSpread() {
    PlotView view("plot");
    addLines(view, "in", 50, 0, "in");
    addLines(view, "out", 50, 200, "out");
    addLines(view, "loopback", 3, 120, "loopback");
    QCustomPlot* canvas = shown(view);
    auto* legend = view.findChild<LegendBar*>("plotLegend");
    QTRY_COMPARE_WITH_TIMEOUT(legend->entryNames(),
                              (QStringList{"in, median of 50", "out, median of 50", "loopback0",
                                           "loopback1", "loopback2"}),
                              kLimitMs);
    canvas->replot(QCustomPlot::rpImmediateRefresh);
    const QImage image = canvas->toPixmap().toImage();
    const auto at = [&](double y) { return image.pixelColor(pixelOf(canvas, 210, y)); };
    QVERIFY(alike(at(2), spreadColor(SpreadPart::kAll, 0)));
    QVERIFY(alike(at(30), spreadColor(SpreadPart::kMiddle, 0)));
    QVERIFY(alike(at(202), spreadColor(SpreadPart::kAll, 1)));
    QVERIFY(alike(at(230), spreadColor(SpreadPart::kMiddle, 1)));
    for (const double y : {83.0, 141.0}) QVERIFY(alike(at(y), Theme::instance().color("base")));
    // A line alone is no part of them, and is not kept by a click near it.
    const QPoint low = pixelOf(canvas, 200, 10);
    const int nearest = qRound(canvas->yAxis->pixelToCoord(low.y()));
    QTest::mouseClick(canvas, Qt::LeftButton, Qt::NoModifier, low);
    QTRY_VERIFY_WITH_TIMEOUT(legend->entryNames().contains(QString("in%1").arg(nearest)), kLimitMs);
    QCOMPARE(legend->entryNames().size(), 6);
    // Of a few lines in all, each is drawn.
    for (std::size_t s = 0; s < 60; ++s) view.series()[s]->visible = false;
    view.markDirty();
    QTRY_COMPARE_WITH_TIMEOUT(legend->entryNames().size(), 103, kLimitMs);
  }

  // The lines of the cursor's owner, in views that come later too; none once it is cleared.
  void theCursorHasAnOwner() {
    PlotGroup group(nullptr);
    PlotView first("first"), later("later"), few("few");
    for (PlotView* view : {&first, &later}) {
      addLines(*view, "in", 50, 0, "in");
      addLines(*view, "out", 50, 200, "out");
    }
    addLines(few, "n", 3, 0);
    for (PlotView* view : {&first, &later, &few})
      for (const auto& line : view->series())
        line->owner = QString::number(line->name.back().digitValue());
    group.add(&first);
    group.add(&few);
    group.setCursor(100, "2");
    group.add(&later);
    QSignalSpy left(&group, &PlotGroup::cursorLeft);
    for (PlotView* view : {&first, &later}) {
      QCustomPlot* canvas = shown(*view);
      auto* legend = view->findChild<LegendBar*>("plotLegend");
      QTRY_COMPARE_WITH_TIMEOUT(legend->entryNames().size(), 2 + 10, kLimitMs);
      QVERIFY(legend->entryNames().contains("in42") && legend->entryNames().contains("out2"));
      QTest::keyClick(canvas, Qt::Key_Escape);
    }
    QCOMPARE(left.size(), 2);
    // Of a few lines it is drawn above the others, and the legend stays.
    QCustomPlot* canvas = shown(few);
    const auto marked = [&] {
      return dynamic_cast<SeriesPlottable*>(canvas->plottable(1))->series();
    };
    QTRY_COMPARE_WITH_TIMEOUT(marked().size(), std::size_t{1}, kLimitMs);
    QCOMPARE(marked().front()->name, QString("n2"));
    QVERIFY(!marked().front()->markColor);
    QCOMPARE(few.findChild<LegendBar*>("plotLegend")->entryNames().size(), 3);
    group.setCursor(100, "1");
    QCOMPARE(marked().front()->name, QString("n1"));
    group.clearCursor();
    QVERIFY(marked().empty() && !group.leaveCursor());
    QTRY_COMPARE_WITH_TIMEOUT(first.findChild<LegendBar*>("plotLegend")->entryNames().size(), 2,
                              kLimitMs);
  }

  // More quantities than can be told apart are one spread.
  void manyQuantitiesAreOneSpread() {
    PlotView view("plot");
    for (int s = 0; s < 70; ++s) addLines(view, QString("q%1-").arg(s), 1, s, QString::number(s));
    shown(view);
    auto* legend = view.findChild<LegendBar*>("plotLegend");
    QTRY_COMPARE_WITH_TIMEOUT(legend->entryNames(),
                              (QStringList{"median", "half of the lines", "all 70 lines"}),
                              kLimitMs);
  }

 private:
  // `count` lines, each at a height of its own.
  static void addLines(PlotView& view, const QString& name, int count, double from,
                       const QString& quantity = {}) {
    for (int s = 0; s < count; ++s) {
      const QString own = name.isEmpty() ? QString("n%1").arg(s) : QString("%1%2").arg(name).arg(s);
      auto series = std::make_shared<Series>(own, s);
      series->quantity = quantity;
      for (int i = 0; i <= 400; ++i) series->append(i, from + s);
      view.addSeries(series);
    }
  }
  static QCustomPlot* shown(PlotView& view) {
    view.setTexts("Heat", "step", {}, {});
    view.resize(900, 400);
    view.show();
    auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
    const auto isPainted = [&] { return canvas->xAxis->range().upper > 399; };
    [&] { QTRY_VERIFY_WITH_TIMEOUT(isPainted(), kLimitMs); }();
    return canvas;
  }
  static QPoint pixelOf(QCustomPlot* canvas, double x, double y) {
    return {static_cast<int>(canvas->xAxis->coordToPixel(x)),
            static_cast<int>(canvas->yAxis->coordToPixel(y))};
  }
};

QTEST_MAIN(SpreadTest)
#include "spread_test.moc"
