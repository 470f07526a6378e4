// Grid views: which part of x is shown and told, by keys and by another view, while data come.
#include <QSignalSpy>
#include <QTest>
#include <numeric>

#include "app/runs/heat_map.h"
#include "app/runs/step_matrix.h"
#include "ui/plots/heat_map_view.h"
#include "ui/theme/theme.h"

using namespace lockstep;
using namespace lockstep::ui;

class GridViewTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { Theme::instance().apply(Theme::Mode::kLight); }
  void init() {
    steps_ = app::StepMatrix();
    last_ = 0;
    map_ = app::HeatMap();
    map_.setMeasure(app::StepMeasure::kForward, false);
    view_ = std::make_unique<HeatMapView>("heatMap", map_);
    view_->resize(800, 300);
    view_->show();
    chosen_ = std::make_unique<QSignalSpy>(view_.get(), &GridView::xChosen);
  }
  void cleanup() {
    chosen_.reset();
    view_.reset();
  }

  void keysChooseX() {
    growTo(100);
    QVERIFY(!view_->xZoom());
    QTest::keyClick(view_.get(), Qt::Key_Plus);
    QCOMPARE(chosen_->size(), 1);
    QVERIFY(view_->xZoom() && view_->xZoom()->span() < 100);
    const GridView::Range part = *view_->xZoom();
    growTo(200);
    QCOMPARE(view_->xRange(), part);
    QTest::keyClick(view_.get(), Qt::Key_Home);
    QCOMPARE(chosen_->size(), 2);
    QVERIFY(!view_->xZoom());
    QCOMPARE(view_->xRange().end, 201.0);
  }

  // Fewer rows are no other part of x, which grows on.
  void rowsChooseNoX() {
    growTo(100);
    for (const int until : {200, 300}) {
      QTest::keyClick(view_.get(), Qt::Key_Plus, Qt::ControlModifier);
      QVERIFY(view_->rowRange().span() < kRanks);
      growTo(until);
      QVERIFY(!view_->xZoom());
      QCOMPARE(view_->xRange().end, until + 1.0);
    }
    QCOMPARE(chosen_->size(), 0);
  }

  // What another view shows may be known here later.
  void aPartMayBeToCome_data() {
    QTest::addColumn<int>("before");
    QTest::newRow("without data") << 0;
    QTest::newRow("with some") << 100;
  }
  void aPartMayBeToCome() {
    QFETCH(int, before);
    growTo(before);
    const GridView::Range part{350, 400};
    view_->showX(part);
    QVERIFY(view_->xZoom() && *view_->xZoom() == part);
    QTest::keyClick(view_.get(), Qt::Key_Plus, Qt::ControlModifier);
    growTo(200);
    growTo(500);
    QCOMPARE(view_->xRange(), part);
    QCOMPARE(chosen_->size(), 0);
    view_->showX(std::nullopt);
    growTo(600);
    QCOMPARE(view_->xRange().end, 601.0);
    QCOMPARE(chosen_->size(), 0);
  }

  void withoutDataNothingIsChosen() {
    for (const Qt::Key key : {Qt::Key_Plus, Qt::Key_Minus, Qt::Key_Home, Qt::Key_Right})
      QTest::keyClick(view_.get(), key);
    QTest::mouseDClick(view_.get(), Qt::LeftButton, {}, view_->rect().center());
    QCOMPARE(chosen_->size(), 0);
    growTo(50);
    QCOMPARE(view_->xRange().end, 51.0);
  }

 private:
  static constexpr int kRanks = 8;

  void growTo(int step) {
    for (; last_ < step; ++last_)
      for (int rank = 0; rank < kRanks; ++rank)
        steps_.add({"rank/" + std::to_string(rank) + "/forward", {{last_ + 1.0, 0.1}}});
    if (step == 0) return;
    map_.update(steps_, app::StepMatrix::kMostCells);
    std::vector<int> order(kRanks);
    std::iota(order.begin(), order.end(), 0);
    view_->refresh(order, std::vector<QString>(kRanks, "rank"), 1);
  }

  app::StepMatrix steps_;
  app::HeatMap map_;
  std::unique_ptr<HeatMapView> view_;
  std::unique_ptr<QSignalSpy> chosen_;
  int last_ = 0;
};

QTEST_MAIN(GridViewTest)
#include "grid_view_test.moc"
