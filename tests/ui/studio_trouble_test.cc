// What goes wrong, provoked for real and seen in the studio's own window: each error names node,
// cause and what to do, and nothing half-started stays.
#include "tests/support/trouble.h"
#include "tests/ui/studio_road.h"
#include "ui/studio/log_model.h"
#include "ui/theme/format.h"

using namespace lockstep;
using lockstep::tests::StudioHome;
using lockstep::tests::StudioRoad;
using lockstep::tests::wait;

namespace {

void checkSays(const QString& text, const QString& node, const std::vector<std::string>& parts) {
  QVERIFY2(text.contains("node " + node), qPrintable(text));
  for (const std::string& part : parts)
    QVERIFY2(text.contains(QString::fromStdString(part)),
             qPrintable(QString::fromStdString(part) + " in\n" + text));
}

}  // namespace

class StudioTroubleTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    road_ = std::make_unique<StudioRoad>(home_->home());
  }
  void cleanup() {
    qunsetenv("LOCKSTEP_BUNDLE");
    if (!road_) return;
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void nodeThatCannotBeUsed_data() {
    QTest::addColumn<QString>("name");
    for (const std::string& name : test::SshTrouble::all())
      QTest::newRow(name.c_str()) << QString::fromStdString(name);
  }
  void nodeThatCannotBeUsed() {
    QFETCH(QString, name);
    std::string why;
    const auto trouble = test::SshTrouble::make(name.toStdString(), &why);
    if (!trouble) QSKIP(why.c_str());
    qputenv("LOCKSTEP_BUNDLE", QByteArray::fromStdString(trouble->bundle()));
    road_->open(QString::fromStdString(trouble->sshConfig()));
    auto* page = qobject_cast<ui::ClusterPage*>(
        road_->window()->openFile(QString::fromStdString(trouble->clusterFile())));
    QVERIFY(page);
    page->findChild<QPushButton*>("connectButton")->click();
    QVERIFY(wait([&] {
      for (auto* dialog : road_->window()->findChildren<ui::HostKeyDialog*>())
        if (dialog->isVisible()) dialog->findChild<QPushButton*>("hostKeyDialogReject")->click();
      return !page->message()->details().isEmpty();
    }));
    QVERIFY(page->message()->isVisibleTo(page));
    checkSays(page->message()->details(), "n1", trouble->says());
    if (QTest::currentTestFailed()) return;
    QCOMPARE(page->nodes()->rows()[0].phase, app::NodeState::UNAVAILABLE);
    QVERIFY(trouble->nothingStays());
    road_->close();  // before its host
  }

  // By the command that the refusal tells; the new key is asked about like that of a new host.
  void aChangedHostKeyIsTrustedOnceTheOldOneIsRemoved() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    const test::TempFolder folder;
    const std::string workdir = home_->home().root + "/local/n1";  // cleanup() ends agents there
    test::makeKey(folder / "key");
    std::string why;
    const auto server = test::Sshd::start(folder / "sshd", folder / "key", {}, &why);
    if (!server) QSKIP(why.c_str());
    test::writeText(folder / "known_hosts", server->knownHostsLine() + "\n", 0600);
    server->replaceHostKey();
    test::writeText(folder / "ssh_config",
                    test::sshConfigFor({server.get()}, folder / "known_hosts", folder / "key"),
                    0600);
    test::writeText(folder / "lab.yaml",
                    "version: 1\nname: lab\nnodes:\n  - {name: n1, ssh: {host: n1}, workdir: " +
                        workdir + "}\n");
    road_->open(QString::fromStdString(folder / "ssh_config"));
    auto* page = qobject_cast<ui::ClusterPage*>(
        road_->window()->openFile(QString::fromStdString(folder / "lab.yaml")));
    QVERIFY(page);
    auto* connectButton = page->findChild<QPushButton*>("connectButton");
    for (int i = 0; i < 2; ++i) {  // refused until then
      page->message()->clear();
      QTest::mouseClick(connectButton, Qt::LeftButton);
      QVERIFY(wait([&] { return page->message()->details().contains("has changed"); }));
      QVERIFY(!road_->window()->findChild<ui::HostKeyDialog*>());
    }
    const QString remove = QRegularExpression("ssh-keygen -f '[^']+' -R '[^']+'")
                               .match(page->message()->details())
                               .captured();
    QVERIFY2(!remove.isEmpty(), qPrintable(page->message()->details()));
    QCOMPARE(QProcess::execute("sh", {"-c", remove}), 0);
    QTest::mouseClick(connectButton, Qt::LeftButton);
    ui::HostKeyDialog* ask = nullptr;
    QVERIFY(wait([&] {
      ask = road_->window()->findChild<ui::HostKeyDialog*>();
      return ask && ask->isVisible();
    }));
    QCOMPARE(ask->findChild<QLineEdit*>("hostKeyFingerprint")->text().toStdString(),
             server->fingerprint());
    QTest::mouseClick(ask->findChild<QPushButton*>("hostKeyDialogAccept"), Qt::LeftButton);
    QVERIFY2(wait([&] { return page->connectedCount() == 1; }),
             qPrintable(page->message()->details()));
  }

  void runThatANodeCannotTake_data() {
    QTest::addColumn<QString>("name");
    for (const std::string& name : test::RunTrouble::all())
      QTest::newRow(name.c_str()) << QString::fromStdString(name);
  }
  void runThatANodeCannotTake() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    QFETCH(QString, name);
    const std::string folder = home_->home().root + "/local";
    QVERIFY(QDir().mkpath(QString::fromStdString(folder)));
    std::string why;
    const auto trouble = test::RunTrouble::make(name.toStdString(), folder, &why);
    if (!trouble) QSKIP(why.c_str());
    road_->open();
    auto* cluster = qobject_cast<ui::ClusterPage*>(
        road_->window()->openFile(QString::fromStdString(trouble->clusterFile())));
    QVERIFY(cluster);
    QString refusal;
    road_->tryLaunch("fashion-mlp.yaml", {}, cluster, 2, &refusal);
    if (QTest::currentTestFailed()) return;
    checkSays(refusal, "n2", trouble->says());
    if (QTest::currentTestFailed()) return;
    // The node that could have taken it is told while the refusal is shown.
    QVERIFY(tests::wait([&] { return trouble->noRunStays(); }));
    QVERIFY(tests::wait([&] {
      return road_->processes("supervise").empty() && road_->processes("worker").empty();
    }));
  }

  // The window shows why, that it trains again, and what it cost; no point of a curve comes twice.
  void killedWorkerIsReplaced() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    road_->open();
    road_->launch("fashion-mlp.yaml",
                  {{"epochs: 5", "epochs: 1000000\n  checkpoint: {every_steps: 200}"}}, nullptr, 2);
    if (QTest::currentTestFailed()) return;
    auto* document = road_->page()->document();
    QList<ui::Alert> failures;
    int over = 0;
    const auto isRestart = [](const QString& key) { return key.endsWith(":restart"); };
    connect(road_->page(), &ui::Page::alertRaised, this, [&](const ui::Alert& alert) {
      if (isRestart(alert.key)) failures += alert;
    });
    connect(road_->page(), &ui::Page::alertOver, this,
            [&](const QString& key) { over += isRestart(key) ? 1 : 0; });
    QVERIFY(wait([&] { return document->series("loss")->raw().size() > 0; }));
    const auto workers = road_->processes("worker", road_->run());
    QCOMPARE(workers.size(), std::size_t{2});
    ::kill(workers.back(), SIGKILL);
    QVERIFY(wait([&] { return document->row().generation == 2; }));
    QVERIFY(wait([&] { return document->row().phase == app::RunState::RUNNING; }));
    QVERIFY(document->canStop());
    const std::int64_t before = document->lastStep();
    QVERIFY(wait([&] { return document->lastStep() > before; }));
    QVERIFY(wait([&] { return over == 1; }));
    road_->stop(2);
    if (QTest::currentTestFailed()) return;
    QCOMPARE(failures.size(), qsizetype{1});
    const std::string text = failures.front().text.text();
    QVERIFY2(text.starts_with("the run restarts from its last checkpoint: ") &&
                 text.find("SIGKILL") != std::string::npos,
             text.c_str());
    QVERIFY(failures.front().lasts && failures.front().when.isValid());
    const double lost = document->row().figures.lostSeconds;
    const double effective = app::effectiveTime(document->row());
    QVERIFY(lost > 0 && effective > 0 && effective < 1);
    const auto rows = road_->page()->inspectorRows();
    QVERIFY(rows.contains(ui::InspectorRow{"Lost to failures", ui::formatSeconds(lost)}));
    QVERIFY(rows.contains(
        ui::InspectorRow{"Effective training time", ui::formatPercent(effective, 1)}));
  }

  void killedWorkerEndsTheRunWithItsLastLines() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    road_->open();
    road_->launch(
        "fashion-mlp.yaml",
        {{"epochs: 5", "epochs: 1000"}, {"strategy:", "recovery: {policy: none}\nstrategy:"}},
        nullptr, 2);
    if (!QTest::currentTestFailed()) road_->watchCurvesGrow();
    if (QTest::currentTestFailed()) return;
    auto* document = road_->page()->document();
    const auto workers = road_->processes("worker", road_->run());
    QCOMPARE(workers.size(), std::size_t{2});
    ::kill(workers.back(), SIGKILL);
    QVERIFY(wait([&] { return app::isFinal(document->row().phase); }));
    QCOMPARE(document->row().phase, app::RunState::FAILED);
    QVERIFY(wait([&] { return !road_->page()->message()->details().isEmpty(); }));
    const QString said = road_->page()->message()->details();
    QVERIFY2(said.contains("node local") && said.contains("rank ") && said.contains("step "),
             qPrintable(said));
    checkSays(said, "local", {"SIGKILL", "its last lines:", "resume the run"});
    if (QTest::currentTestFailed()) return;
    // The logs have lines of both ranks, on a page that shows them.
    std::set<int> ranks;
    auto* logs = document->logs();
    for (int row = 0; row < logs->rowCount(); ++row)
      ranks.insert(logs->data(logs->index(row, 0), ui::LogModel::kRankRole).toInt());
    QVERIFY(ranks.contains(0) && ranks.contains(1));
    QVERIFY(wait([&] { return road_->processes("worker", road_->run()).empty(); }));
  }

  // Both links are cut and both agents killed in the middle: the run goes on, the studio finds it
  // again through new agents, and its curves have every step. One server forwards nothing.
  void runOutlivesCutLinksAndKilledAgents() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    const test::TempFolder folder;
    test::makeKey(folder / "key");
    std::vector<std::unique_ptr<test::Sshd>> servers;
    for (int i = 1; i <= 2; ++i) {
      test::SshdOptions options;
      if (i == 2) options.extraConfig = "AllowTcpForwarding no\nAllowStreamLocalForwarding no";
      std::string why;
      servers.push_back(
          test::Sshd::start(folder / ("s" + std::to_string(i)), folder / "key", options, &why));
      if (!servers.back()) QSKIP(why.c_str());
    }
    const std::string config = folder / "ssh_config";
    test::writeText(config,
                    test::sshConfigFor({servers[0].get(), servers[1].get()}, folder / "known_hosts",
                                       folder / "key"),
                    0600);
    road_->open(QString::fromStdString(config));
    std::set<std::string> trusted;
    auto* cluster = road_->addHosts(std::vector<std::string>(2), folder.path(), &trusted, true);
    if (QTest::currentTestFailed()) return;
    road_->launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 1000000"}}, cluster, 2);
    if (!QTest::currentTestFailed()) road_->watchCurvesGrow();
    if (QTest::currentTestFailed()) return;
    std::set<int> before;
    for (int n = 0; n < 2; ++n)
      before.insert(cluster->liveIfAny()->session().status(n).inventory.agentPid);
    for (const auto& server : servers) QVERIFY(server->killSessions() > 0);
    for (const int agent : before) QVERIFY(::kill(agent, SIGKILL) == 0);
    const auto& session = cluster->liveIfAny()->session();
    QVERIFY(wait([&] {
      for (int n = 0; n < 2; ++n)
        if (session.status(n).phase != app::NodeState::CONNECTED ||
            before.contains(session.status(n).inventory.agentPid))
          return false;
      return true;
    }));
    for (int n = 0; n < 2; ++n) road_->sawAgent(session.status(n).inventory.agentPid);
    QVERIFY(!app::isFinal(road_->page()->document()->row().phase));  // in the middle
    const std::int64_t seen = road_->page()->document()->lastStep();
    QVERIFY(wait([&] { return road_->page()->document()->lastStep() > seen; }));
    road_->stop(2);
    if (QTest::currentTestFailed()) return;
    road_->close();
    road_->endAgents();  // before their work folders go
  }

 private:
  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<StudioRoad> road_;
};

QTEST_MAIN(StudioTroubleTest)
#include "studio_trouble_test.moc"
