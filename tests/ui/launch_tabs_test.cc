// The tabs of the launch dialog: the plan as it is drawn, strategies compared and searched, and
// what if. No agents.
#include <QtTest>
#include <QtWidgets>

#include "engine/cluster/strategies.h"
#include "tests/ui/launch_fixture.h"
#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/launch_preview.h"
#include "ui/dialogs/plan_dialog.h"
#include "ui/models/advice_model.h"
#include "ui/models/candidate_model.h"
#include "ui/models/plan_figure_model.h"
#include "ui/models/summary_model.h"
#include "ui/plots/timeline_view.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

class LaunchTabsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_, {1440, 900});
    QCursor::setPos(0, 0);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  // The predicted step is drawn where it is looked at, with a lane for each rank; a span tells what
  // it is. It follows the settings, and nothing is drawn of settings that cannot be.
  void thePlanIsDrawn() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    auto* timeline = dialog->findChild<TimelineView*>("planTimeline");
    auto* said = dialog->findChild<QLabel*>("planSpan");
    const auto lanes = [&] {
      return timeline->measured() ? timeline->measured()->lanes.size() : std::size_t{0};
    };
    dialog->chooseNodes(2);
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 2; }));
    QCOMPARE(lanes(), std::size_t{0});
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kPlanTab);
    QVERIFY(wait([&] { return lanes() == 2; }));
    const double seconds = static_cast<double>(timeline->measured()->length) * 1e-9;
    QVERIFY(seconds > 0.5 * dialog->preview()->stepSeconds &&
            seconds < 2 * dialog->preview()->stepSeconds);
    QVERIFY2(
        said->text().startsWith("bubble: ") && said->text().contains("communication is hidden"),
        qPrintable(said->text()));
    const auto& spans = timeline->measured()->lanes[0].spans;
    const auto longest = std::ranges::max_element(spans, {}, &app::TimelineSpan::length);
    QVERIFY(longest != spans.end());
    const auto middle = static_cast<double>(longest->begin + longest->end) / 2;
    QTest::mouseClick(timeline, Qt::LeftButton, {}, timeline->pixelOf(middle, 0.15));
    QVERIFY(timeline->chosenSpan() == &*longest);
    QVERIFY2(said->text().startsWith("rank 0"), qPrintable(said->text()));

    dialog->chooseNodes(3);
    QVERIFY(wait([&] { return lanes() == 3; }));
    dialog->findChild<QSpinBox*>("launchBatch")->setValue(2);  // of three ranks
    QVERIFY(wait([&] { return dialog->findChild<MessagePanel*>()->isVisible(); }));
    QCOMPARE(lanes(), std::size_t{0});
    QVERIFY(said->text().isEmpty());
  }

  // The spans of the predicted step, by mouse; they follow the settings.
  void thePlanIsATableToo() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    auto* timeline = dialog->findChild<TimelineView*>("planTimeline");
    const auto lanes = [&] {
      return timeline->measured() ? timeline->measured()->lanes.size() : std::size_t{0};
    };
    dialog->chooseNodes(2);
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kPlanTab);
    QVERIFY(wait([&] { return lanes() == 2; }));
    QTest::mouseClick(dialog->findChild<QToolButton*>("planTimelineAsTable"), Qt::LeftButton);
    auto* table = dialog->findChild<QTableView*>("planTimelineTable");
    QVERIFY(table->isVisible() && !table->accessibleName().isEmpty());
    const int rows = table->model()->rowCount();
    QVERIFY(rows > 0);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {},
                      table->visualRect(table->model()->index(0, 0)).center());
    QVERIFY(timeline->chosenSpan() == &timeline->measured()->lanes[0].spans[0]);
    dialog->chooseNodes(3);
    QVERIFY(wait([&] { return lanes() == 3; }));
    QVERIFY(table->model()->rowCount() > rows);
  }

  // All that would be run stands in one table, as in the command, and follows the settings; at
  // 1280x800 nothing of it is cut off.
  void allThatWouldBeRunIsTold() {
    window_->resize(1280, 800);
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    dialog->chooseNodes(2);
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 2; }));
    auto* tabs = dialog->findChild<QTabWidget*>("launchTabs");
    const QRect last = tabs->tabBar()->tabRect(tests::kSummaryTab);
    QTest::mouseClick(tabs->tabBar(), Qt::LeftButton, {}, last.center());
    auto* table = dialog->findChild<QTableView*>("summaryTable");
    QVERIFY(wait([&] { return table->isVisible(); }));
    QVERIFY2(last.right() <= tabs->tabBar()->width(), qPrintable(QString::number(last.right())));
    const auto* model = table->model();
    const auto valueOf = [&](const QString& label) {
      for (int row = 0; row < model->rowCount(); ++row)
        if (model->index(row, SummaryModel::kLabel).data() == label)
          return model->index(row, SummaryModel::kValue).data().toString();
      return QString();
    };
    QCOMPARE(valueOf("Ranks"), QString("2 on 2 nodes"));
    QCOMPARE(valueOf("Node silent after"), QString("2 s: 4 heartbeats"));
    QVERIFY(!valueOf("Checkpoint size").isEmpty());
    dialog->findChild<QSpinBox*>("launchBatch")->setValue(96);
    QVERIFY(wait([&] { return valueOf("Global batch") == "96 samples"; }));
    QCOMPARE(valueOf("Batch per rank"), QString("48 samples"));
    QCOMPARE(table->horizontalScrollBar()->maximum(), 0);
    for (int row = 0; row < model->rowCount(); ++row) {
      const QModelIndex at = model->index(row, SummaryModel::kValue);
      const QRect cell = table->visualRect(at);
      const QRect needed = table->fontMetrics().boundingRect(
          QRect(0, 0, cell.width() - 22, 10000), Qt::TextWordWrap, at.data().toString());
      QVERIFY2(cell.height() >= needed.height(), qPrintable(at.data().toString()));
    }
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return valueOf("全局批量") == "96 个样本"; }));
    Language::instance().set("en");
    // The command tells the same.
    const QString lockstep = qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep";
    if (!QFileInfo(lockstep).isExecutable()) return;
    QProcess shell;
    shell.start("/bin/sh", {"-c", dialog->command("plan", {"--json"}).replace(0, 8, lockstep)});
    QVERIFY(shell.waitForFinished(60'000));
    const QByteArray out = shell.readAllStandardOutput();
    const QJsonArray told = QJsonDocument::fromJson(out).object()["summary"].toArray();
    QVERIFY2(told.size() == model->rowCount(), out.constData());
    for (const QJsonValue& row : told)
      QCOMPARE(row["value"].toString(), valueOf(row["label"].toString()));
  }

  // With kind auto the prediction, and what would be launched, is of the strategy found.
  void autoIsSearched() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    QVERIFY(wait([&] { return dialog->ready(); }));
    auto* kind = dialog->findChild<QComboBox*>("launch.strategy.kind");
    auto* busy = dialog->findChild<QLabel*>("launchProgressText");
    for (const int nodes : {2, 3}) {  // the second search ends the first
      dialog->chooseNodes(nodes);
      kind->setCurrentIndex(kind->findData("auto"));
      QVERIFY(!dialog->ready());
      QVERIFY(wait([&] { return !busy->text().isEmpty() || dialog->ready(); }));
    }
    QVERIFY(wait([&] { return dialog->ready(); }));
    QVERIFY(busy->text().isEmpty());
    const app::Preview& found = *dialog->preview();
    QCOMPARE(found.ranks.size(), std::size_t{3});
    QVERIFY(found.plan.strategy != "auto");
    QVERIFY2(found.remarks.front().text().starts_with("auto chose " + found.plan.strategy),
             found.remarks.front().text().c_str());
    QVERIFY(dialog->command().contains("strategy.kind=auto"));
    // The comparison marks the kind that was found.
    const std::string strategy = found.plan.strategy;
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kCompareTab);
    auto* table = dialog->findChild<QTableView*>("candidateTable");
    auto* rows = qobject_cast<CandidateModel*>(table->model());
    QVERIFY(wait([&] { return rows->rowCount() > 0; }));
    for (int at = 0; at < rows->rowCount(); ++at)
      QCOMPARE(rows->index(at, 0).data(Qt::FontRole).value<QFont>().bold(),
               rows->candidates()[static_cast<std::size_t>(at)].strategy == strategy);
    // What is set beside it goes with it.
    auto* parts = dialog->findChild<QSpinBox*>("launch.strategy.micro_batches");
    QVERIFY(parts->isVisible());
    parts->setValue(2);
    QVERIFY(wait([&] { return dialog->ready(); }));
    QCOMPARE(dialog->preview()->plan.microBatches, 2);
  }

  // A strategy that would not fit in memory is marked as such, with what to do.
  void strategiesThatDoNotFitAreMarked() {
    ModelPage* page = newModel("gpt");
    QVERIFY(page->document()->setField("training.batch", "2000000", "change").ok());
    LaunchDialog* dialog = window_->openLaunch(page, nullptr);
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kCompareTab);
    auto* table = dialog->findChild<QTableView*>("candidateTable");
    auto* model = qobject_cast<CandidateModel*>(table->model());
    QVERIFY(
        wait([&] { return model->rowCount() == static_cast<int>(cluster::strategies().size()); }));
    int marked = 0;
    for (int at = 0; at < model->rowCount(); ++at) {
      const Candidate& one = model->candidates()[static_cast<std::size_t>(at)];
      const QModelIndex memory = model->index(at, CandidateModel::kMemory);
      QCOMPARE(memory.data().toString().endsWith("too much"), one.misfit.has_value());
      if (!one.misfit) continue;
      ++marked;
      QVERIFY2(memory.data(Qt::ToolTipRole).toString().contains("memory"), one.strategy.c_str());
    }
    QVERIFY(marked > 0);
  }

  // Strategies side by side, all from the same costs; a double click chooses one.
  void strategiesAreCompared() {
    LaunchDialog* dialog = window_->openLaunch(newModel("gpt"), nullptr);
    QVERIFY(wait([&] { return dialog->ready(); }));
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kCompareTab);
    auto* table = dialog->findChild<QTableView*>("candidateTable");
    auto* model = qobject_cast<CandidateModel*>(table->model());
    QVERIFY(
        wait([&] { return model->rowCount() == static_cast<int>(cluster::strategies().size()); }));
    int possible = 0;
    for (const Candidate& one : model->candidates()) {
      QVERIFY2((one.stepSeconds > 0) == !one.refusal, one.strategy.c_str());
      possible += !one.refusal;
      QCOMPARE(one.joules.value_or(0) > 0, !one.refusal);
      if (one.strategy == "multi-worker-mirrored") {
        QCOMPARE(one.stepSeconds, dialog->preview()->stepSeconds);
        QCOMPARE(one.bubbleShare, app::bubbleShare(*dialog->preview()));
        QCOMPARE(*one.joules, app::predictedEnergy(*dialog->preview()).joules());
        QVERIFY(one.linkBytes > 0 && one.linkBytes == app::linkBytes(*dialog->preview()));
      }
    }
    const auto text = [&](int at, CandidateModel::Column column) {
      return model->index(at, column).data().toString();
    };
    for (int at = 0; at < model->rowCount(); ++at) {
      QCOMPARE(text(at, CandidateModel::kBubble).endsWith(" %"), !model->refused(at));
      QCOMPARE(text(at, CandidateModel::kEnergy).endsWith("J"), !model->refused(at));
      QCOMPARE(text(at, CandidateModel::kLink).endsWith("B"),
               model->candidates()[static_cast<std::size_t>(at)].linkBytes > 0);
    }
    QVERIFY(std::ranges::any_of(model->candidates(), [](const Candidate& one) {
      return one.bubbleShare > 0.05 && one.bubbleShare < 1;
    }));
    QVERIFY(possible >= 6);
    // Where there is room, all figures are seen.
    dialog->resize(1400, 760);
    QVERIFY(wait([&] { return !table->isColumnHidden(CandidateModel::kEnergy); }));
    const int row = static_cast<int>(
        std::find_if(model->candidates().begin(), model->candidates().end(),
                     [](const Candidate& one) { return one.strategy == "zero-1"; }) -
        model->candidates().begin());
    // Why a strategy is refused is read whole, on a small window too.
    for (const QSize size : {QSize(1200, 760), QSize(940, 640)}) {
      dialog->resize(size);
      QVERIFY(possible < model->rowCount());
      QString wrong;
      const auto whole = [&] {
        for (int at = 0; at < model->rowCount(); ++at) {
          if (!model->refused(at)) continue;
          const QModelIndex reason = model->index(at, CandidateModel::kEstimate);
          const QRect cell = table->visualRect(reason);
          const QRect text(0, 0, cell.width() - 22, 10000);  // within the padding
          const QRect needed =
              table->fontMetrics().boundingRect(text, Qt::TextWordWrap, reason.data().toString());
          if (cell.height() < needed.height() || cell.width() < table->viewport()->width() / 2) {
            wrong = QString("%1 x %2 for %3 of \"%4\"")
                        .arg(cell.width())
                        .arg(cell.height())
                        .arg(needed.height())
                        .arg(reason.data().toString());
            return false;
          }
        }
        wrong = QString("it scrolls by %1").arg(table->horizontalScrollBar()->maximum());
        return table->horizontalScrollBar()->maximum() == 0;
      };
      QVERIFY2(wait(whole), qPrintable(wrong));
    }
    const double estimated = model->candidates()[static_cast<std::size_t>(row)].stepSeconds;
    Q_EMIT table->activated(model->index(row, 0));
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->plan.strategy == "zero-1"; }));
    QCOMPARE(dialog->preview()->stepSeconds, estimated);
  }

  // The best strategies of a search are shown with their reasons, opened as a plan, compared with
  // the current one, and chosen.
  void theFastestAreFound() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    dialog->chooseNodes(2);
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 2; }));
    const AdviceModel* model = search(dialog);
    QVERIFY(model->rowCount() > 1 && model->rowCount() <= 10);
    QVERIFY(label(dialog, "adviceNote").contains("strategies judged"));
    for (int row = 0; row < model->rowCount(); ++row) {
      QVERIFY(!model->index(row, AdviceModel::kWhy).data().toString().isEmpty());
      QVERIFY(model->index(row, AdviceModel::kLink).data().toString().endsWith("B"));
      QVERIFY(model->index(row, AdviceModel::kBubble).data().toString().endsWith(" %"));
    }
    const app::AdvisedStrategy wanted = pickOther(dialog, model);
    press(dialog, "adviceOpen");
    PlanDialog* alone = planDialog(dialog);
    QVERIFY(alone);
    const QAbstractItemModelTester aloneTester(figures(alone));
    QCOMPARE(figures(alone)->columnCount(), 2);
    QVERIFY(!alone->findChild<QPlainTextEdit*>("planDialogText")->toPlainText().isEmpty());
    alone->reject();
    QVERIFY(wait([&] { return dialog->findChild<PlanDialog*>() == nullptr; }));
    press(dialog, "adviceCompare");
    // What is selected while a plan is made does not change what it is of.
    auto* table = dialog->findChild<QTableView*>("adviceTable");
    table->selectRow(table->currentIndex().row() == 0 ? 1 : 0);
    PlanDialog* both = planDialog(dialog);
    QVERIFY(both);
    const QAbstractItemModelTester bothTester(figures(both));
    QCOMPARE(figures(both)->columnCount(), static_cast<int>(PlanFigureModel::kColumns));
    int different = 0;
    for (int row = 0; row < figures(both)->rowCount(); ++row) {
      const bool marked =
          figures(both)->index(row, 0).data(Qt::FontRole).value<QFont>().weight() > QFont::Normal;
      QCOMPARE(marked, figures(both)->index(row, PlanFigureModel::kPlan).data() !=
                           figures(both)->index(row, PlanFigureModel::kOther).data());
      different += marked;
    }
    QVERIFY(different > 0);
    both->findChild<QPushButton*>("planDialogAccept")->click();
    QVERIFY(wait([&] { return dialog->ready() && stepIs(dialog, wanted); }));
    QVERIFY(dialog->findChild<QPushButton*>("adviceCompare")->isEnabled());
  }

  // The search stands as a command, with what is kept and what else is tried.
  void theSearchIsACommand() {
    const QString lockstep = qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep";
    if (!QFileInfo(lockstep).isExecutable()) QSKIP("there is no lockstep");
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    dialog->chooseNodes(2);
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 2; }));
    const auto trigger = [&](const char* menu, const char* what) {
      for (QAction* action : dialog->findChild<QMenu*>(menu)->actions())
        if (action->data() == what) action->trigger();
    };
    const auto judged = [&] {
      return label(dialog, "adviceNote").section(' ', 0, 0).remove(',').toInt();
    };
    trigger("adviceKeepMenu", "strategy.overlap");
    (void)search(dialog);
    const int before = judged();
    trigger("adviceAlsoMenu", "bf16");
    const AdviceModel* model = search(dialog);
    QVERIFY2(before > 0 && judged() > before, qPrintable(label(dialog, "adviceNote")));
    auto* line = dialog->findChild<QLineEdit*>("adviceCommand");
    QString command = line->text();
    QVERIFY2(command.startsWith("lockstep advise ") && line->isVisible(), qPrintable(command));
    QVERIFY2(command.contains("--local 2") &&
                 command.contains("--pin strategy.overlap --precision bf16"),
             qPrintable(command));
    QProcess shell;
    shell.start("/bin/sh", {"-c", command.replace(0, 8, lockstep) + " --json"});
    QVERIFY(shell.waitForFinished(60'000));
    const QByteArray out = shell.readAllStandardOutput();
    QVERIFY2(shell.exitCode() == 0, qPrintable(command + "\n" + shell.readAllStandardError()));
    const QJsonObject best = QJsonDocument::fromJson(out.left(out.indexOf('\n'))).object();
    const double found = best["step_seconds"].toDouble();
    QVERIFY2(std::abs(found / model->strategies().front().stepSeconds - 1) < 0.02, out.constData());
    dialog->findChild<QSpinBox*>("launchBatch")->setValue(96);
    QVERIFY(line->text().contains("training.batch=96"));
  }

  // What the predicted step would take, had something been otherwise, is answered before a launch;
  // a command answers the same.
  void whatIfIsAskedBefore() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    dialog->chooseNodes(3);
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 3; }));
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kWhatIfTab);
    const auto figure = [&](const char* name) { return dialog->findChild<Figure*>(name)->value(); };
    const auto isOfNothing = [&] {
      return figure("whatIfMeasured") == figure("launchStepTime") &&
             figure("whatIfStep") == figure("launchStepTime");
    };
    QVERIFY(wait(isOfNothing));
    QVERIFY(dialog->findChild<Figure*>("whatIfError")->isHidden());
    QVERIFY(!dialog->findChild<QCheckBox*>("whatIfNoBubble")->isEnabled());
    auto* link = dialog->findChild<QComboBox*>("whatIfLink");
    QVERIFY(link->count() > 1);
    link->setFocus();
    QTest::keyClick(link, Qt::Key_Down);
    auto* rate = dialog->findChild<QSlider*>("whatIfRate");
    rate->setFocus();
    QTest::keyClick(rate, Qt::Key_Home);
    QVERIFY(wait([&] { return figure("whatIfStep") != figure("whatIfMeasured"); }));
    auto* ideal = dialog->findChild<QCheckBox*>("whatIfIdealNetwork");
    const QString slow = figure("whatIfStep");
    ideal->setFocus();
    QTest::keyClick(ideal, Qt::Key_Space);
    QVERIFY(wait([&] { return figure("whatIfStep") != slow; }));
    const QString command = label(dialog, "whatIfCommand");
    QVERIFY2(command.startsWith("lockstep whatif ") && command.contains(" --local 3 ") &&
                 command.contains("=0.01Gbit/s --ideal-network"),
             qPrintable(command));
    theCommandAnswers(command, figure("whatIfStep"));
    // Other ranks are planned anew. Enter is of their number, and launches nothing.
    auto* ranks = dialog->findChild<QSpinBox*>("whatIfRanks");
    ranks->setFocus();
    ranks->selectAll();
    QTest::keyClicks(ranks, "6");
    QTest::keyClick(ranks, Qt::Key_Return);
    QVERIFY(wait([&] { return label(dialog, "whatIfNote").startsWith("Planned anew"); }));
    QVERIFY(dialog->isVisible() && ranks->isEnabled() && !ideal->isEnabled());
    QVERIFY(label(dialog, "whatIfCommand").contains(" --with ranks=6"));
    // Other settings are another step.
    ranks->setValue(0);
    QTest::keyClick(ideal, Qt::Key_Space);
    link->setCurrentIndex(0);
    QVERIFY(wait(isOfNothing));
    auto* kind = dialog->findChild<QComboBox*>("launch.strategy.kind");
    kind->setCurrentIndex(kind->findData("pipeline"));
    auto* noBubble = dialog->findChild<QCheckBox*>("whatIfNoBubble");
    QVERIFY(wait([&] { return noBubble->isEnabled() && isOfNothing(); }));
    noBubble->setFocus();
    QTest::keyClick(noBubble, Qt::Key_Space);
    QVERIFY(wait([&] { return figure("whatIfStep") != figure("whatIfMeasured"); }));
    QVERIFY(label(dialog, "whatIfCommand").contains(" --no-bubble"));
  }

  // The link that is asked about stays the same where the strategy has no use of another one.
  void theLinkStaysWithOtherSettings() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    dialog->chooseNodes(3);
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 3; }));
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kWhatIfTab);
    auto* link = dialog->findChild<QComboBox*>("whatIfLink");
    QVERIFY(wait([&] { return link->count() == 4; }));
    link->setCurrentIndex(3);
    const QString chosen = link->currentText();
    auto* kind = dialog->findChild<QComboBox*>("launch.strategy.kind");
    kind->setCurrentIndex(kind->findData("parameter-server"));
    QVERIFY(wait([&] { return link->count() == 3; }));  // the workers exchange nothing
    QCOMPARE(link->currentText(), chosen);
  }

  // What is kept stays as it is set; another batch is another task; a search can be ended.
  void theSearchKeepsWhatItIsTold() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    dialog->chooseNodes(2);
    auto* kind = dialog->findChild<QComboBox*>("launch.strategy.kind");
    kind->setCurrentIndex(kind->findData("zero-3"));
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->plan.strategy == "zero-3"; }));
    for (QAction* action : dialog->findChild<QMenu*>("adviceKeepMenu")->actions())
      action->setChecked(action->data() == "strategy.kind");
    const AdviceModel* model = search(dialog);
    QVERIFY(model->rowCount() > 0);
    for (const app::AdvisedStrategy& one : model->strategies())
      QCOMPARE(one.choice.kind, std::string("zero-3"));
    dialog->findChild<QSpinBox*>("launch.strategy.micro_batches")->setValue(2);
    QVERIFY(model->rowCount() > 0);  // a strategy is no other task
    dialog->findChild<QSpinBox*>("launchBatch")->setValue(96);
    QCOMPARE(model->rowCount(), 0);
    QVERIFY(!dialog->findChild<QPushButton*>("adviceChoose")->isEnabled());
    auto* button = dialog->findChild<QPushButton*>("adviceSearch");
    button->click();
    QVERIFY(!dialog->findChild<QProgressBar*>("adviceProgress")->isHidden());
    button->click();
    QVERIFY(wait([&] { return dialog->findChild<QProgressBar*>("adviceProgress")->isHidden(); }));
    QVERIFY(!label(dialog, "adviceNote").isEmpty());
    // What auto leaves open has no value that could be kept.
    kind->setCurrentIndex(kind->findData("auto"));
    button->click();
    QVERIFY(wait([&] { return label(dialog, "adviceNote").contains("strategy.kind is auto"); }));
  }

 private:
  static QString label(QWidget* dialog, const char* name) {
    return dialog->findChild<QLabel*>(name)->text();
  }
  static void press(QWidget* dialog, const char* name) {
    dialog->findChild<QPushButton*>(name)->click();
  }
  // The step of its only answer is shown as `step`.
  static void theCommandAnswers(QString command, const QString& step) {
    const QString lockstep = qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep";
    if (!QFileInfo(lockstep).isExecutable()) return;
    QProcess shell;
    shell.start("/bin/sh", {"-c", command.replace(0, 8, lockstep) + " --json"});
    QVERIFY(shell.waitForFinished(60'000));
    const QList<QByteArray> lines = shell.readAllStandardOutput().trimmed().split('\n');
    QVERIFY2(shell.exitCode() == 0 && lines.size() == 2,
             qPrintable(command + "\n" + shell.readAllStandardError()));
    const QJsonObject answer = QJsonDocument::fromJson(lines[1]).object();
    QCOMPARE(formatSeconds(answer["step_seconds"].toDouble()), step);
  }
  // Searches to the end.
  static const AdviceModel* search(LaunchDialog* dialog) {
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kSearchTab);
    auto* progress = dialog->findChild<QProgressBar*>("adviceProgress");
    press(dialog, "adviceSearch");
    (void)wait([&] { return progress->isHidden(); });
    return qobject_cast<AdviceModel*>(dialog->findChild<QTableView*>("adviceTable")->model());
  }
  // Selects the best strategy that has another plan than the current one.
  static app::AdvisedStrategy pickOther(LaunchDialog* dialog, const AdviceModel* model) {
    int row = 0;
    while (row + 1 < model->rowCount() &&
           stepIs(dialog, model->strategies()[static_cast<std::size_t>(row)]))
      ++row;
    dialog->findChild<QTableView*>("adviceTable")->selectRow(row);
    return model->strategies()[static_cast<std::size_t>(row)];
  }
  static bool stepIs(LaunchDialog* dialog, const app::AdvisedStrategy& one) {
    return std::abs(dialog->preview()->stepSeconds / one.stepSeconds - 1) < 0.01;
  }
  static PlanDialog* planDialog(LaunchDialog* dialog) {
    (void)wait([&] { return dialog->findChild<PlanDialog*>() != nullptr; });
    return dialog->findChild<PlanDialog*>();
  }
  static PlanFigureModel* figures(PlanDialog* dialog) {
    return qobject_cast<PlanFigureModel*>(dialog->findChild<QTableView*>("planFigures")->model());
  }

  ModelPage* newModel(const char* kind) { return tests::newModel(*window_, kind); }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(LaunchTabsTest)
#include "launch_tabs_test.moc"
