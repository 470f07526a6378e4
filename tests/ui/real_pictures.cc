// Pictures for the README, of a real run: ui_real_pictures FOLDER. The studio's own window connects
// three agents of this machine, launches fashion-cnn on them, and is photographed while it trains.
#include <QApplication>
#include <QTest>
#include <QtWidgets>

#include "ui/dialogs/launch_dialog.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/plots/plot_view.h"
#include "ui/widgets/widgets.h"
#include "ui/window/main_window.h"

using namespace lockstep;
using namespace lockstep::ui;

namespace {

constexpr int kEpochsSeen = 4;  // of the run's, before its picture is taken
constexpr int kMinute = 60'000;

QString folder;

void shoot(QWidget* widget, const char* name) {
  QThreadPool::globalInstance()->waitForDone(5000);
  QTest::qWait(300);
  widget->grab().save(folder + "/" + name + ".png", "PNG", 0);
}

template <typename T>
T* find(const MainWindow& window) {
  for (Page* page : window.pages()) {
    if (auto* found = qobject_cast<T*>(page)) return found;
  }
  return nullptr;
}

// Empty where all went well.
QString take(const StudioOptions& options) {
  MainWindow window(options);
  window.resize(1400, 900);
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
  window.setDark(true);
  shoot(launch, "launch-dark");
  window.setDark(false);
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
  shoot(&window, "run");
  window.setLanguage("zh_CN");
  shoot(&window, "run-chinese");
  window.setLanguage("en");
  QCoreApplication::processEvents();  // every widget has heard of it
  window.openFile(cluster->filePath());
  cluster->findChild<QTableView*>("nodeTable")->selectRow(1);
  shoot(&window, "cluster");
  window.openFile(model->filePath());
  model->selectLayer(0);
  shoot(&window, "model");
  page->document()->ask(app::RunRequest::kKill);
  if (!QTest::qWaitFor([&] { return app::isFinal(document.row().phase); }, kMinute))
    return "the run did not end";
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  for (const auto& [name, below] :
       {std::pair{"LOCKSTEP_BIN", "/bin"}, {"LOCKSTEP_BUNDLE", "/bundle"}}) {
    if (!qEnvironmentVariableIsSet(name)) qputenv(name, QByteArray(LOCKSTEP_BINARY_DIR) + below);
  }
  QTemporaryDir home;
  qputenv("HOME", home.path().toLocal8Bit());
  QApplication app(argc, argv);
  QApplication::setApplicationVersion("0.1.0");
  if (argc != 2) {
    fprintf(stderr, "usage: ui_real_pictures FOLDER\n");
    return 2;
  }
  folder = argv[1];
  QDir().mkpath(folder);
  StudioOptions options;
  options.home.root = home.filePath(".local/share/lockstep").toStdString();
  options.examples = QString(LOCKSTEP_SOURCE_DIR) + "/resources/examples";
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
