// Ranks wait for rank 0's disk, however slow it is, and only for one that is alive.
#include <sys/syscall.h>
#include <unistd.h>

#include <QTemporaryDir>
#include <QTest>
#include <array>
#include <atomic>
#include <chrono>
#include <string>

#include "engine/runtime/heartbeat.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;
using namespace std::chrono_literals;

namespace {

constexpr Nanoseconds kLimit = 3'000'000'000;  // for one silent peer
std::atomic<int> syncMs{0}, readMs{0}, writeMs{0};

// Of checkpoints and models alone.
void restOn(int fd, int milliseconds) {
  if (milliseconds == 0) return;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), path.data(), path.size() - 1) <= 0) return;
  if (std::string_view(path.data()).find(".safetensors") == std::string_view::npos) return;
  ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
}

}  // namespace

// In place of the C library's.
extern "C" int fsync(int fd) {
  restOn(fd, syncMs);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" ssize_t read(int fd, void* to, size_t bytes) {
  restOn(fd, readMs);
  return ::syscall(SYS_read, fd, to, bytes);
}
extern "C" ssize_t write(int fd, const void* from, size_t bytes) {
  restOn(fd, writeMs);
  return ::syscall(SYS_write, fd, from, bytes);
}

class SlowDiskTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void aSlowDiskIsNotAFrozenRank_data() {
    QTest::addColumn<QString>("slow");
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("servers");
    QTest::newRow("sync, mirrored") << "sync"
                                    << "multi-worker-mirrored" << 3 << 1 << 0;
    QTest::newRow("sync, zero-3") << "sync"
                                  << "zero-3" << 3 << 1 << 0;
    QTest::newRow("sync, pipeline") << "sync"
                                    << "pipeline" << 2 << 2 << 0;
    QTest::newRow("sync, servers") << "sync"
                                   << "parameter-server" << 3 << 1 << 1;
    QTest::newRow("write, mirrored") << "write"
                                     << "multi-worker-mirrored" << 2 << 1 << 0;
    QTest::newRow("write, zero-1") << "write"
                                   << "zero-1" << 2 << 1 << 0;
    QTest::newRow("read, mirrored") << "read"
                                    << "multi-worker-mirrored" << 2 << 1 << 0;
    QTest::newRow("read, pipeline") << "read"
                                    << "pipeline" << 2 << 2 << 0;
  }
  void aSlowDiskIsNotAFrozenRank() {
    QFETCH(QString, slow);
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, stages);
    QFETCH(int, servers);
    QTemporaryDir dir;
    RunSettings settings;
    settings.backend = "onednn";
    settings.compute = DType::kF32;
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.stages = settings.microBatches = stages;
    settings.servers = servers;
    settings.batch = 64;
    settings.samples = 320;
    settings.collectiveLimit = kLimit;
    settings.trainer.epochs = 2;
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());

    // Its error, and whether it took longer than a silent rank is waited for.
    const auto train = [&](std::string& sha) {
      const auto begin = std::chrono::steady_clock::now();
      const RunOutcome out = trained(settings);
      syncMs = readMs = writeMs = 0;
      if (out.ok()) sha = out.ranks[0]->weightsSha256;
      const bool slowed =
          std::chrono::steady_clock::now() - begin > std::chrono::nanoseconds(kLimit);
      return std::pair(out.ok() ? std::string() : out.error(), slowed);
    };
    std::string sha;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    settings.trainer.epochs = 1;
    syncMs = slow == "sync" ? 4000 : 0;
    writeMs = slow == "write" ? 900 : 0;  // a tensor
    const auto [half, slowHalf] = train(sha);
    QVERIFY2(half.empty(), half.c_str());
    QVERIFY(slowHalf || slow == "read");
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    settings.trainer.checkpointFolder.clear();
    settings.trainer.epochs = 2;
    readMs = slow == "read" ? 700 : 0;  // 64 KiB
    const auto [rest, slowRest] = train(sha);
    QVERIFY2(rest.empty(), rest.c_str());
    QVERIFY(slowRest || slow != "read");
    QCOMPARE(sha, whole.ranks[0]->weightsSha256);
  }

  // It is noticed as early as ever.
  void aSilentRankZeroIsNoticed() {
    const auto made = runtime::LocalGroups::make(cluster::Mesh({{"data", 3}}), kLimit);
    QVERIFY(made.ok());
    const runtime::LocalGroups& groups = *made;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Status> came(3);
    {
      std::vector<std::jthread> ranks;
      for (const int rank : {1, 2})
        ranks.emplace_back([&, rank] {
          came[static_cast<std::size_t>(rank)] = runtime::Heartbeat(groups.of(rank), rank).meet();
        });
      ranks.emplace_back([&] {
        came[0] = runtime::Heartbeat(groups.of(0), 0).doAtRankZero([&]() -> Status {
          std::this_thread::sleep_for(2500ms);
          return makeError(Code::kDataLoss, "what rank 0 found");
        });
      });
    }
    // The others wait while rank 0 works; its error is its own.
    QVERIFY(came[1].ok() && came[2].ok());
    QCOMPARE(came[0].code(), Code::kDataLoss);
    QVERIFY(std::chrono::steady_clock::now() - begin > 2500ms);
    const Status silent = runtime::Heartbeat(groups.of(1), 1).meet();
    QVERIFY(silent.code() == Code::kDeadlineExceeded || silent.code() == Code::kAborted);
    QVERIFY(std::chrono::steady_clock::now() - begin <
            2500ms + 2 * std::chrono::nanoseconds(kLimit));
  }
};

QTEST_GUILESS_MAIN(SlowDiskTest)
#include "slow_disk_test.moc"
