// A new user's path, by mouse: two hosts from ~/.ssh/config, connect, an example, launch, which
// node is slow and why, the comparison with an earlier run, a figure. Clicks and keys outside text
// fields are counted.
#include "tests/ui/studio_road.h"

#include <QFileDialog>

#include "ui/plots/custom_plot.h"
#include "ui/plots/heat_map_view.h"

using namespace lockstep;

namespace {

constexpr int kMostClicks = 25;

class Person : public QObject {
  Q_OBJECT

 public:
  int clicks() const { return clicks_; }

  void click(QWidget* widget, Qt::KeyboardModifiers modifiers = {}) {
    QVERIFY(widget);
    clickAt(widget, widget->rect().center(), modifiers);
  }
  void clickAt(QWidget* widget, QPoint at, Qt::KeyboardModifiers modifiers = {},
               Qt::MouseButton button = Qt::LeftButton) {
    QVERIFY2(widget->isVisible() && widget->isEnabled(), qPrintable(widget->objectName()));
    QVERIFY2(!widget->visibleRegion().isEmpty(), qPrintable(widget->objectName()));
    ++clicks_;
    QTest::mouseClick(widget, button, modifiers, at);
    if (button != Qt::RightButton) return;
    QContextMenuEvent menu(QContextMenuEvent::Mouse, at, widget->mapToGlobal(at));  // by a desktop
    QApplication::sendEvent(widget, &menu);
  }
  void item(QAbstractItemView* view, const QModelIndex& index,
            Qt::KeyboardModifiers modifiers = {}) {
    QVERIFY(view && index.isValid());
    view->scrollTo(index);
    clickAt(view->viewport(), view->visualRect(index).center(), modifiers);
  }
  void choose(QComboBox* box, const QString& text) {
    const int row = box->findText(text);
    QVERIFY2(row >= 0, qPrintable(text));
    clickAt(box, QPoint(box->width() - 10, box->height() / 2));
    QVERIFY(tests::wait([&] { return box->view()->isVisible(); }));
    QTest::qWait(QApplication::doubleClickInterval());  // else the list takes it for the same click
    const QModelIndex index = box->model()->index(row, box->modelColumn());
    QTest::mouseMove(box->view()->viewport(), box->view()->visualRect(index).center());
    box->view()->setCurrentIndex(index);  // under the mouse
    item(box->view(), index);
    QVERIFY(tests::wait([&] { return !box->view()->isVisible(); }));
    QCOMPARE(box->currentText(), text);
  }
  void tab(QTabWidget* tabs, int index) {
    clickAt(tabs->tabBar(), tabs->tabBar()->tabRect(index).center());
  }
  // Of a menu of the window.
  void command(QMainWindow* window, const char* menuName, const char* actionName) {
    auto* menu = window->findChild<QMenu*>(menuName);
    QVERIFY(menu);
    clickAt(window->menuBar(), window->menuBar()->actionGeometry(menu->menuAction()).center());
    QVERIFY(tests::wait([&] { return menu->isVisible(); }));
    clickAt(menu, menu->actionGeometry(window->findChild<QAction*>(actionName)).center());
  }

 private:
  int clicks_ = 0;
};

}  // namespace

class StudioPathTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void init() {
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    test::makeKey(folder_ / "key");
    std::vector<const test::Sshd*> list;
    for (int i = 1; i <= 2; ++i) {
      const std::string own = folder_ / ("s" + std::to_string(i));
      QVERIFY(QDir().mkpath(QString::fromStdString(own)));
      std::string why;
      servers_.push_back(test::Sshd::start(own, folder_ / "key", {}, &why));
      if (!servers_.back()) QSKIP(why.c_str());
      list.push_back(servers_.back().get());
    }
    test::writeText(folder_ / "ssh_config",
                    test::sshConfigFor(list, folder_ / "known_hosts", folder_ / "key"), 0600);
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
    home_.reset();
  }

  void aNewUsersPath() {
    home_->addRun(0, app::RunState::SUCCEEDED, 900);  // yesterday's
    road_->open(QString::fromStdString(folder_ / "ssh_config"));
    road_->window()->resize(1280, 800);
    for (const auto step :
         {&StudioPathTest::connectsTwoHosts, &StudioPathTest::launchesAnExample,
          &StudioPathTest::findsTheSlowNode, &StudioPathTest::comparesAndExports}) {
      (this->*step)();
      if (QTest::currentTestFailed()) return;
      qInfo("%d clicks", person_.clicks());
    }
    QVERIFY2(person_.clicks() <= kMostClicks, qPrintable(QString::number(person_.clicks())));
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
  T* await(const QString& name, int limitMs = 60'000) {
    (void)tests::wait([&] { return visible<T>(name) != nullptr; }, limitMs);
    return visible<T>(name);
  }

  void connectsTwoHosts() {
    person_.click(await("newClusterButton"));
    auto* cluster = qobject_cast<ui::ClusterPage*>(road_->window()->currentPage());
    QVERIFY(cluster);
    for (int i = 1; i <= 2; ++i) {
      person_.click(visible("addHostButton"));
      auto* host = await<QComboBox>("addHostHost");
      QVERIFY(host);
      person_.choose(host, QString("n%1").arg(i));
      // The hosts are one machine: each needs a work folder of its own.
      visible<QLineEdit>("addHostWorkdir")
          ->setText(QString::fromStdString(folder_ / ("w" + std::to_string(i))));
      person_.click(visible("addHostDialogAccept"));
      QCOMPARE(cluster->nodes()->rowCount(), i);
    }
    person_.click(visible("connectButton"));
    for (int i = 1; i <= 2; ++i) {
      QPointer<QPushButton> accept = await("hostKeyDialogAccept");
      QVERIFY(accept);
      person_.click(accept);
      QVERIFY(tests::wait([&] { return !accept || !accept->isVisible(); }));
    }
    QVERIFY2(tests::wait([&] { return cluster->connectedCount() == 2; }, 120'000),
             qPrintable(cluster->message()->details()));
    for (int n = 0; n < 2; ++n)
      road_->sawAgent(cluster->liveIfAny()->session().status(n).inventory.agentPid);
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
    QVERIFY(tests::wait([&] { return dialog->ready() && accept->isEnabled(); }, 120'000));
    person_.click(accept);
    QVERIFY(tests::wait(
        [&] {
          page_ = qobject_cast<ui::RunPage*>(road_->window()->currentPage());
          return page_ && page_->document()->lastStep() > 20;
        },
        120'000));
    QCOMPARE(static_cast<int>(page_->document()->row().world), 2);
  }

  // Rank 1 is stopped in turns.
  void findsTheSlowNode() {
    const auto workers = road_->processes("worker", page_->document()->run());
    QCOMPARE(workers.size(), std::size_t{2});
    brake_ = std::make_unique<QTimer>();
    const int pid = workers[1];
    bool stopped = false;
    connect(brake_.get(), &QTimer::timeout, this, [pid, stopped]() mutable {
      stopped = !stopped;
      ::kill(pid, stopped ? SIGSTOP : SIGCONT);
    });
    connect(brake_.get(), &QObject::destroyed, this, [pid] { ::kill(pid, SIGCONT); });
    brake_->start(200);
    const auto& named = page_->document()->slow();
    QVERIFY(tests::wait([&] { return named && named->rank >= 0; }, 120'000));
    const int slow = named->rank;
    QVERIFY(page_->straggler().contains(QString("n%1").arg(slow + 1)));  // without a click
    // Why: the steps, and the spans of one of them.
    person_.tab(page_->findChild<QTabWidget*>("runTabs"), 3);
    auto* map = page_->findChild<ui::HeatMapView*>();
    QVERIFY(map && tests::wait([&] { return map->isVisible() && map->xRange().span() > 10; }));
    person_.clickAt(map, map->centreOf(slow, static_cast<std::int64_t>(map->xRange().end) - 5));
    QVERIFY(tests::wait([&] { return page_->place().rank == slow; }));
  }

  void comparesAndExports() {
    auto* toolBar = road_->window()->findChild<QToolBar*>("toolBar");
    person_.click(toolBar->widgetForAction(road_->window()->findChild<QAction*>("actionHistory")));
    auto* history = qobject_cast<ui::HistoryPage*>(road_->window()->currentPage());
    QVERIFY(history && tests::wait([&] { return history->runs()->rowCount() == 2; }));
    auto* table = history->findChild<QTableView*>("runTable");
    person_.item(table, table->model()->index(0, 0));
    person_.item(table, table->model()->index(1, 0), Qt::ControlModifier);
    QCOMPARE(history->selectedRuns().size(), 2);
    ui::PlotView* overlay = history->overlay();
    QVERIFY(tests::wait([&] { return overlay->sampleCount() > 900; }));
    auto* plot = overlay->findChild<QCustomPlot*>();
    person_.clickAt(plot, plot->axisRect()->center(), {}, Qt::RightButton);
    auto* menu = await<QMenu>("plotMenu");
    QVERIFY(menu);
    auto* save = menu->findChild<QAction*>("plotMenuSave");
    QVERIFY(save);
    person_.clickAt(menu, menu->actionGeometry(save).center());
    auto* dialog = await<QFileDialog>("savePictureDialog");
    QVERIFY(dialog);
    const QString path = road_->path("figure.png");
    dialog->findChild<QLineEdit*>()->setText(path);  // typed
    person_.click(dialog->findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Save));
    QVERIFY(tests::wait([&] { return QFileInfo(path).size() > 0; }));
    QVERIFY(!QImage(path).isNull());
  }

  test::TempFolder folder_;
  std::vector<std::unique_ptr<test::Sshd>> servers_;
  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
  QPointer<ui::RunPage> page_;
  std::unique_ptr<QTimer> brake_;
  Person person_;
};

QTEST_MAIN(StudioPathTest)
#include "studio_path_test.moc"
