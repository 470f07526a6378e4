// The commands of the main window: its actions, menus and tool bar, what they ask, and their texts.
#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QFileDialog>
#include <QFileInfo>
#include <QInputDialog>
#include <QMenu>
#include <QMenuBar>
#include <QProgressBar>
#include <QStatusBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolBar>
#include <QToolButton>
#include <QTreeView>
#include <QUndoGroup>

#include "app/specs/cluster_edits.h"
#include "engine/base/file.h"
#include "engine/base/shell_text.h"
#include "ui/dialogs/about_dialog.h"
#include "ui/dialogs/alert_rules_dialog.h"
#include "ui/dialogs/command_dialog.h"
#include "ui/dialogs/pictures_dialog.h"
#include "ui/dialogs/preferences_dialog.h"
#include "ui/models/alert_model.h"
#include "ui/models/navigator_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/studio/run_document.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/error_text.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"
#include "ui/window/command_palette.h"
#include "ui/window/main_window.h"
#include "ui/window/shortcuts_dialog.h"

namespace lockstep::ui {
namespace {

constexpr std::size_t kMostImported = std::size_t{1} << 20;  // bytes of a hostfile

}  // namespace

QAction* MainWindow::command(const char* name, const char* text, const char* icon,
                             const QKeySequence& keys, std::function<void()> call) {
  auto* action = new QAction(this);
  action->setObjectName(name);
  action->setShortcut(keys);
  commands_[action] = {text, icon};
  connect(action, &QAction::triggered, this, std::move(call));
  addAction(action);
  actions_[name] = action;
  return action;
}

void MainWindow::makeActions() {
  makeFileActions();
  makeEditActions();
  makeRunActions();
  makeToolActions();
  makeWindowActions();
  connect(undo_, &QUndoGroup::canUndoChanged, this, &MainWindow::refreshActions);
  connect(undo_, &QUndoGroup::canRedoChanged, this, &MainWindow::refreshActions);
  connect(undo_, &QUndoGroup::undoTextChanged, this, &MainWindow::refreshActions);
}

void MainWindow::makeFileActions() {
  command("actionNewCluster", QT_TR_NOOP("&New cluster"), "cluster",
          QKeySequence(Qt::CTRL | Qt::Key_N), [this] { newCluster(); });
  command("actionNewModel", QT_TR_NOOP("New &model…"), "model",
          QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_N), [this] { newModel(); });
  command("actionNewRun", QT_TR_NOOP("New &run…"), "play", {},
          [this] { openLaunch(nullptr, nullptr); });
  command("actionOpen", QT_TR_NOOP("&Open…"), "open", QKeySequence::Open, [this] { askOpen(); });
  command("actionImport", QT_TR_NOOP("&Import hostfile or TF_CONFIG…"), "cluster", {},
          [this] { askImport(); });
  command("actionSave", QT_TR_NOOP("&Save"), "save", QKeySequence::Save, [this] {
    if (Page* current = currentPage()) {
      if (current->save()) workspace_->settings().addRecent(current->filePath());
      refreshNavigator();
    }
  });
  command("actionSaveAs", QT_TR_NOOP("Save &as…"), nullptr,
          QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_S), [this] { askSaveAs(); });
  command("actionCloseTab", QT_TR_NOOP("&Close tab"), "close", QKeySequence(Qt::CTRL | Qt::Key_W),
          [this] { closeTab(tabs_->currentIndex()); });
  command("actionQuit", QT_TR_NOOP("&Quit"), nullptr, QKeySequence(Qt::CTRL | Qt::Key_Q),
          [this] { close(); });
}

