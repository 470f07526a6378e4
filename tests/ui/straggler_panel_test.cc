// What the panel of a run page says of each cause of slowness, of a slow link and of a rank that
// stands still: who, since when, the evidence beside its peers' figures, what a step would take
// without it; in both languages.
#include <QTest>
#include <QtWidgets>

#include "tests/ui/studio_fixture.h"
#include "ui/pages/run_page.h"
#include "ui/theme/language.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::app::SlowCause;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

app::Straggler rankTwo(SlowCause cause) {
  app::Straggler slow;
  slow.rank = 2;
  slow.node = "local3";
  slow.factor = 1.8;
  slow.stepSeconds = 0.02;
  slow.withoutSeconds = 0.012;
  slow.sinceStep = 295;  // too few steps for a replay
  slow.phase = "backward";
  slow.evidence.cause = cause;
  slow.evidence.share = 0.4;
  slow.evidence.cores = 0.55;
  slow.evidence.gpu = 1;
  return slow;
}

app::Straggler linkFrom(const char* from, const char* to) {
  app::Straggler slow = rankTwo(SlowCause::kUnknown);
  slow.rank = -1;
  slow.link = app::SlowLink{from, to, "", 2.5e6, 1.1e8, 0.04, 0.0003, 0.012, 0.3};
  return slow;
}

}  // namespace

class StragglerPanelTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->resize(1400, 900);
    window_->show();
    const auto run = home_->addRun(0, app::RunState::SUCCEEDED, 300);
    page_ = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page_->document()->loaded(); }));
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void everyCauseIsSaid() {
    app::Straggler disk = rankTwo(SlowCause::kDisk), busy = disk,
                   data = rankTwo(SlowCause::kMoreData), clock = rankTwo(SlowCause::kGpuClock),
                   lanes = rankTwo(SlowCause::kGpuLink), pages = rankTwo(SlowCause::kPaging);
    disk.evidence.reading = {0.25, 0.01};
    busy.evidence.diskBusy = analysis::BesideOthers{0.9, 0.1};
    data.evidence.elements = {20480, 8192};
    clock.evidence.clock = {900, 1980};
    lanes.evidence.lanes = 4;
    lanes.evidence.lanesMax = 16;
    pages.evidence.diskFaults = 1500;
    const QList<std::pair<app::Straggler, QString>> all{
        {rankTwo(SlowCause::kStopped), "Its process was suspended 40 % of the time."},
        {rankTwo(SlowCause::kThrottled), "A CPU quota throttled it 40 % of the time."},
        {rankTwo(SlowCause::kCrowded), "Other processes used its cores 40 % of the time."},
        {rankTwo(SlowCause::kFrozen), "Its process did not run 40 % of the time."},
        {pages, "It read 1,500 pages a second from a disk (swap or mapped files)."},
        {disk, " a step for its data files, the others "},
        {busy, "Its node's disk was busy 90 % of the time, the others' 10 %."},
        {data, "Its batches had 20,480 elements, the others' 8,192."},
        {rankTwo(SlowCause::kGpuHeat), "Its GPU 1 was thermally throttled 40 % of the time."},
        {rankTwo(SlowCause::kGpuPower), "Its GPU 1 was held at its power limit 40 % of the time."},
        {clock, "Its GPU 1 ran at 900 MHz, the others' at 1,980 MHz."},
        {lanes, "The PCIe link of its GPU 1 has 4 of 16 lanes."},
        {rankTwo(SlowCause::kUnknown), "It had 0.55 cores."}};
    for (const auto& [slow, words] : all) {
      show(slow);
      QVERIFY2(who().contains("ank 2") && who().contains("local3"), qPrintable(who()));
      QVERIFY2(evidence().contains(words), qPrintable(words + "\n" + evidence()));
      QVERIFY2(evidence().contains("Since step 295, mostly in backward."), qPrintable(evidence()));
      QVERIFY2(
          evidence().contains("Without this rank a step would take 12.0 ms instead of 20.0 ms"),
          qPrintable(evidence()));
      checkChinese(words);
      if (QTest::currentTestFailed()) return;
    }
    show(std::nullopt);
    QCOMPARE(who(), QString("No straggler: all ranks are near the median."));
  }

  void aSlowLinkIsSaid() {
    app::Straggler slow = linkFrom("local1", "local3");
    show(slow);
    QVERIFY2(who().contains("local1") && who().contains("local3"), qPrintable(who()));
    for (const char* words :
         {"Since step 295: 2.50 MB/s instead of 110 MB/s", "% of its packets are sent again.",
          "At its usual rate a step would take 12.0 ms instead of 20.0 ms."})
      QVERIFY2(evidence().contains(words), qPrintable(words + ("\n" + evidence())));
    QVERIFY(!evidence().contains("All slow links"));
    slow.link->resent = 0;
    slow.link->common = "local3";
    show(slow);
    QVERIFY2(!evidence().contains("sent again"), qPrintable(evidence()));
    QVERIFY2(evidence().contains("All slow links are local3's."), qPrintable(evidence()));
    checkChinese("All slow links");
  }

  void aRankThatStandsStillIsSaid() {
    app::Straggler slow = rankTwo(SlowCause::kStopped);
    slow.halted = true;
    slow.withoutSeconds = 0;
    show(slow);
    QVERIFY2(evidence().contains("No step has completed since step 295."), qPrintable(evidence()));
    checkChinese("No step has completed");
  }

  void severalSlowRanksAreCounted() {
    app::Straggler slow = rankTwo(SlowCause::kThrottled);
    slow.slowRanks = 3;
    show(slow);
    QVERIFY2(evidence().contains("Without the 3 slow ranks a step would take 12.0 ms"),
             qPrintable(evidence()));
    slow.withoutSeconds = slow.stepSeconds;  // no gain
    show(slow);
    QVERIFY2(evidence().contains("Without the 3 slow ranks a step would still take 20.0 ms."),
             qPrintable(evidence()));
  }

 private:
  // As the run's recorder tells it.
  void show(const std::optional<app::Straggler>& slow) {
    app::RunUpdate update;
    update.slowChanged = true;
    update.slow = slow;
    page_->document()->take(update);
  }
  QString who() const { return page_->findChild<QLabel*>("stragglerWho")->text(); }
  QString evidence() const { return page_->findChild<QLabel*>("stragglerEvidence")->text(); }
  void checkChinese(const QString& english) {
    static const QRegularExpression chinese("[\\x{4e00}-\\x{9fff}]");
    Language::instance().set("zh_CN");
    QVERIFY2(wait([&] { return who().contains(chinese) && evidence().contains(chinese); }),
             qPrintable(evidence()));
    QVERIFY2(!evidence().contains(english), qPrintable(evidence()));
    static const QRegularExpression words("\\b(the|its|step|without|since)\\b",
                                          QRegularExpression::CaseInsensitiveOption);
    QVERIFY2(!evidence().contains(words), qPrintable(evidence()));
    Language::instance().set("en");
    QVERIFY(wait([&] { return !evidence().contains(chinese); }));
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  RunPage* page_ = nullptr;
};

QTEST_MAIN(StragglerPanelTest)
#include "straggler_panel_test.moc"
