// The plan of a launch by mouse and keyboard: its step time as a table, and the strategies that a
// search finds: opened, compared with the current one, copied, saved and chosen. No agents.
#include <QTest>
#include <QtWidgets>
#include <algorithm>
#include <cmath>

#include "tests/ui/by_hand.h"
#include "tests/ui/launch_fixture.h"
#include "tests/ui/studio_fixture.h"
#include "tests/ui/tab_walk.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/plan_dialog.h"
#include "ui/models/advice_model.h"
#include "ui/models/candidate_model.h"
#include "ui/models/plan_figure_model.h"
#include "ui/theme/format.h"
#include "ui/widgets/breakdown_bars.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

constexpr int kStepTimeTab = 1;
constexpr int kPlanTextTab = 1;  // of the plan's dialog

}  // namespace

class LaunchPlanTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_, {1440, 900});
    dialog_ = window_->openLaunch(tests::newModel(*window_, "mlp"), nullptr);
    dialog_->chooseNodes(2);
    QVERIFY(wait([&] { return dialog_->ready() && dialog_->preview()->ranks.size() == 2; }));
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void theStepTimeIsATableToo() {
    tests::clickTab(dialog_->findChild<QTabWidget*>("launchTabs"), kStepTimeTab);
    const auto* bars = dialog_->findChild<BreakdownBars*>("launchBars");
    const auto* table = dialog_->findChild<QTableView*>("launchBarsTable");
    auto* button = dialog_->findChild<QToolButton*>("launchBarsAsTable");
    QVERIFY(bars->isVisible() && !table->isVisible());
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(table->isVisible() && !bars->isVisible());
    const auto rowsAreRight = [&] {
      const auto& ranks = dialog_->preview()->ranks;
      QCOMPARE(table->model()->rowCount(), static_cast<int>(ranks.size()));
      for (int row = 0; row < table->model()->rowCount(); ++row) {
        const app::RankPreview& rank = ranks[static_cast<std::size_t>(row)];
        const auto cell = [&](int column) {
          return table->model()->index(row, column).data().toString();
        };
        QCOMPARE(cell(0), QString("rank %1").arg(row));
        QCOMPARE(cell(1), QString("predicted"));
        QCOMPARE(cell(3), formatSeconds(rank.forward));
        QCOMPARE(cell(4), formatSeconds(rank.backward));
        QCOMPARE(cell(kPhaseCount + 2),
                 formatSeconds(rank.data + rank.forward + rank.backward + rank.waiting +
                               rank.transfer + rank.optimizer));
      }
    };
    rowsAreRight();
    dialog_->chooseNodes(3);
    QVERIFY(wait([&] { return dialog_->ready() && dialog_->preview()->ranks.size() == 3; }));
    rowsAreRight();
    button->setFocus();
    QTest::keyClick(button, Qt::Key_Space);
    QVERIFY(bars->isVisible() && !table->isVisible());
  }

  // From the comparison of all by a double click, and by Return, which launches nothing.
  void aStrategyIsChosenFromTheTable() {
    tests::clickTab(dialog_->findChild<QTabWidget*>("launchTabs"), tests::kCompareTab);
    auto* table = dialog_->findChild<QTableView*>("candidateTable");
    const auto* model = qobject_cast<CandidateModel*>(table->model());
    const auto placeOf = [&](const char* strategy) {
      const auto& all = model->candidates();
      const auto at = std::ranges::find(all, strategy, &Candidate::strategy);
      return model->index(static_cast<int>(at - all.begin()), 0);
    };
    const auto isChosen = [&](const char* strategy) {
      return dialog_->ready() && dialog_->preview()->plan.strategy == strategy &&
             placeOf(strategy).data(Qt::FontRole).value<QFont>().bold();
    };
    QVERIFY(wait([&] { return placeOf("zero-1").isValid(); }));
    table->scrollTo(placeOf("zero-1"));
    const QPoint place = table->visualRect(placeOf("zero-1")).center();
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, place);
    QVERIFY(!isChosen("zero-1"));
    QTest::mouseDClick(table->viewport(), Qt::LeftButton, {}, place);
    QVERIFY(wait([&] { return isChosen("zero-1"); }));
    table->setFocus();
    const int rows = placeOf("zero-3").row() - table->currentIndex().row();
    for (int i = 0; i < std::abs(rows); ++i)
      QTest::keyClick(table, rows > 0 ? Qt::Key_Down : Qt::Key_Up);
    QTest::keyClick(table, Qt::Key_Return);
    QVERIFY(wait([&] { return isChosen("zero-3"); }));
    QVERIFY(dialog_->isVisible());
    QVERIFY(dialog_->command().contains("strategy.kind=zero-3"));
  }

  void aPlanIsCopiedAndSaved() {
    (void)search();
    QTest::mouseClick(button("adviceOpen"), Qt::LeftButton);
    PlanDialog* plan = planDialog();
    QVERIFY(plan);
    QCOMPARE(figures(plan)->columnCount(), 2);
    tests::clickTab(plan->findChild<QTabWidget*>("planTabs"), kPlanTextTab);
    tests::checkKeyboard(plan);
    const QString text = textOf(plan, "planDialogText");
    QVERIFY(!text.isEmpty());
    QApplication::clipboard()->clear();
    QTest::mouseClick(plan->findChild<QPushButton*>("planDialogCopy"), Qt::LeftButton);
    QCOMPARE(QApplication::clipboard()->text(), text);
    auto* save = plan->findChild<QPushButton*>("planDialogSave");
    const auto* message = plan->findChild<MessagePanel*>();
    const auto saveAs = [&](const QString& path) {
      QTest::mouseClick(save, Qt::LeftButton);
      QPointer<QFileDialog> ask = plan->findChild<QFileDialog*>("savePlanDialog");
      return tests::saveAs(ask, path) && wait([&] { return ask.isNull(); });
    };
    QVERIFY(saveAs("/proc/plan.txt"));  // where no file can be made
    QVERIFY(message->isVisible());
    QVERIFY2(message->what().contains("/proc/plan.txt"), qPrintable(message->what()));
    const QString path = home_->path("plan.txt");
    QVERIFY(saveAs(path));
    QVERIFY2(message->what().contains(path), qPrintable(message->what()));
    QFile saved(path);
    QVERIFY(saved.open(QFile::ReadOnly));
    QCOMPARE(QString::fromUtf8(saved.readAll()), text);
    QPointer<PlanDialog> closed = plan;
    QTest::keyClick(plan, Qt::Key_Escape);
    QVERIFY(wait([&] { return closed.isNull(); }));
  }

  // By keys alone from the row of the strategy on.
  void aStrategyIsComparedAndChosen() {
    const AdviceModel* found = search();
    QVERIFY(found->rowCount() > 1);
    auto* table = dialog_->findChild<QTableView*>("adviceTable");
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {},
                      table->visualRect(found->index(0, 0)).center());
    int row = 0;
    for (; row + 1 < found->rowCount() && isCurrent(found, row); ++row)
      QTest::keyClick(table, Qt::Key_Down);
    QVERIFY(!isCurrent(found, row));
    QCOMPARE(table->currentIndex().row(), row);
    const app::AdvisedStrategy wanted = found->strategies()[static_cast<std::size_t>(row)];
    auto* compare = button("adviceCompare");
    compare->setFocus();
    QTest::keyClick(compare, Qt::Key_Space);
    PlanDialog* both = planDialog();
    QVERIFY(both);
    QCOMPARE(figures(both)->columnCount(), static_cast<int>(PlanFigureModel::kColumns));
    auto* tabs = both->findChild<QTabWidget*>("planTabs");
    tabs->tabBar()->setFocus();
    QTest::keyClick(tabs->tabBar(), Qt::Key_Right);
    QCOMPARE(tabs->currentIndex(), kPlanTextTab);
    // It is the strategy's plan that is copied.
    QVERIFY(textOf(both, "planDialogText") != textOf(both, "planDialogOther"));
    auto* copy = both->findChild<QPushButton*>("planDialogCopy");
    copy->setFocus();
    QTest::keyClick(copy, Qt::Key_Space);
    QCOMPARE(QApplication::clipboard()->text(), textOf(both, "planDialogText"));
    QPointer<PlanDialog> closed = both;
    auto* choose = both->findChild<QPushButton*>("planDialogAccept");
    choose->setFocus();
    QTest::keyClick(choose, Qt::Key_Return);
    QVERIFY(wait([&] { return closed.isNull() && dialog_->ready() && stepIs(wanted); }));
    QVERIFY(dialog_->command().contains("strategy."));
  }

 private:
  QPushButton* button(const char* name) const { return dialog_->findChild<QPushButton*>(name); }
  // Searches to the end.
  const AdviceModel* search() const {
    tests::clickTab(dialog_->findChild<QTabWidget*>("launchTabs"), tests::kSearchTab);
    QTest::mouseClick(button("adviceSearch"), Qt::LeftButton);
    const auto* progress = dialog_->findChild<QProgressBar*>("adviceProgress");
    (void)wait([&] { return progress->isHidden(); });
    return qobject_cast<AdviceModel*>(dialog_->findChild<QTableView*>("adviceTable")->model());
  }
  bool stepIs(const app::AdvisedStrategy& one) const {
    return std::abs(dialog_->preview()->stepSeconds / one.stepSeconds - 1) < 0.01;
  }
  bool isCurrent(const AdviceModel* found, int row) const {
    return stepIs(found->strategies()[static_cast<std::size_t>(row)]);
  }
  PlanDialog* planDialog() const {
    PlanDialog* out = nullptr;
    (void)wait([&] { return (out = dialog_->findChild<PlanDialog*>()) && out->isVisible(); });
    return out;
  }
  static QAbstractItemModel* figures(const PlanDialog* plan) {
    return plan->findChild<QTableView*>("planFigures")->model();
  }
  static QString textOf(const PlanDialog* plan, const char* name) {
    return plan->findChild<QPlainTextEdit*>(name)->toPlainText();
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  LaunchDialog* dialog_ = nullptr;
};

QTEST_MAIN(LaunchPlanTest)
#include "launch_plan_test.moc"
