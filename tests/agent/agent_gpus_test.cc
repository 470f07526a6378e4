// What the agent knows of a node's GPUs, of a library driven by a script.
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <atomic>
#include <cmath>
#include <thread>

#include "agent/host/gpus.h"
#include "agent/host/metrics.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"

using namespace lockstep;
using namespace lockstep::agent;
using namespace std::chrono_literals;

namespace {

const char* const kEverything =
    "utilization 93 41\nmemory 90000000000\npower 612500\npower-limit 700000\ntemperature 71\n"
    "clock1 1755\nmax-clock1 1980\nclock2 3201\nmax-clock2 3201\nstate 0\nreasons 0\n"
    "pcie-sent 2000000\npcie-received 1500000\ngeneration 5\nmax-generation 5\nwidth 16\nmax-width "
    "16\n"
    "corrected 3\nuncorrected 0\nlinks 1 1 0\nlink-sent 1000\nlink-received 2000\ntells-xids 1\n";

}  // namespace

class AgentGpusTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  const std::string script_ = folder_.filePath("script").toStdString();

  void write(const std::string& text) { QVERIFY(writeFileAtomically(script_, text).ok()); }

  // Looks until it is so.
  template <typename F>
  std::shared_ptr<const GpuReading> wait(GpuMonitor& monitor, F isSo,
                                         std::chrono::seconds limit = 60s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (;;) {
      auto reading = monitor.look(60s);
      if (isSo(*reading) || std::chrono::steady_clock::now() > end) return reading;
      std::this_thread::sleep_for(20ms);
    }
  }

 private Q_SLOTS:
  void initTestCase() {
    QVERIFY(folder_.isValid());
    qputenv("LOCKSTEP_NVML_SCRIPT", QByteArray::fromStdString(script_));
  }
  void init() { write(""); }

  void withoutALibrary() {
    GpuMonitor monitor("/no/such/libnvidia-ml.so.1");
    const auto reading = monitor.look(60s);
    QVERIFY(reading->gpus.empty());
    QVERIFY2(reading->problem.text().starts_with("there is no NVIDIA driver: /no/such"),
             reading->problem.text().c_str());
    // Sampling goes on without one, and costs no thread.
    NodeSampler sampler(folder_.path().toStdString(), monitor);
    (void)monitor.look(60s);
    const auto threads = [] {
      const auto status = readFile("/proc/self/status");
      const std::size_t at = status->find("Threads:");
      return std::atoi(status->c_str() + at + 8);
    };
    const int before = threads();
    for (int i = 0; i < 20; ++i) QCOMPARE(sampler.sample({}).gpu_size(), 0);
    QVERIFY(threads() <= before);
  }

  void aLibraryThatComesLater() {
    const std::string file = folder_.filePath("libnvidia-ml.so.1").toStdString();
    GpuMonitor monitor(file);
    QVERIFY(monitor.look(60s)->gpus.empty());
    QVERIFY(QFile::link(LOCKSTEP_FAKE_NVML_FILE, QString::fromStdString(file)));
    QCOMPARE(monitor.look(60s)->gpus.size(), std::size_t{2});
  }

  void everythingOfAGpu() {
    write(kEverything);
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    const auto reading = wait(
        monitor, [](const GpuReading& r) { return r.gpus.size() == 2 && r.gpus[1].has_pcie_in(); });
    QCOMPARE(reading->driver, std::string("580.65.06"));
    QVERIFY(reading->problem.empty());
    QCOMPARE(reading->gpus.size(), std::size_t{2});
    const run::v1::GpuSample& gpu = reading->gpus[1];
    QCOMPARE(gpu.index(), 1);
    QCOMPARE(gpu.name(), std::string("Fake GPU 1"));
    QVERIFY(gpu.problem().text().empty());
    QCOMPARE(gpu.utilisation(), 0.93);
    QCOMPARE(gpu.memory_utilisation(), 0.41);
    QCOMPARE(gpu.memory_used(), 9e10);
    QCOMPARE(gpu.memory_total(), 150754820096.0);
    QCOMPARE(gpu.power_w(), 612.5);
    QCOMPARE(gpu.power_limit_w(), 700.0);
    QCOMPARE(gpu.temperature_c(), 71.0);
    QCOMPARE(gpu.sm_clock_mhz(), 1755.0);
    QCOMPARE(gpu.sm_clock_max_mhz(), 1980.0);
    QCOMPARE(gpu.memory_clock_mhz(), 3201.0);
    QCOMPARE(gpu.memory_clock_max_mhz(), 3201.0);
    QVERIFY(gpu.has_performance_state());
    QCOMPARE(gpu.performance_state(), 0);
    QVERIFY(gpu.throttle_known());
    QCOMPARE(gpu.throttle_size(), 0);
    QCOMPARE(gpu.pcie_in(), 1.5e9);
    QCOMPARE(gpu.pcie_out(), 2e9);
    QCOMPARE(gpu.pcie_generation(), 5);
    QCOMPARE(gpu.pcie_generation_max(), 5);
    QCOMPARE(gpu.pcie_width(), 16);
    QCOMPARE(gpu.pcie_width_max(), 16);
    QCOMPARE(gpu.nvlinks(), 3);
    QCOMPARE(gpu.nvlinks_active(), 2);
    QVERIFY(gpu.has_ecc_corrected() && gpu.has_ecc_uncorrected());
    QCOMPARE(gpu.ecc_corrected(), std::uint64_t{3});
    QVERIFY(gpu.has_xids());
    QCOMPARE(gpu.xids(), std::uint64_t{0});
  }

  void linksHaveARate() {
    write("links 1\nlink-sent 0\nlink-received 0\n");
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    (void)monitor.look(60s);
    const Nanoseconds begin = monotonicNow();
    (void)monitor.look(60s);                                 // begins after that
    write("links 1\nlink-sent 1000\nlink-received 3000\n");  // KiB ever
    const auto reading =
        wait(monitor, [](const GpuReading& r) { return r.gpus[0].nvlink_in() > 0; });
    const double seconds = static_cast<double>(monotonicNow() - begin) * 1e-9;
    const run::v1::GpuSample& gpu = reading->gpus[0];
    QVERIFY(gpu.nvlink_out() >= 1000 * 1024 / seconds);
    QVERIFY(std::abs(gpu.nvlink_in() - 3 * gpu.nvlink_out()) <= 2e-3 * gpu.nvlink_in());  // digits
  }

  // What is not offered is absent, whether the GPU or the library lacks it.
  void whatIsNotOfferedIsAbsent() {
    for (const char* library : {LOCKSTEP_FAKE_NVML_FILE, LOCKSTEP_OLD_NVML_FILE}) {
      if (library == std::string(LOCKSTEP_OLD_NVML_FILE)) write(kEverything);
      GpuMonitor monitor(library);
      const auto reading = monitor.look(60s);
      QCOMPARE(reading->gpus.size(), std::size_t{2});
      const run::v1::GpuSample& gpu = reading->gpus[0];
      QVERIFY(gpu.has_memory_used() && gpu.has_memory_total());
      QVERIFY(gpu.problem().text().empty());
      QVERIFY(!gpu.has_utilisation() && !gpu.has_memory_utilisation() && !gpu.has_power_w() &&
              !gpu.has_power_limit_w());
      QVERIFY(!gpu.has_temperature_c() && !gpu.has_sm_clock_mhz() && !gpu.has_memory_clock_mhz());
      QVERIFY(!gpu.has_sm_clock_max_mhz() && !gpu.has_memory_clock_max_mhz() &&
              !gpu.has_performance_state());
      QVERIFY(!gpu.throttle_known() && !gpu.has_pcie_in() && !gpu.has_pcie_out() &&
              !gpu.has_pcie_generation());
      QVERIFY(!gpu.has_pcie_generation_max() && !gpu.has_pcie_width() && !gpu.has_pcie_width_max());
      QVERIFY(!gpu.has_nvlinks() && !gpu.has_nvlinks_active() && !gpu.has_nvlink_in() &&
              !gpu.has_nvlink_out());
      QVERIFY(!gpu.has_ecc_corrected() && !gpu.has_ecc_uncorrected() && !gpu.has_xids());
    }
  }

  void whyItIsSlowedDown_data() {
    QTest::addColumn<QString>("bits");
    QTest::addColumn<QStringList>("words");
    QTest::newRow("idle") << "1" << QStringList{};
    QTest::newRow("power") << "4" << QStringList{"power"};
    QTest::newRow("heat, by software") << "32" << QStringList{"heat"};
    QTest::newRow("heat, by hardware") << "72" << QStringList{"heat"};
    QTest::newRow("brake") << "136" << QStringList{"power-brake"};
    QTest::newRow("hardware, no reason told") << "8" << QStringList{"slowdown"};
    QTest::newRow("several") << "54"
                             << QStringList{"power", "heat", "sync-boost", "application-clocks"};
    QTest::newRow("display") << "256" << QStringList{"display-clocks"};
    QTest::newRow("one of tomorrow's") << "65536" << QStringList{};
  }
  void whyItIsSlowedDown() {
    QFETCH(QString, bits);
    QFETCH(QStringList, words);
    write("reasons " + bits.toStdString() + "\n");
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    const auto reading = monitor.look(60s);
    QVERIFY(!reading->gpus.empty());
    QStringList found;
    for (const std::string& word : reading->gpus[0].throttle())
      found << QString::fromStdString(word);
    QCOMPARE(found, words);
    QVERIFY(reading->gpus[0].throttle_known());
  }

  void xidsAreCounted() {
    write("0.tells-xids 1\n");
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    (void)monitor.look(60s);
    write("0.tells-xids 1\nxid 1 0 48\n");
    auto reading = wait(monitor, [](const GpuReading& r) { return r.gpus[0].xids() == 1; });
    QCOMPARE(reading->gpus[0].xids(), std::uint64_t{1});
    QCOMPARE(reading->gpus[0].last_xid(), 48);
    QVERIFY(!reading->gpus[1].has_xids());
    // Of a GPU that falls off the bus it is the reason, and stays.
    write("0.tells-xids 1\nxid 2 0 79\n0.memory !15\n");
    reading = wait(monitor, [](const GpuReading& r) { return r.gpus[0].xids() == 2; });
    QCOMPARE(reading->gpus[0].last_xid(), 79);
    QCOMPARE(reading->gpus[0].problem().text(), std::string("GPU is lost"));
  }

  void aGpuThatIsLost_data() {
    QTest::addColumn<QString>("line");
    QTest::newRow("at first") << "0.memory !15\n";
    QTest::newRow("in the middle") << "0.temperature !15\n";
    QTest::newRow("at the end") << "0.uncorrected !15\n";
    QTest::newRow("to be reset") << "0.clock2 !16\n";
  }
  void aGpuThatIsLost() {
    QFETCH(QString, line);
    write(kEverything);
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    QVERIFY(monitor.look(60s)->gpus[0].has_power_w());
    write(line.toStdString() + kEverything);
    auto reading =
        wait(monitor, [](const GpuReading& r) { return !r.gpus[0].problem().text().empty(); });
    const run::v1::GpuSample& lost = reading->gpus[0];
    QVERIFY(!lost.problem().text().empty());
    QCOMPARE(lost.name(), std::string("Fake GPU 0"));
    QVERIFY(!lost.has_utilisation() && !lost.has_memory_used() && !lost.has_power_w() &&
            !lost.has_temperature_c());
    QVERIFY(!lost.throttle_known());
    QVERIFY(reading->problem.empty());
    QCOMPARE(reading->gpus[1].power_w(), 612.5);  // the other goes on
    write(kEverything);
    reading = wait(monitor, [](const GpuReading& r) { return r.gpus[0].problem().text().empty(); });
    QCOMPARE(reading->gpus[0].power_w(), 612.5);
    QCOMPARE(reading->gpus[0].power_limit_w(), 700.0);
  }

  void aGpuThatIsLostFromTheStart() {
    write("1.handle !15\n");
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    const auto reading = monitor.look(60s);
    QCOMPARE(reading->gpus.size(), std::size_t{2});
    QVERIFY(reading->gpus[0].problem().text().empty());
    QCOMPARE(reading->gpus[1].problem().text(), std::string("GPU is lost"));
  }

  // The driver is unloaded, replaced and loaded again under a running agent.
  void aDriverThatIsRestarted() {
    write(kEverything);
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    QVERIFY(monitor.look(60s)->problem.empty());
    write("memory !18\ninit !9\n");
    auto reading = wait(monitor, [](const GpuReading& r) { return !r.problem.empty(); });
    QVERIFY2(reading->problem.text().starts_with("the NVIDIA driver does not answer: "),
             reading->problem.text().c_str());
    QCOMPARE(reading->gpus.size(), std::size_t{2});
    QCOMPARE(reading->gpus[1].name(), std::string("Fake GPU 1"));
    QCOMPARE(reading->gpus[1].problem().text(), reading->problem.text());
    write(kEverything);
    reading = wait(monitor, [](const GpuReading& r) { return r.problem.empty(); });
    QCOMPARE(reading->gpus[1].temperature_c(), 71.0);
  }

  void fewerGpusThanBefore() {
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    QCOMPARE(monitor.look(60s)->gpus.size(), std::size_t{2});
    write("count 1\nmemory !1\n");
    (void)wait(monitor, [](const GpuReading& r) { return !r.problem.empty(); });
    write("count 1\n");
    const auto reading = wait(monitor, [](const GpuReading& r) { return r.problem.empty(); });
    QCOMPARE(reading->gpus.size(), std::size_t{2});
    QVERIFY(reading->gpus[0].problem().text().empty());
    QCOMPARE(reading->gpus[1].problem().text(),
             std::string("the driver sees 1 GPUs; there were 2"));
  }

  void noGpuAtAll() {
    write("count 0\n");
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    const auto reading = monitor.look(60s);
    QVERIFY(reading->gpus.empty());
    QCOMPARE(reading->problem.text(), std::string("driver 580.65.06 sees no GPU"));
  }

  // Nobody waits for a call that does not return, and it is said.
  void aCallThatHangs() {
    write(kEverything);
    auto monitor = std::make_unique<GpuMonitor>(LOCKSTEP_FAKE_NVML_FILE);
    NodeSampler sampler(folder_.path().toStdString(), *monitor);
    QCOMPARE(monitor->look(60s)->gpus.size(), std::size_t{2});
    write("1.temperature hang\n");
    Nanoseconds longest = 0;
    run::v1::NodeSample sample;
    const auto end = std::chrono::steady_clock::now() + 60s;
    do {
      const Nanoseconds begin = monotonicNow();
      sample = sampler.sample({});
      longest = std::max(longest, monotonicNow() - begin);
      std::this_thread::sleep_for(50ms);
    } while ((sample.gpu_size() != 2 || sample.gpu(0).problem().text().empty()) &&
             std::chrono::steady_clock::now() < end);
    QVERIFY2(longest < 5'000'000'000, qPrintable(QString::number(longest)));
    QCOMPARE(sample.gpu_size(), 2);
    QVERIFY2(sample.gpu(0).problem().text().starts_with("the NVIDIA driver has not answered for "),
             sample.gpu(0).problem().text().c_str());
    QVERIFY(!sample.gpu(0).has_temperature_c());
    const Nanoseconds begin = monotonicNow();
    (void)monitor->look(50ms);
    QVERIFY(monotonicNow() - begin < 10'000'000'000);
    // It answers again.
    write(kEverything);
    const auto reading = wait(*monitor, [](const GpuReading& r) { return r.problem.empty(); });
    QCOMPARE(reading->gpus[1].temperature_c(), 71.0);
    // And who leaves while it hangs is not held.
    write("1.temperature hang\n");
    (void)monitor->look(100ms);
    const Nanoseconds left = monotonicNow();
    monitor.reset();
    QVERIFY(monotonicNow() - left < 20'000'000'000);
    write("");
  }

  void samplesHaveGpusAndWhoUsesThem() {
    write(std::string(kEverything) + "1.processes 99999999 " + std::to_string(getpid()) + "\n");
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    NodeSampler sampler(folder_.path().toStdString(), monitor);
    (void)monitor.look(60s);
    const auto sample = sampler.sample({{4, getpid()}, {5, getppid()}});
    QCOMPARE(sample.gpu_size(), 2);
    QCOMPARE(sample.gpu(1).utilisation(), 0.93);
    QCOMPARE(sample.rank_size(), 2);
    QVERIFY(sample.rank(0).has_gpu());
    QCOMPARE(sample.rank(0).gpu(), 1);
    QVERIFY(!sample.rank(1).has_gpu());
  }

  // A program's process is the worker's child, or its child.
  void aRankUsesTheGpuOfWhatItStarted() {
    QProcess child;
    child.start("sleep", {"60"});
    QVERIFY(child.waitForStarted());
    write(std::string(kEverything) + "1.processes " + std::to_string(child.processId()) + "\n");
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    NodeSampler sampler(folder_.path().toStdString(), monitor);
    (void)monitor.look(60s);
    const auto sample = sampler.sample({{4, getpid()}, {5, getppid()}});
    QCOMPARE(sample.rank_size(), 2);
    QVERIFY(sample.rank(0).has_gpu() && sample.rank(0).gpu() == 1);
    QVERIFY(!sample.rank(1).has_gpu());
    child.kill();
    child.waitForFinished();
  }

  // However many ask, the driver is asked about ten times a second.
  void isAskedSeldom() {
    write("");
    GpuMonitor monitor(LOCKSTEP_FAKE_NVML_FILE);
    const auto begin = std::chrono::steady_clock::now();
    const auto first = monitor.look(60s);
    std::atomic<int> readings = 0;
    std::vector<std::thread> askers;
    for (int i = 0; i < 3; ++i) {
      askers.emplace_back([&, i] {
        auto last = first;
        // On a busy machine a reading may take as long.
        const auto spent = [&] { return std::chrono::steady_clock::now() - begin; };
        while (spent() < 600ms || (readings == 0 && spent() < 60s)) {
          auto now = monitor.latest();
          if (i == 0 && now != last) ++readings;
          last = now;
          std::this_thread::sleep_for(2ms);
        }
      });
    }
    for (std::thread& asker : askers) asker.join();
    const auto most = (std::chrono::steady_clock::now() - begin) / 100ms + 1;
    QVERIFY2(readings >= 1 && readings <= most, qPrintable(QString::number(readings)));
  }
};

QTEST_GUILESS_MAIN(AgentGpusTest)
#include "agent_gpus_test.moc"
