// The menus of the window by the keyboard: Alt and a letter open one, a letter chooses an entry.
#include <QTest>
#include <QtWidgets>

#include "tests/ui/studio_fixture.h"
#include "tests/ui/tab_walk.h"
#include "ui/dialogs/dialog.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/models/node_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/learn_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

QKeySequence letterOf(const QString& text) { return QKeySequence::mnemonic(text); }

// The keys of a letter are of one entry.
void checkLetters(const QList<QAction*>& entries) {
  QHash<QString, QString> used;
  for (const QAction* entry : entries) {
    const QString letter = letterOf(entry->text()).toString();
    if (!letter.isEmpty())
      QVERIFY2(!used.contains(letter),
               qPrintable(QString("%1 and %2").arg(entry->text(), used.value(letter))));
    used[letter] = entry->text();
    if (entry->menu()) checkLetters(entry->menu()->actions());
  }
}

}  // namespace

class MenusTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void noTwoEntriesShareALetter_data() {
    QTest::addColumn<QString>("language");
    QTest::addColumn<QString>("file");
    QTest::newRow("English") << "en"
                             << "&File";
    QTest::newRow("Chinese") << "zh_CN" << QString::fromUtf8("文件(&F)");
  }
  void noTwoEntriesShareALetter() {
    QFETCH(QString, language);
    QFETCH(QString, file);
    Language::instance().set(language);
    QVERIFY(wait([&] { return menu("menuFile")->title() == file; }));
    checkLetters(window_->menuBar()->actions());
  }

  void filesAreMadeSavedAndOpened() {
    choose("menuFile", "actionNewCluster");
    auto* cluster = qobject_cast<ClusterPage*>(window_->currentPage());
    QVERIFY(cluster);
    QVERIFY(!action("actionSave")->isEnabled());
    QVERIFY(cluster->addNode("{name: n1}").ok());
    QVERIFY(cluster->isModified());
    choose("menuFile", "actionSave");
    QVERIFY(!cluster->isModified());
    choose("menuEdit", "actionUndo");
    QVERIFY(cluster->isModified());
    QCOMPARE(cluster->nodes()->rowCount(), 0);
    choose("menuEdit", "actionRedo");
    QVERIFY(!cluster->isModified());

    const QString copy = home_->path("copy.yaml");
    choose("menuFile", "actionSaveAs");
    name("saveAsDialog", copy, QDialogButtonBox::Save);
    QVERIFY(wait([&] { return QFileInfo::exists(copy); }));
    QVERIFY(QFileInfo(cluster->filePath()) == QFileInfo(copy));
    choose("menuFile", "actionCloseTab");
    QVERIFY(wait([&] { return qobject_cast<ClusterPage*>(window_->currentPage()) == nullptr; }));

    choose("menuFile", "actionOpen");
    name("openFileDialog", copy, QDialogButtonBox::Open);
    QVERIFY(wait([&] { return qobject_cast<ClusterPage*>(window_->currentPage()) != nullptr; }));
    choose("menuFile", "actionCloseTab");
    QVERIFY(wait([&] { return qobject_cast<ClusterPage*>(window_->currentPage()) == nullptr; }));
    // Among the recent files it is the first.
    open(menu("menuFile"));
    QTest::keyClick(menu("menuFile"), keyOf(menu("menuRecent")->title()));
    QVERIFY(wait([&] { return menu("menuRecent")->isVisible(); }));
    QCOMPARE(menu("menuRecent")->actions().value(0)->text(), QString("copy.yaml"));
    QTest::keyClick(menu("menuRecent"), Qt::Key_Return);
    QVERIFY(wait([&] { return qobject_cast<ClusterPage*>(window_->currentPage()) != nullptr; }));
    QVERIFY(QFileInfo(window_->currentPage()->filePath()) == QFileInfo(copy));
  }

  void modelsAreMadeAndLaunched() {
    choose("menuFile", "actionNewModel");
    auto* ask = window_->findChild<NewModelDialog*>();
    QVERIFY(ask && wait([&] { return ask->isVisible(); }));
    QTest::keyClick(ask, Qt::Key_Return);
    QVERIFY(wait([&] { return qobject_cast<ModelPage*>(window_->currentPage()) != nullptr; }));
    for (const auto& [from, entry] :
         {std::pair{"menuRun", "actionLaunch"}, {"menuFile", "actionNewRun"}}) {
      choose(from, entry);
      dismiss(window_->findChild<LaunchDialog*>());
    }
    choose("menuRun", "actionRunHere");
    dismiss(window_->findChild<LaunchDialog*>());
  }

  void aRunIsLaunchedAgain() {
    const QString run = QString::fromStdString(home_->addRun(0, app::RunState::FAILED, 300));
    RunPage* page = window_->openRun(run);
    QVERIFY(wait([&] { return page->document()->loaded() && action("actionRerun")->isEnabled(); }));
    for (const char* entry : {"actionCheckpoint", "actionStop", "actionKill"})
      QVERIFY2(!action(entry)->isEnabled(), entry);  // it is over
    for (const auto& [entry, command] : {std::pair{"actionResume", "lockstep resume "},
                                         {"actionRerun", "lockstep rerun "},
                                         {"actionFaster", "lockstep resume "}}) {
      choose("menuRun", entry);
      LaunchDialog* dialog = nullptr;
      QVERIFY(wait([&] {
        dialog = window_->findChild<LaunchDialog*>();
        return dialog && dialog->ready();
      }));
      QVERIFY2(dialog->command().startsWith(command + run), qPrintable(dialog->command()));
      dismiss(dialog);
    }
    choose("menuRun", "actionHistory");
    QVERIFY(qobject_cast<HistoryPage*>(window_->currentPage()));
    choose("menuView", "actionBack");
    QVERIFY(wait([&] { return window_->currentPage() == page; }));
    choose("menuView", "actionCopyLink");
    QVERIFY2(QApplication::clipboard()->text().contains(run),
             qPrintable(QApplication::clipboard()->text()));
    choose("menuView", "actionForward");
    QVERIFY(wait([&] { return qobject_cast<HistoryPage*>(window_->currentPage()) != nullptr; }));
  }

  void commandsOfOtherPagesAreDisabled() {
    choose("menuHelp", "actionWelcome");
    QVERIFY(qobject_cast<WelcomePage*>(window_->currentPage()));
    for (const char* entry : {"actionConnect", "actionDisconnect", "actionAddHost", "actionDeploy",
                              "actionCheckpoint", "actionFaster", "actionStop", "actionKill",
                              "actionResume", "actionRerun", "actionClone", "actionReport"})
      QVERIFY2(!action(entry)->isEnabled(), entry);
    choose("menuHelp", "actionLearn");
    QVERIFY(qobject_cast<LearnPage*>(window_->currentPage()));
    ClusterPage* cluster = window_->newCluster();
    for (const char* entry : {"actionConnect", "actionAddHost"})
      QVERIFY2(wait([&] { return action(entry)->isEnabled(); }), entry);
    choose("menuCluster", "actionAddHost");
    dismiss(cluster->findChild<QDialog*>("addHostDialog"));
    QVERIFY(!action("actionDeploy")->isEnabled());  // of no nodes
    QVERIFY(cluster->addNode("{name: n1}").ok());
    choose("menuCluster", "actionDeploy");
    dismiss(cluster->findChild<QDialog*>("deployDialog"));
  }

  void themeAndLanguageAreChosen() {
    choose("menuView", "actionDark");
    QVERIFY(Theme::instance().isDark());
    choose("menuView", "actionDark");
    QVERIFY(!Theme::instance().isDark());
    open(menu("menuView"));
    QTest::keyClick(menu("menuView"), keyOf(menu("menuLanguage")->title()));
    QVERIFY(wait([&] { return menu("menuLanguage")->isVisible(); }));
    QTest::keyClick(menu("menuLanguage"), Qt::Key_Down);  // from the first to the second
    QTest::keyClick(menu("menuLanguage"), Qt::Key_Return);
    QVERIFY(wait([&] { return menu("menuFile")->title() == QString::fromUtf8("文件(&F)"); }));
  }

  // They have a name for each part, which Tab reaches, and Escape closes them.
  void dialogsOfTheMenusClose_data() {
    QTest::addColumn<QByteArray>("from");
    QTest::addColumn<QByteArray>("entry");
    QTest::addColumn<QString>("dialog");
    const auto row = [](const char* from, const char* entry, const char* dialog) {
      QTest::newRow(entry) << QByteArray(from) << QByteArray(entry) << QString(dialog);
    };
    row("menuFile", "actionNewModel", "newModelDialog");
    row("menuFile", "actionOpenLink", "linkDialog");
    row("menuFile", "actionImport", "importDialog");
    row("menuEdit", "actionAlertRules", "alertRulesDialog");
    row("menuEdit", "actionPreferences", "preferencesDialog");
    row("menuTools", "actionVerify", "commandDialog");
    row("menuTools", "actionSimulate", "commandDialog");
    row("menuTools", "actionBench", "commandDialog");
    row("menuTools", "actionDoctor", "commandDialog");
    row("menuTools", "actionPictures", "commandDialog");
    row("menuHelp", "actionShortcuts", "shortcutsDialog");
    row("menuHelp", "actionAbout", "aboutDialog");
  }
  void dialogsOfTheMenusClose() {
    QFETCH(QByteArray, from);
    QFETCH(QByteArray, entry);
    QFETCH(QString, dialog);
    choose(from.constData(), entry.constData());
    auto* shown = window_->findChild<QDialog*>(dialog);
    QVERIFY(shown && QTest::qWaitForWindowExposed(shown));
    if (qobject_cast<Dialog*>(shown)) tests::checkKeyboard(shown);  // the others are Qt's
    dismiss(shown);
  }

 private:
  QMenu* menu(const char* name) const { return window_->findChild<QMenu*>(name); }
  QAction* action(const char* name) const { return window_->findChild<QAction*>(name); }
  static Qt::Key keyOf(const QString& text) {
    return letterOf(text).isEmpty() ? Qt::Key_unknown : letterOf(text)[0].key();
  }
  void open(QMenu* menu) {
    window_->activateWindow();  // by a desktop, once a dialog or a menu is closed
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    QTest::keyClick(window_.get(), keyOf(menu->title()), Qt::AltModifier);
    QVERIFY2(menu->isVisible() && QTest::qWaitForWindowExposed(menu), qPrintable(menu->title()));
  }
  void choose(const char* menuName, const char* actionName) {
    QMenu* from = menu(menuName);
    const QAction* entry = action(actionName);
    QVERIFY2(from && entry && from->actions().contains(entry), actionName);
    QVERIFY2(wait([&] { return entry->isEnabled(); }), actionName);
    open(from);
    QTest::keyClick(from, keyOf(entry->text()));
    QVERIFY2(wait([&] { return !from->isVisible(); }), actionName);
  }
  // By Escape.
  void dismiss(QPointer<QDialog> dialog) {
    QVERIFY(dialog && wait([&] { return dialog->isVisible(); }));
    QTest::keyClick(dialog, Qt::Key_Escape);
    QVERIFY(wait([&] { return dialog.isNull(); }));
  }
  void name(const char* dialogName, const QString& path, QDialogButtonBox::StandardButton button) {
    QPointer<QFileDialog> dialog = window_->findChild<QFileDialog*>(dialogName);
    QVERIFY(dialog && wait([&] { return dialog->isVisible(); }));
    auto* field = dialog->findChild<QLineEdit*>("fileNameEdit");
    QVERIFY(field && wait([&] { return field->hasFocus(); }));
    field->clear();
    QTest::keyClicks(field, path);
    auto* accept = dialog->findChild<QDialogButtonBox*>()->button(button);
    QVERIFY(accept && wait([&] { return accept->isEnabled(); }));
    QTest::mouseClick(accept, Qt::LeftButton);
    QVERIFY(wait([&] { return dialog.isNull(); }));
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(MenusTest)
#include "menus_test.moc"