void MainWindow::makeEditActions() {
  command("actionUndo", QT_TR_NOOP("&Undo"), "undo", QKeySequence::Undo, [this] { undo_->undo(); });
  command("actionRedo", QT_TR_NOOP("&Redo"), "redo", {}, [this] { undo_->redo(); })
      ->setShortcuts(
          {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z), QKeySequence(Qt::CTRL | Qt::Key_Y)});
  command("actionFind", QT_TR_NOOP("&Find"), "search", QKeySequence::Find, [this] {
    if (Page* current = currentPage()) current->find();
  });
  command("actionPreferences", QT_TR_NOOP("&Preferences…"), nullptr,
          QKeySequence(Qt::CTRL | Qt::Key_Comma), [this] {
            auto* dialog = new PreferencesDialog(Theme::instance().isDark(),
                                                 Language::instance().code(), this);
            dialog->setAttribute(Qt::WA_DeleteOnClose);
            connect(dialog, &PreferencesDialog::darkChosen, this, &MainWindow::setDark);
            connect(dialog, &PreferencesDialog::languageChosen, this, &MainWindow::setLanguage);
            dialog->open();
          });
  command("actionAlertRules", QT_TR_NOOP("A&lert rules…"), "warning", {}, [this] {
    workspace_->readAlertSettings();
    auto* dialog = new AlertRulesDialog(*workspace_, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
  });
  command("actionDefaultLayout", QT_TR_NOOP("Restore &default layout"), "layout", {},
          [this] { restoreDefaultLayout(); });
  QAction* dark = command("actionDark", QT_TR_NOOP("Dar&k theme"), "theme",
                          QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_D),
                          [this] { setDark(!Theme::instance().isDark()); });
  dark->setCheckable(true);
  auto* languages = new QActionGroup(this);
  for (auto [name, text, code] : {std::tuple{"actionEnglish", "English", "en"},
                                  {"actionChinese", "中文 (Chinese)", "zh_CN"}}) {
    QAction* action =
        command(name, text, "language", {}, [this, code = code] { setLanguage(code); });
    action->setCheckable(true);
    languages->addAction(action);
  }
}

void MainWindow::makeRunActions() {
  const auto page = [this] { return currentPage(); };
  command("actionConnect", QT_TR_NOOP("&Connect nodes"), "connect",
          QKeySequence(Qt::CTRL | Qt::Key_K), [this, page] {
            if (auto* cluster = qobject_cast<ClusterPage*>(page())) cluster->connectAll();
          });
  command("actionDisconnect", QT_TR_NOOP("&Disconnect nodes"), "disconnect", {}, [this, page] {
    if (auto* cluster = qobject_cast<ClusterPage*>(page())) cluster->disconnectAll();
  });
  command("actionDeploy", QT_TR_NOOP("De&ploy agents…"), "export", {}, [this, page] {
    if (auto* cluster = qobject_cast<ClusterPage*>(page())) cluster->deployAgents();
  });
  command("actionAddHost", QT_TR_NOOP("&Add host…"), "add", QKeySequence(Qt::CTRL | Qt::Key_H),
          [this, page] {
            if (auto* cluster = qobject_cast<ClusterPage*>(page())) cluster->addHost();
          });
  command("actionLaunch", QT_TR_NOOP("&Launch…"), "play", QKeySequence(Qt::CTRL | Qt::Key_R),
          [this, page] {
            openLaunch(qobject_cast<ModelPage*>(page()), qobject_cast<ClusterPage*>(page()));
          });
  command("actionCheckpoint", QT_TR_NOOP("&Take a checkpoint"), "save", {}, [this, page] {
    if (auto* run = qobject_cast<RunPage*>(page()))
      run->document()->ask(app::RunRequest::kCheckpoint);
  });
  command("actionStop", QT_TR_NOOP("&Stop run"), "stop", {}, [this, page] {
    if (auto* run = qobject_cast<RunPage*>(page())) run->document()->stop();
  });
  command("actionKill", QT_TR_NOOP("&Kill run"), "kill", {}, [this, page] {
    if (auto* run = qobject_cast<RunPage*>(page())) run->document()->ask(app::RunRequest::kKill);
  });
  command("actionFaster", QT_TR_NOOP("&Faster strategy…"), "faster", {},
          [this] { relaunch(shownRun(), app::RelaunchKind::kFaster); });
  command("actionResume", QT_TR_NOOP("&Resume run…"), "play", {},
          [this] { relaunch(shownRun(), app::RelaunchKind::kResume); });
  command("actionRerun", QT_TR_NOOP("R&erun…"), "refresh", {},
          [this] { relaunch(shownRun(), app::RelaunchKind::kRerun); });
  command("actionClone", QT_TR_NOOP("&Clone as new model…"), "copy", {},
          [this] { clone(shownRun()); });
  command("actionReport", QT_TR_NOOP("E&xport report…"), "export", {}, [this] { exportReport(); });
}

