// The whole road through the studio's own window: hosts, fingerprints, deploy, launch, curves that
// grow, the history, an export. Real sshd, real agents, real workers.
#include <signal.h>
#include <unistd.h>

#include <QtTest>
#include <QtWidgets>
#include <set>

#include "tests/support/sshd.h"
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

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::StudioHome;

namespace {

bool wait(const std::function<bool()>& done, int limitMs = 60'000) { return QTest::qWaitFor(done, limitMs); }

}  // namespace

class StudioRunTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (!QFileInfo::exists("/usr/share/datasets/fashion-mnist")) QSKIP("dataset-fashion-mnist is not installed");
    if (!QFileInfo(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-agent").isExecutable()) QSKIP("there is no lockstep-agent");
  }
  void init() {
    home_ = std::make_unique<StudioHome>();
    agents_.clear();
  }
  void cleanup() {
    window_.reset();
    for (const int pid : agents_) ::kill(pid, SIGTERM);
    for (const int pid : agents_) QVERIFY(wait([&] { return ::kill(pid, 0) != 0; }, 15'000));
    home_.reset();
  }

  void trainsOnThisMachine() {
    open({});
    trainAndExport(nullptr, 3);
  }

  void trainsOverSsh() {
    const test::TempFolder folder;
    test::makeKey(folder / "key");
    std::vector<std::unique_ptr<test::Sshd>> servers;
    std::vector<const test::Sshd*> list;
    for (int i = 1; i <= 3; ++i) {
      const std::string own = folder / ("s" + std::to_string(i));
      QVERIFY(QDir().mkpath(QString::fromStdString(own)));
      std::string why;
      servers.push_back(test::Sshd::start(own, folder / "key", {}, &why));
      if (!servers.back()) QSKIP(why.c_str());
      list.push_back(servers.back().get());
    }
    const std::string config = folder / "ssh_config";
    test::writeText(config, test::sshConfigFor(list, folder / "known_hosts", folder / "key"), 0600);
    open(QString::fromStdString(config));

    ClusterPage* page = window_->newCluster();
    QVERIFY(page);
    for (int i = 1; i <= 3; ++i) {
      page->findChild<QPushButton*>("addHostButton")->click();
      AddHostDialog* dialog = nullptr;
      QVERIFY(wait([&] {
        for (auto* one : page->findChildren<AddHostDialog*>()) if (one->isVisible()) dialog = one;
        return dialog != nullptr;
      }));
      auto* host = dialog->findChild<QComboBox*>("addHostHost");
      const int index = host->findText(QString("n%1").arg(i));
      QVERIFY(index >= 0);   // offered from the SSH configuration
      host->setCurrentIndex(index);
      dialog->findChild<QLineEdit*>("addHostAddress")->setText("127.0.0.1");
      dialog->findChild<QLineEdit*>("addHostWorkdir")->setText(QString::fromStdString(folder / ("w" + std::to_string(i))));
      dialog->findChild<QPushButton*>("addHostDialogAccept")->click();
      QCOMPARE(page->nodes()->rowCount(), i);
    }
    window_->findChild<QAction*>("actionSave")->trigger();
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));

    page->findChild<QPushButton*>("connectButton")->click();
    std::set<std::string> trusted;
    QVERIFY2(wait([&] {
      for (auto* dialog : window_->findChildren<HostKeyDialog*>()) {
        if (!dialog->isVisible()) continue;
        trusted.insert(dialog->findChild<QLineEdit*>("hostKeyFingerprint")->text().toStdString());
        dialog->findChild<QPushButton*>("hostKeyDialogAccept")->click();
      }
      collect(page);
      return page->connectedCount() == 3;
    }, 120'000), qPrintable(page->message()->details()));
    QCOMPARE(trusted.size(), std::size_t{3});
    for (const auto* server : list) QVERIFY(trusted.contains(server->fingerprint()));
    QVERIFY(wait([&] { return page->nodes()->rows()[0].sampled; }));
    trainAndExport(page, 3);
  }

 private:
  void open(const QString& sshConfig) {
    StudioOptions options = home_->options();
    options.sshConfig = sshConfig;
    window_ = std::make_unique<MainWindow>(options);
    window_->show();
  }

  void collect(ClusterPage* page) {
    auto live = page->liveIfAny();
    if (!live) return;
    for (int i = 0; i < live->session().size(); ++i) {
      if (const int pid = live->session().status(i).inventory.agentPid; pid > 0) agents_.insert(pid);
    }
  }
  // Local agents are found by the sockets' owner: their work folders lie in the test's home.
  void collectLocal() {
    const QByteArray needle = QByteArray::fromStdString(home_->home().root);
    for (const QString& entry : QDir("/proc").entryList(QDir::Dirs)) {
      bool number = false;
      const int pid = entry.toInt(&number);
      if (!number) continue;
      QFile line("/proc/" + entry + "/cmdline");
      if (!line.open(QIODevice::ReadOnly)) continue;
      const QByteArray text = line.readAll();
      if (text.contains("lockstep-agent") && text.contains("serve") && text.contains(needle)) agents_.insert(pid);
    }
  }

  void trainAndExport(ClusterPage* cluster, int ranks) {
    const QString path = home_->path("short.yaml");
    QFile example(QString::fromStdString(tests::examplePath("fashion-mlp.yaml")));
    QVERIFY(example.open(QIODevice::ReadOnly));
    QFile spec(path);
    QVERIFY(spec.open(QIODevice::WriteOnly));
    spec.write(QString::fromUtf8(example.readAll()).replace("epochs: 5", "epochs: 1\n  max_steps: 300").toUtf8());
    spec.close();
    auto* model = qobject_cast<ModelPage*>(window_->openFile(path));
    QVERIFY(model);
    QVERIFY2(model->document()->spec().ok(), qPrintable(model->document()->text()));

    QPointer<LaunchDialog> dialog = window_->openLaunch(model, cluster);
    QVERIFY(dialog);
    const auto refused = [&] { return dialog ? dialog->findChild<MessagePanel*>()->details() : QString(); };
    if (!cluster) dialog->findChild<QSpinBox*>("launchNodes")->setValue(ranks);
    dialog->findChild<QCheckBox*>("launchMeasure")->setChecked(false);
    QVERIFY(wait([&] { return dialog->ready() && dialog->findChild<QPushButton*>("launchDialogAccept")->isEnabled(); }));
    QCOMPARE(static_cast<int>(dialog->preview()->ranks.size()), ranks);
    QString run;
    connect(dialog.data(), &LaunchDialog::launched, this, [&](const QString& id) { run = id; });
    dialog->findChild<QPushButton*>("launchDialogAccept")->click();
    QVERIFY2(wait([&] { return !run.isEmpty() || !refused().isEmpty(); }, 90'000), "the launch did not end");
    QVERIFY2(!run.isEmpty(), qPrintable(refused()));
    collectLocal();

    auto* page = qobject_cast<RunPage*>(window_->currentPage());
    QVERIFY(page);
    QVERIFY2(wait([&] { return page->lossPlot()->sampleCount() > 0; }, 60'000), qPrintable(page->message()->details()));
    QVERIFY2(wait([&] { return app::isFinal(page->document()->row().phase); }, 90'000), qPrintable(page->message()->details()));
    collectLocal();
    QCOMPARE(page->document()->row().phase, app::RunPhase::kSucceeded);
    QCOMPARE(page->document()->row().figures.steps, 300);
    QVERIFY(wait([&] { return page->document()->series("loss")->raw().size() == 300; }));
    QCOMPARE(page->document()->breakdown().size(), static_cast<std::size_t>(ranks));
    QVERIFY(page->straggler().isEmpty());

    HistoryPage* history = window_->openHistory();
    QVERIFY(wait([&] { return history->runs()->find(run) >= 0 &&
                              history->runs()->runs()[static_cast<std::size_t>(history->runs()->find(run))].phase == app::RunPhase::kSucceeded; }));
    history->selectRun(run);
    const QString csv = home_->path("run.csv");
    history->exportTo(csv);
    QVERIFY(wait([&] { return QFileInfo(csv).size() > 0; }));
    QFile exported(csv);
    QVERIFY(exported.open(QIODevice::ReadOnly));
    const QList<QByteArray> lines = exported.readAll().split('\n');
    QVERIFY(lines[0].startsWith("step,"));
    QVERIFY(lines.size() > 300);
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  std::set<int> agents_;
};

QTEST_MAIN(StudioRunTest)
#include "studio_run_test.moc"
