// The window, driven offscreen: its documents, docks and keys, the launch dialog, the history.
#include <QTest>
#include <QtWidgets>
#include <random>

#include "tests/ui/by_hand.h"
#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/models/alert_model.h"
#include "ui/models/navigator_model.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

QString readAll(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
}

}  // namespace

class WindowTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void launchDialogPredictsAndShowsTheCommand() {
    auto* model = qobject_cast<ModelPage*>(
        window_->openFile(QString::fromStdString(examplePath("fashion-mlp.yaml"))));
    LaunchDialog* dialog = window_->openLaunch(model, nullptr);
    QVERIFY(dialog);
    QVERIFY(wait([&] { return dialog->ready(); }));
    QCOMPARE(dialog->preview()->ranks.size(), std::size_t{3});
    QVERIFY(dialog->command().contains("--local 3"));
    dialog->findChild<QSpinBox*>("launchNodes")->setValue(2);
    dialog->findChild<QSpinBox*>("launchBatch")->setValue(100);
    QVERIFY(dialog->command().contains("--set training.batch=100"));
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 2; }));
    QCOMPARE(dialog->findChild<QTableView*>("placementTable")->model()->rowCount(), 2);
    QCOMPARE(
        dialog->findChild<QTableView*>("placementTable")->model()->index(0, 4).data().toString(),
        QString("50"));
    auto* plan = dialog->findChild<QPlainTextEdit*>("planText");
    QVERIFY(plan->toPlainText().size() > 100);
    QVERIFY(!plan->toPlainText().contains("bf16"));
    auto* precision = dialog->findChild<QComboBox*>("launchPrecision");
    QCOMPARE(precision->currentText(), QString("fp32"));
    QVERIFY(!dialog->command().contains("training.precision"));
    precision->setCurrentText("bf16");
    QVERIFY(dialog->command().contains("--set training.precision=bf16"));
    QVERIFY(wait([&] { return dialog->ready() && plan->toPlainText().contains("bf16"); }));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
  }

  void ranksOfEachNodeAreChosenInTheLaunchDialog() {
    auto* cluster = qobject_cast<ClusterPage*>(
        window_->openFile(QString::fromStdString(examplePath("local-3.yaml"))));
    auto* model = qobject_cast<ModelPage*>(
        window_->openFile(QString::fromStdString(examplePath("fashion-mlp.yaml"))));
    LaunchDialog* dialog = window_->openLaunch(model, cluster);
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 3; }));
    QVERIFY(!dialog->command().contains("--ranks"));
    dialog->findChild<QSpinBox*>("launchRanks_local2")->setValue(2);
    QVERIFY(dialog->command().contains("--ranks local2=2"));
    QVERIFY(wait([&] { return dialog->ready() && dialog->preview()->ranks.size() == 4; }));
    QCOMPARE(dialog->preview()->ranks[2].node, std::string("local2"));
    dialog->chooseTarget(dialog->findChild<QComboBox*>("launchCluster")->count() - 1);
    QVERIFY(!dialog->findChild<QSpinBox*>("launchRanks_local2"));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
  }

  // A failure that the history tells of is an alert once, of its own time, also after a restart.
  void alertsOfTheHistoryKeepTheirTime() {
    const QString run = QString::fromStdString(home_->addRun(2, app::RunState::FAILED, 300));
    const auto rows = [&] {
      QStringList out;
      const auto* alerts = window_->findChild<QTableView*>("alerts")->model();
      for (int row = 0; row < alerts->rowCount(); ++row)
        out << alerts->index(row, AlertModel::kTime).data().toString();
      return out;
    };
    RunPage* page = window_->openRun(run);
    QVERIFY(wait([&] { return rows().size() == 1; }));
    QVERIFY2(rows()[0].startsWith("05-01 "), qPrintable(rows()[0]));
    const QStringList before = rows();
    window_->close();
    for (int start = 0; start < 2; ++start) {
      window_ = std::make_unique<MainWindow>(home_->options());
      window_->show();
      window_->restoreSession();
      page = qobject_cast<RunPage*>(window_->currentPage());
      QVERIFY(page);
      QVERIFY(wait([&] { return page->document()->loaded(); }));
      QTest::qWait(50);
      QCOMPARE(rows(), before);
      window_->close();
    }
  }

  void sameNamesAreToldApart() {
    const std::string one = home_->addRun(0, app::RunState::SUCCEEDED, 100),
                      two = home_->addRun(2, app::RunState::SUCCEEDED, 100);
    const QString path = home_->path("fashion-cnn.yaml"),
                  other = home_->path("other/fashion-cnn.yaml");
    QDir().mkpath(home_->path("other"));
    for (const QString& to : {path, other})
      QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-cnn.yaml")), to));
    window_->openFile(path);
    window_->openFile(other);
    for (const std::string& run : {one, two}) {
      RunPage* page = window_->openRun(QString::fromStdString(run));
      QVERIFY(wait([&] { return page->document()->loaded(); }));
    }
    auto* tabs = window_->findChild<QTabWidget*>("documents");
    QSet<QString> names;
    for (int i = 0; i < tabs->count(); ++i) names << tabs->tabText(i);
    QCOMPARE(names.size(), 4);
    const auto* tree = window_->findChild<QTreeView*>("navigator")->model();
    QVERIFY(wait([&] { return tree->rowCount(tree->index(NavigatorModel::kRuns, 0)) == 2; }));
    for (const auto group : {NavigatorModel::kModels, NavigatorModel::kRuns}) {
      const QModelIndex heading = tree->index(group, 0);
      QSet<QString> entries;
      for (int row = 0; row < tree->rowCount(heading); ++row) {
        const QModelIndex at = tree->index(row, 0, heading);
        entries << at.data().toString() + at.data(NavigatorModel::kDetailRole).toString();
      }
      QCOMPARE(entries.size(), 2);
    }
    // The example of that name is the one that is open.
    const int count = tabs->count();
    window_->openReady("fashion-cnn", "");
    QVERIFY(wait([&] { return window_->findChild<LaunchDialog*>() != nullptr; }));
    QCOMPARE(tabs->count(), count);
    window_->findChild<LaunchDialog*>()->reject();
  }

  // Also where it comes into the navigator after its page has opened, and others before it later.
  void theShownDocumentIsChosenInTheNavigator() {
    const auto* tree = window_->findChild<QTreeView*>("navigator");
    const auto isChosen = [&](const Page* page) {
      return tree->currentIndex().data(NavigatorModel::kPageRole).toString() == page->key();
    };
    const Page* last = nullptr;
    for (const char* name : {"b.yaml", "a.yaml"}) {
      const QString path = home_->path(name);
      QVERIFY(QFile::copy(QString::fromStdString(examplePath("local-3.yaml")), path));
      last = window_->openFile(path);
      QVERIFY(isChosen(last));
    }
    const RunPage* run =
        window_->openRun(QString::fromStdString(home_->addRun(0, app::RunState::SUCCEEDED, 50)));
    QVERIFY(wait([&] { return isChosen(run); }));
    home_->addRun(2, app::RunState::SUCCEEDED, 50);
    const auto* model = tree->model();
    QVERIFY(wait([&] { return model->rowCount(model->index(NavigatorModel::kRuns, 0)) == 2; }));
    QVERIFY(isChosen(run));
    QVERIFY(isChosen(window_->openHistory()));  // the heading of the runs
  }

  void entriesOfTheNavigatorOpen() {
    const QString run = QString::fromStdString(home_->addRun(0, app::RunState::SUCCEEDED, 50));
    auto* tree = window_->findChild<QTreeView*>("navigator");
    const auto* model = tree->model();
    QVERIFY(wait([&] { return model->rowCount(model->index(NavigatorModel::kRuns, 0)) == 1; }));
    const Page* file = window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    const auto at = [&](NavigatorModel::Group group) {
      return tree->visualRect(model->index(0, 0, model->index(group, 0))).center();
    };
    const auto shown = [&] { return window_->currentPage()->key(); };
    QTest::mouseClick(tree->viewport(), Qt::LeftButton, {}, at(NavigatorModel::kRuns));
    QCOMPARE(shown(), "run:" + run);
    QTest::mouseClick(tree->viewport(), Qt::LeftButton, {}, at(NavigatorModel::kClusters));
    QCOMPARE(shown(), file->key());
    QTest::mouseClick(tree->viewport(), Qt::LeftButton, {}, at(NavigatorModel::kRuns));
    QTest::mouseDClick(tree->viewport(), Qt::LeftButton, {}, at(NavigatorModel::kRuns));
    QCOMPARE(shown(), "run:" + run);
    // With the keyboard nothing opens before Enter: the heading of the runs opens the history.
    QTest::keyClick(tree, Qt::Key_Up);
    QCOMPARE(shown(), "run:" + run);
    QTest::keyClick(tree, Qt::Key_Return);
    QVERIFY(qobject_cast<HistoryPage*>(window_->currentPage()));
    QTest::keyClick(tree, Qt::Key_Down);
    QTest::keyClick(tree, Qt::Key_Return);
    QCOMPARE(shown(), "run:" + run);
    QCOMPARE(window_->pages().size(), 3);  // none was opened twice
  }

  // Runs of another program, such as the command line, appear while the window is open.
  void runsOfOthersAppear() {
    const auto* tree = window_->findChild<QTreeView*>("navigator")->model();
    HistoryPage* history = window_->openHistory();
    QVERIFY(wait([&] {
      return QFileInfo::exists(QString::fromStdString(home_->home().historyFolder()) +
                               "/history.db");
    }));
    home_->addRun(0, app::RunState::SUCCEEDED, 50);
    QVERIFY(wait([&] { return tree->rowCount(tree->index(NavigatorModel::kRuns, 0)) == 1; }));
    QVERIFY(wait([&] { return history->runs()->rowCount() == 1; }));
  }

  // From small to large and back, over a restart: nothing is lost or too small to read.
  void docksComeBackWithTheRoom() {
    auto* inspector = window_->findChild<QDockWidget*>("inspectorDock");
    auto* navigator = window_->findChild<QDockWidget*>("navigatorDock");
    const auto whole = [&](QSize size) {
      return wait(
                 [&] {
                   // as a drag: docks at both sides need more, and come to one when it is narrow
                   window_->resize(size);
                   return window_->size() == size && navigator->width() >= 160 &&
                          inspector->width() >= 165 && inspector->height() >= 100 &&
                          navigator->height() >= 100 &&
                          window_->centralWidget()->width() >= size.width() / 2;
                 },
                 15000) &&
             window_->minimumSizeHint().width() <= size.width() &&
             window_->minimumSizeHint().height() <= size.height();
    };
    window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    window_->openFile(QString::fromStdString(examplePath("fashion-cnn.yaml")));
    window_->openHistory();
    RunPage* run =
        window_->openRun(QString::fromStdString(home_->addRun(0, app::RunState::FAILED, 100)));
    QVERIFY(wait([&] { return run->document()->loaded(); }));
    QStringList least;  // by page
    for (Page* page : window_->pages())
      least << QString("%1 %2x%3")
                   .arg(page->objectName())
                   .arg(page->minimumSizeHint().width())
                   .arg(page->minimumSizeHint().height());
    const auto said = [&] {
      return least.join(", ") +
             QString("; least %1x%2; ")
                 .arg(window_->minimumSizeHint().width())
                 .arg(window_->minimumSizeHint().height()) +
             QString("%1: navigator %2x%3, inspector %4x%5, centre %6")
                 .arg(window_->width())
                 .arg(navigator->width())
                 .arg(navigator->height())
                 .arg(inspector->width())
                 .arg(inspector->height())
                 .arg(window_->centralWidget()->width());
    };
    for (const QSize size : {QSize(1440, 860), QSize(1000, 700), QSize(1400, 900), QSize(1000, 660),
                             QSize(1920, 1000)})
      QVERIFY2(whole(size), qPrintable(said()));
    QVERIFY2(whole({1000, 700}), qPrintable(said()));
    window_->close();
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->show();
    inspector = window_->findChild<QDockWidget*>("inspectorDock");
    navigator = window_->findChild<QDockWidget*>("navigatorDock");
    QVERIFY2(whole({1440, 860}), qPrintable(said()));
    QVERIFY(wait([&] { return window_->dockWidgetArea(inspector) == Qt::RightDockWidgetArea; }));
    QVERIFY(window_->statusBar()->geometry().bottom() <= window_->rect().bottom());
  }

  // In one step, as a tiling desktop makes it, with every page in front: nothing is cut, and the
  // docks are at both sides again where there is room.
  void aWindowIsMadeSmallInOneStep() {
    auto* inspector = window_->findChild<QDockWidget*>("inspectorDock");
    auto* navigator = window_->findChild<QDockWidget*>("navigatorDock");
    window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    window_->openFile(QString::fromStdString(examplePath("fashion-cnn.yaml")));
    window_->openHistory();
    RunPage* run =
        window_->openRun(QString::fromStdString(home_->addRun(0, app::RunState::FAILED, 100)));
    QVERIFY(wait([&] { return run->document()->loaded(); }));
    QString wrong;
    const auto whole = [&] {
      Page* page = window_->currentPage();
      wrong.clear();
      for (QWidget* one : QList<QWidget*>{navigator, inspector, page, window_->statusBar()}) {
        const QRect at(one->mapTo(window_.get(), QPoint()), one->size());
        const QSize least = one->minimumSizeHint();
        if (!window_->rect().contains(at) || at.width() < least.width() ||
            at.height() < least.height()) {
          wrong += QString("%1 at %2,%3 %4x%5 least %6x%7; ")
                       .arg(one->objectName())
                       .arg(at.x())
                       .arg(at.y())
                       .arg(at.width())
                       .arg(at.height())
                       .arg(least.width())
                       .arg(least.height());
        }
      }
      return wrong.isEmpty();
    };
    auto* tabs = window_->findChild<QTabWidget*>("documents");
    for (int i = 0; i < tabs->count(); ++i) {
      tabs->setCurrentIndex(i);
      for (const QSize large : {QSize(1440, 860), QSize(1920, 1000)}) {
        window_->resize(large);
        QVERIFY(
            wait([&] { return window_->dockWidgetArea(inspector) == Qt::RightDockWidgetArea; }));
        QVERIFY2(wait(whole), qPrintable(wrong));
        for (const QSize small : {QSize(1000, 700)}) {
          window_->resize(small);
          QStringList least;  // what each needs
          for (QWidget* one : QList<QWidget*>{navigator, inspector,
                                              window_->findChild<QDockWidget*>("messageDock")})
            least << QString("%1 %2").arg(one->objectName()).arg(one->minimumSizeHint().width());
          for (Page* page : window_->pages())
            least << QString("%1 %2").arg(page->objectName()).arg(page->minimumSizeHint().width());
          QVERIFY2(window_->size() == small, qPrintable(QString("%1x%2: %3")
                                                            .arg(window_->width())
                                                            .arg(window_->height())
                                                            .arg(least.join(", "))));
          QVERIFY2(wait(whole), qPrintable(wrong));
          QCOMPARE(window_->size(), small);
          QCOMPARE(window_->dockWidgetArea(inspector), Qt::LeftDockWidgetArea);
          window_->resize(large);
          QCOMPARE(window_->size(), large);
        }
      }
    }
    // One that was closed large and comes back on a smaller screen.
    window_->resize(1440, 860);
    QVERIFY(wait([&] { return window_->dockWidgetArea(inspector) == Qt::RightDockWidgetArea; }));
    window_->close();
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->restoreSession();
    window_->resize(1000, 700);
    window_->show();
    inspector = window_->findChild<QDockWidget*>("inspectorDock");
    navigator = window_->findChild<QDockWidget*>("navigatorDock");
    QVERIFY2(wait(whole), qPrintable(wrong));
    QCOMPARE(window_->size(), QSize(1000, 700));
  }

  // With its frame the window lies on the screen, whatever it was before.
  void theWindowFitsItsScreen() {
    const QRect screen(0, 24, 1440, 876);
    const QMargins frame(4, 28, 4, 4);
    std::mt19937 random(9);
    for (int trial = 0; trial < 500; ++trial) {
      const auto pick = [&](int from, int to) {
        return std::uniform_int_distribution<int>(from, to)(random);
      };
      const QRect before(pick(-3000, 3000), pick(-2000, 2000), pick(300, 4000), pick(200, 3000));
      const QRect after = MainWindow::withinScreen(before, frame, screen);
      QVERIFY(screen.contains(after.marginsAdded(frame)));
      QVERIFY(after.width() <= before.width() && after.height() <= before.height());
      QCOMPARE(MainWindow::withinScreen(after, frame, screen), after);
    }
    window_->resize(3000, 2500);
    window_->fitToScreen();
    QVERIFY(wait(
        [&] { return window_->screen()->availableGeometry().contains(window_->frameGeometry()); }));
  }

  void keysAreAsElsewhere() {
    const auto keys = [&](const char* name) {
      return window_->findChild<QAction*>(name)->shortcuts();
    };
    QVERIFY(keys("actionRedo").contains(QKeySequence(Qt::CTRL | Qt::Key_Y)));
    QHash<QString, QString> used;  // no keys are of two commands
    for (const QAction* action : window_->findChildren<QAction*>()) {
      for (const QKeySequence& key : action->shortcuts()) {
        QVERIFY2(!used.contains(key.toString()),
                 qPrintable(action->objectName() + " and " + used.value(key.toString())));
        used[key.toString()] = action->objectName();
      }
    }
    window_->findChild<QAction*>("actionShortcuts")->trigger();
    auto* table = window_->findChild<QTableWidget*>("shortcutsTable");
    QVERIFY(table && table->rowCount() > 12);
    QDialog* shortcuts = qobject_cast<QDialog*>(table->window());
    shortcuts->accept();
    HistoryPage* history = window_->openHistory();
    window_->findChild<QAction*>("actionFind")->trigger();
    QCOMPARE(window_->focusWidget(), history->findChild<QLineEdit*>("historySearch"));
    window_->findChild<QAction*>("actionPreferences")->trigger();
    auto* language = window_->findChild<QComboBox*>("preferencesLanguage");
    QVERIFY(language);
    language->setCurrentIndex(1);
    Q_EMIT language->activated(1);
    QVERIFY(wait([&] { return Language::instance().code() == "zh_CN"; }));
    qobject_cast<QDialog*>(language->window())->accept();
    window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    QWidget* second = window_->currentPage();
    window_->findChild<QAction*>("actionPreviousTab")->trigger();
    QVERIFY(window_->currentPage() != second);
    window_->findChild<QAction*>("actionNextTab")->trigger();
    QVERIFY(window_->currentPage() == second);
  }

  void helpNeedsNoDisplay() {
    QProcess studio;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
      environment.remove(name);
    studio.setProcessEnvironment(environment);
    for (const QStringList& words : {QStringList{"--help"}, {"-h"}, {"--version"}}) {
      studio.start(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-studio", words);
      QVERIFY(studio.waitForFinished(60'000));
      QCOMPARE(studio.exitStatus(), QProcess::NormalExit);
      QCOMPARE(studio.exitCode(), 0);
      QVERIFY(
          studio.readAllStandardOutput().contains(words[0] == "--version" ? "Lockstep" : "--open"));
    }
    studio.start(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-studio", QStringList());
    QVERIFY(studio.waitForFinished(60'000));
    QCOMPARE(studio.exitStatus(), QProcess::NormalExit);
    QCOMPARE(studio.exitCode(), 3);
    QVERIFY(studio.readAllStandardError().contains("no display"));
  }

  void historyFindsExportsAndDeletes() {
    const std::string first = home_->addRun(0, app::RunState::SUCCEEDED, 300);
    const std::string second = home_->addRun(1, app::RunState::FAILED, 300);
    HistoryPage* page = window_->openHistory();
    QVERIFY(wait([&] { return page->runs()->rowCount() == 2; }));
    page->findChild<QLineEdit*>("historySearch")->setText("mlp");
    QVERIFY(wait([&] { return page->runs()->rowCount() == 1; }));
    page->findChild<QLineEdit*>("historySearch")->clear();
    QVERIFY(wait([&] { return page->runs()->rowCount() == 2; }));
    // What is selected is what is shown, exported and deleted.
    page->findChild<QTableView*>("runTable")->selectAll();
    QVERIFY(wait([&] {
      return page->overlay()->series().size() == 2 && page->overlay()->sampleCount() == 600;
    }));
    QVERIFY(page->overlay()->series()[0]->name != page->overlay()->series()[1]->name);
    QVERIFY(page->selectedRun().isEmpty());
    QVERIFY(!page->findChild<QPushButton*>("relaunchButton")->isEnabled());
    page->findChild<QToolButton*>("differencesButton")->click();
    auto* differences = page->findChild<QTableView*>("specDifferences");
    QVERIFY(differences->isVisible());
    QStringList fields;
    for (int row = 0; row < differences->model()->rowCount(); ++row)
      fields << differences->model()->index(row, 0).data().toString();
    QVERIFY2(fields.contains("model.name") && !fields.contains("model.loss"),
             qPrintable(fields.join(' ')));
    QCOMPARE(differences->model()->columnCount(), 3);
    page->findChild<QToolButton*>("differencesButton")->click();
    const QDir folder(home_->path("."));
    page->exportTo(folder.path());
    for (const std::string& run : {first, second})
      QVERIFY(wait([&] {
        return QFileInfo(folder.filePath(QString::fromStdString(run) + ".csv")).size() > 1000;
      }));
    page->selectRun(QString::fromStdString(first));
    const QString csv = home_->path("run.csv");
    page->exportTo(csv);
    QVERIFY(wait([&] { return QFileInfo(csv).size() > 1000; }));
    page->runs()->setData(page->runs()->index(page->runs()->find(QString::fromStdString(second)),
                                              RunTableModel::kNotes),
                          "see log", Qt::EditRole);
    page->selectRun(QString::fromStdString(first));
    page->findChild<QPushButton*>("deleteRunButton")->click();
    QVERIFY(page->message()->isVisibleTo(page));
    page->message()->findChild<QPushButton*>("messageAction")->click();
    QVERIFY(wait([&] { return page->runs()->rowCount() == 1; }));
    QVERIFY(wait([&] { return page->runs()->runs()[0].notes == "see log"; }));
  }

  // What a page asks is asked in the language of now.
  void questionsFollowTheLanguage() {
    home_->addRun(0, app::RunState::SUCCEEDED, 50);
    HistoryPage* history = window_->openHistory();
    QVERIFY(wait([&] { return history->runs()->rowCount() == 1; }));
    history->findChild<QTableView*>("runTable")->selectRow(0);
    history->findChild<QPushButton*>("deleteRunButton")->click();
    QCOMPARE(history->message()->what(), QString("Delete this run?"));
    auto* action = history->message()->findChild<QPushButton*>("messageAction");
    QCOMPARE(action->text(), QString("Delete"));
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] {
      return history->message()->what() != "Delete this run?" && action->text() != "Delete";
    }));
    QVERIFY(action->isVisible());
    Language::instance().set("en");
    QVERIFY(wait([&] {
      return history->message()->what() == "Delete this run?" && action->text() == "Delete";
    }));
    action->click();
    QVERIFY(wait([&] { return history->runs()->rowCount() == 0; }));
  }

  void languageAndThemeSwitchWithoutRestart() {
    auto* page = window_->openFile(QString::fromStdString(examplePath("local-3.yaml")));
    auto* connectButton = page->findChild<QPushButton*>("connectButton");
    QCOMPARE(connectButton->text(), QString("Connect"));
    window_->findChild<QAction*>("actionChinese")->trigger();
    QVERIFY(wait([&] { return connectButton->text() == QString::fromUtf8("连接"); }));
    QVERIFY(window_->findChild<QAction*>("actionChinese")->isChecked());
    window_->findChild<QAction*>("actionEnglish")->trigger();
    QVERIFY(wait([&] { return connectButton->text() == "Connect"; }));
    const QColor light = window_->palette().color(QPalette::Window);
    window_->findChild<QAction*>("actionDark")->trigger();
    QVERIFY(window_->palette().color(QPalette::Window).lightness() < light.lightness());
    window_->findChild<QAction*>("actionDark")->trigger();
    QCOMPARE(window_->palette().color(QPalette::Window), light);
  }

  void paletteRunsCommands() {
    QTest::keyClick(window_.get(), Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
    auto* edit = window_->findChild<QLineEdit*>("commandPaletteEdit");
    QVERIFY(edit && edit->isVisible());
    QTest::keyClicks(edit, "history");
    QTest::keyClick(edit, Qt::Key_Return);
    QVERIFY(qobject_cast<HistoryPage*>(window_->currentPage()));
    QVERIFY(!edit->isVisible());
  }

  // Commands that cannot be done now are passed over.
  void paletteStepsOverWhatCannotBeDone() {
    QVERIFY(!window_->findChild<QAction*>("actionSave")->isEnabled());
    window_->findChild<QAction*>("actionPalette")->trigger();
    auto* edit = window_->findChild<QLineEdit*>("commandPaletteEdit");
    auto* list = window_->findChild<QListView*>("commandPaletteList");
    const int count = list->model()->rowCount();
    for (int press = 0; press < count; ++press) QTest::keyClick(edit, Qt::Key_Down);
    QCOMPARE(list->currentIndex().row(), count - 1);
    for (int press = 0; press < count; ++press) QTest::keyClick(edit, Qt::Key_Up);
    QCOMPARE(list->currentIndex().row(), 0);
    // The first of what was found cannot be done, the second can.
    QTest::keyClicks(edit, "re");
    QCOMPARE(list->model()->index(0, 0).data().toString(), QString("Redo"));
    QCOMPARE(list->currentIndex().data().toString(), QString("Restore default layout"));
    QTest::mouseClick(list->viewport(), Qt::LeftButton, {},
                      list->visualRect(list->model()->index(0, 0)).center());
    QVERIFY(edit->isVisible());  // a click on it does nothing
    QTest::keyClicks(edit, "do");
    QVERIFY(!list->currentIndex().isValid());
    QTest::keyClick(edit, Qt::Key_Escape);
  }

  void documentsAndLayoutComeBack() {
    const QString path = home_->path("mine.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("local-3.yaml")), path));
    window_->openFile(path);
    window_->openHistory();
    window_->findChild<QDockWidget*>("inspectorDock")->hide();
    window_->close();
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->restoreSession();
    window_->show();
    QCOMPARE(window_->pages().size(), 2);
    QVERIFY(qobject_cast<HistoryPage*>(window_->currentPage()));
    QVERIFY(!window_->findChild<QDockWidget*>("inspectorDock")->isVisible());
    window_->findChild<QAction*>("actionDefaultLayout")->trigger();
    QVERIFY(window_->findChild<QDockWidget*>("inspectorDock")->isVisible());
  }

  void docksAreHiddenMovedAndPutBack() {
    window_->resize(1440, 900);
    const QList<std::pair<QDockWidget*, Qt::DockWidgetArea>> docks{
        {window_->findChild<QDockWidget*>("navigatorDock"), Qt::LeftDockWidgetArea},
        {window_->findChild<QDockWidget*>("inspectorDock"), Qt::RightDockWidgetArea},
        {window_->findChild<QDockWidget*>("messageDock"), Qt::BottomDockWidgetArea}};
    const auto areAsAtFirst = [&] {
      return std::all_of(docks.begin(), docks.end(), [&](const auto& one) {
        return one.first->isVisible() && !one.first->isFloating() &&
               window_->dockWidgetArea(one.first) == one.second;
      });
    };
    QVERIFY(wait(areAsAtFirst));
    const auto choose = [&](const QString& entry) {
      tests::chooseByMouse(*window_, "menuView", qPrintable(entry));
    };
    for (const auto& [dock, area] : docks) {
      choose("toggle_" + dock->objectName());
      QVERIFY2(dock->isHidden(), qPrintable(dock->objectName()));
    }
    QDockWidget* messages = docks.last().first;
    choose("toggle_messageDock");
    QVERIFY(messages->isVisible());
    const QPoint title(20, messages->widget()->y() / 2);
    QTest::mouseDClick(messages, Qt::LeftButton, {}, title);
    QVERIFY(messages->isFloating());
    choose("actionDefaultLayout");
    QVERIFY(wait(areAsAtFirst));
    // Dragged by its title to the upper edge.
    const QPoint from = messages->mapToGlobal(title);
    const QPoint to =
        window_->mapToGlobal(QPoint(window_->width() / 2, window_->centralWidget()->y() + 5));
    QTest::mousePress(messages, Qt::LeftButton, {}, title);
    for (int step = 1; step <= 10; ++step)  // it follows
      QTest::mouseMove(messages, messages->mapFromGlobal(from + (to - from) * step / 10));
    QTest::mouseRelease(messages, Qt::LeftButton, {}, messages->mapFromGlobal(to));
    QVERIFY(wait([&] {
      return !messages->isFloating() && window_->dockWidgetArea(messages) == Qt::TopDockWidgetArea;
    }));
    choose("actionDefaultLayout");
    QVERIFY(wait(areAsAtFirst));
  }

  // Keys in the text of a file, and an end without closing: the window that is opened then has what
  // was written.
  void typedTextOutlivesAnAbruptEnd() {
    const QString path = home_->path("mine.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("local-3.yaml")), path));
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    window_->restoreSession();  // as at each start
    Page* page = window_->openFile(path);
    auto* editor = page->findChild<QPlainTextEdit*>("yamlEditor");
    QTest::mouseClick(editor->viewport(), Qt::LeftButton);
    QTest::keyClick(editor, Qt::Key_Home, Qt::ControlModifier);
    QTest::keyClicks(editor, "# of my lab");
    const QString text = editor->toPlainText();
    QVERIFY(text.startsWith("# of my lab"));
    const QString kept = SpecDocument::recoveryPath(path, home_->path("home/recovery"));
    QVERIFY(wait([&] { return readAll(kept) == text; }, 30'000));
    // The first window does nothing more, as if it had been killed, and its session is not closed.
    const std::unique_ptr<MainWindow> killed = std::move(window_);
    tests::openWindow(window_, *home_);
    window_->restoreSession();
    auto* again = qobject_cast<ClusterPage*>(window_->currentPage());
    QVERIFY(again && again->isModified());
    QCOMPARE(again->filePath(), path);
    QCOMPARE(again->findChild<QPlainTextEdit*>("yamlEditor")->toPlainText(), text);
    QCOMPARE(again->message()->what(), QString("Unsaved text was recovered."));
    QVERIFY(readAll(path) != text);
    tests::chooseByMouse(*window_, "menuEdit", "actionUndo");
    QCOMPARE(again->document()->text(), readAll(path));
  }

  // With what was written into it.
  void aCloneThatWasNotSavedComesBack() {
    const std::string run = home_->addRun(0, app::RunState::SUCCEEDED, 100);
    RunPage* page = window_->openRun(QString::fromStdString(run));
    QVERIFY(wait([&] { return page->document()->canRelaunch(); }));
    window_->findChild<QAction*>("actionClone")->trigger();
    LaunchDialog* dialog = nullptr;
    QVERIFY(
        wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
    auto* clone = qobject_cast<ModelPage*>(window_->currentPage());
    QVERIFY(clone);
    const QString path = clone->filePath(), text = clone->document()->text() + "# mine\n";
    clone->document()->type(text);
    window_->close();
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->restoreSession();
    window_->show();
    clone = qobject_cast<ModelPage*>(window_->currentPage());
    QVERIFY(clone && clone->isModified());
    QCOMPARE(clone->filePath(), path);
    QCOMPARE(clone->document()->text(), text);
    QCOMPARE(clone->message()->what(), QString("Unsaved text was recovered."));
    QVERIFY(!QFileInfo::exists(path));
  }

  // Text that is not saved and cannot be kept for the next start keeps the window open.
  void unsavedTextIsNotLostAtTheEnd() {
    const QString path = home_->path("mine.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-mlp.yaml")), path));
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    QFile inTheWay(home_->path("home/recovery"));  // of the folder
    QVERIFY(inTheWay.open(QIODevice::WriteOnly));
    auto* page = qobject_cast<ModelPage*>(window_->openFile(path));
    page->document()->type(page->document()->text() + "# mine\n");
    window_->openHistory();
    QVERIFY(!window_->close());
    QCOMPARE(window_->currentPage(), page);
    QVERIFY2(page->message()->isVisible() && page->message()->what().contains("recovery"),
             qPrintable(page->message()->what()));
    QTest::mouseClick(page->message()->findChild<QPushButton*>("messageCopy"), Qt::LeftButton);
    const QString copied = QApplication::clipboard()->text();
    QCOMPARE(copied, page->message()->details());
    QVERIFY2(copied.contains(page->message()->what()), qPrintable(copied));
    QVERIFY(page->save());
    QVERIFY(window_->close());
  }

  void namesOfRecentFilesAreWhole() {
    const QString path = home_->path("r&d.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("local-3.yaml")), path));
    window_->openFile(path);
    auto* recent = window_->findChild<QMenu*>("menuRecent");
    Q_EMIT recent->aboutToShow();
    QCOMPARE(recent->actions().value(0)->text(), QString("r&&d.yaml"));
  }

  void runsThatGoOnAreOpenedAgain() {
    const std::string run = home_->addRun(0, app::RunState::RUNNING, 200);
    home_->addRun(1, app::RunState::SUCCEEDED, 200);
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->show();
    window_->restoreSession();
    RunPage* page = nullptr;
    QVERIFY(
        wait([&] { return (page = qobject_cast<RunPage*>(window_->currentPage())) != nullptr; }));
    QCOMPARE(page->document()->run().toStdString(), run);
    QVERIFY(wait([&] { return page->lossPlot()->sampleCount() >= 200; }));
  }

  // A run that goes on is not put in front of the file that the studio was started with.
  void whatIsAskedForStaysInSight() {
    const QString run = QString::fromStdString(home_->addRun(0, app::RunState::RUNNING, 200));
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->show();
    window_->restoreSession(false);
    Page* page = window_->openFile(QString::fromStdString(examplePath("fashion-mlp.yaml")));
    const auto isOpen = [&] {
      const QList<Page*> pages = window_->pages();
      return std::any_of(pages.begin(), pages.end(),
                         [&](const Page* one) { return one->key() == "run:" + run; });
    };
    QVERIFY(wait(isOpen));
    QCOMPARE(window_->currentPage(), page);
  }

  void droppedFilesOpen() {
    QFile beside(home_->path("samples.csv"));  // dragged with it, and no document
    QVERIFY(beside.open(QIODevice::WriteOnly) && beside.write("1,2\n") == 4);
    beside.close();
    const auto drop = [&](const char* example, QWidget* on) {
      QMimeData data;
      data.setUrls({QUrl::fromLocalFile(QString::fromStdString(examplePath(example))),
                    QUrl::fromLocalFile(beside.fileName())});
      QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
      QCoreApplication::sendEvent(on, &enter);
      QVERIFY(enter.isAccepted());
      QDropEvent dropped(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
      QCoreApplication::sendEvent(on, &dropped);
    };
    drop("fashion-mlp.yaml", window_.get());
    auto* model = qobject_cast<ModelPage*>(window_->currentPage());
    QVERIFY(model);
    // On the text of a document too, which stays as it is.
    drop("local-3.yaml", model->findChild<QPlainTextEdit*>("yamlEditor")->viewport());
    QVERIFY(!model->isModified());
    QVERIFY(qobject_cast<ClusterPage*>(window_->currentPage()));
    QCOMPARE(window_->pages().size(), 2);
  }

 private:
  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(WindowTest)
#include "window_test.moc"
