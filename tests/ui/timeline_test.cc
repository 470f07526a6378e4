// The timeline of a step as it is drawn: messages between ranks, and the median rank above them.
#include <QTest>
#include <algorithm>
#include <cmath>
#include <memory>

#include "app/runs/preview.h"
#include "app/runs/step_timeline.h"
#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"
#include "ui/plots/timeline_view.h"
#include "ui/theme/theme.h"

using namespace lockstep;
using namespace lockstep::ui;
using app::SpanKind;
using app::StepTimeline;
using app::TimelineSpan;

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
  void cleanup() { view_.reset(); }

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

 private:
  std::unique_ptr<TimelineView> view_;
};

QTEST_MAIN(TimelineTest)
#include "timeline_test.moc"
