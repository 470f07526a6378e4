// The pages by the keyboard alone: Tab reaches every part and leaves it again, and what has the
// keyboard is seen.
#include <QTest>
#include <QtWidgets>

#include "tests/ui/studio_fixture.h"
#include "tests/ui/tab_walk.h"
#include "ui/dialogs/add_host_dialog.h"
#include "ui/dialogs/alert_rules_dialog.h"
#include "ui/dialogs/deploy_dialog.h"
#include "ui/dialogs/exclude_dialog.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/metric_dialog.h"
#include "ui/dialogs/restart_dialog.h"
#include "ui/dialogs/ssh_questions.h"
#include "ui/dialogs/tags_dialog.h"
#include "ui/dialogs/what_if_dialog.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/job_tracker.h"
#include "ui/theme/theme.h"
#include "ui/widgets/yaml_editor.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

constexpr int kSteps = 300;

// What a person can reach with Tab below `root`, in order, each once; a dialog starts where its
// focus is.
QWidgetList tabChain(QWidget* root) {
  QWidgetList out;
  QWidget* const start =
      root->isWindow() && root->focusWidget() ? root->focusWidget() : root->window();
  QWidget* at = start;
  do {
    if (at->focusPolicy() & Qt::TabFocus && at->isVisibleTo(root) && root->isAncestorOf(at) &&
        !at->focusProxy())
      out << at;
    at = at->nextInFocusChain();
  } while (at != start);
  return out;
}

}  // namespace

class KeyboardTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_, {1400, 900});
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void everyPartOfAPageIsReached() {
    walk(window_->openWelcome());
    walk(openExample("local-3.yaml"));
    Page* model = openExample("fashion-cnn.yaml");
    auto* views = model->findChild<QTabWidget*>("modelViews");
    QVERIFY(views && views->count() > 1);
    for (int i = 0; i < views->count(); ++i) {
      views->setCurrentIndex(i);
      walk(model);
    }
    walk(openRun());
    walk(window_->openHistory());
  }

  // What is hidden at first has a name too, and Tab goes down the page.
  void hiddenPartsAreNamedAndTabGoesDown() {
    auto* model = qobject_cast<ModelPage*>(openExample("fashion-cnn.yaml"));
    const QWidgetList roots{openExample("local-3.yaml"),
                            model,
                            openRun(),
                            window_->openHistory(),
                            new AddHostDialog({"n1"}, {}, "lab.yaml", window_.get()),
                            new DeployDialog("lab.yaml", window_.get()),
                            new AlertRulesDialog(window_->workspace(), window_.get()),
                            window_->openLaunch(model, nullptr)};
    for (QWidget* root : roots) {
      QVERIFY(root);
      if (qobject_cast<Page*>(root))
        window_->findChild<QTabWidget*>("documents")->setCurrentWidget(root);
      QVERIFY2(!root->objectName().isEmpty(), root->metaObject()->className());
      QVERIFY2(!root->accessibleName().isEmpty(), qPrintable(root->objectName()));
      for (const QWidget* part : root->findChildren<QWidget*>()) {
        if (!(part->focusPolicy() & Qt::TabFocus) || tests::isInternalPart(part)) continue;
        QVERIFY2(tests::isNamed(part) || qobject_cast<const QTabBar*>(part),
                 qPrintable(QString("%1: %2 %3")
                                .arg(root->objectName(), part->metaObject()->className(),
                                     part->objectName())));
      }
      // What comes first does not lie below what comes last.
      const QWidgetList chain = tabChain(root);
      QVERIFY2(!chain.isEmpty(), qPrintable(root->objectName()));
      if (!root->isVisible()) continue;
      const int first = chain.first()->mapTo(root, QPoint()).y();
      const int last = chain.last()->mapTo(root, QPoint()).y();
      QVERIFY2(first <= last, qPrintable(QString("%1: %2 before %3")
                                             .arg(root->objectName(), chain.first()->objectName(),
                                                  chain.last()->objectName())));
    }
  }

  void everyPartOfARunIsReached() {
    RunPage* run = openRun();
    auto* tabs = run->findChild<QTabWidget*>("runTabs");
    for (int i = 0; i < tabs->count(); ++i) {
      if (!tabs->isTabVisible(i)) continue;
      tabs->setCurrentIndex(i);
      walk(run);
    }
  }

  void everyPartOfADialogIsReached() {
    openExample("local-3.yaml");
    LaunchDialog* launch =
        window_->openLaunch(qobject_cast<ModelPage*>(openExample("fashion-cnn.yaml")), nullptr);
    QVERIFY(launch && wait([&] { return launch->ready(); }));
    auto* tabs = launch->findChild<QTabWidget*>("launchTabs");
    for (int i = 0; i < tabs->count(); ++i) {
      tabs->setCurrentIndex(i);
      check(launch);
    }
    launch->reject();
    app::SecretQuestion secret;
    secret.account = "anna@n1.lab";
    secret.keyFile = "/home/anna/.ssh/id_ed25519";
    const QList<QDialog*> dialogs{
        new HostKeyDialog({"n1", "ssh-ed25519", "SHA256:uNiVzt", "known_hosts", {}}, window_.get()),
        new SecretDialog(secret, window_.get()),
        new MetricDialog({"loss", "accuracy"}, {}, window_.get()),
        new TagsDialog({"a", "b"}, {"run"}, {{"a"}}, window_.get()),
        new AddHostDialog({"n1"}, {}, "lab.yaml", window_.get()),
        new DeployDialog("lab.yaml", window_.get()),
        new ExcludeDialog("run", {"n1", "n2"}, "n2", "slow", false, window_.get()),
        new RestartDialog("run", false, window_.get()),
        new WhatIfDialog(home_->home().historyFolder(), "run", "mlp", window_.get())};
    for (QDialog* dialog : dialogs) {
      dialog->open();
      check(dialog);
      QTest::keyClick(dialog, Qt::Key_Escape);
      QVERIFY2(!dialog->isVisible(), qPrintable(dialog->objectName()));
    }
  }

  // Why one node is slow is no reason to exclude another one.
  void aReasonIsShownWithItsNode() {
    ExcludeDialog dialog("run", {"n1", "n2"}, "n2", "slow", false, window_.get());
    dialog.open();
    auto* nodes = dialog.findChild<QComboBox*>("excludeNode");
    auto* reason = dialog.findChild<QLabel*>("excludeReason");
    QVERIFY(reason->isVisible());
    nodes->setCurrentText("n1");
    QVERIFY(!reason->isVisible());
    nodes->setCurrentText("n2");
    QVERIFY(reason->isVisible());
  }

  // Enter is of the button that has the keyboard, the one that leaves a dialog too; elsewhere it is
  // of the dialog's own.
  void enterPressesTheButtonThatHasTheKeyboard() {
    const auto press = [this](const char* name) -> int {
      ExcludeDialog dialog("run", {"n1", "n2"}, "n2", {}, false, window_.get());
      dialog.open();
      auto* part = dialog.findChild<QWidget*>(name);
      part->setFocus(Qt::TabFocusReason);
      QTest::keyClick(part, Qt::Key_Return);
      return dialog.isVisible() ? -1 : dialog.result();
    };
    QCOMPARE(press("excludeDialogReject"), int(QDialog::Rejected));
    QCOMPARE(press("excludeDialogAccept"), int(QDialog::Accepted));
    QCOMPARE(press("excludeNode"), int(QDialog::Accepted));
    HostKeyDialog unknown({"n1", "ssh-ed25519", "SHA256:uNiVzt", "known_hosts", {}}, window_.get());
    unknown.open();
    QVERIFY(unknown.focusWidget());
    QTest::keyClick(unknown.focusWidget(), Qt::Key_Return);
    QVERIFY(!unknown.isVisible());
    QCOMPARE(unknown.result(), int(QDialog::Rejected));
  }

  void theTableOfAPlotIsLeft() {
    RunPage* run = openRun();
    auto* table = run->lossPlot()->findChild<QTableView*>("plotData");
    QTest::mouseClick(run->lossPlot()->findChild<QToolButton*>("plotTable"), Qt::LeftButton);
    QVERIFY(wait([&] { return table->isVisible() && table->model()->rowCount() >= kSteps; }));
    give(table);
    QTest::keyClick(table, Qt::Key_Tab);
    QVERIFY(!table->hasFocus());
    QTest::keyClick(window_->focusWidget(), Qt::Key_Backtab, Qt::ShiftModifier);
    QVERIFY(table->hasFocus());
  }

  // Tab indents, as in other editors, until Escape is pressed.
  void theTextIsLeftAfterEscape() {
    const QString path = home_->path("cnn.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-cnn.yaml")), path));
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    Page* page = window_->openFile(path);
    auto* editor = page->findChild<YamlEditor*>("yamlEditor");
    give(editor);
    editor->moveCursor(QTextCursor::Start);
    const QString text = editor->toPlainText();
    QTest::keyClick(editor, Qt::Key_Tab);
    QVERIFY(editor->hasFocus());
    QCOMPARE(editor->toPlainText(), "  " + text);
    QTest::keyClick(editor, Qt::Key_Escape);
    QTest::keyClick(editor, Qt::Key_Tab);
    QVERIFY(!editor->hasFocus());
    QCOMPARE(editor->toPlainText(), "  " + text);
    give(editor);
    QTest::keyClick(editor, Qt::Key_Escape);
    QTest::keyClick(editor, Qt::Key_Backtab, Qt::ShiftModifier);
    QVERIFY(!editor->hasFocus());
    // Once something is typed, Tab indents again.
    give(editor);
    QTest::keyClicks(editor, "#");
    QTest::keyClick(editor, Qt::Key_Tab);
    QVERIFY(editor->hasFocus());
    QVERIFY2(editor->toPlainText().startsWith("  #  "), qPrintable(editor->toPlainText().left(9)));
  }

  void aCopiedPlotIsWithoutTheMarkOfTheKeyboard() {
    PlotView* plot = openRun()->lossPlot();
    auto* canvas = plot->findChild<QWidget*>("plotCanvas");
    give(canvas);
    const QPoint at = canvas->mapTo(plot, QPoint(0, canvas->height() / 2));
    const QColor marked = plot->grab().toImage().pixelColor(at);
    QContextMenuEvent event(QContextMenuEvent::Keyboard, canvas->rect().center(),
                            canvas->mapToGlobal(canvas->rect().center()));
    QApplication::sendEvent(canvas, &event);
    auto* menu = plot->findChild<QMenu*>("plotMenu");
    QVERIFY(menu && wait([&] { return menu->isVisible(); }));
    auto* copy = menu->findChild<QAction*>("plotMenuCopy");
    QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(copy).center());
    const QImage copied = QApplication::clipboard()->pixmap().toImage();
    QVERIFY(copied.rect().contains(at));
    QVERIFY2(copied.pixelColor(at) != marked, qPrintable(marked.name()));
  }

  // The status bar shows how far the first of several jobs is, and cancels it.
  void workIsCancelled() {
    JobTracker& jobs = window_->workspace().jobs();
    const auto* bar = window_->findChild<QProgressBar*>("jobProgress");
    const auto* text = window_->findChild<QLabel*>("jobText");
    auto* cancel = window_->findChild<QToolButton*>("jobCancel");
    QVERIFY(!bar->isVisible() && !text->isVisible() && !cancel->isVisible());
    bool isCancelled = false;
    const auto first = jobs.start("Exporting", [&] { isCancelled = true; });
    const auto second = jobs.start("Copying");  // cannot be cancelled
    jobs.progress(first, 0.25);
    QVERIFY(bar->isVisible() && cancel->isVisible());
    QCOMPARE(bar->value() * 4, bar->maximum());
    QVERIFY2(text->text().contains("Exporting") && text->text().contains("1 more"),
             qPrintable(text->text()));
    QVERIFY(!cancel->accessibleName().isEmpty());
    give(cancel);
    QTest::keyClick(cancel, Qt::Key_Space);
    QVERIFY(isCancelled);
    jobs.finish(first);
    QVERIFY(bar->isVisible() && !cancel->isVisible());
    QVERIFY2(text->text().contains("Copying"), qPrintable(text->text()));
    QCOMPARE(bar->maximum(), 0);  // it is not known how far
    jobs.finish(second);
    QVERIFY(!bar->isVisible() && !text->isVisible());
  }

  // Of several jobs the one to cancel is chosen, also one that is not shown.
  void eachJobIsCancelled() {
    JobTracker& jobs = window_->workspace().jobs();
    auto* cancel = window_->findChild<QToolButton*>("jobCancel");
    QStringList cancelled;
    const auto start = [&](const QString& title) {
      return jobs.start(title, [&cancelled, title] { cancelled << title; });
    };
    const auto choose = [&](int downs) {
      give(cancel);
      QTest::keyClick(cancel, Qt::Key_Space);
      auto* menu = window_->findChild<QMenu*>("jobMenu");
      QVERIFY(menu && wait([&] { return menu->isVisible(); }));
      for (int i = 0; i < downs; ++i) QTest::keyClick(menu, Qt::Key_Down);
      const QPointer<QMenu> gone(menu);
      QTest::keyClick(menu, Qt::Key_Return);
      QVERIFY(wait([&] { return !gone; }));
    };
    const auto copying = jobs.start("Copying");  // cannot be cancelled
    const auto first = start("Exporting R&D"), second = start("Launching");
    choose(2);
    QCOMPARE(cancelled, QStringList{"Launching"});
    jobs.finish(second);
    choose(1);
    QCOMPARE(cancelled.last(), QString("Exporting R&D"));
    jobs.finish(first);
    QVERIFY(!cancel->isVisible());
    jobs.finish(copying);
  }

  void whatHasTheKeyboardIsSeen_data() {
    QTest::addColumn<bool>("dark");
    QTest::newRow("light") << false;
    QTest::newRow("dark") << true;
  }
  void whatHasTheKeyboardIsSeen() {
    QFETCH(bool, dark);
    window_->setDark(dark);
    RunPage* run = openRun();
    auto* tabs = run->findChild<QTabWidget*>("runTabs");
    QWidgetList parts{run->findChild<QWidget*>("pauseButton"), tabs->tabBar(),
                      run->lossPlot()->findChild<QWidget*>("plotCanvas")};
    for (QWidget* part : parts) QVERIFY2(accentsIn(part) > 0, qPrintable(part->objectName()));
    HistoryPage* history = window_->openHistory();
    QVERIFY(wait([&] { return history->runs()->rowCount() == 1; }));
    for (const char* name : {"runTable", "historySearch"})
      QVERIFY2(accentsIn(history->findChild<QWidget*>(name)) > 0, name);
  }

 private:
  Page* openExample(const char* name) {
    return window_->openFile(QString::fromStdString(examplePath(name)));
  }
  RunPage* openRun() {
    const auto run = home_->addRun(0, app::RunState::SUCCEEDED, kSteps);
    RunPage* page = window_->openRun(QString::fromStdString(run));
    if (!wait([&] { return page->document()->loaded() && page->lossPlot()->sampleCount() > 0; }))
      QTest::qFail("the run is not shown", __FILE__, __LINE__);
    return page;
  }
  void give(QWidget* part) {
    QVERIFY(wait([&] { return part->isVisible(); }));
    window_->activateWindow();  // a menu that closes does not do it on this platform
    part->setFocus(Qt::TabFocusReason);
    QVERIFY(wait([&] { return part->hasFocus(); }));
  }
  static void walk(Page* page) {
    QVERIFY(page && wait([&] { return page->isVisible(); }));
    QVERIFY(!tests::keyboardParts(page).isEmpty());
    tests::checkKeyboard(page);
  }
  static void check(QDialog* dialog) {
    QVERIFY2(QTest::qWaitForWindowExposed(dialog), qPrintable(dialog->objectName()));
    tests::checkKeyboard(dialog);
  }
  // How many more of its pixels have the accent's colour while it has the keyboard.
  int accentsIn(QWidget* part) {
    const auto count = [&] {
      const QColor accent = Theme::instance().color("accent");
      const auto isAlike = [&](const QColor& one) {
        return std::abs(one.red() - accent.red()) + std::abs(one.green() - accent.green()) +
                   std::abs(one.blue() - accent.blue()) <
               24;
      };
      const QImage image = part->grab().toImage();
      int found = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) found += isAlike(image.pixelColor(x, y));
      return found;
    };
    window_->setFocus();
    const int without = count();
    give(part);
    return count() - without;
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(KeyboardTest)
#include "keyboard_test.moc"
