// What the self-test finds of a device: one that computes as it should, and one that fails in the
// middle, which is a finding and ends nothing. The device is emulated.
#include <QTest>

#include "agent/selftest/selftest.h"
#include "engine/backends/cuda.h"
#include "tests/support/emulated_device.h"

using namespace lockstep;

namespace {

std::unique_ptr<backends::Backend> onDevice(int failAt = 0) {
  auto device = testing::makeEmulatedDevice();
  if (failAt > 0) device->failAt(failAt);
  return backends::makeCuda(std::move(device));
}

}  // namespace

class SelftestFindingsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void aDeviceThatFailsIsAskedForNothingMore() {
    const agent::KernelFindings found = agent::testKernels(onDevice(40));
    QVERIFY(!found.failed.ok());
    std::size_t right = 0, failed = 0, untried = 0;
    for (const agent::KernelFinding& one : found.ops) {
      const bool isUntried = one.why == "not tried: the device has failed";
      untried += isUntried ? 1 : 0;
      right += one.why.empty() ? 1 : 0;
      if (one.why.empty() || isUntried) continue;
      ++failed;
      QVERIFY2(one.why.find(found.failed.error().what.text()) != std::string::npos,
               one.why.c_str());
    }
    QVERIFY(right > 0 && untried > 10);
    QCOMPARE(failed, std::size_t{1});
  }

  void speedsOfADevice() {
    const auto backend = onDevice();
    agent::SpeedOptions options{.side = 16,
                                .copyBytes = 4096,
                                .seconds = 1e-4,
                                .peaks = {.bf16 = 1e15, .memory = 1e12},
                                .pcie = 1e10};
    const auto speeds = agent::measureSpeeds(*backend, options);
    std::vector<std::string> names;
    for (const agent::SpeedFinding& one : speeds) {
      names.push_back(one.what);
      QVERIFY2(one.why.empty() && one.perSecond > 0, (one.what + ": " + one.why).c_str());
    }
    const std::vector<std::string> expected{"product of 16³ in bf16", "product of 16³ in f16",
                                            "product of 16³ in f32",  "copy in memory",
                                            "copy to the device",     "copy from the device"};
    QVERIFY2(names == expected, fmt::format("{}", fmt::join(names, ", ")).c_str());
    QCOMPARE(speeds[0].peak, 1e15);
    QCOMPARE(speeds[2].peak, 0.0);
    QCOMPARE(speeds[4].peak, 1e10);
  }

  void twoRanksOnADevice() {
    const agent::StepFinding good = agent::testTwoRanks(
        [](int) { return Result<std::unique_ptr<backends::Backend>>(onDevice()); });
    QVERIFY2(good.why.empty(), good.why.c_str());
    QVERIFY(good.checks.size() >= 4);
    const agent::StepFinding bad = agent::testTwoRanks([](int rank) {
      return Result<std::unique_ptr<backends::Backend>>(onDevice(rank == 1 ? 30 : 0));
    });
    QVERIFY(!bad.why.empty());
  }

  void peaksGoByWholeNames() {
    QCOMPARE(agent::knownPeaks("NVIDIA H200").memory, 4.8e12);
    QCOMPARE(agent::knownPeaks("NVIDIA GH200 480GB").memory, 4e12);
    QCOMPARE(agent::knownPeaks("NVIDIA L4").memory, 3e11);
    QCOMPARE(agent::knownPeaks("NVIDIA L40S").f32, 91.6e12);
    QCOMPARE(agent::knownPeaks("NVIDIA A100-SXM4-80GB").bf16, 312e12);
    QCOMPARE(agent::knownPeaks("Fake GPU").bf16, 0.0);
    QVERIFY(std::abs(agent::pcieBytesPerSecond(5, 16) - 63e9) < 1e9);
    QCOMPARE(agent::pcieBytesPerSecond(0, 16), 0.0);
  }
};

QTEST_GUILESS_MAIN(SelftestFindingsTest)
#include "selftest_findings_test.moc"
