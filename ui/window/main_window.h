// MainWindow: navigator left, documents in the centre, inspector right, messages at the bottom.
// Every command is a QAction with an object name, found in the menus and in the command palette.
#pragma once

#include <QMainWindow>
#include <QPointer>
#include <QTimer>
#include <memory>

#include "app/learn/lesson.h"
#include "app/runs/relaunch.h"
#include "ui/dialogs/command_dialog.h"
#include "ui/pages/page.h"
#include "ui/studio/workspace.h"
#include "ui/theme/theme.h"

class QDockWidget;
class QLabel;
class QProgressBar;
class QSystemTrayIcon;
class QTabWidget;
class QTableView;
class QToolButton;
class QTreeView;
class QUndoGroup;

namespace lockstep::ui {

class AlertModel;
class ClusterPage;
class CommandPalette;
class HistoryPage;
class InspectorModel;
class LaunchDialog;
class LearnPage;
struct LaunchModel;
struct LaunchTarget;
class ModelPage;
class NavigatorModel;
class NewModelDialog;
class QuestionQueue;
class RunPage;
class SpecDocument;
class SpecPage;
class WelcomePage;

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(StudioOptions options);
  ~MainWindow() override;

  Workspace& workspace() { return *workspace_; }
  Page* currentPage() const;
  QList<Page*> pages() const;
  // Opens or shows a document; returns null, with a message, if it cannot be opened. `key` is
  // Page::key(): "history", "run:<id>", "cluster:<path>".
  Page* openPage(const QString& key);
  Page* openFile(const QString& path);
  RunPage* openRun(const QString& run);
  HistoryPage* openHistory();
  WelcomePage* openWelcome();
  LearnPage* openLearn();
  // Opens the launch dialog for what the lesson runs for real, on local agents.
  void runLesson(const app::Lesson& lesson);
  ClusterPage* newCluster();
  NewModelDialog* newModel();  // asks for its kind; the file it makes is opened
  // Opens the launch dialog for a model page (null: the current or last one, else any) and a
  // cluster page (null: the current or last one, or this machine). Both can be changed in the
  // dialog.
  LaunchDialog* openLaunch(ModelPage* model, ClusterPage* cluster);
  // Opens the launch dialog for a run of the history, with its spec and cluster, from the start or
  // its last checkpoint. Asynchronous. For a faster strategy also of a run under way, whose page is
  // opened.
  void relaunch(const QString& run, app::RelaunchKind kind);
  // Opens a run's spec as a new unsaved model, and the launch dialog for it. Asynchronous.
  void clone(const QString& run);
  void exportReport();  // of the runs that are shown or selected; asks where to
  // Opens the launch dialog for files, or for examples by name (opens a copy in the home folder);
  // "": none. Starts nothing.
  void openReady(const QString& model, const QString& cluster);
  // Opens what a link says (ui/studio/place.h), or says that it is none.
  void openLink(const QString& link);
  void goTo(const Place& place);
  // Restores the documents that were open when the studio ended, and opens all running runs: shows
  // them, or leaves in sight what is shown by then.
  void restoreSession(bool showRuns = true);
  void restoreDefaultLayout();
  // Shrinks and moves a window whose frame does not fit on the screen.
  void fitToScreen();
  // Returns the geometry moved and shrunk so that the window's frame is inside `available`.
  static QRect withinScreen(const QRect& window, const QMargins& frame, const QRect& available);
  void setDark(bool dark);
  void setLanguage(const QString& code);

