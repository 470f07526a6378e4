// The whole road through the studio's own window: hosts, fingerprints, deploy, launch, curves that
// grow, the history, an export. Real sshd, real agents, real workers.
#include "tests/ui/studio_road.h"

using namespace lockstep;
using lockstep::tests::StudioHome;
using lockstep::tests::StudioRoad;

class StudioRunTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void init() {
    home_ = std::make_unique<StudioHome>();
    road_ = std::make_unique<StudioRoad>(home_->home());
  }
  void cleanup() {
    if (!road_) return;
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void trainsOnThisMachine() {
    road_->open();
    trainAndExport(nullptr);
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
    road_->open(QString::fromStdString(config));
    std::set<std::string> trusted;
    auto* cluster = road_->addHosts({3, "127.0.0.1"}, folder.path(), &trusted, true);
    if (QTest::currentTestFailed()) return;
    for (const auto* server : list) QVERIFY(trusted.contains(server->fingerprint()));
    trainAndExport(cluster);
    road_->close();
    road_->endAgents();   // before their work folders go
  }

 private:
  void trainAndExport(ui::ClusterPage* cluster) {
    road_->launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 1\n  max_steps: 300"}}, cluster, 3);
    if (!QTest::currentTestFailed()) road_->watchCurvesGrow();
    if (!QTest::currentTestFailed()) road_->finish(300, 3);
    if (QTest::currentTestFailed()) return;
    QVERIFY(road_->page()->straggler().isEmpty());
    road_->findInHistoryAndExport(300);
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<StudioRoad> road_;
};

QTEST_MAIN(StudioRunTest)
#include "studio_run_test.moc"
