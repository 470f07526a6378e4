// Grades of a pre-flight's values and versions, its links as a matrix, and the file of earlier
// results.
#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "app/cluster/link_matrix.h"
#include "app/cluster/preflight.h"
#include "lockstep/node/v1/node.pb.h"
#include "tests/support/made_up_links.h"

using namespace lockstep;
using namespace lockstep::app;
using Kind = PreflightValue::Kind;
using Grade = PreflightValue::Grade;

namespace {

// A letter per node: same, different, or "-" where it is ungraded.
std::string gradesOf(const std::vector<NodeVersion>& versions) {
  std::string out;
  for (const NodeVersion& one : versions)
    out += one.grade == NodeVersion::Grade::kSame        ? 's'
           : one.grade == NodeVersion::Grade::kDifferent ? 'd'
                                                         : '-';
  return out;
}
std::string gradesOfKernels(const std::vector<std::string>& versions) {
  return gradesOf(tests::madeUpVersions(NodeVersion::Kind::kKernel, versions));
}

}  // namespace

class PreflightTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void theFirstIsComparedAmongItself() {
    PreflightResult two{{{Kind::kMatmul, "n1", "", 9}, {Kind::kMatmul, "n2", "", 1}}};
    grade(two, {});
    for (const auto& value : two.values) QVERIFY(value.grade == Grade::kUngraded);
    grade(two, {}, 1);
    QVERIFY(two.values[0].grade == Grade::kGood && two.values[1].grade == Grade::kWeak);
    PreflightResult three{{{Kind::kMatmul, "n1", "", 10},
                           {Kind::kMatmul, "n2", "", 6},
                           {Kind::kMatmul, "n3", "", 9},
                           {Kind::kMemory, "n1", "", 1}}};
    grade(three, {});
    QVERIFY(three.values[0].grade == Grade::kGood);
    QVERIFY(three.values[1].grade == Grade::kWeak);
    QCOMPARE(three.values[1].usual, 10.0);
    QVERIFY(three.values[2].grade == Grade::kGood);
    QVERIFY(three.values[3].grade == Grade::kUngraded);  // of another kind
    QCOMPARE(three.weak(), 1);
  }

  void laterOnesAreComparedWithThemselves() {
    const PreflightResult before{
        {{Kind::kBandwidth, "n1", "n2", 100}, {Kind::kRoundTrip, "n1", "n2", 1e-4}}};
    const auto graded = [&](double bandwidth, double trip) {
      PreflightResult now{
          {{Kind::kBandwidth, "n1", "n2", bandwidth}, {Kind::kRoundTrip, "n1", "n2", trip}}};
      grade(now, {before, before, before});
      return now;
    };
    QCOMPARE(graded(71, 1.4e-4).weak(), 0);
    QCOMPARE(graded(69, 1.4e-4).weak(), 1);
    QCOMPARE(graded(71, 1.6e-4).weak(), 1);
    QCOMPARE(graded(1000, 1e-6).weak(), 0);
    QVERIFY(graded(69, 1e-4).values[0].earlier);
    QCOMPARE(graded(69, 1e-4).earlier, std::size_t{3});
    QCOMPARE(weakText(graded(69e6, 1e-4).values[0]).text(),
             std::string("link n1 → n2 sends 69 MB/s, usually 0.0001"));
    PreflightValue fast{Kind::kMemory, "n1", "", 9981e6};
    fast.usual = 31.67e9;
    QCOMPARE(weakText(fast).text(),
             std::string("node n1 reads 9981 MB/s from memory, usually 31670"));
    fast.kind = Kind::kMatmul;
    QCOMPARE(weakText(fast).text(), std::string("node n1 computes 9.981 GFLOP/s, usually 31.67"));
    fast.usual = 12.3e12;
    QCOMPARE(weakText(fast).text(), std::string("node n1 computes 9.981 GFLOP/s, usually 12300"));
    fast.kind = Kind::kClockSkew;
    fast.value = 46'800;
    QCOMPARE(weakText(fast).text(), std::string("the clock of node n1 is off by 46800 s"));
  }

  // A node may tell anything. The file of earlier results has numbers alone.
  void whatCannotBeIsNoValue() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::pair<double, double> told[] = {{1e9, 0.5},    {-1, 1},        {1e9, -1},
                                              {1e9, 5e-324}, {kInfinity, 1}, {1, NAN}};
    node::v1::BenchReply reply;
    for (const auto& [work, seconds] : told) {
      auto& one = *reply.add_speeds();
      one.set_name("fp32");
      one.set_work(work);
      one.set_seconds(seconds);
    }
    reply.add_speeds()->set_why_not("no room");  // it was not measured
    const PreflightResult found = speedsOf(reply, Kind::kMatmul, "n1");
    QCOMPARE(found.values.size(), std::size_t{1});
    QCOMPARE(found.values[0].value, 2e9);
    QCOMPARE(found.errors.size(), std::size(told));
    for (const Error& error : found.errors) QCOMPARE(error.node, std::string("n1"));

    node::v1::MeasurePeerReply link;
    link.set_bytes_per_second(1e9);
    QCOMPARE(linkOf(link, "n1", "n2").values.size(), std::size_t{2});
    link.set_round_trip(kInfinity);
    QVERIFY(linkOf(link, "n1", "n2").values.empty());
    QCOMPARE(linkOf(link, "n1", "n2").errors.size(), std::size_t{1});
  }

  // Disks vary more than processors.
  void aDiskIsWeakAtLessThanHalf() {
    PreflightResult now{{{Kind::kDiskWrite, "n1", "", 50e6}, {Kind::kDiskWrite, "n2", "", 100e6}}};
    grade(now, {}, 1);
    QCOMPARE(now.weak(), 0);
    now.values[0].value = 30e6;
    grade(now, {}, 1);
    QCOMPARE(now.weak(), 1);
    QCOMPARE(weakText(now.values[0]).text(),
             std::string("node n1 writes 30 MB/s to its disk, usually 100"));
  }

  // A GPU is compared with all others, also those of its node, and later with itself.
  void gpusAreToldApart() {
    const auto onGpus = [](std::vector<double> rates) {
      PreflightResult out;
      for (std::size_t i = 0; i < rates.size(); ++i) {
        out.values.push_back({Kind::kGpuMatmul, i < 2 ? "n1" : "n2", "", rates[i]});
        out.values.back().gpu = static_cast<int>(i % 2);
      }
      return out;
    };
    PreflightResult now = onGpus({400e12, 390e12, 410e12, 200e12});
    grade(now, {});
    QCOMPARE(now.weak(), 1);
    QCOMPARE(weakText(now.values[3]).text(),
             std::string("GPU 1 of node n2 computes 200 TFLOP/s, usually 400"));
    grade(now, {onGpus({400e12, 390e12, 410e12, 210e12})});
    QCOMPARE(now.weak(), 0);
    const QTemporaryDir folder;
    const Home home{folder.path().toStdString()};
    QVERIFY(addPreflight(home, "lab", now).ok());
    const auto kept = readPreflights(home, "lab");
    QVERIFY(kept.ok() && kept->size() == 1);
    for (std::size_t i = 0; i < 4; ++i) QCOMPARE(kept->front().values[i].gpu, now.values[i].gpu);
  }

  // One value for all nodes: there is nothing else to compare it with than earlier ones.
  void allReduceIsComparedWithEarlierOnes() {
    const auto once = [](double rate, const char* nodes = "n1,n2") {
      return PreflightResult{
          {{Kind::kAllReduce, nodes, "", rate}, {Kind::kBandwidth, "n1", "n2", 1}}};
    };
    PreflightResult now = once(60e6);
    grade(now, {once(100e6, "n1,n2,n3")});  // of other nodes
    QVERIFY(now.values[0].grade == Grade::kUngraded);
    grade(now, {}, 1);
    QVERIFY(now.values[0].grade == Grade::kUngraded);
    grade(now, {once(100e6)});
    QVERIFY(now.values[0].grade == Grade::kWeak && now.values[0].earlier);
    QCOMPARE(weakText(now.values[0]).text(),
             std::string("all-reduce over all nodes has a bus bandwidth of 60 MB/s, usually 100"));
  }

  void somethingIsWeakByItself() {
    PreflightResult now{{{Kind::kDiskFree, "n1", "", 4e9},
                         {Kind::kDiskFree, "n2", "", 6e9},
                         {Kind::kClockSkew, "n1", "", 2},
                         {Kind::kClockSkew, "n2", "", 0.1},
                         {Kind::kGpuLanes, "n1", "", 0.5},
                         {Kind::kGpuLanes, "n2", "", 1}}};
    grade(now, {});
    for (std::size_t i = 0; i < now.values.size(); ++i)
      QVERIFY((now.values[i].grade == Grade::kWeak) == (i % 2 == 0));
  }

  void versionsAreComparedAmongNodes() {
    QCOMPARE(gradesOfKernels({"6.1", "6.1", "6.1"}), std::string("sss"));
    QCOMPARE(gradesOfKernels({"6.1", "6.1", "6.6", "6.1"}), std::string("ssds"));
    QCOMPARE(gradesOfKernels({"6.6", "6.1", "6.1"}), std::string("dss"));
    // Of two the first counts, as where all differ.
    QCOMPARE(gradesOfKernels({"6.1", "6.6"}), std::string("sd"));
    QCOMPARE(gradesOfKernels({"6.1", "6.6", "6.8"}), std::string("sdd"));
    QCOMPARE(gradesOfKernels({}), std::string());
    QCOMPARE(gradesOfKernels({"6.6", "6.1", "6.8", "6.1"}), std::string("dsds"));
  }

  void anUnknownVersionIsUngraded() {
    QCOMPARE(gradesOfKernels({"6.1", "", "6.1"}), std::string("s-s"));
    QCOMPARE(gradesOfKernels({"", "6.6", "6.1", "6.1"}), std::string("-dss"));
    QCOMPARE(gradesOfKernels({"6.1", ""}), std::string("--"));
    QCOMPARE(gradesOfKernels({"6.1"}), std::string("-"));
    QCOMPARE(gradesOfKernels({"", ""}), std::string("--"));
    const auto versions = tests::madeUpVersions(NodeVersion::Kind::kKernel, {"6.1", "", "6.1"});
    QVERIFY(versions[1].usual.empty() && versions[1].peers.empty());
  }

  void theOddNodeIsNamedWithBothVersions() {
    using Of = NodeVersion::Kind;
    const auto textOf = [](Of kind, const std::vector<std::string>& versions) {
      for (const NodeVersion& one : tests::madeUpVersions(kind, versions))
        if (one.grade == NodeVersion::Grade::kDifferent) return differentText(one).text();
      return std::string();
    };
    QCOMPARE(textOf(Of::kKernel, {"6.1", "6.1", "6.6"}),
             std::string("node n3 has kernel 6.6, unlike the 6.1 of n1, n2"));
    QCOMPARE(textOf(Of::kGpuDriver, {"580.1", "570.2"}),
             std::string("node n2 has GPU driver 570.2, unlike the 580.1 of n1"));
    QCOMPARE(textOf(Of::kCuda, {"12.8", "13.0", "13.0", "13.0", "13.0", "13.0"}),
             std::string("the GPU driver of node n1 runs CUDA 12.8, unlike the 13.0 of n2, n3, n4, "
                         "n5, …"));
    QCOMPARE(textOf(Of::kNccl, {"2.27.3", "2.26.2"}),
             std::string("node n2 has NCCL 2.26.2, unlike the 2.27.3 of n1"));
    QCOMPARE(textOf(Of::kAgent, {std::string(64, 'a'), std::string(64, 'b')}),
             std::string("node n2 has agent bbbbbbbbbbbb, unlike the aaaaaaaaaaaa of n1"));
    QCOMPARE(textOf(Of::kKernel, {"6.1", "6.1"}), std::string());
  }

  void kindsOfVersionsAreApart() {
    std::vector<NodeVersion> versions{{NodeVersion::Kind::kCuda, "n1", "13.0"},
                                      {NodeVersion::Kind::kCuda, "n2", "13.0"},
                                      {NodeVersion::Kind::kNccl, "n1", "2.27.3"},
                                      {NodeVersion::Kind::kNccl, "n2", "2.26.2"},
                                      {NodeVersion::Kind::kGpuDriver, "n1", "580.1"}};
    gradeVersions(versions);
    QCOMPARE(gradesOf(versions), std::string("sssd-"));
    versions[3].version = "2.27.3";
    gradeVersions(versions);  // anew
    QCOMPARE(gradesOf(versions), std::string("ssss-"));
    QCOMPARE(versions[3].peers, std::vector<std::string>{"n1"});
  }

  void linksAreAMatrix_data() {
    QTest::addColumn<int>("nodes");
    for (const int nodes : {2, 3, 20}) QTest::addRow("%d nodes", nodes) << nodes;
  }
  void linksAreAMatrix() {
    QFETCH(int, nodes);
    PreflightResult result = tests::madeUpLinks(nodes);
    std::reverse(result.values.begin(), result.values.end());  // in whatever order
    const auto count = static_cast<std::size_t>(nodes);
    const LinkMatrix links = linkMatrix(result, Kind::kBandwidth);
    QCOMPARE(links.nodes, result.nodes);
    QCOMPARE(links.cells.size(), count * count);
    QCOMPARE(links.median, 100e6);
    for (std::size_t from = 0; from < count; ++from)
      for (std::size_t to = 0; to < count; ++to) {
        const auto& cell = links.at(from, to);
        QCOMPARE(cell.has_value(), from != to);
        if (!cell) continue;
        QCOMPARE(cell->node, links.nodes[from]);
        QCOMPARE(cell->peer, links.nodes[to]);
        const bool isSlow = from == 0 && to == 1;
        QVERIFY(std::abs(links.log2Slowdown(*cell) - (isSlow ? std::log2(5.0) : 0)) < 1e-12);
        // Two have nothing to compare with.
        QCOMPARE(cell->grade == Grade::kWeak, isSlow && nodes > 2);
      }
    const std::vector<PreflightValue> slowest = links.slowestFirst();
    QCOMPARE(slowest.size(), count * (count - 1));
    QVERIFY(slowest[0].node == "n1" && slowest[0].peer == "n2");

    const LinkMatrix trips = linkMatrix(result, Kind::kRoundTrip);
    QVERIFY(std::abs(trips.log2Slowdown(*trips.at(0, 1)) - std::log2(2e-3 / trips.median)) < 1e-12);
    QCOMPARE(trips.slowestFirst()[0].value, 2e-3);
  }

  void aMissingLinkIsAnEmptyCell() {
    PreflightResult result = tests::madeUpLinks(3);
    tests::forgetLink(result, "n3", "n1");
    result.values.push_back({Kind::kBandwidth, "n9", "n1", 1});  // of no node
    const LinkMatrix links = linkMatrix(result, Kind::kBandwidth);
    QVERIFY(!links.empty() && !links.at(2, 0) && links.at(0, 2));
    QCOMPARE(links.slowestFirst().size(), std::size_t{5});
    for (const std::string& node : result.nodes)
      for (const std::string& peer : result.nodes) tests::forgetLink(result, node, peer);
    QVERIFY(linkMatrix(result, Kind::kBandwidth).empty());
    QVERIFY(linkMatrix({}, Kind::kRoundTrip).empty());
  }

  void aLinkOnWhichNothingPassesIsTheSlowest() {
    PreflightResult result = tests::madeUpLinks(3);
    for (PreflightValue& value : result.values)
      if (value.node == "n2" && value.peer == "n3") value.value = 0;
    const LinkMatrix links = linkMatrix(result, Kind::kBandwidth);
    QVERIFY(std::isinf(links.log2Slowdown(*links.at(1, 2))));
    QVERIFY(links.log2Slowdown(*links.at(1, 2)) > 0);
    QCOMPARE(links.slowestFirst()[0].node, std::string("n2"));
    result.values = {{Kind::kBandwidth, "n1", "n2", 0}};
    const LinkMatrix nothing = linkMatrix(result, Kind::kBandwidth);
    QCOMPARE(nothing.log2Slowdown(*nothing.at(0, 1)), 0.0);
  }

  void resultsAreKept() {
    const QTemporaryDir folder;
    const Home home{folder.path().toStdString()};
    QVERIFY(readPreflights(home, "lab/1").ok());
    for (int i = 1; i <= 25; ++i) {
      PreflightResult one{
          {{Kind::kBandwidth, "n1", "n2", i * 1.0}, {Kind::kDiskFree, "n1", "", 1}}};
      QVERIFY(addPreflight(home, "lab/1", one).ok());
    }
    const auto all = readPreflights(home, "lab/1");
    QVERIFY(all.ok());
    QCOMPARE(all->size(), std::size_t{20});
    QCOMPARE(all->front().values.size(), std::size_t{1});  // only what was measured
    QCOMPARE(all->front().values[0].value, 6.0);
    QCOMPARE(all->back().values[0].peer, std::string("n2"));
    QVERIFY(readPreflights(home, "another")->empty());
  }

  // As versions before wrote them.
  void resultsWithoutGpusAreRead() {
    const QTemporaryDir folder;
    const Home home{folder.path().toStdString()};
    QVERIFY(addPreflight(home, "lab", {}).ok());
    QFile file(QDir(folder.filePath("preflight")).entryInfoList({"lab-*.json"})[0].filePath());
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(R"([[{"kind":"matmul","node":"n1","peer":"","value":5}]])");
    file.close();
    const auto read = readPreflights(home, "lab");
    QVERIFY(read.ok() && read->size() == 1 && read->front().values.size() == 1);
    QCOMPARE(read->front().values[0].gpu, -1);
  }

  void eachClusterHasItsOwn() {
    const QTemporaryDir folder;
    const Home home{folder.path().toStdString()};
    const std::string far(400, 'a');
    const std::vector<std::string> names{"lab/1",  "lab-1",   "lab 1",  "Lab-1",   "实验室",
                                         "试验室", "",        "-",      "cluster", "../lab-1",
                                         far,      far + "b", far + "-"};
    for (std::size_t i = 0; i < names.size(); ++i)
      QVERIFY(
          addPreflight(home, names[i], {{{Kind::kBandwidth, "n1", "n2", static_cast<double>(i)}}})
              .ok());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto read = readPreflights(home, names[i]);
      QVERIFY(read.ok());
      QVERIFY2(read->size() == 1, names[i].c_str());
      QCOMPARE(read->front().values[0].value, static_cast<double>(i));
    }
    QCOMPARE(QDir(folder.path()).entryList(QDir::AllEntries | QDir::NoDotAndDotDot),
             QStringList{"preflight"});
  }

  void aDamagedFileIsNamed_data() {
    QTest::addColumn<QByteArray>("text");
    for (const char* text :
         {"", "{", "{}", "[1]", "[[1]]", "[[{}]]",
          R"([[{"kind":"bandwidth","node":1,"peer":"","value":1}]])",
          R"([[{"kind":"bandwidth","node":"n1","peer":"","value":"x"}]])",
          R"([[{"kind":"gpu-matmul","node":"n","peer":"","gpu":"","value":1}]])"})
      QTest::addRow("%s", text) << QByteArray(text);
  }
  void aDamagedFileIsNamed() {
    QFETCH(QByteArray, text);
    const QTemporaryDir folder;
    const Home home{folder.path().toStdString()};
    QVERIFY(addPreflight(home, "lab", {}).ok());
    const QStringList files = QDir(folder.filePath("preflight")).entryList({"lab-*.json"});
    QCOMPARE(files.size(), 1);
    QFile file(folder.filePath("preflight/" + files[0]));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(text);
    file.close();
    const auto read = readPreflights(home, "lab");
    QVERIFY(!read.ok());
    QCOMPARE(read.error().code, Code::kDataLoss);
    QVERIFY(read.error().text().find("preflight/lab-") != std::string::npos);
    QVERIFY(!addPreflight(home, "lab", {}).ok());  // and it is not written over
  }
};

QTEST_GUILESS_MAIN(PreflightTest)
#include "preflight_test.moc"
