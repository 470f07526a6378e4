// A rank and a node are debugged from the window, by mouse and keyboard, while a run trains.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <QAbstractItemModelTester>

#include "tests/ui/studio_road.h"
#include "ui/dialogs/debug_dialog.h"
#include "ui/models/debug_models.h"
#include "ui/models/preflight_model.h"
#include "ui/theme/language.h"

using namespace lockstep;

namespace {

constexpr int kRanks = 2;

int connectTo(const QString& path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  path.toStdString().copy(to.sun_path, sizeof to.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

class StudioDebugTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void init() {
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    road_->open();
  }
  void cleanup() {
    if (!road_) return;
    if (auto* page = road_->page()) {
      if (page->document()->canKill()) page->document()->ask(app::RunRequest::kKill);
      QVERIFY(tests::wait([&] { return app::isFinal(page->document()->row().phase); }));
      QVERIFY(!button(page, "debugRankButton")->isEnabled());
    }
    for (QWidget* dialog : QApplication::topLevelWidgets())
      if (qobject_cast<ui::DebugDialog*>(dialog)) dialog->close();
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void aRankIsDebugged() {
    road_->launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 100000"}}, nullptr, kRanks);
    if (QTest::currentTestFailed()) return;
    ui::RunPage* page = road_->page();
    QVERIFY(tests::wait([&] { return page->document()->lastStep() >= 5; }));
    QVERIFY(tests::wait([&] { return button(page, "debugRankButton")->isEnabled(); }));
    QTest::mouseClick(button(page, "debugRankButton"), Qt::LeftButton);
    dialog_ = page->findChild<ui::DebugDialog*>();
    QVERIFY(dialog_ && dialog_->isVisible() && !dialog_->isModal());
    for (const auto& check :
         {&StudioDebugTest::stacksAreShown, &StudioDebugTest::anotherRankIsChosen,
          &StudioDebugTest::processesAreShown, &StudioDebugTest::kernelMessagesAreShown,
          &StudioDebugTest::theNodeIsMeasured, &StudioDebugTest::aDebuggerAttaches,
          &StudioDebugTest::aHungNodeIsCancelled, &StudioDebugTest::itIsChineseAndDark}) {
      (this->*check)();
      if (QTest::currentTestFailed()) return;
    }
    const std::int64_t before = page->document()->lastStep();
    QTest::keyClick(dialog_, Qt::Key_Escape);
    QVERIFY(tests::wait([&] { return dialog_.isNull(); }));
    QVERIFY(tests::wait([&] { return page->document()->lastStep() > before + 20; }));
  }

  void aNodeIsDebugged() {
    ui::ClusterPage* page = road_->window()->newCluster();
    for (const char* name : {"n1", "n2"}) {
      const QString work = QString::fromStdString(home_->home().root) + "/local/" + name;
      QVERIFY(page->addNode(QString("{name: %1, workdir: %2}").arg(name, work)).ok());
    }
    auto* debug = button(page, "debugNodeButton");
    QVERIFY(!debug->isEnabled());
    page->connectAll();
    QVERIFY(tests::wait([&] { return page->connectedCount() == 2; }));
    QVERIFY(!debug->isEnabled());  // which of the two?
    auto* table = page->findChild<QTableView*>("nodeTable");
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {},
                      table->visualRect(table->model()->index(1, 0)).center());
    QVERIFY(tests::wait([&] { return debug->isEnabled(); }));
    QTest::mouseClick(debug, Qt::LeftButton);
    dialog_ = page->findChild<ui::DebugDialog*>();
    QVERIFY(dialog_ && dialog_->isVisible());
    auto* tabs = dialog_->findChild<QTabWidget*>("debugTabs");
    QCOMPARE(dialog_->findChild<QComboBox*>("debugTarget")->currentText(), "n2");
    QVERIFY(!tabs->isTabEnabled(ui::DebugDialog::kStacks));
    QVERIFY(!tabs->isTabEnabled(ui::DebugDialog::kDebugger));
    QCOMPARE(tabs->currentIndex(), int{ui::DebugDialog::kProcesses});
    QVERIFY(done(ui::DebugDialog::kProcesses));
    bool agent = false;
    for (const auto& process : dialog_->processes().processes().processes)
      agent = agent || process.part == "agent";
    QVERIFY(agent);
    picture("node");
    // The node goes away while the dialog is open.
    page->disconnectAll();
    QVERIFY(tests::wait([&] { return page->connectedCount() == 0; }));
    QTest::mouseClick(accept(), Qt::LeftButton);
    QVERIFY(tests::wait([&] {
      return dialog_->isReading(ui::DebugDialog::kProcesses) || emptyTitle("Processes") != "";
    }));
    QTest::mouseClick(dialog_->findChild<QPushButton*>("debugDialogReject"), Qt::LeftButton);
    QVERIFY(tests::wait([&] { return dialog_.isNull(); }));
  }

 private:
  static QToolButton* button(QWidget* page, const char* name) {
    return page->findChild<QToolButton*>(name);
  }
  QPushButton* accept() const { return dialog_->findChild<QPushButton*>("debugDialogAccept"); }
  QString emptyTitle(const char* tab) const {
    auto* title = dialog_->findChild<QLabel*>(QString("debug%1EmptyTitle").arg(tab));
    return title->isVisible() ? title->text() : QString();
  }
  QString emptyText(const char* tab) const {
    return dialog_->findChild<QLabel*>(QString("debug%1EmptyText").arg(tab))->text();
  }
  bool done(ui::DebugDialog::Tab tab) const {
    return tests::wait([&] { return !dialog_->isReading(tab); });
  }
  void showTab(ui::DebugDialog::Tab tab) const {
    auto* bar = dialog_->findChild<QTabWidget*>("debugTabs")->tabBar();
    QTest::mouseClick(bar, Qt::LeftButton, {}, bar->tabRect(tab).center());
    QCOMPARE(bar->currentIndex(), int{tab});
  }
  void picture(const char* name) const {
    const QString folder = qEnvironmentVariable("LOCKSTEP_DEBUG_PICTURES");
    if (!folder.isEmpty()) dialog_->grab().save(folder + "/debug-" + name + ".png");
  }

  void stacksAreShown() {
    auto* tree = dialog_->findChild<QTreeView*>("debugStacks");
    QAbstractItemModelTester tester(tree->model());
    QVERIFY(dialog_->isReading(ui::DebugDialog::kStacks));
    QVERIFY(done(ui::DebugDialog::kStacks));
    QVERIFY2(tree->isVisible(), qPrintable(emptyTitle("Stacks") + emptyText("Stacks")));
    const app::RankStacks& stacks = dialog_->stacks().stacks();
    QCOMPARE(stacks.rank, 0);
    QVERIFY(stacks.threads.size() > 1);
    QVERIFY(tree->isExpanded(tree->model()->index(0, 0)));
    QVERIFY(app::stacksText(stacks).find("lockstep::") != std::string::npos);
    auto* note = dialog_->findChild<QLabel*>("debugNote");
    QVERIFY2(note->text().contains("each stopped for at most"), qPrintable(note->text()));
    picture("stacks");
    QTest::mouseClick(dialog_->findChild<QToolButton*>("debugCopy"), Qt::LeftButton);
    QCOMPARE(QApplication::clipboard()->text().toStdString(), app::stacksText(stacks));
    QTest::mouseClick(accept(), Qt::LeftButton);
    QVERIFY(dialog_->isReading(ui::DebugDialog::kStacks));
    QCOMPARE(accept()->text(), "Cancel");
    QVERIFY(tree->isVisible());  // those before stay
    QVERIFY(done(ui::DebugDialog::kStacks));
  }

  void anotherRankIsChosen() {
    auto* box = dialog_->findChild<QComboBox*>("debugTarget");
    QCOMPARE(box->count(), kRanks);
    box->setFocus();
    QTest::keyClick(box, Qt::Key_Down);
    QCOMPARE(box->currentText(), "Rank 1 on local2");
    QVERIFY(dialog_->isReading(ui::DebugDialog::kStacks));
    QVERIFY(done(ui::DebugDialog::kStacks));
    QCOMPARE(dialog_->stacks().stacks().rank, 1);
    QCOMPARE(dialog_->stacks().stacks().node, std::string("local2"));
  }

  void processesAreShown() {
    auto* table = dialog_->findChild<QTableView*>("debugProcesses");
    QAbstractItemModelTester tester(table->model());
    auto* bar = dialog_->findChild<QTabWidget*>("debugTabs")->tabBar();
    bar->setFocus();
    QTest::keyClick(bar, Qt::Key_Right);
    QCOMPARE(bar->currentIndex(), int{ui::DebugDialog::kProcesses});
    QVERIFY(done(ui::DebugDialog::kProcesses));
    QVERIFY2(table->isVisible(), qPrintable(emptyTitle("Processes")));
    std::set<int> ranks;
    for (const auto& process : dialog_->processes().processes().processes)
      if (process.rank >= 0 && process.run == road_->run().toStdString())
        ranks.insert(process.rank);
    QCOMPARE(ranks, (std::set<int>{0, 1}));
    picture("processes");
    auto* header = table->horizontalHeader();
    QTest::mouseClick(header->viewport(), Qt::LeftButton, {},
                      {header->sectionViewportPosition(ui::ProcessModel::kPid) + 10, 8});
    for (int row = 1; row < table->model()->rowCount(); ++row) {
      const auto pid = [&](int at) {
        return table->model()->index(at, ui::ProcessModel::kPid).data().toString().toInt();
      };
      QVERIFY(header->sortIndicatorOrder() == Qt::AscendingOrder ? pid(row - 1) < pid(row)
                                                                 : pid(row - 1) > pid(row));
    }
    QTest::mouseClick(dialog_->findChild<QToolButton*>("debugCopyShell"), Qt::LeftButton);
    QVERIFY(!QApplication::clipboard()->text().isEmpty());
    QVERIFY(dialog_->findChild<QLabel*>("debugNote")->text().contains("Copied"));
    // Without a terminal program the command is copied, and that is said.
    const QByteArray path = qgetenv("PATH");
    qputenv("PATH", "/nonexistent");
    qunsetenv("TERMINAL");
    QTest::mouseClick(dialog_->findChild<QPushButton*>("debugTerminal"), Qt::LeftButton);
    qputenv("PATH", path);
    QVERIFY(dialog_->findChild<QLabel*>("debugNote")->text().contains("No terminal program"));
    // One of the person's own is given the command.
    const QString mark = road_->path("opened");
    QFile own(road_->path("terminal"));
    QVERIFY(own.open(QIODevice::WriteOnly));
    own.write("#!/bin/sh\nprintf '%s\\n' \"$@\" > " + mark.toUtf8() + ".part\nmv " + mark.toUtf8() +
              ".part " + mark.toUtf8() + "\n");
    own.close();
    own.setPermissions(QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    qputenv("TERMINAL", own.fileName().toUtf8());
    qputenv("SHELL", "/bin/sh");
    QTest::mouseClick(dialog_->findChild<QPushButton*>("debugTerminal"), Qt::LeftButton);
    qunsetenv("TERMINAL");
    QVERIFY(tests::wait([&] { return QFile::exists(mark); }));
    QFile said(mark);
    QVERIFY(said.open(QIODevice::ReadOnly));
    const QByteArrayList words = said.readAll().trimmed().split('\n');
    QCOMPARE(words.first(), "-e");
    QCOMPARE(words.last(), "/bin/sh");
  }

  void kernelMessagesAreShown() {
    auto* table = dialog_->findChild<QTableView*>("debugKernel");
    QAbstractItemModelTester tester(table->model());
    showTab(ui::DebugDialog::kKernel);
    QVERIFY(done(ui::DebugDialog::kKernel));
    const QStringList words =
        dialog_->findChild<QLineEdit*>("debugDialogCommand")->text().split(' ');
    QCOMPARE(words.mid(0, 3), (QStringList{"lockstep", "debug", "kernel"}));
    QCOMPARE(words.value(3), road_->page()->document()->run());
    QCOMPARE(words.mid(5), (QStringList{"--lines", "500"}));
    if (!table->isVisible()) {
      QVERIFY2(emptyText("Kernel").contains("sysctl") || emptyTitle("Kernel").contains("empty"),
               qPrintable(emptyTitle("Kernel") + emptyText("Kernel")));
    }
    picture("kernel");
  }

  // Only when asked for, since it slows the run.
  void theNodeIsMeasured() {
    const auto tab = ui::DebugDialog::kBench;
    auto* table = dialog_->findChild<QTableView*>("debugBench");
    QAbstractItemModelTester tester(table->model());
    showTab(tab);
    QVERIFY(!dialog_->isReading(tab) && !table->isVisible());
    QVERIFY2(emptyText("Bench").contains("slowed"), qPrintable(emptyText("Bench")));
    QCOMPARE(accept()->text(), "Measure");
    picture("bench-before");
    QTest::mouseClick(accept(), Qt::LeftButton);
    QVERIFY(dialog_->isReading(tab));
    QCOMPARE(accept()->text(), "Cancel");
    QTest::mouseClick(accept(), Qt::LeftButton);
    QVERIFY(!dialog_->isReading(tab) && dialog_->bench().rowCount() == 0);
    QTest::mouseClick(dialog_->findChild<QPushButton*>("debugBenchEmptyButton"), Qt::LeftButton);
    QVERIFY(done(tab));
    QVERIFY2(table->isVisible(), qPrintable(emptyTitle("Bench") + emptyText("Bench")));
    QCOMPARE(dialog_->bench().rowCount(), 6);
    QVERIFY(table->isColumnHidden(ui::PreflightModel::kPeer));
    const std::string node =
        dialog_->findChild<QComboBox*>("debugTarget")->currentText().section(' ', -1).toStdString();
    bool weak = false;
    for (const app::PreflightValue& value : dialog_->bench().result().values) {
      QVERIFY(value.value > 0 && value.usual > 0 && !value.earlier);
      weak = weak || (value.node == node && value.grade == app::PreflightValue::Grade::kWeak);
    }
    const QString note = dialog_->findChild<QLabel*>("debugNote")->text();
    QVERIFY2(note.contains(weak ? "usually" : "as fast as those of the others"), qPrintable(note));
    picture("bench");
    QTest::mouseClick(dialog_->findChild<QToolButton*>("debugCopy"), Qt::LeftButton);
    QCOMPARE(QApplication::clipboard()->text().count('\n'), 6);
    const std::int64_t before = road_->page()->document()->lastStep();
    QVERIFY(tests::wait([&] { return road_->page()->document()->lastStep() > before + 5; }));
  }

  void aDebuggerAttaches() {
    showTab(ui::DebugDialog::kDebugger);
    auto* command = dialog_->findChild<QLineEdit*>("debuggerCommand");
    QVERIFY(!command->isVisible());
    QCOMPARE(accept()->text(), "Attach debugger");
    QTest::mouseClick(accept(), Qt::LeftButton);
    if (QStandardPaths::findExecutable("gdbserver").isEmpty()) {
      QVERIFY(done(ui::DebugDialog::kDebugger));
      auto* error = dialog_->findChild<QLabel*>("debuggerError");
      QVERIFY2(error->text().contains("apt install gdbserver"), qPrintable(error->text()));
      return;
    }
    QVERIFY(tests::wait([&] { return command->isVisible(); }));
    picture("debugger");
    const QString socket = command->text().section('\'', 1, 1).section(' ', -1);
    const int debugger = connectTo(socket);
    QVERIFY2(debugger >= 0, qPrintable(command->text()));
    QCOMPARE(::send(debugger, "$?#3f", 5, MSG_NOSIGNAL), ssize_t{5});
    auto* state = dialog_->findChild<QLabel*>("debuggerState");
    QVERIFY(tests::wait([&] { return state->text().contains("attached"); }));
    picture("attached");
    ::close(debugger);
    QVERIFY(tests::wait([&] { return state->text().contains("Waiting"); }));
    const std::int64_t before = road_->page()->document()->lastStep();
    QVERIFY(tests::wait([&] { return road_->page()->document()->lastStep() > before + 5; }));
    QCOMPARE(accept()->text(), "Detach");
    QTest::mouseClick(accept(), Qt::LeftButton);
    QVERIFY(tests::wait([&] { return !QFile::exists(socket); }));
    QVERIFY(!command->isVisible());
  }

  // A supervisor that does not answer holds nothing up.
  void aHungNodeIsCancelled() {
    const std::vector<int> supervisors = road_->processes("supervise");
    QVERIFY(!supervisors.empty());
    showTab(ui::DebugDialog::kStacks);
    for (const int pid : supervisors) ::kill(pid, SIGSTOP);
    QTest::mouseClick(accept(), Qt::LeftButton);
    QTest::qWait(300);
    const bool reading = dialog_->isReading(ui::DebugDialog::kStacks);
    picture("reading");
    QElapsedTimer clock;
    clock.start();
    QTest::mouseClick(accept(), Qt::LeftButton);
    const bool cancelled = !dialog_->isReading(ui::DebugDialog::kStacks);
    const qint64 took = clock.elapsed();
    for (const int pid : supervisors) ::kill(pid, SIGCONT);
    QVERIFY(reading && cancelled);
    QVERIFY2(took < 3000, "the window's thread was held up");
    QTest::mouseClick(accept(), Qt::LeftButton);
    QVERIFY(done(ui::DebugDialog::kStacks));
    QVERIFY2(dialog_->findChild<QTreeView*>("debugStacks")->isVisible(),
             qPrintable(emptyTitle("Stacks")));
  }

  void itIsChineseAndDark() {
    road_->window()->findChild<QAction*>("actionDark")->trigger();
    ui::Language::instance().set("zh_CN");
    QCoreApplication::processEvents();
    QVERIFY(accept()->text() != "Refresh");
    for (const auto tab :
         {ui::DebugDialog::kStacks, ui::DebugDialog::kProcesses, ui::DebugDialog::kKernel,
          ui::DebugDialog::kBench, ui::DebugDialog::kDebugger}) {
      showTab(tab);
      QVERIFY(done(tab));
      picture(qPrintable(QString("chinese-%1").arg(tab)));
    }
    ui::Language::instance().set("en");
    road_->window()->findChild<QAction*>("actionDark")->trigger();
    QCoreApplication::processEvents();
    showTab(ui::DebugDialog::kStacks);
  }

  QPointer<ui::DebugDialog> dialog_;
  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
};

QTEST_MAIN(StudioDebugTest)
#include "studio_debug_test.moc"
