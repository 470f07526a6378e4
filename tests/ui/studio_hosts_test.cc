// The road once more over hosts of their own: each in its own network and process namespace with
// its own sshd on its own address. The studio is on the bridge between them. Needs root.
#include "tests/cluster/hosts.h"
#include "tests/ui/studio_road.h"

using namespace lockstep;

class StudioHostsTest : public QObject {
  Q_OBJECT

 public:
  // Before there are threads: they all have to be on the studio's host.
  StudioHostsTest() {
    test::makeKey(folder_ / "key");
    hosts_ = test::Hosts::start(kHosts, folder_.path(), folder_ / "key", &why_);
    if (hosts_ && !hosts_->enter()) {
      hosts_.reset();
      why_ = "the bridge's namespace cannot be entered";
    }
  }

 private Q_SLOTS:
  void trainsOnHostsOfTheirOwn() {
    if (!hosts_) QSKIP(why_.c_str());
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    const tests::StudioHome home;
    tests::StudioRoad road(home.home());
    const std::string config = folder_ / "ssh_config";
    test::writeText(config, hosts_->sshConfig(folder_ / "known_hosts", folder_ / "key"), 0600);
    test::writeText(folder_ / "known_hosts", "", 0600);   // every host is asked about
    road.open(QString::fromStdString(config));
    std::set<std::string> trusted;
    auto* cluster = road.addHosts(std::vector<std::string>(kHosts), folder_.path(), &trusted, false);
    if (QTest::currentTestFailed()) return;
    for (int i = 1; i <= kHosts; ++i) QVERIFY(trusted.contains(hosts_->sshd(i).fingerprint()));
    road.launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 1\n  max_steps: 300"}}, cluster, kHosts);
    if (!QTest::currentTestFailed()) road.watchCurvesGrow();
    if (!QTest::currentTestFailed()) road.finish(300, kHosts);
    if (!QTest::currentTestFailed()) road.findInHistoryAndExport(300);
  }

 private:
  static constexpr int kHosts = 3;
  test::TempFolder folder_;
  std::string why_;
  std::unique_ptr<test::Hosts> hosts_;   // ends every process on them
};

int main(int argc, char** argv) {
  StudioHostsTest test;
  QApplication app(argc, argv);
  return QTest::qExec(&test, argc, argv);
}
#include "studio_hosts_test.moc"
