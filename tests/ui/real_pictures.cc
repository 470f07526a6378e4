// Pictures of a real run, for packaging/screenshots: ui_real_pictures FOLDER WIDTHxHEIGHT. The
// studio's own window connects three agents of this machine and launches fashion-cnn on them; one
// rank is stopped in turns. Every page is photographed, in both themes and both languages, while it
// trains; tour-1.png and those after it are a way through the window, from a slow cell to its spans
// and to the log lines of its moment. QT_SCALE_FACTOR=2 for a dense screen.
#include <signal.h>

#include <QApplication>
#include <QTest>
#include <QtWidgets>

#include "app/history/history.h"
#include "app/history/run_store.h"
#include "tests/support/paths.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/timeline_view.h"
#include "ui/studio/place.h"
#include "ui/widgets/widgets.h"
#include "ui/window/main_window.h"

using namespace lockstep;
using namespace lockstep::ui;

namespace {

constexpr int kEpochsSeen = 4;  // of the run's, before its pictures are taken
constexpr int kMinute = 60'000;
constexpr int kSlowRank = 1;

QString folder;
QSize size(1280, 800);

void shoot(QWidget* widget, const QString& name) {
  QThreadPool::globalInstance()->waitForDone(5000);
  QTest::qWait(400);
  widget->grab().save(folder + "/" + name + ".png", "PNG", 0);
}

template <typename T>
T* find(const MainWindow& window) {
  for (Page* page : window.pages()) {
    if (auto* found = qobject_cast<T*>(page)) return found;
  }
  return nullptr;
}

// Stops a process for 60 ms of every 100 ms, until this is deleted.
class Brake : public QObject {
 public:
  explicit Brake(int pid) : pid_(pid) { startTimer(20, Qt::PreciseTimer); }
  ~Brake() override { ::kill(pid_, SIGCONT); }

 protected:
  void timerEvent(QTimerEvent*) override {
    at_ = (at_ + 1) % 5;
    if (at_ == 0) ::kill(pid_, SIGSTOP);
    if (at_ == 3) ::kill(pid_, SIGCONT);
  }

 private:
  const int pid_;
  int at_ = 4;
};

// The worker of a node of this run; 0: there is none.
int workerOf(const QString& run, const QString& node) {
  for (const QString& entry : QDir("/proc").entryList(QDir::Dirs)) {
    const auto text = [&](const char* name) {
      QFile file("/proc/" + entry + "/" + name);
      return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    };
    if (!text("cmdline").split('\0').contains("worker")) continue;
    const QByteArray environment = text("environ");
    if (environment.contains("LOCKSTEP_RUN=" + run.toUtf8()) &&
        QFile::symLinkTarget("/proc/" + entry + "/cwd").contains(node))
      return entry.toInt();
  }
  return 0;
}

// Calls `take` with each theme and language: "light", "dark", "chinese", "chinese-dark".
void inEveryLook(MainWindow& window, const std::function<void(const QString& look)>& take) {
  for (const char* language : {"en", "zh_CN"})
    for (const bool dark : {false, true}) {
      window.setLanguage(language);
      window.setDark(dark);
      QCoreApplication::processEvents();  // every widget has heard of it
      const bool english = language == QByteArray("en");
      take(english ? (dark ? "dark" : "light") : (dark ? "chinese-dark" : "chinese"));
    }
  window.setLanguage("en");
  window.setDark(false);
  QCoreApplication::processEvents();
}

void shootPages(MainWindow& window, RunPage& run, ClusterPage& cluster, ModelPage& model,
                const QString& look) {
  for (const char* part :
       {"overview", "nodes", "logs", "steps", "stragglers", "traffic", "dashboard"}) {
    const bool ofAMoment = part == QByteArray("steps");
    window.goTo({run.key(), part, ofAMoment ? kSlowRank : -1,
                 ofAMoment ? run.document()->lastStep() - 20 : 0});
    QTest::qWait(500);
    shoot(&window, QString("run-%1-%2").arg(part, look));
  }
  window.openFile(cluster.filePath());
  cluster.findChild<QTableView*>("nodeTable")->selectRow(1);
  shoot(&window, "cluster-" + look);
  window.openFile(model.filePath());
  model.selectLayer(0);
  auto* views = model.findChild<QTabWidget*>("modelViews");
  for (const auto& [index, name] : {std::pair{0, "model"}, {1, "model-graph"}, {2, "model-data"}}) {
    views->setCurrentIndex(index);
    QTest::qWait(500);
    shoot(&window, name + ("-" + look));
  }
  views->setCurrentIndex(0);
  HistoryPage* history = window.openHistory();
  history->findChild<QTableView*>("runTable")->selectRow(0);
  QTest::qWait(500);
  shoot(&window, "history-" + look);
  window.openWelcome();
  shoot(&window, "welcome-" + look);
}

// Draws the pointer on a picture of the window; the place is one of its logical pixels.
void drawPointer(QPixmap& picture, QPoint tip) {
  const QPolygonF arrow{
      QList<QPointF>{{0, 0}, {0, 17}, {4, 13}, {7, 20}, {10, 19}, {7, 12}, {12, 12}}};
  QPainter painter(&picture);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.translate(tip);
  painter.setPen(QPen(Qt::white, 1.5));
  painter.setBrush(Qt::black);
  painter.drawPolygon(arrow);
}

// A person's way from "this rank is slow" to why: each picture before a click shows where it goes.
class Tour {
 public:
  explicit Tour(MainWindow& window) : window_(window) {}