void MainWindow::makeToolActions() {
  command("actionVerify", QT_TR_NOOP("&Verify the strategy…"), "ok", {}, [this] {
    openCommand(
        [] {
          return CommandDialog::Texts{
              tr("Verify the strategy"),
              tr("Checks on this machine that the strategy computes on several ranks what one rank "
                 "computes. Unsaved changes of the model are saved first.")};
        },
        "verify %1 --ranks 2");
  });
  command("actionSimulate", QT_TR_NOOP("&Simulate a step…"), "step-forward", {}, [this] {
    openCommand(
        [] {
          return CommandDialog::Texts{
              tr("Simulate a step"),
              tr("Plans the model for several nodes, and shows when each rank does what in a step. "
                 "Unsaved changes of the model are saved first.")};
        },
        "simulate %1 --local 2");
  });
  command("actionBench", QT_TR_NOOP("&Benchmark this machine…"), "chart", {}, [this] {
    openCommand(
        [] {
          return CommandDialog::Texts{
              tr("Benchmark this machine"),
              tr("Trains the model for some seconds on this machine, and measures the samples per "
                 "second. Unsaved changes of the model are saved first.")};
        },
        "bench train --model %1 --ranks 2");
  });
  command("actionDoctor", QT_TR_NOOP("&Check this machine…"), "node", {}, [this] {
    openCommand(
        [] {
          return CommandDialog::Texts{tr("Check this machine"),
                                      tr("Looks at what Lockstep needs here, and tries it.")};
        },
        "doctor");
  });
  command("actionPictures", QT_TR_NOOP("&Pictures to a data set…"), "table", {}, [this] {
    auto* dialog = new PicturesDialog(commandGlobals(), this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
  });
}

// `command`: %1 is the model shown, or an example.
void MainWindow::openCommand(std::function<CommandDialog::Texts()> texts, QString command) {
  QPointer<ModelPage> model;
  if (command.contains("%1")) {
    model = qobject_cast<ModelPage*>(currentPage());
    if (model && model->filePath().isEmpty()) model.clear();
    command =
        command.arg(model ? CommandDialog::quoted(model->filePath()) : QString("fashion-mlp"));
  }
  auto* dialog = new CommandDialog(
      std::move(texts), "lockstep " + command, commandGlobals(),
      [model] { return !model || !model->isModified() || model->save(); }, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->open();
}

QStringList MainWindow::commandGlobals() const {
  return {"--home", QString::fromStdString(workspace_->home().root)};
}

void MainWindow::makeWindowActions() {
  command("actionHistory", QT_TR_NOOP("&History"), "history",
          QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_H), [this] { openHistory(); });
  command("actionLearn", QT_TR_NOOP("&Learn"), "learn",
          QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_E), [this] { openLearn(); });
  command("actionWelcome", QT_TR_NOOP("&Welcome"), "home", {}, [this] { openWelcome(); });
  command("actionRunHere", QT_TR_NOOP("Run the exa&mple on this machine"), "play", {},
          [this] { openReady("fashion-cnn", "local-3"); });
  command("actionBack", QT_TR_NOOP("&Back"), nullptr, QKeySequence(Qt::ALT | Qt::Key_Left),
          [this] { goBack(1); });
  command("actionForward", QT_TR_NOOP("&Forward"), nullptr, QKeySequence(Qt::ALT | Qt::Key_Right),
          [this] { goBack(-1); });
  command("actionCopyLink", QT_TR_NOOP("Copy &link to this place"), "copy",
          QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_L), [this] { copyLink(); });
  command("actionOpenLink", QT_TR_NOOP("Open lin&k…"), nullptr, {}, [this] { askLink(); });
  command("actionPalette", QT_TR_NOOP("Command &palette…"), "command",
          QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P),
          [this] { palette_->popUp(allActions()); });
  command("actionNextTab", QT_TR_NOOP("Next &tab"), nullptr,
          QKeySequence(Qt::CTRL | Qt::Key_PageDown), [this] {
            if (tabs_->count() > 0)
              tabs_->setCurrentIndex((tabs_->currentIndex() + 1) % tabs_->count());
          });
  command("actionPreviousTab", QT_TR_NOOP("Pre&vious tab"), nullptr,
          QKeySequence(Qt::CTRL | Qt::Key_PageUp), [this] {
            const int count = tabs_->count();
            if (count > 0) tabs_->setCurrentIndex((tabs_->currentIndex() + count - 1) % count);
          });
  command("actionShortcuts", QT_TR_NOOP("&Keyboard shortcuts…"), "key", QKeySequence(Qt::Key_F1),
          [this] {
            auto* dialog = new ShortcutsDialog(allActions(), this);
            dialog->setAttribute(Qt::WA_DeleteOnClose);
            dialog->open();
          });
  command("actionAbout", QT_TR_NOOP("&About Lockstep"), "info", {}, [this] {
    auto* about = new AboutDialog(this);
    about->setAttribute(Qt::WA_DeleteOnClose);
    about->open();
  });
}

