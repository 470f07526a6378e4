// Launches a run from the window and follows it to its end:
// lockstep_studio_launch SPEC CLUSTER SSH_CONFIG HOME RANKS
//
// Opens both files, connects the cluster, and launches through the dialog. Prints the run's id and
// how many losses its plot has; exits 1 if it does not succeed within five minutes. Draws offscreen
// unless QT_QPA_PLATFORM says otherwise. For tests/workloads/run.
#include <cstdio>

#include "tests/ui/studio_road.h"
#include "ui/studio/run_document.h"

using namespace lockstep;
using tests::wait;

namespace {
constexpr int kLimitMs = 300'000;
}  // namespace

class StudioLaunch : public QObject {
  Q_OBJECT

 public:
  explicit StudioLaunch(QStringList arguments) : arguments_(std::move(arguments)) {}

 private Q_SLOTS:
  void launch() {
    app::Home home;
    home.root = arguments_[3].toStdString();
    tests::StudioRoad road(home);
    road.open(arguments_[2]);
    auto* cluster = qobject_cast<ui::ClusterPage*>(road.window()->openFile(arguments_[1]));
    QVERIFY(cluster);
    QTest::mouseClick(cluster->findChild<QPushButton*>("connectButton"), Qt::LeftButton);
    const int ranks = arguments_[4].toInt();
    QVERIFY2(wait([&] { return cluster->connectedCount() == ranks; }),
             qPrintable(cluster->message()->details()));
    road.launchFile(arguments_[0], cluster, ranks);
    if (QTest::currentTestFailed()) return;
    std::printf("run %s\n", qPrintable(road.run()));
    ui::RunPage* page = road.page();
    QVERIFY2(wait([&] { return app::isFinal(page->document()->row().phase); }, kLimitMs),
             qPrintable(page->message()->details()));
    QCOMPARE(page->document()->row().phase, app::RunState::SUCCEEDED);
    QVERIFY(wait([&] { return page->lossPlot()->sampleCount() > 0; }));
    std::printf("losses %zu\n", page->lossPlot()->sampleCount());
  }

 private:
  const QStringList arguments_;
};

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "lockstep_studio_launch SPEC CLUSTER SSH_CONFIG HOME RANKS\n");
    return 2;
  }
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  if (!qEnvironmentVariableIsSet("LOCKSTEP_BIN"))
    qputenv("LOCKSTEP_BIN", QByteArray::fromStdString(test::buildPath("bin")));
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const QApplication app(argc, argv);
  StudioLaunch launch(QCoreApplication::arguments().mid(1));
  return QTest::qExec(&launch, QStringList{"lockstep_studio_launch", "-silent"}) == 0 ? 0 : 1;
}
#include "studio_launch.moc"
