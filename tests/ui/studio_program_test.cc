// A program of the user's own in the studio: its page, its launch, its curves, its end.
#include <QRegularExpression>
#include <QScopeGuard>
#include <QTabBar>

#include "tests/support/pytorch.h"
#include "tests/ui/studio_road.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/studio/log_model.h"

using namespace lockstep;

namespace {

// All ranks meet at rank 0's port; rank 0 prints what a training would.
constexpr const char* kProgram = R"(
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(place)
    peers = [server.accept()[0] for _ in range(world - 1)]
else:
    for _ in range(2000):
        try:
            peer = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.05)
for step in range(1, 81):
    time.sleep(0.05)
    if rank == 0:
        print(f"step {step} loss {2 / step:.4f} accuracy {step / 100:.2f} temperature={300 + step}")
print("rank", rank, "is done")
)";
constexpr const char* kSpec = R"(version: 1
workload:
  command: [python3, train.py]
  metrics: {stdout: ['step (?P<step>\d+)', 'loss (?P<loss>\S+)', 'accuracy (?P<accuracy>\S+)', 'temperature=(?P<temperature>\d+)']}
)";

// Each rank counts on from the step that it has saved. Rank 1 fails at its first start, as soon as
// the file that its argument names is there.
constexpr const char* kSaving = R"(
import os, sys, time
rank, start = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
saved = "saved-" + rank
first = int(open(saved).read()) + 1 if os.path.exists(saved) else 1
print("start", start, "from", "1" if first == 1 else "later", flush=True)
for step in range(first, 100001):
    if rank == "0": print(f"step {step} loss {1 / step:.6f}", flush=True)
    with open(saved + ".new", "w") as file: file.write(str(step))
    os.rename(saved + ".new", saved)
    if rank == "1" and start == "0" and os.path.exists(sys.argv[1]): sys.exit(7)
    time.sleep(0.02)
)";

// DistributedDataParallel; rank 1 takes longer from step 20 on.
constexpr const char* kStraggling = R"(
import os, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1, 100001):
    time.sleep(0.1 if rank == 1 and step >= 20 else 0.02)
    loss = model(torch.randn(32, 64)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if rank == 0: print(f"step {step} loss {loss.item():.6f}", flush=True)
)";

// Follows the line that sets the rank. Writes what the agents' driver tells: the processes of two
// GPUs, of which the second, rank 1's, has a low clock.
constexpr const char* kLowClock = R"(
pids = [None] * dist.get_world_size()
dist.all_gather_object(pids, os.getpid())
if rank == 0:
    others = " ".join(str(pid) for number, pid in enumerate(pids) if number != 1)
    with open("SCRIPT.new", "w") as file:
        file.write(f"utilization 90 50\nreasons 0\n0.processes {others}\n1.processes {pids[1]}\n")
        file.write("0.clock1 1980\n1.clock1 900\n")
    os.rename("SCRIPT.new", "SCRIPT")
)";

}  // namespace

class StudioProgramTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    road_->open();
  }
  void cleanup() {
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void aProgramRunsInTheWindow() {
    write("train.py", "# empty\n");
    write(".lockstepignore", "home/\n");  // the studio's
    for (const QStringList& words : {QStringList{"init", "--quiet"}, QStringList{"add", "train.py"},
                                     QStringList{"commit", "--quiet", "-m", "m"}}) {
      QProcess git;
      git.setWorkingDirectory(home_->path("."));
      git.start("git", QStringList{"-c", "user.name=n", "-c", "user.email=e"} + words);
      QVERIFY(git.waitForFinished(30000) && git.exitCode() == 0);
    }
    QProcess head;
    head.setWorkingDirectory(home_->path("."));
    head.start("git", {"rev-parse", "HEAD"});
    QVERIFY(head.waitForFinished(30000) && head.exitCode() == 0);
    write("train.py", kProgram);
    write("run.yaml", kSpec);
    auto* page = qobject_cast<ui::ModelPage*>(road_->window()->openFile(home_->path("run.yaml")));
    QVERIFY(page);
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));
    QVERIFY(!page->findChild<QWidget*>("layerCard")->isVisible());
    const auto* sections = page->findChild<QTabBar*>("fieldSections");
    QCOMPARE(sections->tabText(sections->currentIndex()), "Program");
    launch(page, 3);
    if (QTest::currentTestFailed()) return;
    ui::RunPage* run = qobject_cast<ui::RunPage*>(road_->window()->currentPage());
    QVERIFY(run);
    QVERIFY2(tests::wait([&] { return run->lossPlot()->sampleCount() > 5; }),
             qPrintable(run->message()->details()));
    const auto* tabs = run->findChild<QTabWidget*>("runTabs");
    QStringList shown;
    for (int tab = 0; tab < tabs->count(); ++tab)
      if (tabs->isTabVisible(tab)) shown << tabs->tabText(tab);
    QCOMPARE(shown, (QStringList{"Overview", "Nodes", "Logs", "Dashboard", "Documents"}));
    QVERIFY(tests::wait([&] { return app::isFinal(run->document()->row().phase); }));
    QCOMPARE(run->document()->row().phase, app::RunState::SUCCEEDED);
    QCOMPARE(run->document()->row().figures.steps, 80);
    for (const char* name : {"loss", "accuracy", "scalar/temperature"})
      QCOMPARE(run->document()->series(name)->raw().size(), std::size_t{80});
    QCOMPARE(run->findChildren<ui::PlotView*>(QRegularExpression("^valuePlot/")).size(),
             qsizetype{2});
    QVERIFY(!run->findChild<QPushButton*>("resumeButton")->isEnabled());
    QVERIFY(run->findChild<QPushButton*>("rerunButton")->isEnabled());
    QMap<QString, QString> rows;
    for (const auto& row : run->inspectorRows()) rows[row.name] = row.value;
    QCOMPARE(rows.value("train.py"), QString("+%1 −1").arg(QByteArray(kProgram).count('\n')));
    QCOMPARE(rows.value("run.yaml"), QString("not in the commit"));
    checkCode(run, head.readAllStandardOutput().trimmed());
  }

  // What its libraries tell: steps, the rank that the others wait for, and which they are.
  void theStepsOfAProgramAreShown() {
    if (!test::hasPyTorch()) QSKIP("no PyTorch with Gloo");
    ui::RunPage* run = launchStraggling(kStraggling);
    if (QTest::currentTestFailed()) return;
    // Another one may be slow for a while, where other work has the cores.
    QVERIFY(tests::wait([&] {
      const auto& slow = run->document()->slow();
      return slow && slow->rank == 1 && run->document()->lastStep() > 30;
    }));
    auto* tabs = run->findChild<QTabWidget*>("runTabs");
    const auto shown = [tabs] {
      QStringList out;
      for (int tab = 0; tab < tabs->count(); ++tab)
        if (tabs->isTabVisible(tab)) out << tabs->tabText(tab);
      return out.join(' ');
    };
    QTRY_COMPARE_WITH_TIMEOUT(
        shown(), QString("Overview Nodes Logs Steps Stragglers Dashboard Documents"), 60'000);
    for (int tab = 0; tab < tabs->count(); ++tab) {
      if (!tabs->isTabVisible(tab)) continue;
      tabs->setCurrentIndex(tab);
      QTest::qWait(300);
      picture(tabs->tabText(tab));
    }
    const auto* who = run->findChild<QLabel*>("stragglerWho");
    QVERIFY2(tests::wait([&] { return who->text().contains("ank 1"); }), qPrintable(who->text()));
    QMap<QString, QString> rows;
    for (const auto& row : run->inspectorRows()) rows[row.name] = row.value;
    QCOMPARE(rows.value("Output"), "1 of 3 ranks");
    for (const char* library : {"PyTorch DDP", "torch.distributed", "torch.optim"})
      QVERIFY2(rows.value(library).endsWith(", all ranks"), qPrintable(rows.value(library)));
    stop(run);
  }

  // The panel says of the rank that the others wait for that its GPU's clock is low.
  void aLowClockIsTheCause() {
    if (!test::hasPyTorch()) QSKIP("no PyTorch with Gloo");
    const QString script = home_->path("gpus");
    write("gpus", "utilization 90 50\nreasons 0\nprocesses 99999999\nclock1 1980\n");
    qputenv("LOCKSTEP_NVML", LOCKSTEP_FAKE_NVML_FILE);
    qputenv("LOCKSTEP_NVML_SCRIPT", script.toUtf8());
    const auto restored = qScopeGuard([] {
      qunsetenv("LOCKSTEP_NVML");
      qunsetenv("LOCKSTEP_NVML_SCRIPT");
    });
    const QByteArray rank = "rank = dist.get_rank()\n";
    ui::RunPage* run = launchStraggling(
        QByteArray(kStraggling)
            .replace(rank, rank + QByteArray(kLowClock).replace("SCRIPT", script.toUtf8())));
    if (QTest::currentTestFailed()) return;
    const auto* who = run->findChild<QLabel*>("stragglerWho");
    const auto* evidence = run->findChild<QLabel*>("stragglerEvidence");
    QVERIFY2(tests::wait([&] {
               return who->text().contains("ank 1") &&
                      evidence->text().contains("Its GPU 1 ran at ");
             }),
             qPrintable(who->text() + "\n" + evidence->text()));
    QVERIFY2(evidence->text().contains(QRegularExpression(" MHz, the others' at 1,?980 MHz")),
             qPrintable(evidence->text()));
    const auto& slow = run->document()->slow();
    QVERIFY(slow && slow->rank == 1 && slow->evidence.cause == app::SlowCause::kGpuClock);
    qInfo("at step %lld, since step %lld: %s", static_cast<long long>(run->document()->lastStep()),
          static_cast<long long>(slow->sinceStep), qPrintable(evidence->text()));
    stop(run);
  }

  // After a failure, and on request. The window counts the restarts, and the program continues from
  // what it has saved.
  void aProgramStartsAgain() {
    QVERIFY(QDir().mkpath(home_->path("code")));
    write("code/train.py", kSaving);
    write("code/run.yaml", "version: 1\nworkload:\n  command: [/usr/bin/python3, train.py, " +
                               home_->path("fail").toUtf8() + "]\n");
    launch(qobject_cast<ui::ModelPage*>(road_->window()->openFile(home_->path("code/run.yaml"))),
           2);
    if (QTest::currentTestFailed()) return;
    auto* page = qobject_cast<ui::RunPage*>(road_->window()->currentPage());
    QVERIFY(page);
    ui::RunDocument* run = page->document();
    QStringList failures;  // that an alert tells of
    int over = 0;
    const QObject heard;  // until this test ends
    const auto isRestart = [](const QString& key) { return key.endsWith(":restart"); };
    connect(page, &ui::Page::alertRaised, &heard, [&](const ui::Alert& alert) {
      if (isRestart(alert.key)) failures << QString::fromStdString(alert.text.text());
    });
    connect(page, &ui::Page::alertOver, &heard,
            [&](const QString& key) { over += isRestart(key) ? 1 : 0; });
    const auto restarts = [page] {
      for (const auto& row : page->inspectorRows())
        if (row.name == "Restarts") return row.value;
      return QString();
    };
    // Trains again, as this start of it.
    const auto trains = [&](int start) {
      const std::int64_t before = run->lastStep();
      return tests::wait([&] {
        return said(run, 0, start) && said(run, 1, start) && run->lastStep() > before + 5 &&
               run->row().phase == app::RunState::RUNNING && over == start;
      });
    };
    QVERIFY2(trains(0), qPrintable(page->message()->details()));
    QCOMPARE(restarts(), QString());

    write("fail", "");
    QVERIFY2(tests::wait([&] { return restarts() == "1"; }),
             qPrintable(page->message()->details()));
    QVERIFY2(trains(1), qPrintable(page->message()->details()));
    QCOMPARE(failures.size(), qsizetype{1});
    QVERIFY2(failures[0].startsWith("the run starts its program again: ") &&
                 failures[0].contains("exited with code 7"),
             qPrintable(failures[0]));
    QVERIFY(run->row().figures.lostSeconds > 0);

    const auto before = road_->processes("worker", run->run());
    restartAll(page);
    if (QTest::currentTestFailed()) return;
    QVERIFY2(tests::wait([&] { return restarts() == "2"; }),
             qPrintable(page->message()->details()));
    QVERIFY2(trains(2), qPrintable(page->message()->details()));
    QCOMPARE(failures.size(), qsizetype{2});
    QVERIFY2(failures[1].contains("a restart of all ranks was requested"), qPrintable(failures[1]));
    const auto after = road_->processes("worker", run->run());
    QCOMPARE(after.size(), std::size_t{2});
    QVERIFY(std::none_of(after.begin(), after.end(), [&](int one) {
      return std::find(before.begin(), before.end(), one) != before.end();
    }));
    stop(page);
    if (QTest::currentTestFailed()) return;
    // Its steps count on: none comes twice.
    const auto& loss = run->series("loss")->raw();
    for (std::size_t i = 1; i < loss.size(); ++i) QVERIFY(loss.x(i) > loss.x(i - 1));
  }

  // The form becomes that of a program, or of a model, with the text.
  void thePageFollowsTheText() {
    write("run.yaml", kSpec);
    auto* page = qobject_cast<ui::ModelPage*>(road_->window()->openFile(home_->path("run.yaml")));
    const auto* layers = page->findChild<QWidget*>("layerCard");
    QVERIFY(layers->isHidden());
    page->document()->type("version: 1\nmodel: {name: m}\n");
    QVERIFY(!layers->isHidden());
    page->document()->undoStack()->undo();
    QVERIFY(layers->isHidden());
    page->document()->type(QString(kSpec).replace("command: [python3, train.py]", "command: []"));
    QVERIFY(!page->findChild<QPushButton*>("modelLaunchButton")->isEnabled());
    page->document()->undoStack()->undo();
    QVERIFY(page->document()->setField("workload.launcher", "torchrun", "change").ok());
    QVERIFY(page->document()->text().contains("launcher: torchrun"));
  }

  void aNewProgramIsComplete() {
    ui::NewModelDialog* ask = road_->window()->newModel();
    ask->chooseKind("program");
    ask->accept();
    auto* page = qobject_cast<ui::ModelPage*>(road_->window()->currentPage());
    QVERIFY(page);
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));
    QVERIFY(page->document()->text().contains("command: [python3, train.py]"));
  }

 private:
  // The code's commit, and the patch that makes the run's of it.
  void checkCode(ui::RunPage* run, const QByteArray& commit) {
    auto* tabs = run->findChild<QTabWidget*>("runTabs");
    tabs->setCurrentWidget(run->findChild<QWidget*>("runDocuments"));
    auto* kind = run->findChild<QComboBox*>("documentKind");
    kind->setCurrentIndex(kind->findText("Code"));
    QVERIFY(run->findChild<QLabel*>("documentAbout")->text().contains(commit));
    const QString patch = run->findChild<QPlainTextEdit*>("documentText")->toPlainText();
    QVERIFY2(patch.contains("-# empty\n+\n+import os"), qPrintable(patch));
    run->findChild<QPushButton*>("documentCopy")->click();
    QCOMPARE(QApplication::clipboard()->text(), patch);
    run->findChild<QPushButton*>("documentSave")->click();
    auto* dialog = run->findChild<QFileDialog*>("saveDocumentDialog");
    QVERIFY(dialog);
    const QString path = home_->path("run.patch");
    Q_EMIT dialog->fileSelected(path);
    dialog->reject();
    QVERIFY(run->message()->what().contains(path));
    QFile saved(path);
    QVERIFY(saved.open(QIODevice::ReadOnly));
    QCOMPARE(QString::fromUtf8(saved.readAll()), patch);
    write("train.py", "# empty\n");
    QProcess git;
    git.setWorkingDirectory(home_->path("."));
    git.start("git", {"apply", "run.patch"});
    QVERIFY(git.waitForFinished(30000));
    QVERIFY2(git.exitCode() == 0, git.readAllStandardError().constData());
    QFile program(home_->path("train.py"));
    QVERIFY(program.open(QIODevice::ReadOnly));
    QCOMPARE(program.readAll(), QByteArray(kProgram));
  }
  // The page of a run of the program on three nodes.
  ui::RunPage* launchStraggling(const QByteArray& program) {
    write("train.py", program);
    write("run.yaml", "version: 1\nworkload:\n  command: [/usr/bin/python3, train.py]\n");
    launch(qobject_cast<ui::ModelPage*>(road_->window()->openFile(home_->path("run.yaml"))), 3);
    auto* run = qobject_cast<ui::RunPage*>(road_->window()->currentPage());
    if (!run) QTest::qFail("no run is shown", __FILE__, __LINE__);
    return run;
  }
  // Whether a rank has said that this is its start, from what it should have saved.
  static bool said(ui::RunDocument* run, int rank, int start) {
    const QString line = QString("start %1 from %2").arg(start).arg(start == 0 ? "1" : "later");
    const ui::LogModel& logs = *run->logs();
    for (int row = 0; row < logs.rowCount(); ++row)
      if (logs.line(row).rank == rank && logs.line(row).text == line) return true;
    return false;
  }
  // By the panel's button.
  static void restartAll(ui::RunPage* page) {
    auto* button = page->findChild<QToolButton*>("restartRanksButton");
    QVERIFY(button->isVisible() && button->isEnabled());
    QVERIFY2(button->toolTip().startsWith("Start the program again"),
             qPrintable(button->toolTip()));
    QTest::mouseClick(button, Qt::LeftButton);
    QPointer<QDialog> dialog = page->findChild<QDialog*>("restartDialog");
    QVERIFY(dialog && tests::wait([&] { return dialog->isVisible(); }));
    QCOMPARE(dialog->findChild<QLineEdit*>("restartDialogCommand")->text(),
             "lockstep restart " + page->document()->run());
    const auto* text = dialog->findChild<QLabel*>("restartDialogText");
    QVERIFY2(text->text().contains("from what it has saved itself"), qPrintable(text->text()));
    QTest::mouseClick(dialog->findChild<QPushButton*>("restartDialogAccept"), Qt::LeftButton);
  }
  // By the page's button.
  static void stop(ui::RunPage* run) {
    auto* button = run->findChild<QPushButton*>("stopButton");
    QVERIFY(button->isVisible() && button->isEnabled());
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(tests::wait([&] { return app::isFinal(run->document()->row().phase); }));
    QCOMPARE(run->document()->row().phase, app::RunState::STOPPED);
  }
  void write(const QString& name, const QByteArray& text) {
    QFile file(home_->path(name));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(text);
  }
  void picture(const QString& name) const {
    const QString folder = qEnvironmentVariable("LOCKSTEP_PROGRAM_PICTURES");
    if (!folder.isEmpty()) road_->window()->grab().save(folder + "/" + name + ".png");
  }
  void launch(ui::ModelPage* page, int ranks) {
    QPointer<ui::LaunchDialog> dialog = road_->window()->openLaunch(page, nullptr);
    QVERIFY(dialog);
    dialog->chooseTarget(dialog->findChild<QComboBox*>("launchCluster")->count() - 1);
    dialog->findChild<QSpinBox*>("launchNodes")->setValue(ranks);
    QVERIFY(tests::wait([&] {
      return dialog->ready() && dialog->findChild<QPushButton*>("launchDialogAccept")->isEnabled();
    }));
    QCOMPARE(static_cast<int>(dialog->preview()->ranks.size()), ranks);
    QVERIFY(dialog->findChild<QSpinBox*>("launchBatch")->isHidden());
    QVERIFY2(!dialog->command().contains("--set"), qPrintable(dialog->command()));
    QString run;
    connect(dialog.data(), &ui::LaunchDialog::launched, this, [&](const QString& id) { run = id; });
    const auto refused = [&] {
      return dialog ? dialog->findChild<ui::MessagePanel*>()->details() : QString();
    };
    dialog->findChild<QPushButton*>("launchDialogAccept")->click();
    QVERIFY(tests::wait([&] { return !run.isEmpty() || !refused().isEmpty(); }));
    QVERIFY2(!run.isEmpty(), qPrintable(refused()));
  }

  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
};

QTEST_MAIN(StudioProgramTest)
#include "studio_program_test.moc"