void MainWindow::makeMenus() {
  const auto menu = [this](const char* name, const QStringList& entries) {
    auto* out = menuBar()->addMenu(QString());
    out->setObjectName(name);
    for (const QString& entry : entries) {
      if (entry == "-") {
        out->addSeparator();
      } else {
        out->addAction(actions_[entry]);
      }
    }
    menus_ << out;
    return out;
  };
  QMenu* file =
      menu("menuFile", {"actionNewModel", "actionNewCluster", "actionNewRun", "actionOpen"});
  recentMenu_ = file->addMenu(QString());
  recentMenu_->setObjectName("menuRecent");
  connect(recentMenu_, &QMenu::aboutToShow, this, &MainWindow::fillRecent);
  for (const char* entry : {"actionOpenLink", "actionImport", "-", "actionSave", "actionSaveAs",
                            "actionCloseTab", "-", "actionQuit"}) {
    if (*entry == '-') {
      file->addSeparator();
    } else {
      file->addAction(actions_[entry]);
    }
  }
  menu("menuEdit", {"actionUndo", "actionRedo", "-", "actionFind", "-", "actionAlertRules",
                    "actionPreferences"});
  QMenu* view = menu("menuView", {"actionPalette", "actionNextTab", "actionPreviousTab", "-",
                                  "actionBack", "actionForward", "actionCopyLink", "-"});
  for (QDockWidget* dock : {navigatorDock_, inspectorDock_, messageDock_}) {
    QAction* toggle = dock->toggleViewAction();
    toggle->setObjectName("toggle_" + dock->objectName());
    view->addAction(toggle);
  }
  view->addAction(actions_["actionDefaultLayout"]);
  view->addSeparator();
  view->addAction(actions_["actionDark"]);
  QMenu* language = view->addMenu(QString());
  language->setObjectName("menuLanguage");
  language->addAction(actions_["actionEnglish"]);
  language->addAction(actions_["actionChinese"]);
  menu("menuCluster", {"actionAddHost", "actionConnect", "actionDeploy", "actionDisconnect"});
  menu("menuRun", {"actionLaunch", "actionRunHere", "-", "actionCheckpoint", "actionFaster",
                   "actionStop", "actionKill", "-", "actionResume", "actionRerun", "actionClone",
                   "-", "actionReport", "actionHistory"});
  menu("menuTools",
       {"actionVerify", "actionSimulate", "actionBench", "actionDoctor", "actionPictures"});
  menu("menuHelp", {"actionLearn", "-", "actionWelcome", "actionShortcuts", "actionAbout"});
  menus_ << recentMenu_ << language;

  toolBar_ = addToolBar(QString());
  toolBar_->setObjectName("toolBar");
  toolBar_->setMovable(false);
  for (const char* entry : {"actionOpen", "actionSave", "-", "actionUndo", "actionRedo", "-",
                            "actionLaunch", "actionHistory", "actionLearn"}) {
    if (*entry == '-') {
      toolBar_->addSeparator();
    } else {
      toolBar_->addAction(actions_[entry]);
    }
  }
  auto* gap = new QWidget(this);
  gap->setObjectName("toolBarGap");
  gap->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  toolBar_->addWidget(gap);
  toolBar_->addAction(actions_["actionPalette"]);
  toolBar_->addAction(actions_["actionDark"]);
}