  void look() { shoot({}); }
  void click(QWidget* widget, QPoint at) {
    shoot(widget->mapTo(&window_, at));
    QTest::mouseClick(widget, Qt::LeftButton, {}, at);
    QTest::qWait(1500);
  }
  void tab(int index) {
    auto* bar = window_.currentPage()->findChild<QTabWidget*>("runTabs")->tabBar();
    click(bar, bar->tabRect(index).center());
  }

 private:
  void shoot(std::optional<QPoint> pointer) {
    QThreadPool::globalInstance()->waitForDone(5000);
    QTest::qWait(400);
    QPixmap picture = window_.grab();
    if (pointer) drawPointer(picture, *pointer);
    picture.save(QString("%1/tour-%2.png").arg(folder).arg(++taken_), "PNG", 0);
  }

  MainWindow& window_;
  int taken_ = 0;
};

// The last step that the slow rank held up and whose spans are kept; 0: none.
std::int64_t slowStep(RunDocument& document) {
  const auto history = app::History::open(document.historyFolder());
  if (!history.ok()) return 0;
  const auto store = (*history)->openRun(document.run().toStdString());
  if (!store.ok()) return 0;
  const auto compute = [&](int rank, std::int64_t step) {
    return document.steps().value(app::StepMeasure::kCompute, rank, step);
  };
  std::int64_t found = 0;
  for (const app::EventStep& told : (*store)->eventSteps())
    if (told.ranks == 3 && compute(kSlowRank, told.step) > 5 * compute(0, told.step))
      found = std::max(found, told.step);
  return found;
}

void takeTour(MainWindow& window, RunPage& run) {
  constexpr int kLogs = 2, kSteps = 3;  // tabs
  for (const char* name : {"messageDock", "inspectorDock"})
    if (auto* dock = window.findChild<QDockWidget*>(name)) dock->hide();
  window.resize(window.width(), window.height() + 60);  // all of the timeline
  const std::int64_t step = slowStep(*run.document());
  if (step == 0) return;
  window.goTo({run.key(), "overview", -1, 0});
  QTest::qWait(1000);
  Tour tour(window);
  tour.tab(kSteps);
  auto* map = run.findChild<HeatMapView*>("heatMap");
  map->setView({static_cast<double>(step) - 100, static_cast<double>(step) + 100}, map->rowRange());
  QTest::qWait(500);
  tour.click(map, map->centreOf(kSlowRank, step));
  auto* timeline = run.findChild<TimelineView*>("timeline");
  const auto& spans = timeline->measured()->lanes[kSlowRank].spans;
  const auto longest = std::max_element(
      spans.begin(), spans.end(),
      [](const auto& one, const auto& other) { return one.length() < other.length(); });
  const double middle = static_cast<double>(longest->begin + longest->end) / 2;
  tour.click(timeline, timeline->pixelOf(middle, timeline->rowOf(kSlowRank) + 0.15));
  tour.tab(kLogs);
  tour.look();
}

// Strategies for what the run measured.
void shootFaster(MainWindow& window, RunPage& run) {
  window.goTo({run.key(), "overview", -1, 0});
  run.findChild<QToolButton*>("fasterButton")->click();
  QPointer<LaunchDialog> faster = window.findChild<LaunchDialog*>();
  if (!faster) return;
  const auto* progress = faster->findChild<QProgressBar*>("adviceProgress");
  (void)QTest::qWaitFor([&] { return faster->ready() && progress->isHidden(); }, kMinute);
  inEveryLook(window, [&](const QString& look) { shoot(faster, "faster-" + look); });
  faster->close();
}

// Empty where all went well.
QString take(const StudioOptions& options) {
  MainWindow window(options);
  window.resize(size);
  window.show();
  window.restoreDefaultLayout();
  window.openReady("fashion-cnn", "local-3");
  auto* cluster = find<ClusterPage>(window);
  auto* model = find<ModelPage>(window);
  QPointer<LaunchDialog> launch = window.findChild<LaunchDialog*>();
  if (!cluster || !model || !launch) return "the examples did not open";
  if (!QTest::qWaitFor([&] { return launch->ready(); }, kMinute)) return "there is no prediction";
  launch->findChild<QPushButton*>("launchBenchmark")->click();
  if (!QTest::qWaitFor([&] { return cluster->connectedCount() == 3; }, kMinute))
    return "the nodes did not connect";
  if (!QTest::qWaitFor([&] { return launch->preview() && launch->preview()->measured; }, kMinute)) {
    return "the nodes were not measured";
  }
  inEveryLook(window, [&](const QString& look) { shoot(launch, "launch-" + look); });
  QString run;
  QObject::connect(launch, &LaunchDialog::launched, &window, [&](const QString& id) { run = id; });
  launch->findChild<QPushButton*>("launchDialogAccept")->click();
  const auto refused = [&] {
    return launch ? launch->findChild<MessagePanel*>()->details() : QString();
  };
  (void)QTest::qWaitFor([&] { return !run.isEmpty() || !refused().isEmpty(); }, kMinute);
  if (run.isEmpty()) return "the launch failed: " + refused();
  auto* page = qobject_cast<RunPage*>(window.currentPage());
  const auto& document = *page->document();
  if (!QTest::qWaitFor(
          [&] {
            return document.epochs().size() >= kEpochsSeen || app::isFinal(document.row().phase);
          },
          5 * kMinute)) {
    return "the run made no progress";
  }
  const int pid = workerOf(run, QString("local%1").arg(kSlowRank + 1));
  if (pid == 0) return "the worker to be slowed was not found";
  std::optional<Brake> brake(pid);
  if (!QTest::qWaitFor([&] { return document.slow().has_value(); }, kMinute))
    return "the slow rank was not named";
  QTest::qWait(3000);
  inEveryLook(window,
              [&](const QString& look) { shootPages(window, *page, *cluster, *model, look); });
  shootFaster(window, *page);
  takeTour(window, *page);
  brake.reset();
  page->document()->ask(app::RunRequest::kKill);
  if (!QTest::qWaitFor([&] { return app::isFinal(document.row().phase); }, kMinute))
    return "the run did not end";
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  for (const auto& [name, below] :
       {std::pair{"LOCKSTEP_BIN", "bin"}, {"LOCKSTEP_BUNDLE", "bundle"}}) {
    if (!qEnvironmentVariableIsSet(name))
      qputenv(name, QByteArray::fromStdString(lockstep::test::buildPath(below)));
  }
  QTemporaryDir home;
  qputenv("HOME", home.path().toLocal8Bit());
  QApplication app(argc, argv);
  QApplication::setApplicationVersion("0.1.0");
  const QStringList sides = QString(argc == 3 ? argv[2] : "").split('x');
  if (sides.size() == 2) size = QSize(sides[0].toInt(), sides[1].toInt());
  if (sides.size() != 2 || size.width() < 400 || size.height() < 300) {
    fprintf(stderr, "usage: ui_real_pictures FOLDER WIDTHxHEIGHT\n");
    return 2;
  }
  folder = argv[1];
  QDir().mkpath(folder);
  StudioOptions options;
  options.home.root = home.filePath(".local/share/lockstep").toStdString();
  options.examples = QString::fromStdString(lockstep::test::sourcePath("resources/examples"));
  QDir().mkpath(QString::fromStdString(options.home.root));
  const QString wrong = take(options);
  for (int node = 1; node <= 3; ++node) {
    QProcess::execute(
        qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-agent",
        {"leave", "--workdir", home.filePath(QString(".lockstep/local/%1").arg(node))});
  }
  if (!wrong.isEmpty()) fprintf(stderr, "ui_real_pictures: %s\n", qPrintable(wrong));
  return wrong.isEmpty() ? 0 : 1;
}
