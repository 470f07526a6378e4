// The whole road through the studio's own window, step by step, for tests with real agents and
// workers: a home, a window, the agents that were seen. Steps check what they do; after a step ask
// QTest::currentTestFailed().
#pragma once

#include <signal.h>
#include <unistd.h>

#include <QTest>
#include <QtWidgets>
#include <set>

#include "tests/support/paths.h"

#include "tests/support/sshd.h"
#include "tests/ui/by_hand.h"
#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/add_host_dialog.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/ssh_questions.h"
#include "ui/models/node_table_model.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/plots/plot_view.h"
#include "ui/widgets/widgets.h"

namespace lockstep::tests {

// Why no run can be made here; null where it can.
inline const char* whyNoRuns() {
  if (!QFileInfo::exists("/usr/share/datasets/fashion-mnist"))
    return "dataset-fashion-mnist is not installed";
  if (!QFileInfo(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-agent").isExecutable())
    return "there is no lockstep-agent";
  return nullptr;
}

// Stops a process 150 ms of every 400 ms. At its end the process goes on.
class Bursts : public QObject {
 public:
  explicit Bursts(int pid) : pid_(pid) {
    timer_.setTimerType(Qt::PreciseTimer);
    timer_.callOnTimeout(this, [this] { next(); });
    next();
  }
  ~Bursts() override { ::kill(pid_, SIGCONT); }

 private:
  void next() {
    stopped_ = !stopped_;
    ::kill(pid_, stopped_ ? SIGSTOP : SIGCONT);
    timer_.start(stopped_ ? 150 : 250);
  }
  int pid_;
  bool stopped_ = false;
  QTimer timer_;
};

class StudioRoad {
 public:
  explicit StudioRoad(app::Home home) { options_.home = std::move(home); }
  ~StudioRoad() { close(); }

  ui::MainWindow* window() { return window_.get(); }
  ui::RunPage* page() { return page_; }
  const QString& run() const { return run_; }
  QString path(const QString& name) const {
    return QFileInfo(QString::fromStdString(options_.home.root)).path() + "/" + name;
  }

  void open(const QString& sshConfig = {}) {
    options_.examples = QString::fromStdString(lockstep::test::sourcePath("resources/examples"));
    options_.sshConfig = sshConfig;
    window_ = std::make_unique<ui::MainWindow>(options_);
    window_->show();
  }
  void close() {
    page_ = nullptr;
    window_.reset();
  }

  // Ends the agents whose work folders lie in this home or that were seen, with their supervisors.
  void endAgents() {
    collectLocal();
    QStringList workdirs = workdirs_;
    const QDir local(QString::fromStdString(options_.home.root) + "/local");
    for (const QString& name : local.entryList(QDir::Dirs | QDir::NoDotAndDotDot))
      workdirs << local.filePath(name);
    for (const QString& workdir : workdirs) {
      QProcess::execute(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-agent",
                        {"leave", "--workdir", workdir});
    }
    for (const int pid : agents_) ::kill(pid, SIGTERM);
    for (const int pid : agents_) QVERIFY(wait([&] { return ::kill(pid, 0) != 0; }));
    agents_.clear();
    QVERIFY(wait([&] { return processes("supervise").empty(); }));
  }

  // One to end with the others.
  void sawAgent(int pid) { agents_.insert(pid); }

  // Hosts n1 … of the SSH configuration, each at its address ("": left empty), added in a new
  // cluster page, connected and their fingerprints accepted. `seesAgents`: their pids mean
  // something here.
  ui::ClusterPage* addHosts(const std::vector<std::string>& addresses, const std::string& workdirs,
                            std::set<std::string>* trusted, bool seesAgents) {
    ui::ClusterPage* page = window_->newCluster();
    connectHosts(page, addresses, workdirs, trusted, seesAgents);
    return page;
  }

  // Opens the example with `changes` made to its text, and launches it. Null cluster: local ranks.
  void launch(const char* example, const std::vector<std::pair<QString, QString>>& changes,
              ui::ClusterPage* cluster, int ranks) {
    QString refusal;
    tryLaunch(example, changes, cluster, ranks, &refusal);
    showRun(refusal);
  }
  // The same with a spec of one's own.
  void launchFile(const QString& spec, ui::ClusterPage* cluster, int ranks) {
    QString refusal;
    tryLaunchFile(spec, cluster, ranks, &refusal);
    showRun(refusal);
  }
  // The same; what the dialog says where it does not come to a run.
  void tryLaunch(const char* example, const std::vector<std::pair<QString, QString>>& changes,
                 ui::ClusterPage* cluster, int ranks, QString* refusal) {
    const QString path = this->path("short.yaml");
    QFile file(QString::fromStdString(examplePath(example)));
    QVERIFY(file.open(QIODevice::ReadOnly));
    QString text = QString::fromUtf8(file.readAll());
    for (const auto& [from, to] : changes) {
      QVERIFY2(text.contains(from), qPrintable(from));
      text.replace(from, to);
    }
    QFile spec(path);
    QVERIFY(spec.open(QIODevice::WriteOnly));
    spec.write(text.toUtf8());
    spec.close();
    tryLaunchFile(path, cluster, ranks, refusal);
  }
  void tryLaunchFile(const QString& path, ui::ClusterPage* cluster, int ranks, QString* refusal) {
    auto* model = qobject_cast<ui::ModelPage*>(window_->openFile(path));
    QVERIFY(model);
    QVERIFY2(model->document()->spec().ok(), qPrintable(model->document()->text()));

    QPointer<ui::LaunchDialog> dialog = window_->openLaunch(model, cluster);
    QVERIFY(dialog);
    const auto refused = [&] {
      return dialog ? dialog->findChild<ui::MessagePanel*>()->details() : QString();
    };
    if (!cluster) {
      dialog->chooseTarget(dialog->findChild<QComboBox*>("launchCluster")->count() - 1);
      dialog->findChild<QSpinBox*>("launchNodes")->setValue(ranks);
    }
    dialog->findChild<QCheckBox*>("launchMeasure")->setChecked(false);
    QVERIFY(wait([&] {
      return dialog->ready() && dialog->findChild<QPushButton*>("launchDialogAccept")->isEnabled();
    }));
    QCOMPARE(static_cast<int>(dialog->preview()->ranks.size()), ranks);
    run_.clear();
    QObject::connect(dialog.data(), &ui::LaunchDialog::launched, window_.get(),
                     [this](const QString& id) { run_ = id; });
    dialog->findChild<QPushButton*>("launchDialogAccept")->click();
    QVERIFY2(wait([&] { return !run_.isEmpty() || !refused().isEmpty(); }, 120'000),
             "the launch did not end");
    *refusal = run_.isEmpty() ? refused() : QString();
    collectLocal();
  }

  void watchCurvesGrow() {
    const auto plotted = [&] { return page_->lossPlot()->sampleCount(); };
    QVERIFY2(wait([&] { return plotted() > 0; }), qPrintable(page_->message()->details()));
    const auto first = plotted();
    QVERIFY2(
        wait([&] { return plotted() > first || app::isFinal(page_->document()->row().phase); }),
        qPrintable(page_->message()->details()));
  }

  // To the end of a run of that many steps.
  void finish(int steps, int ranks) {
    QVERIFY2(wait([&] { return app::isFinal(page_->document()->row().phase); }, 120'000),
             qPrintable(page_->message()->details()));
    collectLocal();
    QCOMPARE(page_->document()->row().phase, app::RunState::SUCCEEDED);
    QCOMPARE(page_->document()->row().figures.steps, steps);
    QCOMPARE(page_->document()->series("loss")->raw().size(), static_cast<std::size_t>(steps));
    QCOMPARE(page_->document()->breakdown().size(), static_cast<std::size_t>(ranks));
  }

  // Chooses an entry of a menu by mouse, once it is enabled.
  void choose(const char* menuName, const char* entryName) {
    chooseByMouse(*window_, menuName, entryName);
  }

  // The end of a run that would go on: each of its curves has every step.
  void stop(int ranks) {
    choose("menuRun", "actionStop");
    QVERIFY2(wait([&] { return app::isFinal(page_->document()->row().phase); }),
             qPrintable(page_->message()->details()));
    collectLocal();
    QCOMPARE(page_->document()->row().phase, app::RunState::STOPPED);
    const auto& line = page_->document()->series("loss")->raw();
    QCOMPARE(static_cast<std::int64_t>(line.size()),
             static_cast<std::int64_t>(page_->document()->row().figures.steps));
    for (std::size_t i = 0; i < line.size(); ++i) QCOMPARE(line.x(i), static_cast<double>(i + 1));
    QCOMPARE(page_->document()->breakdown().size(), static_cast<std::size_t>(ranks));
  }

  void findInHistoryAndExport(int steps) {
    ui::HistoryPage* history = window_->openHistory();
    QVERIFY(wait([&] {
      return history->runs()->find(run_) >= 0 &&
             history->runs()->runs()[static_cast<std::size_t>(history->runs()->find(run_))].phase ==
                 app::RunState::SUCCEEDED;
    }));
    history->selectRun(run_);
    const QString csv = path("run.csv");
    history->exportTo(csv);
    QVERIFY(wait([&] { return QFileInfo(csv).size() > 0; }));
    QFile exported(csv);
    QVERIFY(exported.open(QIODevice::ReadOnly));
    const QList<QByteArray> lines = exported.readAll().split('\n');
    QVERIFY(lines[0].startsWith("step,"));
    QVERIFY(lines.size() > steps);
  }

  // Pids of processes of this machine whose command line has the word and that belong to this home
  // or, by their environment, to the run.
  std::vector<int> processes(const QByteArray& word, const QString& ofRun = {}) const {
    std::vector<int> found;
    const QByteArray needle = QByteArray::fromStdString(options_.home.root);
    const auto text = [](const QString& path) {
      QFile file(path);
      return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    };
    for (const QString& entry : QDir("/proc").entryList(QDir::Dirs)) {
      bool number = false;
      const int pid = entry.toInt(&number);
      if (!number) continue;
      const QByteArray line = text("/proc/" + entry + "/cmdline");
      if (!line.contains("lockstep-agent") || !line.split('\0').contains(word)) continue;
      if (ofRun.isEmpty()
              ? line.contains(needle)
              : text("/proc/" + entry + "/environ").contains("LOCKSTEP_RUN=" + ofRun.toUtf8())) {
        found.push_back(pid);
      }
    }
    return found;
  }

  // The worker of a rank; 0: there is none.
  int workerOf(int rank, const QString& run) const {
    for (const int pid : processes("worker", run)) {
      QFile environment(QString("/proc/%1/environ").arg(pid));
      if (environment.open(QIODevice::ReadOnly) &&
          environment.readAll().split('\0').contains("LOCKSTEP_RANK=" + QByteArray::number(rank)))
        return pid;
    }
    return 0;
  }

 private:
  void showRun(const QString& refusal) {
    if (QTest::currentTestFailed()) return;
    QVERIFY2(refusal.isEmpty(), qPrintable(refusal));
    page_ = qobject_cast<ui::RunPage*>(window_->currentPage());
    QVERIFY(page_);
  }

  // Local agents are found by their work folders, which lie in the home.
  void collectLocal() {
    for (const int pid : processes("serve")) agents_.insert(pid);
  }

  void connectHosts(ui::ClusterPage* page, const std::vector<std::string>& addresses,
                    const std::string& workdirs, std::set<std::string>* trusted, bool seesAgents) {
    QVERIFY(page);
    const int count = static_cast<int>(addresses.size());
    for (int i = 1; i <= count; ++i) {
      page->findChild<QPushButton*>("addHostButton")->click();
      ui::AddHostDialog* dialog = nullptr;
      QVERIFY(wait([&] {
        for (auto* one : page->findChildren<ui::AddHostDialog*>())
          if (one->isVisible()) dialog = one;
        return dialog != nullptr;
      }));
      auto* host = dialog->findChild<QComboBox*>("addHostHost");
      const int index = host->findText(QString("n%1").arg(i));
      QVERIFY(index >= 0);  // offered from the SSH configuration
      host->setCurrentIndex(index);
      dialog->findChild<QLineEdit*>("addHostAddress")
          ->setText(QString::fromStdString(addresses[static_cast<std::size_t>(i - 1)]));
      dialog->findChild<QLineEdit*>("addHostWorkdir")
          ->setText(QString::fromStdString(workdirs + "/w" + std::to_string(i)));
      if (seesAgents) workdirs_ << QString::fromStdString(workdirs + "/w" + std::to_string(i));
      dialog->findChild<QPushButton*>("addHostDialogAccept")->click();
      QCOMPARE(page->nodes()->rowCount(), i);
    }
    window_->findChild<QAction*>("actionSave")->trigger();
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));

    page->findChild<QPushButton*>("connectButton")->click();
    QVERIFY2(wait(
                 [&] {
                   for (auto* dialog : window_->findChildren<ui::HostKeyDialog*>()) {
                     if (!dialog->isVisible()) continue;
                     trusted->insert(
                         dialog->findChild<QLineEdit*>("hostKeyFingerprint")->text().toStdString());
                     dialog->findChild<QPushButton*>("hostKeyDialogAccept")->click();
                   }
                   if (auto live = page->liveIfAny(); live && seesAgents) {
                     for (int n = 0; n < live->session().size(); ++n) {
                       if (const int pid = live->session().status(n).inventory.agentPid; pid > 0)
                         agents_.insert(pid);
                     }
                   }
                   return page->connectedCount() == count;
                 },
                 120'000),
             qPrintable(page->message()->details()));
    QCOMPARE(static_cast<int>(trusted->size()), count);
    QVERIFY(wait([&] { return page->nodes()->rows()[0].sampled; }));
  }

  ui::StudioOptions options_;
  std::unique_ptr<ui::MainWindow> window_;
  QPointer<ui::RunPage> page_;
  QString run_;
  std::set<int> agents_;
  QStringList workdirs_;
};

}  // namespace lockstep::tests