void MainWindow::refreshActions() {
  Page* page = currentPage();
  auto* cluster = qobject_cast<ClusterPage*>(page);
  auto* run = qobject_cast<RunPage*>(page);
  actions_["actionSave"]->setEnabled(page && page->isModified());
  actions_["actionSaveAs"]->setEnabled(page && !page->filePath().isEmpty());
  actions_["actionFind"]->setEnabled(page && page->canFind());
  actions_["actionUndo"]->setEnabled(undo_->canUndo());
  actions_["actionRedo"]->setEnabled(undo_->canRedo());
  actions_["actionConnect"]->setEnabled(cluster);
  actions_["actionDisconnect"]->setEnabled(cluster && cluster->liveIfAny());
  actions_["actionDeploy"]->setEnabled(cluster && cluster->canDeploy());
  actions_["actionAddHost"]->setEnabled(cluster);
  actions_["actionCheckpoint"]->setEnabled(run && run->document()->canStop());
  actions_["actionStop"]->setEnabled(run && run->document()->canStop());
  actions_["actionKill"]->setEnabled(run && run->document()->canKill());
  auto* history = qobject_cast<HistoryPage*>(page);
  const bool again = run ? run->document()->canRelaunch() : history && history->canRelaunch();
  const bool resume = run ? run->document()->canResume() : again;
  actions_["actionFaster"]->setEnabled(run ? run->document()->canAdvise()
                                           : history && history->canAdvise());
  actions_["actionResume"]->setEnabled(resume);
  actions_["actionRerun"]->setEnabled(again);
  actions_["actionClone"]->setEnabled(again);
  actions_["actionBack"]->setEnabled(placeAt_ > 0);
  actions_["actionForward"]->setEnabled(placeAt_ + 1 < places_.size());
  actions_["actionCopyLink"]->setEnabled(page && !linkOf(page->place()).isEmpty());
  actions_["actionReport"]->setEnabled(!shownRun().isEmpty() ||
                                       (history && !history->selectedRuns().isEmpty()));
  actions_["actionDark"]->setChecked(Theme::instance().isDark());
  actions_["actionEnglish"]->setChecked(Language::instance().code() == "en");
  actions_["actionChinese"]->setChecked(Language::instance().code() == "zh_CN");
}

QString MainWindow::shownRun() const {
  if (auto* run = qobject_cast<RunPage*>(currentPage())) return run->document()->run();
  auto* history = qobject_cast<HistoryPage*>(currentPage());
  return history ? history->selectedRun() : QString();
}

void MainWindow::copyLink() {
  Page* page = currentPage();
  if (!page) return;
  const QString link = linkOf(page->place());
  if (link.isEmpty()) return;
  QApplication::clipboard()->setText(link);
  page->message()->showNote(Tone::kGood, [link] {
    return MessagePanel::Note{
        tr("The link was copied."),
        tr("Open it with File → Open link, or `lockstep open '%1'`.").arg(link),
        {}};
  });
}

void MainWindow::askLink() {
  auto* dialog = new QInputDialog(this);
  dialog->setObjectName("linkDialog");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setWindowTitle(tr("Open link"));
  dialog->setLabelText(tr("A link that was copied here or in another studio:"));
  const QString copied = QApplication::clipboard()->text();
  if (placeOf(copied)) dialog->setTextValue(copied.trimmed());
  connect(dialog, &QInputDialog::textValueSelected, this, &MainWindow::openLink);
  dialog->open();
}

void MainWindow::fillRecent() {
  recentMenu_->clear();
  for (const QString& path : workspace_->settings().recentFiles()) {
    QAction* action = recentMenu_->addAction(QFileInfo(path).fileName().replace('&', "&&"));
    action->setToolTip(path);
    connect(action, &QAction::triggered, this, [this, path] { openFile(path); });
  }
  if (recentMenu_->isEmpty()) recentMenu_->addAction(tr("Nothing yet"))->setEnabled(false);
}

