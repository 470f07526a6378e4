// Alert rules in the window: their alerts in the messages, and the dialog by mouse and keyboard.
#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QTest>
#include <QtWidgets>

#include "app/alerts/alert_file.h"
#include "tests/app/alerts/loopback_server.h"
#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/alert_rules_dialog.h"
#include "ui/models/alert_model.h"
#include "ui/models/alert_rule_model.h"
#include "ui/pages/history_page.h"
#include "ui/pages/run_page.h"
#include "ui/studio/run_document.h"
#include "ui/theme/language.h"

using namespace lockstep;
using namespace lockstep::ui;
using app::AlertField;
using app::AlertRule;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

class AlertsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() { home_ = std::make_unique<StudioHome>(); }
  void cleanup() { tests::closeStudio(window_, home_); }

  void theModelIsOne() {
    AlertRuleModel model;
    QAbstractItemModelTester tester(&model);
    QCOMPARE(model.rowCount(), static_cast<int>(app::kAlertRules));
    QSignalSpy refused(&model, &AlertRuleModel::refused);
    const auto spike = static_cast<int>(AlertRule::kLossSpike);
    const QModelIndex threshold = model.index(spike, AlertRuleModel::kThreshold);
    QCOMPARE(threshold.data().toString(), QString::fromUtf8("12 × MAD"));
    QVERIFY(model.setData(threshold, " 6.5 "));
    QCOMPARE(model.settings().value(AlertRule::kLossSpike, AlertField::kThreshold), 6.5);
    for (const char* bad : {"1", "", "6,5", "nan", "1e9"}) QVERIFY(!model.setData(threshold, bad));
    QCOMPARE(refused.size(), 5);
    QVERIFY(!(model.index(0, AlertRuleModel::kThreshold).flags() & Qt::ItemIsEditable));
  }

  // Of a run that goes on: raised once, over once, and what is not raised by hand any more.
  void alertsOfRulesAppearInTheMessages() {
    app::AlertSettings settings;
    settings.of(AlertRule::kStraggler).values[2] = 0;  // at once
    settings.of(AlertRule::kNodeUnreachable).values[2] = 0;
    settings.command = "tee -a " + home_->path("told").toStdString();
    QVERIFY(app::saveAlertSettings(file(), settings).ok());
    open();
    const QString run = QString::fromStdString(home_->addRun(0, app::RunState::RUNNING, 200));
    RunPage* page = window_->openRun(run);
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    app::RunUpdate update;
    update.slowChanged = true;
    update.slow = app::Straggler{2, "local3", 1.8, 0.004, 0.002, 120, "backward", {}};
    for (int i = 0; i < 2; ++i) page->document()->take(update);
    QCOMPARE(rows(), QStringList{QString::fromUtf8(
                         "Rank 2 on local3 takes 1.8× the median compute time.|active")});
    update.slow->rank = 1;
    page->document()->take(update);
    QCOMPARE(rows().size(), 2);
    QVERIFY(rows()[1].contains("|resolved"));
    update.slow.reset();
    update.nodes = {{"local2", false, true, {}}};
    page->document()->take(update);
    QCOMPARE(rows().size(), 3);
    QVERIFY(rows()[0].startsWith("node local2 is not reachable now") &&
            rows()[0].endsWith("|active"));
    QVERIFY(rows()[1].contains("|resolved"));
    update = {};
    update.row = page->document()->row();
    update.row->phase = app::RunState::SUCCEEDED;
    update.finished = true;
    page->document()->take(update);
    QCOMPARE(rows().size(), 4);
    QCOMPARE(rows()[0], QString("The run succeeded.|"));
    QVERIFY(rows()[1].contains("|resolved"));
    // The command is told the same.
    const auto told = [&] {
      QFile all(home_->path("told"));
      return all.open(QIODevice::ReadOnly) ? all.readAll() : QByteArray();
    };
    QVERIFY(wait([&] { return told().count('\n') == 7; }));
    QCOMPARE(told().count(R"("state":"raised")"), 4);
    QVERIFY(told().contains(R"("rule":"straggler","state":"raised")"));
    QVERIFY(told().contains(run.toUtf8()));
  }

  void eachRuleRaisesItsAlert_data() {
    QTest::addColumn<QByteArray>("rule");
    QTest::addColumn<QString>("series");
    QTest::addColumn<QList<double>>("values");  // from step or second 201 on
    QTest::addColumn<QString>("says");
    QTest::addColumn<bool>("notifies");
    const auto row = [](const char* rule, const char* series, const QList<double>& values,
                        const char* says) {
      for (const bool notifies : {true, false})
        QTest::addRow("%s%s", rule, notifies ? "" : " without a notification")
            << QByteArray(rule) << series << values << says << notifies;
    };
    const QList<double> usual(150, 1.0);
    row("loss-not-finite", "loss", {1, qQNaN()}, "The loss is not finite in step 202.");
    row("loss-spike", "loss", usual + QList<double>{50, 50, 50}, "The loss 50 in step 353 is ");
    row("loss-plateau", "loss", usual, "The loss has not improved by 1 % in 50 steps.");
    row("stall", "loss", {1}, "No step has completed for ");
    row("gpu-throttled", "node/local2/gpu/0/slowed", usual,
        "GPU 0 of local2 was slowed down 100 % of the last 60 s.");
    row("gpu-temperature", "node/local2/gpu/0/temperature", QList<double>(40, 95),
        "GPU 0 of local2 has 95 °C.");
    row("disk-free", "node/local2/disk_free", QList<double>(20, 2.0 * (1 << 30)),
        "local2 has 2.0 GiB of free disk space.");
  }
  void eachRuleRaisesItsAlert() {
    QFETCH(QByteArray, rule);
    QFETCH(QString, series);
    QFETCH(QList<double>, values);
    QFETCH(QString, says);
    QFETCH(bool, notifies);
    const AlertRule which = *app::findAlertRule(rule.toStdString());
    app::AlertSettings settings;
    for (auto& one : settings.rules) one.enabled = false;
    settings.of(which).enabled = true;
    settings.of(which).actions[0] = notifies;
    settings.of(AlertRule::kLossPlateau).values[1] = 50;   // steps
    settings.of(AlertRule::kStall).values = {{10, 0, 1}};  // after a second
    QVERIFY(app::saveAlertSettings(file(), settings).ok());
    open();
    QList<app::AlertEvent> told;
    connect(&window_->workspace(), &Workspace::notification, window_.get(),
            [&](const app::AlertEvent& event) { told << event; });
    const std::string run = home_->addRun(0, app::RunState::RUNNING, 200);
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->loaded(); }));
    app::RunUpdate update;
    auto& curve = update.series.emplace_back();
    curve.name = series.toStdString();
    for (qsizetype i = 0; i < values.size(); ++i)
      curve.points.push_back({static_cast<double>(201 + i), values[i]});
    page->document()->take(update);
    QVERIFY(wait(
        [&] {
          page->document()->take({});  // time passes
          return !rows().isEmpty();
        },
        30'000));
    QCOMPARE(rows().size(), 1);
    QVERIFY2(rows()[0].startsWith(says) && rows()[0].endsWith("|active"), qPrintable(rows()[0]));
    QCOMPARE(told.size(), notifies ? 1 : 0);
    if (notifies) QVERIFY(told[0].rule == which && told[0].run == run);
  }

  // The status bar tells what the messages tell, of the alert that came last.
  void theStatusFollowsItsAlert() {
    open();
    Page* page = window_->openHistory();
    const auto* status = window_->findChild<QLabel*>("statusText");
    const auto tell = [&](const char* key, const char* text) {
      Q_EMIT page->alertRaised({key, Tone::kWarning, "n1", text, {}, true, {}});
    };
    tell("first", "two GPUs are hot");
    tell("first", "three GPUs are hot");
    QCOMPARE(rows(), QStringList{"three GPUs are hot|active"});
    QCOMPARE(status->text(), QString("n1: three GPUs are hot"));
    tell("second", "a disk is full");
    tell("first", "four GPUs are hot");
    QCOMPARE(status->text(), QString("n1: a disk is full"));
  }

  void aDamagedFileIsReportedAndDefaultsAreUsed() {
    QVERIFY(write("rules:\n  loss-spike: {threshold: lots}\n"));
    open();
    QVERIFY(wait([&] { return !rows().isEmpty(); }));
    QVERIFY2(rows()[0].contains("alert-rules.yaml:2:16: 'lots' is no number from 2 to 1000"),
             qPrintable(rows()[0]));
    AlertRulesDialog* dialog = openDialog();
    QVERIFY(dialog->settings() == app::AlertSettings());
    auto* problem = dialog->findChild<QLabel*>("alertRulesProblem");
    QVERIFY2(problem->isVisible() && problem->text().contains("Saving replaces this file"),
             qPrintable(problem->text()));
    click(dialog, "alertRulesDialogAccept");
    QVERIFY(wait([&] { return !window_->findChild<AlertRulesDialog*>(); }));
    const auto read = app::loadAlertSettings(file());
    QVERIFY(read.ok() && *read == app::AlertSettings());
    QVERIFY(!openDialog()->findChild<QLabel*>("alertRulesProblem")->isVisible());
  }

  // A value that is refused by the click on Save is told before anything is saved.
  void aRefusedValueIsNotPassedOver() {
    open();
    AlertRulesDialog* dialog = openDialog();
    auto* table = dialog->findChild<QTableView*>("alertRules");
    QVERIFY(wait([&] { return table->hasFocus(); }));
    QTest::keyClick(table, Qt::Key_Down);
    QTest::keyClick(table, Qt::Key_Right);
    QTest::keyClick(table, Qt::Key_F2);
    auto* editor = table->findChild<QLineEdit*>();
    QVERIFY(editor && wait([&] { return editor->hasFocus(); }));
    editor->selectAll();
    QTest::keyClicks(editor, "0.5");
    auto* save = dialog->findChild<QPushButton*>("alertRulesDialogAccept");
    QTest::mouseClick(save, Qt::LeftButton);
    auto* problem = dialog->findChild<QLabel*>("alertRulesProblem");
    QVERIFY2(problem->isVisible() && problem->text().contains("from 2 to 1000"),
             qPrintable(problem->text()));
    QVERIFY(dialog->isVisible() && !QFileInfo::exists(QString::fromStdString(file())));
    QVERIFY(wait([&] { return save->isEnabled(); }));
    QTest::mouseClick(save, Qt::LeftButton);
    QVERIFY(wait([&] { return !window_->findChild<AlertRulesDialog*>(); }));
    const auto read = app::loadAlertSettings(file());
    QVERIFY(read.ok() && *read == app::AlertSettings());
  }

  void rulesAreEditedByKeyboard() {
    open();
    AlertRulesDialog* dialog = openDialog();
    auto* table = dialog->findChild<QTableView*>("alertRules");
    QVERIFY(wait([&] { return table->hasFocus(); }));
    QCOMPARE(table->currentIndex().row(), 0);
    QTest::keyClick(table, Qt::Key_Space);
    QVERIFY(!dialog->settings().of(AlertRule::kLossNotFinite).enabled);
    QTest::keyClick(table, Qt::Key_Down);
    QVERIFY(
        dialog->findChild<QLabel*>("alertRuleHelp")->text().contains("median absolute deviations"));
    QTest::keyClick(table, Qt::Key_Right);
    const auto type = [&](const QString& text) {
      QTest::keyClick(table, Qt::Key_F2);
      auto* editor = table->findChild<QLineEdit*>();
      if (!editor) return false;
      editor->selectAll();
      QTest::keyClicks(editor, text);
      QTest::keyClick(editor, Qt::Key_Return);
      return wait([&] { return !table->findChild<QLineEdit*>(); });
    };
    auto* problem = dialog->findChild<QLabel*>("alertRulesProblem");
    QVERIFY(type("0.5"));
    QVERIFY2(problem->isVisible() && problem->text().contains("from 2 to 1000"),
             qPrintable(problem->text()));
    QCOMPARE(dialog->settings().value(AlertRule::kLossSpike, AlertField::kThreshold), 12.0);
    QVERIFY(dialog->isVisible());  // Return has ended the editing, not the dialog
    QVERIFY(type("6"));
    QCOMPARE(dialog->findChild<QLineEdit*>("alertRulesDialogCommand")->text(),
             QString("lockstep alerts set loss-not-finite.enabled=false loss-spike.threshold=6"));
    QVERIFY(!problem->isVisible());
    QCOMPARE(dialog->settings().value(AlertRule::kLossSpike, AlertField::kThreshold), 6.0);
    // Every field and button is reached by Tab, and named.
    QStringList reached;
    for (int i = 0; i < 20; ++i) {
      QWidget* at = dialog->focusWidget();
      QVERIFY(at && !at->objectName().isEmpty());
      QVERIFY2(!at->accessibleName().isEmpty() ||
                   (qobject_cast<QAbstractButton*>(at) &&
                    !qobject_cast<QAbstractButton*>(at)->text().isEmpty()),
               qPrintable(at->objectName()));
      if (reached.contains(at->objectName())) break;
      reached << at->objectName();
      QTest::keyClick(at, Qt::Key_Tab);
    }
    for (const char* name : {"alertRules", "alertNotification", "alertCommand", "alertWebhook",
                             "alertDefaults", "alertRulesDialogAccept", "alertRulesDialogReject"})
      QVERIFY2(reached.contains(name), qPrintable(reached.join(' ')));
    dialog->findChild<QPushButton*>("alertRulesDialogAccept")->setFocus();
    QTest::keyClick(dialog->focusWidget(), Qt::Key_Space);
    QVERIFY(wait([&] { return !window_->findChild<AlertRulesDialog*>(); }));
    app::AlertSettings wanted;
    wanted.of(AlertRule::kLossNotFinite).enabled = false;
    wanted.of(AlertRule::kLossSpike).values[0] = 6;
    const auto read = app::loadAlertSettings(file());
    QVERIFY(read.ok() && *read == wanted);
    QVERIFY(window_->workspace().alertSettings() == wanted);
    // Escape leaves them as they are.
    dialog = openDialog();
    QVERIFY(dialog->settings() == wanted);
    QTest::keyClick(dialog->findChild<QTableView*>("alertRules"), Qt::Key_Space);
    QTest::keyClick(dialog, Qt::Key_Escape);
    QVERIFY(wait([&] { return !window_->findChild<AlertRulesDialog*>(); }));
    QVERIFY(window_->workspace().alertSettings() == wanted);
  }

  void rulesAreEditedByMouse() {
    open();
    AlertRulesDialog* dialog = openDialog();
    auto* table = dialog->findChild<QTableView*>("alertRules");
    const auto plateau = static_cast<int>(AlertRule::kLossPlateau);
    clickBox(table, plateau, AlertRuleModel::kRule);
    clickBox(table, plateau, AlertRuleModel::kWebhook);
    QVERIFY(dialog->settings().of(AlertRule::kLossPlateau).enabled);
    QVERIFY(!dialog->settings().of(AlertRule::kLossPlateau).actions[2]);
    click(dialog, "alertDefaults");
    QVERIFY(dialog->settings() == app::AlertSettings());
    // What cannot be is said at once, and not saved.
    auto* webhook = dialog->findChild<QLineEdit*>("alertWebhook");
    auto* accept = dialog->findChild<QPushButton*>("alertRulesDialogAccept");
    auto* problem = dialog->findChild<QLabel*>("alertRulesProblem");
    QTest::mouseClick(webhook, Qt::LeftButton);
    QTest::keyClicks(webhook, "ftp://x");
    QVERIFY(!accept->isEnabled() && problem->text().contains("the webhook is no URL"));
    webhook->clear();
    QVERIFY(accept->isEnabled() && !problem->isVisible());
    // The defaults of the rules leave the actions.
    dialog->findChild<QLineEdit*>("alertCommand")->setText("notify 'a b'");
    click(dialog, "alertDefaults");
    QCOMPARE(dialog->settings().command, std::string("notify 'a b'"));
    click(dialog, "alertRulesDialogReject");
    QVERIFY(wait([&] { return !window_->findChild<AlertRulesDialog*>(); }));
    QVERIFY(!QFile::exists(QString::fromStdString(file())));
  }

  void commandAndWebhookAreTested() {
    open();
    AlertRulesDialog* dialog = openDialog();
    auto* command = dialog->findChild<QLineEdit*>("alertCommand");
    auto* tested = dialog->findChild<QLabel*>("alertTested");
    QVERIFY(!dialog->findChild<QPushButton*>("alertCommandTest")->isEnabled());
    command->setText("tee " + home_->path("told"));
    click(dialog, "alertCommandTest");
    QVERIFY(wait([&] { return tested->text() == "The test alert was delivered."; }));
    QVERIFY(QFileInfo(home_->path("told")).size() > 0);
    command->setText("/nowhere/notify");
    click(dialog, "alertCommandTest");
    QVERIFY(wait([&] { return tested->text().contains("cannot run /nowhere/notify"); }));
    const tests::LoopbackServer server(tests::kHttpOk);
    dialog->findChild<QLineEdit*>("alertWebhook")
        ->setText(QString::fromStdString(server.url("/hook")));
    click(dialog, "alertWebhookTest");
    QVERIFY(wait([&] { return tested->text() == "The test alert was delivered."; }));
    QCOMPARE(server.requests().size(), std::size_t{1});
    // A test under way ends with the dialog.
    command->setText("sleep 300");
    click(dialog, "alertCommandTest");
    QVERIFY(!dialog->findChild<QPushButton*>("alertCommandTest")->isEnabled());
    click(dialog, "alertRulesDialogReject");
    QVERIFY(wait([&] { return !window_->findChild<AlertRulesDialog*>(); }));
    QVERIFY(QThreadPool::globalInstance()->waitForDone(60'000));
  }

  void theDialogFollowsTheLanguage() {
    open();
    AlertRulesDialog* dialog = openDialog();
    auto* table = dialog->findChild<QTableView*>("alertRules");
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return dialog->windowTitle() == QString::fromUtf8("告警规则"); }));
    for (int row = 0; row < table->model()->rowCount(); ++row)
      for (int column = 0; column <= AlertRuleModel::kHold; ++column) {
        const QString text = table->model()->index(row, column).data().toString();
        QVERIFY2(column != 0 || text.contains(QRegularExpression("[\\x{4e00}-\\x{9fff}]")),
                 qPrintable(text));
        QVERIFY2(!text.contains("step"), qPrintable(text));
      }
    for (const QLabel* label : dialog->findChildren<QLabel*>())
      QVERIFY2(label->text().isEmpty() || label->objectName() == "alertWebhookLabel" ||
                   label->text().contains(QRegularExpression("[\\x{4e00}-\\x{9fff}]")),
               qPrintable(label->text()));
  }

  void theCommandIsInMenuAndPalette() {
    open();
    auto* action = window_->findChild<QAction*>("actionAlertRules");
    QVERIFY(action);
    QVERIFY(window_->findChild<QMenu*>("menuEdit")->actions().contains(action));
  }

 private:
  void open() { tests::openWindow(window_, *home_); }
  std::string file() const { return app::alertFile(home_->home()); }
  bool write(const QByteArray& text) const {
    QFile out(QString::fromStdString(file()));
    return out.open(QIODevice::WriteOnly) && out.write(text) == text.size();
  }
  AlertRulesDialog* openDialog() {
    window_->findChild<QAction*>("actionAlertRules")->trigger();
    auto* dialog = window_->findChild<AlertRulesDialog*>();
    if (!dialog || !QTest::qWaitForWindowExposed(dialog)) qFatal("no dialog");
    return dialog;
  }
  static void click(QWidget* dialog, const char* button) {
    QTest::mouseClick(dialog->findChild<QPushButton*>(button), Qt::LeftButton);
  }
  static void clickBox(QTableView* table, int row, int column) {
    const QModelIndex index = table->model()->index(row, column);
    table->scrollTo(index);
    QStyleOptionViewItem option;
    option.initFrom(table);
    option.rect = table->visualRect(index);
    option.features = QStyleOptionViewItem::HasCheckIndicator;
    const QRect box =
        table->style()->subElementRect(QStyle::SE_ItemViewItemCheckIndicator, &option, table);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, box.center());
  }
  // "text|state", newest first
  QStringList rows() const {
    QStringList out;
    const auto* alerts = window_->findChild<QTableView*>("alerts")->model();
    for (int row = 0; row < alerts->rowCount(); ++row)
      out << alerts->index(row, AlertModel::kText).data().toString() + '|' +
                 alerts->index(row, AlertModel::kState).data().toString();
    return out;
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(AlertsTest)
#include "alerts_test.moc"
