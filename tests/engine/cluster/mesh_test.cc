#include <QTest>

#include "engine/cluster/mesh.h"

using lockstep::cluster::Mesh;

class MeshTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void lastAxisVariesFastest() {
    const Mesh mesh({{"data", 2}, {"model", 3}});
    QCOMPARE(mesh.size(), 6);
    QCOMPARE(mesh.axisSize("model"), 3);
    QCOMPARE(mesh.axisSize("stage"), 1);
    QCOMPARE(mesh.coordinate(4, "data"), 1);
    QCOMPARE(mesh.coordinate(4, "model"), 1);
    QCOMPARE(mesh.coordinate(4, "stage"), 0);
    QCOMPARE(mesh.group(4, "model"), (std::vector<int>{3, 4, 5}));
    QCOMPARE(mesh.group(4, "data"), (std::vector<int>{1, 4}));
    QCOMPARE(mesh.group(4, "stage"), (std::vector<int>{4}));
    QCOMPARE(mesh.member(4, "model", 0), 3);
    QCOMPARE(mesh.member(4, "data", 0), 1);
    QCOMPARE(mesh.member(1, "data", 1), 4);
    QCOMPARE(mesh.member(4, "stage", 0), 4);
    QCOMPARE(mesh.text(), std::string("data 2, model 3"));
  }
  void serversComeAfterTheWorkers() {
    const Mesh mesh({{"data", 3}}, 2);
    QCOMPARE(mesh.size(), 5);
    QCOMPARE(mesh.workers(), 3);
    QVERIFY(!mesh.isServer(2) && mesh.isServer(3));
    QCOMPARE(mesh.coordinate(4, "data"), -1);
    QCOMPARE(mesh.coordinate(4, "servers"), 4);
    QCOMPARE(mesh.axisSize("servers"), 5);
    QCOMPARE(mesh.group(1, "servers"), (std::vector<int>{0, 1, 2, 3, 4}));
    QCOMPARE(mesh.group(3, "data"), (std::vector<int>{3}));
    QCOMPARE(mesh.member(3, "data", 0), 3);
    QCOMPARE(mesh.member(1, "servers", 4), 4);
    QCOMPARE(mesh.stages(), 3);
    QCOMPARE(mesh.stageOf(1), 0);
    QCOMPARE(mesh.stageOf(4), 2);
    QCOMPARE(mesh.messageCoordinate(2), 4);
    QCOMPARE(mesh.text(), std::string("data 3, servers 2"));
  }
  void noAxesIsOneRank() {
    QCOMPARE(Mesh().size(), 1);
    QCOMPARE(Mesh().text(), std::string());
  }
};

QTEST_GUILESS_MAIN(MeshTest)
#include "mesh_test.moc"