void MainWindow::askOpen() {
  auto* dialog =
      new QFileDialog(this, tr("Open"), QString(), tr("Specs (*.yaml *.yml);;All files (*)"));
  dialog->setObjectName("openFileDialog");
  dialog->setFileMode(QFileDialog::ExistingFiles);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::filesSelected, this, [this](const QStringList& paths) {
    for (const QString& path : paths) openFile(path);
  });
  dialog->open();
}

void MainWindow::askImport() {
  auto* dialog =
      new QFileDialog(this, tr("Import a hostfile or TF_CONFIG"), QString(), tr("All files (*)"));
  dialog->setObjectName("importDialog");
  dialog->setFileMode(QFileDialog::ExistingFile);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, this, &MainWindow::importCluster);
  dialog->open();
}

void MainWindow::importCluster(const QString& path) {
  const auto text = readFile(path.toStdString(), kMostImported);
  const auto yaml =
      text.ok() ? app::importCluster(*text, QFileInfo(path).completeBaseName().toStdString())
                : text;
  if (!yaml) {
    if (Page* page = currentPage()) page->message()->showError(yaml.error());
    return;
  }
  ClusterPage* cluster = newCluster();
  if (!cluster) return;
  cluster->document()->type(QString::fromStdString(*yaml));
  const QString command =
      QString::fromStdString(shellLine({"lockstep", "cluster", "import", path.toStdString()}));
  cluster->message()->showNote(Tone::kGood, [command] {
    return MessagePanel::Note{
        tr("The cluster was imported."), tr("In a terminal: %1").arg(command), {}};
  });
}

void MainWindow::askSaveAs() {
  auto* page = qobject_cast<SpecPage*>(currentPage());
  if (!page) return;
  auto* dialog = new QFileDialog(this, tr("Save as"), page->filePath(), tr("Specs (*.yaml)"));
  dialog->setObjectName("saveAsDialog");
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix("yaml");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, page,
          [this, page](const QString& path) { saveAs(page, path); });
  dialog->open();
}

QList<QAction*> MainWindow::allActions() const {
  QList<QAction*> out;
  for (QMenu* menu : menus_) {
    for (QAction* action : menu->actions()) {
      if (!action->isSeparator() && !action->menu() && action->objectName() != "actionPalette" &&
          !out.contains(action))
        out << action;
    }
  }
  return out;
}

void MainWindow::setDark(bool dark) {
  workspace_->settings().setDark(dark);
  Theme::instance().apply(dark ? Theme::Mode::kDark : Theme::Mode::kLight);
}

void MainWindow::setLanguage(const QString& code) {
  workspace_->settings().setLanguage(code);
  Language::instance().set(code);
}

void MainWindow::restyle() {
  for (auto it = commands_.begin(); it != commands_.end(); ++it) {
    if (it.value().icon) it.key()->setIcon(Theme::instance().icon(it.value().icon));
  }
  refreshActions();
}

void MainWindow::retranslate() {
  for (auto it = commands_.begin(); it != commands_.end(); ++it)
    it.key()->setText(tr(it.value().text));
  const QStringList titles{tr("&File"),    tr("&Edit"),        tr("&View"),
                           tr("&Cluster"), tr("&Run"),         tr("&Tools"),
                           tr("&Help"),    tr("Op&en recent"), tr("Lan&guage")};
  for (int i = 0; i < menus_.size(); ++i) menus_[i]->setTitle(titles[i]);
  navigatorDock_->setWindowTitle(tr("Navigator"));
  inspectorDock_->setWindowTitle(tr("Inspector"));
  messageDock_->setWindowTitle(tr("Messages"));
  toolBar_->setWindowTitle(tr("Tools"));
  navigator_->setAccessibleName(tr("Navigator"));
  inspector_->setAccessibleName(tr("Inspector"));
  alerts_->setAccessibleName(tr("Messages"));
  tabs_->setAccessibleName(tr("Documents"));
  jobBar_->setAccessibleName(tr("Progress"));
  setTexts(jobCancel_, tr("Cancel"));
  statusBar()->setAccessibleName(tr("Status"));
  navigatorModel_->retranslate();
  alertModel_->retranslate();
  restyle();
  refreshNavigator();
  refreshTitles();
  refreshJobs();
  showStatus();
}

}  // namespace lockstep::ui
