// The studio is killed in the middle of a run it launched. The run goes on, and a studio opened
// afterwards has all of its curves. The studio that is killed is this program started once more.
#include "tests/ui/studio_road.h"

using namespace lockstep;

namespace {

// Steps that take long enough for a run to be in its middle for seconds.
constexpr int kRanks = 2, kSteps = 4500, kBatch = 512, kKilledAfter = 200;

// Whether the history has points of the run's loss.
bool isKept(const app::Home& home, const QString& run) {
  const auto history = app::History::open(home.historyFolder());
  if (!history.ok()) return false;
  const auto store = (*history)->openRun(run.toStdString());
  if (!store.ok()) return false;
  const auto kept = (*store)->series();
  return std::any_of(kept.begin(), kept.end(), [](const app::SeriesInfo& info) {
    return info.name == "loss" && info.points > 0;
  });
}

// Launches a run, says its name once it is well under way, and follows it until killed.
int studioToBeKilled(const QString& home, const QString& steps) {
  app::Home own;
  own.root = home.toStdString();
  tests::StudioRoad road(own);
  road.open();
  road.launch("fashion-mlp.yaml",
              {{"batch: 32 ", QString("batch: %1 ").arg(kBatch)},
               {"epochs: 5", QString("epochs: 1000000\n  max_steps: %1").arg(steps)}},
              nullptr, kRanks);
  if (!road.page() ||
      !tests::wait([&] { return road.page()->document()->lastStep() >= kKilledAfter; }))
    return 1;
  if (!tests::wait([&] { return isKept(own, road.run()); })) return 1;
  QTextStream(stdout) << "run " << road.run() << Qt::endl;
  tests::wait([] { return false; }, 120'000);
  return 1;
}

class Studio : public QObject {
  Q_OBJECT

 public:
  static QString home, steps;  // of the studio that is to be killed; none in a test

 private Q_SLOTS:
  void studio() { QCOMPARE(studioToBeKilled(home, steps), 0); }
};
QString Studio::home, Studio::steps;

}  // namespace

class StudioKilledTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void cleanup() {
    if (!road_) return;
    if (!run_.isEmpty()) (void)lockstep({"kill", run_});
    run_.clear();
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void runGoesOnAndItsCurvesAreComplete_data() {
    QTest::addColumn<bool>("afterTheEnd");
    QTest::newRow("reopened while it goes on") << false;
    QTest::newRow("reopened after its end") << true;
  }
  void runGoesOnAndItsCurvesAreComplete() {
    QFETCH(bool, afterTheEnd);
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    QProcess studio;
    studio.setProcessChannelMode(QProcess::MergedChannels);
    studio.start(QCoreApplication::applicationFilePath(),
                 {"--studio", QString::fromStdString(home_->home().root),
                  QString::number(afterTheEnd ? kSteps : 1'000'000'000)});
    QByteArray said;
    QVERIFY2(tests::wait(
                 [&] {
                   said += studio.readAll();
                   return said.contains("\nrun ") || studio.state() == QProcess::NotRunning;
                 },
                 120'000),
             said);
    const auto at = said.indexOf("\nrun ");
    QVERIFY2(at >= 0, said);
    const QString run = run_ = QString::fromUtf8(said.mid(at + 5).split('\n')[0].trimmed());
    QCOMPARE(road_->processes("worker", run).size(), std::size_t{kRanks});

    QVERIFY(::kill(static_cast<pid_t>(studio.processId()), SIGKILL) == 0);
    QVERIFY(studio.waitForFinished(60'000));
    QCOMPARE(studio.exitStatus(), QProcess::CrashExit);
    QCOMPARE(road_->processes("worker", run).size(), std::size_t{kRanks});  // it goes on
    if (afterTheEnd) QVERIFY(tests::wait([&] { return road_->processes("worker", run).empty(); }));

    road_->open();
    road_->window()->restoreSession();
    ui::RunPage* page = nullptr;
    QVERIFY(tests::wait([&] {
      for (ui::Page* one : road_->window()->pages()) {
        if (auto* found = qobject_cast<ui::RunPage*>(one); found && found->document()->run() == run)
          page = found;
      }
      return page != nullptr && page->document()->loaded();
    }));
    qInfo("reopened with %lld steps in the history",
          static_cast<long long>(page->document()->lastStep()));
    const std::int64_t before = page->document()->lastStep();
    QVERIFY(before > 0);
    if (!afterTheEnd) {
      QVERIFY2(tests::wait([&] { return page->document()->lastStep() > before; }),
               qPrintable(page->message()->details()));
      page->document()->ask(app::RunRequest::kStop);
    }
    const auto end = afterTheEnd ? app::RunState::SUCCEEDED : app::RunState::STOPPED;
    QVERIFY2(tests::wait([&] { return page->document()->row().phase == end; }),
             qPrintable(page->message()->details()));
    const auto steps = static_cast<std::size_t>(page->document()->row().figures.steps);
    if (afterTheEnd) QCOMPARE(steps, std::size_t{kSteps});
    const auto line = page->document()->series("loss");
    QVERIFY(tests::wait([&] { return line->raw().size() >= steps; }));
    checkSteps(line->raw(), steps);

    checkHistory(run, steps);
  }

  // The program itself. The run was launched by the command line, which does not record it.
  void theStudioItselfRecordsAndIsKilled() {
    const QString bin = qEnvironmentVariable("LOCKSTEP_BIN");
    if (!QFileInfo(bin + "/lockstep-studio").isExecutable() ||
        !QFileInfo(bin + "/lockstep").isExecutable())
      QSKIP("there is no lockstep-studio or no lockstep");
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    const QString home = QString::fromStdString(home_->home().root);
    QProcess launch;
    launch.start(
        bin + "/lockstep",
        {"--home", home, "run", QString::fromStdString(tests::examplePath("fashion-mlp.yaml")),
         "--local", "2", "--detach", "--set", QString("training.max_steps=%1").arg(kSteps), "--set",
         QString("training.batch=%1").arg(kBatch), "--set", "training.epochs=1000000"});
    QVERIFY(launch.waitForFinished(120'000));
    const QString run = run_ = QString::fromUtf8(launch.readAllStandardOutput()).trimmed();
    QVERIFY2(launch.exitCode() == 0 && !run.isEmpty(), launch.readAllStandardError());

    QProcess studio, again;
    studio.start(bin + "/lockstep-studio", {"--home", home});
    QVERIFY(tests::wait([&] { return recorded(run) >= kKilledAfter; }));
    const auto workers = road_->processes("worker", run);
    QCOMPARE(workers.size(), std::size_t{kRanks});
    QVERIFY(::kill(static_cast<pid_t>(studio.processId()), SIGKILL) == 0);
    QVERIFY(studio.waitForFinished(60'000));
    QVERIFY(recorded(run) < kSteps);
    QVERIFY(road_->processes("worker", run) == workers);  // it goes on

    again.start(bin + "/lockstep-studio", {"--home", home});
    QVERIFY(tests::wait([&] {
      auto history = app::History::open(home_->home().historyFolder());
      auto row =
          history.ok() ? (*history)->row(run.toStdString()) : Result<app::RunRow>(history.error());
      return row.ok() && row->phase == app::RunState::SUCCEEDED;
    }));
    again.kill();
    QVERIFY(again.waitForFinished(60'000));
    checkHistory(run, kSteps);
  }

 private:
  std::size_t recorded(const QString& run) const {
    auto history = app::History::open(home_->home().historyFolder());
    if (!history.ok()) return 0;
    auto store = (*history)->openRun(run.toStdString());
    if (!store.ok()) return 0;
    auto points = (*store)->readAll("loss");
    return points.ok() ? points->size() : 0;
  }

  // The command's exit status.
  int lockstep(const QStringList& words) const {
    return QProcess::execute(
        qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep",
        QStringList{"--home", QString::fromStdString(home_->home().root)} + words);
  }

  void checkHistory(const QString& run, std::size_t steps) {
    auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok());
    auto store = (*history)->openRun(run.toStdString());
    QVERIFY(store.ok());
    int curves = 0;
    for (const auto& info : (*store)->series()) {
      const bool perStep =
          info.name == "loss" || info.name == "accuracy" || info.name == "rank/1/forward";
      if (!perStep) continue;
      ++curves;
      auto points = (*store)->readAll(info.name);
      QVERIFY(points.ok());
      ui::Pyramid line;
      for (const app::Point& point : *points) line.append(point.x, point.y);
      checkSteps(line, steps);
    }
    QVERIFY(curves >= 2);
  }

  static void checkSteps(const ui::Pyramid& line, std::size_t steps) {
    QCOMPARE(line.size(), steps);
    for (std::size_t i = 0; i < line.size(); ++i) QCOMPARE(line.x(i), static_cast<double>(i + 1));
  }

  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
  QString run_;
};

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  const QStringList arguments = QApplication::arguments();
  if (arguments.size() == 4 && arguments[1] == "--studio") {
    Studio::home = arguments[2];
    Studio::steps = arguments[3];
    Studio once;
    return QTest::qExec(&once);
  }
  StudioKilledTest test;
  return QTest::qExec(&test, argc, argv);
}
#include "studio_killed_test.moc"