 protected:
  void closeEvent(QCloseEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool event(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  // `text` and `icon` are literals.
  QAction* command(const char* name, const char* text, const char* icon, const QKeySequence& keys,
                   std::function<void()> call);
  void makeActions();
  void makeFileActions();
  void makeEditActions();
  void makeRunActions();
  void makeToolActions();
  void makeWindowActions();
  void openCommand(std::function<CommandDialog::Texts()> texts, QString command);
  QStringList commandGlobals() const;
  void makeMenus();
  void makeDocks();
  void makeStatusBar();
  void retranslate();
  void restyle();
  void addPage(Page* page);
  void closeTab(int index, bool force = false);
  void currentChanged();
  void activateUndo();
  void refreshTitles();
  void refreshActions();
  void refreshNavigator();  // files, and runs
  void refreshRuns();       // in the background
  void notePlace();         // where the person is now, to go back to
  void goBack(int steps);   // 1, or forward: -1
  void goToNoted(qsizetype place);
  bool isGone(const QString& key) const;  // a file that is there no more, nor unsaved text of it
  void openRuns(const QStringList& runs, bool show);  // else what is shown stays in sight
  void forgetPlaces(const QString& key);
  void copyLink();
  void askLink();
  void arrangeDocks();
  void fitDocks();
  int widthOfOneSide() const;
  int widthForBothSides() const;
  QByteArray dockState() const;
  bool restoreDocks(const QByteArray& state);
  void showStatus();
  void fitInspector();
  void refreshInspector();
  void refreshJobs();
  void cancelJob();
  void rememberSession();
  void fillRecent();
  void raiseAlert(const Alert& alert);
  void resolveAlert(const QString& key, const QDateTime& when);
  void showNotification(const app::AlertEvent& event);
  QString alertFile() const;
  QString recoveryFolder() const;
  void askOpen();
  void askImport();
  void importCluster(const QString& path);
  void askSaveAs();
  void saveAs(SpecPage* page, const QString& path);  // not over the file of another tab
  QList<QAction*> allActions() const;
  QString shownRun() const;  // of a run's page, or chosen in the history; "": none
  // Shows the first open page that is `wanted`; null: there is none.
  Page* showOpen(const std::function<bool(const Page&)>& wanted);
  Page* makeRun(const QString& run);
  Page* makeHistory(const QString&);
  Page* makeWelcome(const QString&);
  Page* makeLearn(const QString&);
  void makeRoom();  // hides the docks while a lesson is on a projector
  void showHiddenDocks();
  ModelPage* addModel(std::unique_ptr<SpecDocument> document);
  LaunchDialog* showLaunch(LaunchDialog* dialog);
  QVector<LaunchModel> launchModels() const;
  QVector<LaunchTarget> launchTargets() const;

  std::unique_ptr<Workspace> workspace_;
  QTabWidget* tabs_ = nullptr;
  QUndoGroup* undo_ = nullptr;
  QDockWidget* navigatorDock_ = nullptr;
  QDockWidget* inspectorDock_ = nullptr;
  QDockWidget* messageDock_ = nullptr;
  QTreeView* navigator_ = nullptr;
  NavigatorModel* navigatorModel_ = nullptr;
  QTableView* inspector_ = nullptr;
  InspectorModel* inspectorModel_ = nullptr;
  QTableView* alerts_ = nullptr;
  AlertModel* alertModel_ = nullptr;
  QToolBar* toolBar_ = nullptr;
  QLabel* statusText_ = nullptr;
  QLabel* jobText_ = nullptr;
  QProgressBar* jobBar_ = nullptr;
  QToolButton* jobCancel_ = nullptr;
  CommandPalette* palette_ = nullptr;
  QuestionQueue* questions_ = nullptr;
  QPointer<LaunchDialog> launch_;
  QPointer<ModelPage> lastModel_;
  QPointer<ClusterPage> lastCluster_;
  QSet<const Page*> closing_;  // asked whether to close without saving
  QHash<QString, QAction*> actions_;
  struct Command {
    const char* text;  // English
    const char* icon;  // null: none
  };
  QHash<QAction*, Command> commands_;
  QMenu* recentMenu_ = nullptr;
  QList<QMenu*> menus_;
  bool restoring_ = true;  // until restoreSession() what was open is not overwritten
  QByteArray defaultState_;
  int navigatorGeneration_ = 0;
  QVector<Place> places_;  // visited, as a browser keeps them
  qsizetype placeAt_ = -1;
  bool going_ = false;               // to a place that is there already
  bool narrow_ = false;              // too small for docks at both sides
  Alert status_;                     // what the status bar tells
  QSystemTrayIcon* tray_ = nullptr;  // once there was something to notify of
  QString notifiedRun_;              // of the last notification
  QList<QDockWidget*> hiddenDocks_;  // by makeRoom()
  QTimer alertSave_;
  std::vector<app::RunRow> runs_;
};

}  // namespace lockstep::ui
