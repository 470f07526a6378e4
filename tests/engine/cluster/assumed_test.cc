// Figures of data sheets and what is assumed of devices, held against other sources.
#include "engine/cluster/assumed.h"

#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>
#include <cmath>

#include "engine/cluster/data_sheets.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::cluster;

namespace {

bool near(double a, double b, double most) { return std::abs(a / b - 1) <= most; }

}  // namespace

class AssumedTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // Drivers show a little more than the GB of a model's name, or a little less.
  void memoryIsThatOfTheName() {
    for (const DeviceSheet& sheet : deviceSheets()) {
      const std::string_view model = sheet.model;
      double gigabytes = model == "T4" ? 16 : model == "L40S" ? 48 : 24;
      if (model.ends_with("GB"))
        gigabytes = std::stod(std::string(model.substr(model.rfind('-') + 1)));
      const double shown = static_cast<double>(sheet.memoryBytes) / 1e9 / gigabytes;
      QVERIFY2(shown > 0.97 && shown < 1.07, std::string(model).c_str());
    }
    // as CUDA showed it on the node of tests/gpu/reports
    QVERIFY(near(static_cast<double>(findDeviceSheet("H100-SXM-80GB")->memoryBytes), 85'017'493'504,
                 0.002));
  }

  // A peak is multiprocessors × boost clock × operations of one in a clock: NVIDIA's architecture
  // whitepapers of Volta (2017), Turing (2018), Ampere (GA100 2020, GA102 2021), Ada (2022) and
  // Hopper (2022).
  void peaksAreThoseOfTheUnits() {
    struct Units {
      std::string_view model;
      double multiprocessors, megahertz, fp16, fp32;
    };
    for (const Units& units : {Units{"V100-SXM-32GB", 80, 1530, 1024, 128},
                               {"T4", 40, 1590, 1024, 128},
                               {"A10", 72, 1695, 1024, 256},
                               {"A100-SXM-80GB", 108, 1410, 2048, 128},
                               {"A100-PCIe-40GB", 108, 1410, 2048, 128},
                               {"A800-SXM-80GB", 108, 1410, 2048, 128},
                               {"L4", 58, 2040, 1024, 256},
                               {"L40S", 142, 2520, 1024, 256},
                               {"H100-PCIe-80GB", 114, 1620, 4096, 0},
                               {"H100-SXM-80GB", 132, 1830, 4096, 0},
                               {"H800-SXM-80GB", 132, 1830, 4096, 0},
                               {"H200-SXM-141GB", 132, 1830, 4096, 0}}) {
      const DeviceSheet* sheet = findDeviceSheet(units.model);
      QVERIFY2(sheet != nullptr, std::string(units.model).c_str());
      const double clocks = units.multiprocessors * units.megahertz * 1e6;
      QVERIFY2(near(sheet->fp16, clocks * units.fp16, 0.015), std::string(units.model).c_str());
      if (units.fp32 > 0)
        QVERIFY2(near(sheet->fp32, clocks * units.fp32, 0.015), std::string(units.model).c_str());
    }
  }

  // In each direction: NVLinks of a GPU, lanes of PCI Express with 128 bits in 130, bits a second.
  void linksAreThoseOfTheirLanes() {
    const auto bytes = [](std::string_view kind) { return findLinkSheet(kind)->bytesPerSecond; };
    for (const auto& [kind, links, each] : {std::tuple("nvlink-2", 6, 25e9),
                                            {"nvlink-3", 12, 25e9},
                                            {"nvlink-4", 18, 25e9},
                                            {"nvlink-5", 18, 50e9}})
      QCOMPARE(bytes(kind), links * each);
    for (const auto& [kind, transfers] :
         {std::pair("pcie-3", 8e9), {"pcie-4", 16e9}, {"pcie-5", 32e9}})
      QVERIFY2(near(bytes(kind), 16 * transfers * 128 / 130 / 8, 0.001), kind);
    QCOMPARE(bytes("10gbe"), 1.25e9);
    for (const auto& [kind, gigabits] : {std::pair("edr", 100), {"hdr", 200}, {"ndr", 400}})
      QCOMPARE(bytes(kind), gigabits * 1e9 / 8);
    QCOMPARE(findDeviceSheet("A100-SXM-80GB")->linkBytesPerSecond, bytes("nvlink-3"));
    QCOMPARE(findDeviceSheet("H100-SXM-80GB")->linkBytesPerSecond, bytes("nvlink-4"));
    QCOMPARE(findDeviceSheet("L4")->linkBytesPerSecond, bytes("pcie-4"));
  }

  // What is reached is what the report of a GPU has, to the percent.
  void sharesAreThoseOfTheReport() {
    QFile file(QString::fromStdString(test::sourcePath("tests/gpu/reports/report.json")));
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QJsonArray speeds =
        QJsonDocument::fromJson(file.readAll())["parts"]["selftest"]["speeds"].toArray();
    const auto reported = [&](const QString& word) {
      double sum = 0;
      int count = 0;
      for (const QJsonValue& one : speeds)
        if (one["name"].toString().contains(word)) sum += one["share"].toDouble(), ++count;
      return count > 0 ? sum / count : -1;
    };
    QVERIFY(std::abs(reachedOfProducts("bf16") - reported("in bf16")) < 0.01);
    QVERIFY(std::abs(reachedOfProducts("fp16") - reported("in f16")) < 0.01);
    QVERIFY(std::abs(reachedOfProducts("fp32") - reported("in f32")) < 0.01);
    QVERIFY(std::abs(kReachedOfMemory - reported("in memory")) < 0.01);
    QVERIFY(std::abs(kReachedOfLinks - reported("the device")) < 0.01);
    const Device device{.node = "n", .host = "h", .kind = "cuda", .figures = {"H100-SXM-80GB"}};
    for (const auto& [precision, share] :
         {std::pair("bf16", 0.72), {"fp16", 0.66}, {"tf32", 0.72}, {"fp32", 0.77}}) {
      const DeviceSheet& sheet = *findDeviceSheet("H100-SXM-80GB");
      const double peak = precision == std::string("fp32")   ? sheet.fp32
                          : precision == std::string("tf32") ? sheet.tf32
                                                             : sheet.bf16;
      QCOMPARE(assumedRates(device, precision).flopsPerSecond, share * peak);
    }
  }

  // NCCL has a communicator for each axis of several ranks, and none for a rank alone.
  void reservedIsWhatTheMeshNeeds() {
    const Device device{.node = "n", .host = "h", .kind = "cuda"};
    const auto reserved = [&](std::vector<Axis> axes, const char* comm = "nccl") {
      Cluster cluster;
      cluster.mesh = Mesh(std::move(axes));
      cluster.link.kind = comm;
      return reservedBytes(cluster, device) >> 20;
    };
    const std::int64_t alone = reserved({});
    QCOMPARE(alone, 608);
    QCOMPARE(reserved({{"stage", 1}, {"data", 1}, {"model", 1}}), alone);
    QCOMPARE(reserved({{"stage", 1}, {"data", 8}, {"model", 1}}), alone + 128);
    QCOMPARE(reserved({{"stage", 2}, {"data", 8}, {"model", 4}}), alone + 3 * 128);
    QCOMPARE(reserved({{"data", 8}}, "gloo"), alone);
    Cluster cluster;
    QCOMPARE(reservedBytes(cluster, {.node = "n", .host = "h", .kind = "cpu"}), 0);
    Device given = device;
    given.figures.reservedBytes = 5;
    QCOMPARE(reservedBytes(cluster, given), 5);
  }
};

QTEST_GUILESS_MAIN(AssumedTest)
#include "assumed_test.moc"
