#include <QtTest>

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
    QCOMPARE(mesh.text(), std::string("data 2, model 3"));
  }
  void noAxesIsOneRank() {
    QCOMPARE(Mesh().size(), 1);
    QCOMPARE(Mesh().text(), std::string());
  }
};

QTEST_GUILESS_MAIN(MeshTest)
#include "mesh_test.moc"
