// The timeline of a step as it is drawn: messages between ranks, and the median rank above them;
// and as the table of its spans.
#include <QAbstractItemModelTester>
#include <QHeaderView>
#include <QTableView>
#include <QTest>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <memory>

#include "app/runs/preview.h"
#include "app/runs/step_timeline.h"
#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"
#include "ui/dialogs/timeline_stack.h"
#include "ui/models/timeline_table_model.h"
#include "ui/plots/timeline_view.h"
#include "ui/studio/background.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"

using namespace lockstep;
using namespace lockstep::ui;
using app::SpanKind;
using app::StepTimeline;
using app::TimelineSpan;
using Column = TimelineTableModel::Column;

namespace {

TimelineView::Timeline pipelineStep() {
  auto spec = app::loadRunSpec(lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml"),
                               {"strategy.kind=pipeline"});
  if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
  app::LaunchRequest request;
  request.spec = spec->spec;
  request.cluster = app::localCluster(3, "/nowhere", "gloo").spec;
  auto preview = app::makePreview(request, {});
  if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
  auto step = app::predictTimeline(preview->plan, *preview);
  if (!step.ok()) qFatal("%s", step.error().text().c_str());
  return std::make_shared<const StepTimeline>(std::move(*step));
}

// Two ranks that send each other `count` messages, one after another. Each is sent in 2 µs, and
// awaited for 3 µs of the 10 µs that a round takes.
TimelineView::Timeline rounds(int count) {
  StepTimeline out;
  out.lanes.resize(2);
  for (int i = 0; i < count; ++i) {
    const std::int64_t at = 10'000 * std::int64_t{i};
    const auto name = static_cast<std::int32_t>(2 * i);
    out.names.push_back("send." + std::to_string(i));
    out.names.push_back("recv." + std::to_string(i));
    out.lanes[0].spans.push_back({at + 4'000, at + 6'000, name, -1, SpanKind::kTransfer});
    out.lanes[1].spans.push_back({at + 1'000, at + 4'000, name + 1, -1, SpanKind::kWaiting});
    out.lanes[1].spans.push_back({at + 4'000, at + 9'000, name + 1, -1, SpanKind::kTransfer});
    out.flows.push_back({0, 1, name, name + 1, at + 4'000, at + 1'000, at + 9'000});
  }
  out.length = 10'000 * std::int64_t{count};
  return std::make_shared<const StepTimeline>(std::move(out));
}

// The same, whose waits and transfers say what the table shows of them.
TimelineView::Timeline toldRounds(int count) {
  StepTimeline out = *rounds(count);
  out.bytes.assign(out.names.size(), 4096);
  for (TimelineSpan& span : out.lanes[1].spans)
    if (span.kind == SpanKind::kWaiting) span.waitsFor = 0;
  return std::make_shared<const StepTimeline>(std::move(out));
}

// Spans of 1 to 7 µs, one after another.
TimelineView::Timeline crowded(int ranks, int spans) {
  StepTimeline out;
  for (int rank = 0; rank < ranks; ++rank) {
    StepTimeline::Lane& lane = out.lanes.emplace_back();
    lane.spans.reserve(static_cast<std::size_t>(spans));
    std::int64_t at = 0;
    for (int i = 0; i < spans; ++i) {
      const std::int64_t end = at + 1'000 * (1 + (i * 5 + rank) % 7);
      lane.spans.push_back({at, end, -1, -1, SpanKind::kForward});
      at = end;
    }
    out.length = std::max(out.length, at);
  }
  return std::make_shared<const StepTimeline>(std::move(out));
}

QStringList cellsOf(const QAbstractItemModel& model, int row) {
  QStringList out;
  for (int column = 0; column < model.columnCount(); ++column)
    out << model.index(row, column).data().toString();
  return out;
}

}  // namespace

class TimelineTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    Theme::instance().apply(Theme::Mode::kLight);
    view_ = std::make_unique<TimelineView>("timeline");
    view_->setNames({"rank 0", "rank 1", "rank 2"});
    view_->resize(800, 300);
    view_->show();
    QVERIFY(QTest::qWaitForWindowExposed(view_.get()));
  }
  void cleanup() {
    view_.reset();
    Language::instance().set("en");
  }
  void cleanupTestCase() { endBackground(); }

