// A new user's path, by mouse and keys: two hosts from ~/.ssh/config, connect and deploy, an
// example, launch, which node is slow and why, the comparison with an earlier run, a figure. Clicks
// and keys outside text fields are counted.
#include "tests/ui/studio_road.h"

#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mount.h>
#include <QAbstractItemView>
#include <QFileDialog>

#include "ui/plots/custom_plot.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/timeline_view.h"

using namespace lockstep;

namespace {

constexpr int kMostClicks = 25;

// Gives this account another home folder, for this process and those that it starts: ssh and sshd
// look for it in /etc/passwd, not in HOME. Before there are threads. False: it is not possible
// here.
bool moveHome(const std::string& home, const std::string& passwdCopy) {
  ::setenv("HOME", home.c_str(), 1);
  const auto uid = std::to_string(::getuid()), gid = std::to_string(::getgid());
  std::string text;
  for (const QString& line : QString::fromStdString(test::readText("/etc/passwd")).split('\n')) {
    QStringList fields = line.split(':');
    if (fields.size() == 7 && fields[2].toStdString() == uid)
      fields[5] = QString::fromStdString(home);
    text += fields.join(':').toStdString() + "\n";
  }
  test::writeText(passwdCopy, text);
  const bool isRoot = ::getuid() == 0;
  if (::unshare(CLONE_NEWNS | (isRoot ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (!isRoot) {
    const auto put = [](const char* path, const std::string& line) {
      const int fd = ::open(path, O_WRONLY);
      const bool ok = fd >= 0 && ::write(fd, line.data(), line.size()) > 0;
      if (fd >= 0) ::close(fd);
      return ok;
    };
    if (!put("/proc/self/setgroups", "deny") ||
        !put("/proc/self/uid_map", uid + " " + uid + " 1") ||
        !put("/proc/self/gid_map", gid + " " + gid + " 1"))
      return false;
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount(passwdCopy.c_str(), "/etc/passwd", nullptr, MS_BIND, nullptr) != 0)
    return false;
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr && entry->pw_dir == home;
}

// Counts what it does, and fails with the first click or key too many.
class Person : public QObject {
  Q_OBJECT

 public:
  const QStringList& path() const { return path_; }

  void click(QWidget* widget) {
    QVERIFY(widget);
    clickAt(widget, widget->rect().center(), {});
  }
  void clickAt(QWidget* widget, QPoint at, const QString& what,
               Qt::KeyboardModifiers modifiers = {}, Qt::MouseButton button = Qt::LeftButton) {
    QVERIFY2(widget->isVisible() && widget->isEnabled(), qPrintable(widget->objectName()));
    QVERIFY2(!widget->visibleRegion().isEmpty(), qPrintable(widget->objectName()));
    count(QString("click %1%2")
              .arg(button == Qt::RightButton ? "right on " : "",
                   what.isEmpty() ? nameOf(widget) : what));
    QTest::mouseClick(widget, button, modifiers, at);
    if (button != Qt::RightButton) return;
    QContextMenuEvent menu(QContextMenuEvent::Mouse, at, widget->mapToGlobal(at));  // by a desktop
    QApplication::sendEvent(widget, &menu);
  }
  void item(QAbstractItemView* view, const QModelIndex& index,
            Qt::KeyboardModifiers modifiers = {}) {
    QVERIFY(view && index.isValid());
    view->scrollTo(index);
    clickAt(view->viewport(), view->visualRect(index).center(),
            QString("%1: %2").arg(nameOf(view), index.data().toString()), modifiers);
  }
  void tab(QTabWidget* tabs, const QString& text) {
    for (int i = 0; i < tabs->count(); ++i)
      if (tabs->tabText(i) == text)
        return clickAt(tabs->tabBar(), tabs->tabBar()->tabRect(i).center(), "tab " + text);
    QFAIL(qPrintable(text));
  }
  void entry(QMenu* menu, QAction* action) {
    QVERIFY(menu && action && tests::wait([&] { return menu->isVisible(); }));
    clickAt(menu, menu->actionGeometry(action).center(), action->text().remove('&'));
  }
  // Of a menu of the window.
  void command(QMainWindow* window, const char* menuName, const char* actionName) {
    auto* menu = window->findChild<QMenu*>(menuName);
    QVERIFY(menu);
    clickAt(window->menuBar(), window->menuBar()->actionGeometry(menu->menuAction()).center(),
            menu->title().remove('&'));
    entry(menu, window->findChild<QAction*>(actionName));
  }
  // Where the keyboard is.
  void key(Qt::Key key) {
    QWidget* widget = QApplication::focusWidget();
    QVERIFY(widget);
    count(QString("key %1 in %2").arg(QKeySequence(key).toString(), nameOf(widget)));
    QTest::keyClick(widget, key);
  }
  // Into the text field where the keyboard is: the only keys that do not count.
  void type(const QString& text) {
    QWidget* field = QApplication::focusWidget();
    QVERIFY(qobject_cast<QLineEdit*>(field));
    QTest::keyClicks(field, text);
  }

 private:
  static QString nameOf(const QWidget* widget) {
    if (auto* button = qobject_cast<const QAbstractButton*>(widget);
        button && !button->text().isEmpty())
      return button->text().remove('&');
    return widget->accessibleName().isEmpty() ? widget->objectName() : widget->accessibleName();
  }
  void count(const QString& what) {
    path_ << what;
    QVERIFY2(path_.size() <= kMostClicks, "the path takes too many clicks and keys");
  }

  QStringList path_;
};

}  // namespace

class StudioPathTest : public QObject {
  Q_OBJECT

 public:
  StudioPathTest() {
    home_ = folder_ / "home";
    QDir().mkpath(QString::fromStdString(home_ + "/.ssh"));
    const QFileInfo bundle(qEnvironmentVariable("LOCKSTEP_BIN") + "/../bundle");
    if (bundle.exists())  // this program's own path is not told among other mounts
      qputenv("LOCKSTEP_BUNDLE", bundle.canonicalFilePath().toLocal8Bit());
    readsOwnConfig_ = moveHome(home_, folder_ / "passwd");
  }

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void init() {
    studio_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(studio_->home());
    const std::string ssh = home_ + "/.ssh/";
    test::makeKey(ssh + "id_ed25519");
    std::vector<const test::Sshd*> list;
    for (int i = 1; i <= 2; ++i) {
      const std::string own = folder_ / ("s" + std::to_string(i));
      QVERIFY(QDir().mkpath(QString::fromStdString(own + "/home")));
      test::SshdOptions options;  // a home folder of its own, as on another machine
      options.extraConfig = "SetEnv SHLVL=1 HOME=" + own + "/home";
      std::string why;
      servers_.push_back(test::Sshd::start(own, ssh + "id_ed25519", options, &why));
      if (!servers_.back()) QSKIP(why.c_str());
      list.push_back(servers_.back().get());
    }
    test::writeText(ssh + "config",
                    test::sshConfigFor(list, ssh + "known_hosts", ssh + "id_ed25519"), 0600);
  }
  void cleanup() {
    if (!road_) return;
    brake_.reset();
    if (page_ && page_->document()->canKill()) {
      page_->document()->ask(app::RunRequest::kKill);
      (void)tests::wait([&] { return app::isFinal(page_->document()->row().phase); });
    }
    road_->close();
    road_->endAgents();
    road_.reset();
    studio_.reset();
    for (int i = 0; i < person_.path().size(); ++i)
      qInfo("%2d  %s", i + 1, qPrintable(person_.path()[i]));
  }

  void aNewUsersPath() {
    studio_->addRun(0, app::RunState::SUCCEEDED, 900);  // yesterday's
    road_->open(readsOwnConfig_ ? QString() : QString::fromStdString(home_ + "/.ssh/config"));
    road_->window()->resize(1280, 800);
    QVERIFY(QTest::qWaitForWindowActive(road_->window()));
    for (const auto step : {&StudioPathTest::addsTwoHosts, &StudioPathTest::deploys,
                            &StudioPathTest::launchesAnExample, &StudioPathTest::findsTheSlowNode,
                            &StudioPathTest::seesWhy, &StudioPathTest::comparesWithYesterday,
                            &StudioPathTest::exportsAFigure}) {
      (this->*step)();
      if (QTest::currentTestFailed()) return;
    }
  }

 private:
  template <typename T = QPushButton>
  T* visible(const QString& name) {
    for (QWidget* top : QApplication::topLevelWidgets())
      for (T* one : top->findChildren<T*>(name))
        if (one->isVisible()) return one;
    return nullptr;
  }
  template <typename T = QPushButton>
  T* await(const QString& name) {
    (void)tests::wait([&] { return visible<T>(name) != nullptr; });
    return visible<T>(name);
  }

  void addsTwoHosts() {
    person_.click(await("newClusterButton"));
    cluster_ = qobject_cast<ui::ClusterPage*>(road_->window()->currentPage());
    QVERIFY(cluster_);
    for (int i = 1; i <= 2; ++i) {
      person_.click(visible("addHostButton"));
      QPointer<QComboBox> host = await<QComboBox>("addHostHost");
      QVERIFY(host && tests::wait([&] { return host->hasFocus(); }));
      person_.key(Qt::Key_Down);
      QCOMPARE(host->currentText(), QString("n%1").arg(i));
      person_.key(Qt::Key_Return);
      QVERIFY(tests::wait([&] { return !host && cluster_->nodes()->rowCount() == i; }));
    }
  }

  void deploys() {
    person_.click(visible("connectButton"));
    for (int i = 1; i <= 2; ++i) {
      QPointer<QPushButton> accept = await("hostKeyDialogAccept");
      QVERIFY(accept);
      person_.click(accept);
      QVERIFY(tests::wait([&] { return !accept || !accept->isVisible(); }));
    }
    QVERIFY2(tests::wait([&] { return cluster_->connectedCount() == 2; }),
             qPrintable(cluster_->message()->details()));
    for (int n = 0; n < 2; ++n)
      road_->sawAgent(cluster_->liveIfAny()->session().status(n).inventory.agentPid);
  }

  void launchesAnExample() {
    person_.command(road_->window(), "menuHelp", "actionWelcome");
    auto* examples = visible<QListView>("exampleList");
    QVERIFY(examples);
    QModelIndex example;
    for (int row = 0; row < examples->model()->rowCount(); ++row)
      if (examples->model()->index(row, 0).data().toString() == "fashion-cnn")
        example = examples->model()->index(row, 0);
    person_.item(examples, example);
    auto* launch = await("modelLaunchButton");
    QVERIFY(launch);
    person_.click(launch);
    auto* dialog = await<ui::LaunchDialog>("launchDialog");
    QVERIFY(dialog);
    auto* accept = visible("launchDialogAccept");
    QVERIFY(tests::wait([&] { return dialog->ready() && accept->isEnabled(); }));
    person_.click(accept);
    QVERIFY(tests::wait([&] {
      page_ = qobject_cast<ui::RunPage*>(road_->window()->currentPage());
      return page_ && page_->document()->lastStep() > 20;
    }));
    QCOMPARE(static_cast<int>(page_->document()->row().world), 2);
  }

  // Rank 1 is stopped in turns. Which one it is, and what it costs, is said without a click.
  void findsTheSlowNode() {
    const int pid = road_->workerOf(1, page_->document()->run());
    QVERIFY(pid > 0);
    brake_ = std::make_unique<tests::Bursts>(pid);
    const auto& named = page_->document()->slow();
    QVERIFY(tests::wait([&] { return named && named->rank == 1; }));
    auto* who = visible<QLabel>("stragglerWho");
    auto* evidence = visible<QLabel>("stragglerEvidence");
    QVERIFY(who && evidence);
    QVERIFY2(
        tests::wait([&] { return who->text().contains("Rank 1 ") && who->text().contains("n2"); }),
        qPrintable(who->text()));
    QVERIFY2(tests::wait([&] { return evidence->text().contains("Its process was suspended"); }),
             qPrintable(evidence->text()));
    QVERIFY2(evidence->text().contains("a step would"), qPrintable(evidence->text()));
  }

  // The spans of one of its late steps, and its figures beside those of its peers.
  void seesWhy() {
    auto* tabs = page_->findChild<QTabWidget*>("runTabs");
    person_.tab(tabs, "Stragglers");
    auto* costs = page_->findChild<QTableView*>("costTable");
    QVERIFY(costs && tests::wait([&] {
              return costs->isVisible() &&
                     costs->model()->index(0, 0).data().toString() == "rank 1";
            }));
    QCOMPARE(costs->model()->index(0, 1).data().toString(), "n2");
    if (costs->currentIndex().row() != 0)  // another one was costlier before
      person_.item(costs, costs->model()->index(0, 0));
    auto* peers = page_->findChild<QTableView*>("peerTable");
    QVERIFY(tests::wait([&] { return peers->model()->rowCount() > 0; }));
    auto* find = visible<QToolButton>("costFind");
    QVERIFY(find && tests::wait([&] { return find->isEnabled(); }));
    person_.click(find);
    const auto* map = page_->findChild<ui::HeatMapView*>();
    QVERIFY(map && tests::wait([&] { return map->isVisible() && map->chosenRank() == 1; }));
    const auto* timeline = page_->findChild<ui::TimelineView*>("timeline");
    QVERIFY(timeline && tests::wait([&] { return timeline->measured() != nullptr; }));
    QCOMPARE(page_->place().rank, 1);
  }

  void comparesWithYesterday() {
    auto* toolBar = road_->window()->findChild<QToolBar*>("toolBar");
    person_.click(toolBar->widgetForAction(road_->window()->findChild<QAction*>("actionHistory")));
    history_ = qobject_cast<ui::HistoryPage*>(road_->window()->currentPage());
    QVERIFY(history_ && tests::wait([&] { return history_->runs()->rowCount() == 2; }));
    auto* table = history_->findChild<QTableView*>("runTable");
    person_.item(table, table->model()->index(0, 0));
    person_.item(table, table->model()->index(1, 0), Qt::ControlModifier);
    QCOMPARE(history_->selectedRuns().size(), 2);
    QVERIFY(tests::wait([&] { return history_->overlay()->sampleCount() > 900; }));
  }

  void exportsAFigure() {
    auto* plot = history_->overlay()->findChild<QCustomPlot*>();
    person_.clickAt(plot, plot->axisRect()->center(), "the overlay", {}, Qt::RightButton);
    auto* menu = await<QMenu>("plotMenu");
    QVERIFY(menu);
    person_.entry(menu, menu->findChild<QAction*>("plotMenuSave"));
    auto* dialog = await<QFileDialog>("savePictureDialog");
    QVERIFY(dialog);
    auto* name = dialog->findChild<QLineEdit*>();
    QVERIFY(tests::wait([&] { return name->hasFocus(); }));
    const QString path = road_->path("figure.png");
    person_.type(path);
    person_.click(dialog->findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Save));
    QVERIFY(tests::wait([&] { return !QImage(path).isNull(); }));
  }

  test::TempFolder folder_;
  std::string home_;
  bool readsOwnConfig_ = false;  // ~/.ssh/config, as without an option
  std::vector<std::unique_ptr<test::Sshd>> servers_;
  std::unique_ptr<tests::StudioHome> studio_;
  std::unique_ptr<tests::StudioRoad> road_;
  ui::ClusterPage* cluster_ = nullptr;
  QPointer<ui::RunPage> page_;
  ui::HistoryPage* history_ = nullptr;
  std::unique_ptr<tests::Bursts> brake_;
  Person person_;
};

int main(int argc, char** argv) {
  StudioPathTest test;
  QApplication app(argc, argv);
  return QTest::qExec(&test, argc, argv);
}
#include "studio_path_test.moc"