  // In the gap between two lanes there is nothing but the arrow.
  void aMessageIsAnArrow() {
    view_->setTimelines(rounds(1), nullptr);
    QCOMPARE(view_->shownFlows().size(), std::size_t{1});
    const QPoint begin = view_->pixelOf(4'000, 0.44), end = view_->pixelOf(9'000, 1.44);
    const auto darkest = [&](int row) {
      const QImage image = view_->grab().toImage();
      const double scale = image.devicePixelRatio();
      int best = -1, grey = 255;
      for (int x = begin.x(); x <= end.x(); ++x) {
        const int here = qGray(image.pixel(QPoint(x, row) * scale));
        if (here < grey) best = x;
        grey = std::min(grey, here);
      }
      return best;
    };
    const int row = view_->pixelOf(0, 0.95).y();
    const double share = static_cast<double>(row - begin.y()) / (end.y() - begin.y());
    const double expected = begin.x() + share * (end.x() - begin.x());
    QVERIFY2(std::abs(darkest(row) - expected) <= 12,
             qPrintable(QString("%1 %2").arg(darkest(row)).arg(expected)));
    view_->setTimelines({}, nullptr);
    QVERIFY(view_->shownFlows().empty());
  }

  void bothEndsNameTheirPeer() {
    view_->setTimelines(rounds(3), nullptr);
    QTest::mouseClick(view_.get(), Qt::LeftButton, {}, view_->pixelOf(15'000, 0.4));
    QVERIFY(view_->chosenSpan() == &view_->measured()->lanes[0].spans[1]);
    QVERIFY2(view_->accessibleDescription().endsWith(
                 QString::fromUtf8("to rank 1 (recv.1) in 5.0 µs, the receiver waited 3.0 µs")),
             qPrintable(view_->accessibleDescription()));
    // The end of the arrow, at the end of the receive.
    QTest::mouseClick(view_.get(), Qt::LeftButton, {}, view_->pixelOf(18'900, 1.4));
    QVERIFY(view_->chosenSpan() == &view_->measured()->lanes[1].spans[3]);
    QVERIFY2(view_->accessibleDescription().contains("from rank 0 (send.1)"),
             qPrintable(view_->accessibleDescription()));
  }

  // It lies above the spans that it crosses, but not above those at its ends.
  void anArrowSelectsItsReceive() {
    StepTimeline step = *rounds(1);
    StepTimeline::Lane between;
    between.spans.push_back({0, 10'000, -1, -1, SpanKind::kForward});
    step.lanes.insert(step.lanes.begin() + 1, between);
    step.flows[0].to = 2;
    view_->setTimelines(std::make_shared<const StepTimeline>(std::move(step)), nullptr);
    const auto& lanes = view_->measured()->lanes;
    const auto chosenAt = [&](double x, double row) {
      QTest::mouseClick(view_.get(), Qt::LeftButton, {}, view_->pixelOf(x, row));
      return view_->chosenSpan();
    };
    QVERIFY(chosenAt(6'500, 1.44) == &lanes[2].spans[1]);  // its middle
    QVERIFY2(view_->accessibleDescription().endsWith(
                 QString::fromUtf8("from rank 0 (send.0) in 5.0 µs, the receiver waited 3.0 µs")),
             qPrintable(view_->accessibleDescription()));
    QVERIFY(chosenAt(2'000, 1.44) == &lanes[1].spans[0]);
    QVERIFY(chosenAt(4'100, 0.44) == &lanes[0].spans[0]);
    QVERIFY(chosenAt(2'000, 0.94) == nullptr);
  }

  void manyAreDrawnOnlyWhereTheyCanBeRead() {
    constexpr int kMany = 1'000;
    view_->setTimelines(rounds(kMany), nullptr);
    QVERIFY(view_->shownFlows().empty());
    view_->setView({50'000, 150'000}, view_->rowRange());
    const auto shown = view_->shownFlows();
    QCOMPARE(shown.size(), std::size_t{10});
    QCOMPARE(shown.front()->sent, 54'000);
    // That of the chosen span is drawn at any zoom.
    QTest::mouseClick(view_.get(), Qt::LeftButton, {}, view_->pixelOf(75'000, 0.4));
    QTest::keyClick(view_.get(), Qt::Key_Home);
    QCOMPARE(view_->shownFlows().size(), std::size_t{1});
    QCOMPARE(view_->shownFlows().front()->sent, 74'000);
    QTest::keyClick(view_.get(), Qt::Key_Escape);
    QVERIFY(view_->shownFlows().empty());
  }

  void theMedianRankIsAboveTheOthers() {
    StepTimeline step = *rounds(1);
    StepTimeline::Lane median;
    step.names.push_back("dense");
    median.spans.push_back({1'000, 9'000, 2, -1, SpanKind::kForward});
    step.medians.push_back(median);
    const auto timeline = std::make_shared<const StepTimeline>(std::move(step));
    view_->setTimelines(timeline, nullptr, true);
    QCOMPARE(view_->medianRows(), 1);
    QCOMPARE(view_->rowOf(0), 1);
    QCOMPARE(view_->rowRange().end, 3.0);
    QCOMPARE(view_->spanText(-1, median.spans[0], false),
             QString::fromUtf8("median rank · forward · dense · 8.0 µs"));
    const auto colorAt = [&](double row) {
      const QImage image = view_->grab().toImage();
      return image.pixelColor(view_->pixelOf(2'000, row) * image.devicePixelRatio()).rgb();
    };
    QCOMPARE(colorAt(0.4), Theme::instance().phase(static_cast<int>(SpanKind::kForward)).rgb());
    QCOMPARE(colorAt(2.2), Theme::instance().phase(static_cast<int>(SpanKind::kWaiting)).rgb());
    // Ranks are chosen in their own rows, and the median rank in its, by mouse and by key.
    QTest::mouseClick(view_.get(), Qt::LeftButton, {}, view_->pixelOf(2'000, 2.4));
    QCOMPARE(view_->rankOf(view_->chosenRow()), 1);
    const TimelineSpan* usual = &timeline->medians[0].spans[0];
    QTest::mouseClick(view_.get(), Qt::LeftButton, {}, view_->pixelOf(2'000, 0.4));
    QVERIFY(view_->chosenSpan() == usual);
    QCOMPARE(view_->chosenText(), view_->spanText(-1, *usual, false));
    QCOMPARE(view_->accessibleDescription(), view_->chosenText());
    QTest::keyClick(view_.get(), Qt::Key_Up);  // there is no row above
    QVERIFY(view_->chosenSpan() == usual);
    QTest::keyClick(view_.get(), Qt::Key_Down);
    QCOMPARE(view_->rankOf(view_->chosenRow()), 0);
    QTest::keyClick(view_.get(), Qt::Key_Up);
    QVERIFY(view_->chosenSpan() == usual);
    view_->setTimelines(timeline, nullptr);
    QCOMPARE(view_->rowRange().end, 2.0);
  }

  void stagesOfAPipelineExchangeMessages() {
    const auto step = pipelineStep();
    QVERIFY(!step->flows.empty());
    view_->setTimelines(step, nullptr);
    const auto& flow = step->flows.front();
    const auto& spans = step->lanes[static_cast<std::size_t>(flow.to)].spans;
    const auto receive = std::find_if(spans.begin(), spans.end(), [&](const TimelineSpan& span) {
      return span.name == flow.receive;
    });
    QVERIFY(receive != spans.end());
    const QString text = view_->spanText(flow.to, *receive, false);
    QVERIFY2(text.contains(QString("from rank %1 (").arg(flow.from)), qPrintable(text));
  }

  void theTableReadsTheSpansOfThePicture() {
    view_->setTimelines(toldRounds(3), nullptr);
    TimelineTableModel model(*view_);
    const QAbstractItemModelTester tester(&model,
                                          QAbstractItemModelTester::FailureReportingMode::QtTest);
    QCOMPARE(model.rowCount(), 0);
    model.refresh();
    QCOMPARE(model.rowCount(), 9);
    const auto cells = [&](int row) { return cellsOf(model, row).join('|'); };
    QCOMPARE(cells(0), QString::fromUtf8("rank 0|compute stream|transfer · send.0|4.0 µs|2.0 µs||"
                                         "4.10 kB"));
    QCOMPARE(cells(3), QString::fromUtf8("rank 1|compute stream|waiting · recv.0|1.0 µs|3.0 µs|"
                                         "rank 0|"));
    const QPersistentModelIndex send(model.index(0, Column::kRank));
    // The longest first; those that are equally long stay in their order.
    model.sort(Column::kDuration, Qt::DescendingOrder);
    QTRY_COMPARE_WITH_TIMEOUT(send.row(), 6, 60'000);
    QStringList operations;
    for (int row = 0; row < 9; ++row)
      operations << model.index(row, Column::kOperation).data().toString().section(' ', -1);
    QCOMPARE(operations.join(' '),
             QString("recv.0 recv.1 recv.2 recv.0 recv.1 recv.2 send.0 send.1 send.2"));
    for (int row = 0; row < 9; ++row) QCOMPARE(model.rowOf(model.placeOf(row)), row);
    QCOMPARE(model.rowOf({0, false, 3}), -1);
    QCOMPARE(model.rowOf({0, true, 0}), -1);
    QCOMPARE(model.rowOf({}), -1);
    model.sort(Column::kWaitsFor, Qt::DescendingOrder);
    QTRY_VERIFY_WITH_TIMEOUT(cells(2).contains("recv.2") && send.row() == 3, 60'000);
    model.sort(Column::kRank, Qt::AscendingOrder);
    QCOMPARE(send.row(), 0);
    // Another step is sorted as this one was.
    model.sort(Column::kStart, Qt::DescendingOrder);
    view_->setTimelines(toldRounds(5), nullptr);
    model.refresh();
    QCOMPARE(model.rowCount(), 15);
    QTRY_VERIFY_WITH_TIMEOUT(cells(0).contains("send.4"), 60'000);
    view_->setTimelines(nullptr, nullptr);
    model.refresh();
    QCOMPARE(model.rowCount(), 0);
  }

  void theTableHasTheMedianAndAsynchronousSpans() {
    StepTimeline step = *toldRounds(1);
    step.medians.emplace_back().spans.push_back({1'000, 9'000, 0, -1, SpanKind::kTransfer});
    step.lanes[0].communication.push_back({6'000, 9'000, 0, -1, SpanKind::kTransfer});
    const auto timeline = std::make_shared<const StepTimeline>(std::move(step));
    view_->setTimelines(timeline, nullptr, true);
    TimelineTableModel model(*view_);
    model.refresh();
    QCOMPARE(model.rowCount(), 5);
    QCOMPARE(cellsOf(model, 0).first(), QString("median rank"));
    QCOMPARE(cellsOf(model, 2).mid(0, 2).join('|'), QString("rank 0|communication stream"));
    QCOMPARE(model.rowOf({1, true, 0}), 2);
    // Without a measured step it has the predicted one.
    view_->setTimelines(nullptr, timeline);
    model.refresh();
    QCOMPARE(model.rowCount(), 4);
    QCOMPARE(cellsOf(model, 0).first(), QString("rank 0"));
  }

  // The picture of 256 ranks in a table: it appears at once, and is sorted in the background.
  void theTableHoldsMillionsOfSpans() {
    constexpr int kRanks = 256, kSpans = 10'000;
    TimelineStack stack("many", nullptr);
    stack.resize(900, 320);
    stack.show();
    QVERIFY(QTest::qWaitForWindowExposed(&stack));
    stack.view()->setTimelines(crowded(kRanks, kSpans), nullptr);
    stack.button()->click();
    auto* table = stack.findChild<QTableView*>("manyTable");
    QCOMPARE(table->model()->rowCount(), kRanks * kSpans);
    table->grab();
    int sorted = 0;
    connect(table->model(), &QAbstractItemModel::layoutChanged, this, [&] { ++sorted; });
    table->sortByColumn(Column::kDuration, Qt::DescendingOrder);
    QCOMPARE(sorted, 0);  // the window goes on meanwhile
    QTRY_COMPARE_WITH_TIMEOUT(sorted, 1, 120'000);
    disconnect(table->model(), nullptr, this, nullptr);
    const auto durationAt = [&](int row) {
      return table->model()->index(row, Column::kDuration).data().toString();
    };
    QCOMPARE(durationAt(0), QString::fromUtf8("7.0 µs"));
    QCOMPARE(durationAt(kRanks * kSpans - 1), QString::fromUtf8("1.0 µs"));
    // The last one is chosen in the picture too.
    table->setFocus();
    QTest::keyClick(table, Qt::Key_Down);
    QTest::keyClick(table, Qt::Key_End, Qt::ControlModifier);
    QCOMPARE(table->currentIndex().row(), kRanks * kSpans - 1);
    const TimelineSpan* chosen = stack.view()->chosenSpan();
    QVERIFY(chosen != nullptr && chosen->length() == 1'000);
    table->grab();
  }

  // By mouse and by keys; what is chosen in the one is chosen in the other.
  void pictureAndTableHaveOneSelection() {
    TimelineStack stack("step", nullptr);
    TimelineView* view = stack.view();
    view->setAccessibleName("Timeline");
    view->setNames({"rank 0", "rank 1"});
    stack.retranslate();
    stack.resize(1000, 320);
    stack.show();
    QVERIFY(QTest::qWaitForWindowActive(&stack));
    view->setTimelines(toldRounds(3), nullptr);
    QTest::mouseClick(view, Qt::LeftButton, {}, view->pixelOf(15'000, 0.4));  // send.1
    QVERIFY(view->chosenSpan() == &view->measured()->lanes[0].spans[1]);
    stack.button()->show();
    QTest::mouseClick(stack.button(), Qt::LeftButton);
    auto* table = stack.findChild<QTableView*>("stepTable");
    QVERIFY(table->isVisible() && !view->isVisible());
    QCOMPARE(table->accessibleName(), QString("Data of Timeline"));
    QCOMPARE(table->currentIndex().row(), 1);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {},
                      table->visualRect(table->model()->index(4, Column::kOperation)).center());
    QVERIFY(view->chosenSpan() == &view->measured()->lanes[1].spans[1]);
    QVERIFY(view->accessibleDescription().contains("recv.0"));
    table->setFocus();
    QTest::keyClick(table, Qt::Key_Down);
    QVERIFY(view->chosenSpan() == &view->measured()->lanes[1].spans[2]);
    // A click on a title sorts by it; the chosen span stays chosen.
    auto* header = table->horizontalHeader();
    const QPoint title(header->sectionViewportPosition(Column::kStart) + 20, header->height() / 2);
    for (int i = 0; i < 2; ++i) QTest::mouseClick(header->viewport(), Qt::LeftButton, {}, title);
    QTRY_COMPARE_WITH_TIMEOUT(cellsOf(*table->model(), 0)[Column::kOperation],
                              QString::fromUtf8("transfer · send.2"), 60'000);
    QVERIFY(cellsOf(*table->model(), table->currentIndex().row())[Column::kOperation].endsWith(
        QString::fromUtf8("waiting · recv.1")));
    QVERIFY(view->chosenSpan() == &view->measured()->lanes[1].spans[2]);
    // So does a key, by the column of the cell; again, in the other direction.
    QTest::keyClick(table, Qt::Key_Right);
    QCOMPARE(table->currentIndex().column(), int(Column::kStart));
    QTest::keyClick(table, Qt::Key_Right);
    const auto sortByKey = [&] {
      QTest::keyClick(table, Qt::Key_O, Qt::ControlModifier | Qt::ShiftModifier);
    };
    sortByKey();
    QTRY_COMPARE_WITH_TIMEOUT(cellsOf(*table->model(), 0)[Column::kDuration],
                              QString::fromUtf8("2.0 µs"), 60'000);
    sortByKey();
    QTRY_COMPARE_WITH_TIMEOUT(cellsOf(*table->model(), 0)[Column::kDuration],
                              QString::fromUtf8("5.0 µs"), 60'000);
    Language::instance().set("zh_CN");
    stack.retranslate();
    const auto titleOf = [&](int column) {
      return table->model()->headerData(column, Qt::Horizontal).toString();
    };
    QVERIFY(titleOf(Column::kWaitsFor) != "Waits for" && titleOf(Column::kStart) != "Start");
    Language::instance().set("en");
    stack.button()->click();
    QVERIFY(view->isVisible());
    QTest::keyClick(view, Qt::Key_Escape);
    stack.button()->click();
    QVERIFY(!table->currentIndex().isValid());
    // The table of another step has the focus of the picture, and its selection.
    view->setTimelines(toldRounds(4), nullptr);
    stack.button()->click();
    view->setFocus();
    QTest::mouseClick(view, Qt::LeftButton, {}, view->pixelOf(25'000, 0.4));  // send.2
    QVERIFY(view->chosenSpan() == &view->measured()->lanes[0].spans[2]);
    stack.button()->click();
    QVERIFY(table->hasFocus());
    QVERIFY(view->chosenSpan() == &view->measured()->lanes[0].spans[2]);
    QVERIFY(cellsOf(*table->model(), table->currentIndex().row())[Column::kOperation].endsWith(
        "send.2"));
  }

 private:
  std::unique_ptr<TimelineView> view_;
};

QTEST_MAIN(TimelineTest)
#include "timeline_test.moc"
