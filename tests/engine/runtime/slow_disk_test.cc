// Ranks wait for each other's disks, however slow they are, and only for ranks that are alive.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/runtime/agree.h"
#include "engine/runtime/checkpoint_writer.h"
#include "engine/runtime/heartbeat.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;
using namespace std::chrono_literals;

namespace {

constexpr Nanoseconds kLimit = 3'000'000'000;  // for one silent peer
std::atomic<int> syncMs{0}, readMs{0}, writeMs{0};
std::atomic<bool> foldersFail{false};

// Checkpoints and models.
bool isTensorFile(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), path.data(), path.size() - 1) <= 0) return false;
  return std::string_view(path.data()).find(".safetensors") != std::string_view::npos;
}
void restOn(int fd, int milliseconds) {
  if (milliseconds == 0 || !isTensorFile(fd)) return;
  ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
}

// What one rank does while the others wait for it.
Status doAt(int one, const runtime::Groups& groups, int rank, const std::function<Status()>& work) {
  LOCKSTEP_ASSIGN(const runtime::Together done,
                  runtime::doTogether(groups, rank, "reading a file", [&](std::int64_t&) {
                    return rank == one ? work() : Status();
                  }));
  return done.result();
}

// Of a run whose checkpoints go to `folder`.
RunSettings settingsOf(const QString& strategy, int ranks, const QTemporaryDir& folder,
                       std::vector<std::string>& warnings) {
  RunSettings out;
  out.backend = "onednn";
  out.compute = DType::kF32;
  out.strategy = strategy.toStdString();
  out.ranks = ranks;
  out.batch = 64;
  out.trainer.checkpointFolder = folder.path().toStdString();
  out.trainer.warn = [&](const Error& error) { warnings.push_back(error.text()); };
  return out;
}

// The longest time from the end of a step to that of the next.
Nanoseconds longestGap(const RunOutcome& run) {
  Nanoseconds out = 0;
  for (std::size_t i = 1; i < run.steps.size(); ++i)
    out = std::max(out, run.steps[i].end - run.steps[i - 1].end);
  return out;
}

// Ranks in threads of this process, each with `body`; what each returned, and after how long.
struct Outcome {
  Status status;
  std::chrono::nanoseconds after{};
};
std::vector<Outcome> onRanks(
    const runtime::LocalGroups* groups, int ranks,
    const std::function<Status(const runtime::Groups& groups, int rank)>& body) {
  std::vector<Outcome> out(static_cast<std::size_t>(ranks));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Outcome& own = out[static_cast<std::size_t>(rank)];
      own.status = body(groups != nullptr ? groups->of(rank) : runtime::Groups(), rank);
      own.after = std::chrono::steady_clock::now() - begin;
    });
  threads.clear();
  return out;
}

}  // namespace

// In place of the C library's.
extern "C" int fsync(int fd) {
  struct stat info {};
  if (foldersFail && ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = EIO;
    return -1;
  }
  restOn(fd, syncMs);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  restOn(fd, readMs);
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}
extern "C" ssize_t pread64(int fd, void* to, size_t bytes, off_t offset) {
  return pread(fd, to, bytes, offset);
}
extern "C" ssize_t write(int fd, const void* from, size_t bytes) {
  if (writeMs > 0 && isTensorFile(fd)) restOn(fd, writeMs.exchange(0));  // one write alone
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
    writeMs = slow == "write" ? 4000 : 0;  // longer than a silent rank is waited for
    const auto [half, slowHalf] = train(sha);
    QVERIFY2(half.empty(), half.c_str());
    QVERIFY(slowHalf || slow == "read");
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    settings.trainer.checkpointFolder.clear();
    settings.trainer.epochs = 2;
    readMs = slow == "read" ? 700 : 0;
    const auto [rest, slowRest] = train(sha);
    QVERIFY2(rest.empty(), rest.c_str());
    QVERIFY(slowRest || slow != "read");
    QCOMPARE(sha, whole.ranks[0]->weightsSha256);
  }

  // Steps go on while a checkpoint is written; those that come meanwhile are left out, and told.
  void aSlowDiskHoldsUpNoStep_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("servers");
    QTest::addColumn<int>("staleness");
    QTest::newRow("one rank") << "mirrored" << 1 << 0 << 0;
    QTest::newRow("mirrored") << "multi-worker-mirrored" << 3 << 0 << 0;
    QTest::newRow("zero-3") << "zero-3" << 2 << 0 << 0;
    QTest::newRow("servers") << "parameter-server" << 4 << 2 << 0;
    QTest::newRow("asynchronous") << "parameter-server" << 3 << 1 << 1;
  }
  void aSlowDiskHoldsUpNoStep() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, servers);
    QFETCH(int, staleness);
    QTemporaryDir dir;
    std::vector<std::string> warnings;
    RunSettings settings = settingsOf(strategy, ranks, dir, warnings);
    settings.servers = servers;
    settings.staleness = staleness;
    settings.samples = 1280;
    settings.trainer.epochs = 1;
    settings.trainer.checkpointSteps = 2;
    syncMs = 4000;
    const auto begin = std::chrono::steady_clock::now();
    const RunOutcome out = trained(settings);
    const auto took = std::chrono::steady_clock::now() - begin;
    syncMs = 0;
    QVERIFY2(out.ok(), out.error().c_str());
    QVERIFY(took > 4s);
    QCOMPARE(out.steps.size(), std::size_t{20});
    QVERIFY(longestGap(out) < 3'000'000'000);
    QCOMPARE(out.checkpoints.size(), std::size_t{2});
    QVERIFY(out.checkpoints.front().ends_with("step-000000002"));
    QVERIFY(out.checkpoints.back().ends_with("step-000000020"));
    QCOMPARE(warnings.size(), std::size_t{1});
    QVERIFY2(warnings.front().starts_with("the checkpoint at step 4 was skipped"),
             warnings.front().c_str());
  }

  // While a disk is slow, ranks meet a few times and not at each step.
  void ranksMeetSeldom_data() {
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("servers");
    QTest::addColumn<int>("staleness");
    QTest::newRow("servers") << 4 << 2 << 0;
    QTest::newRow("asynchronous") << 3 << 1 << 1;
  }
  void ranksMeetSeldom() {
    QFETCH(int, ranks);
    QFETCH(int, servers);
    QFETCH(int, staleness);
    constexpr std::int64_t kSteps = 400;
    QTemporaryDir dir;
    std::vector<std::string> warnings;
    RunSettings settings = settingsOf("parameter-server", ranks, dir, warnings);
    settings.servers = servers;
    settings.staleness = staleness;
    settings.samples = kSteps * settings.batch;
    settings.trainer.epochs = 1;
    settings.trainer.checkpointSteps = 100;
    std::atomic<std::int64_t> gathers{0};
    settings.gathers = &gathers;
    syncMs = 4000;
    const RunOutcome out = trained(settings);
    syncMs = 0;
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(out.steps.size(), static_cast<std::size_t>(kSteps));
    QVERIFY2(gathers < kSteps / 2, std::to_string(gathers).c_str());
  }

  void pausesGrow_data() {
    QTest::addColumn<bool>("isAsynchronous");
    QTest::addColumn<int>("longest");  // seconds
    QTest::newRow("synchronous") << false << 1;
    QTest::newRow("asynchronous") << true << 10;
  }
  void pausesGrow() {
    QFETCH(bool, isAsynchronous);
    QFETCH(int, longest);
    constexpr Nanoseconds kSecond = 1'000'000'000;
    const auto pauseAfter = [&](Nanoseconds elapsed) {
      return runtime::CheckpointWriter::pauseAfter(elapsed, isAsynchronous);
    };
    Nanoseconds elapsed = kSecond / 100, before = 0;
    for (int i = 0; i < 6; ++i) {
      const Nanoseconds pause = pauseAfter(elapsed);
      QVERIFY(before == 0 || pause == 2 * before);
      before = pause;
      elapsed += pause;
    }
    for (const int seconds : {longest, 100, 100'000})
      QCOMPARE(pauseAfter(seconds * kSecond), longest * kSecond);
  }

  // A slow disk holds up no epoch: the checkpoint of that epoch is taken when the disk is done.
  void aSlowDiskHoldsUpNoEpoch_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::newRow("one rank") << "mirrored" << 1;
    QTest::newRow("zero-3") << "zero-3" << 2;
  }
  void aSlowDiskHoldsUpNoEpoch() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QTemporaryDir dir;
    std::vector<std::string> warnings;
    RunSettings settings = settingsOf(strategy, ranks, dir, warnings);
    settings.samples = 640;
    settings.trainer.epochs = 4;
    settings.slowRank = ranks - 1;
    settings.slowness = 250ms;
    syncMs = 5000;
    const RunOutcome out = trained(settings);
    syncMs = 0;
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(out.steps.size(), std::size_t{40});
    QVERIFY(longestGap(out) < 3'000'000'000);
    // That of the second epoch is late, and the last is waited for.
    QVERIFY(out.checkpoints.size() >= 3);
    QVERIFY(out.checkpoints.front().ends_with("step-000000010"));
    const std::string late = out.checkpoints[1].substr(out.checkpoints[1].rfind('-') + 1);
    QVERIFY2(std::stoi(late) > 20 && std::stoi(late) < 40, late.c_str());
    QVERIFY(out.checkpoints.back().ends_with("step-000000040"));
    QCOMPARE(warnings.size(), std::size_t{1});
    QVERIFY2(warnings.front().starts_with("the checkpoint at step 20 is late"),
             warnings.front().c_str());
    QVERIFY2(warnings.front().find("use a faster disk") != std::string::npos,
             warnings.front().c_str());
  }

  // Heartbeats keep the others waiting for longer than a silent rank is waited for; its error is
  // its own, and the others learn of it. A rank that is silent is noticed by the limit of
  // collectives.
  void aSilentRankIsNoticed_data() {
    QTest::addColumn<int>("slow");
    for (const int slow : {0, 1, 2}) QTest::addRow("rank %d", slow) << slow;
  }
  void aSilentRankIsNoticed() {
    QFETCH(int, slow);
    const auto groups = runtime::LocalGroups::make(cluster::Mesh({{"data", 3}}), kLimit);
    QVERIFY(groups.ok());
    const auto came = onRanks(&*groups, 3, [&](const runtime::Groups& mine, int rank) {
      return doAt(slow, mine, rank, []() -> Status {
        std::this_thread::sleep_for(std::chrono::nanoseconds(kLimit) + 1500ms);
        return makeError(Code::kDataLoss, "what one rank found");
      });
    });
    for (int rank = 0; rank < 3; ++rank) {
      const Outcome& own = came[static_cast<std::size_t>(rank)];
      QVERIFY(own.after > std::chrono::nanoseconds(kLimit));
      QCOMPARE(own.status.code(), rank == slow ? Code::kDataLoss : Code::kAborted);
      QVERIFY(own.status.error().text().find("what one rank found") != std::string::npos);
    }

    const auto begin = std::chrono::steady_clock::now();
    const Status silent = slow == 0 ? runtime::Heartbeat(groups->of(1), 1, "").meet()
                                    : doAt(slow, groups->of(1), 1, [] { return Status(); });
    QVERIFY(silent.code() == Code::kDeadlineExceeded || silent.code() == Code::kAborted);
    const auto waited = std::chrono::steady_clock::now() - begin;
    QVERIFY(waited < 2 * std::chrono::nanoseconds(kLimit));
  }

  // A checkpoint that may be gone after a loss of power is none: the ones before it are kept.
  void aFolderThatCannotBeSyncedIsNoCheckpoint() {
    QTemporaryDir dir;
    RunSettings settings;
    settings.ranks = 2;
    settings.trainer.epochs = 1;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const RunOutcome first = trained(settings);
    QVERIFY2(first.ok(), first.error().c_str());
    settings.trainer.epochs = 2;
    settings.trainer.keepCheckpoints = 1;
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    foldersFail = true;
    const RunOutcome second = trained(settings);
    foldersFail = false;
    QVERIFY(!second.ok());
    QVERIFY2(second.error().find("cannot sync") != std::string::npos, second.error().c_str());
    QCOMPARE(runtime::checkpointsIn(dir.path().toStdString()).size(), std::size_t{1});
    QVERIFY(second.checkpoints.empty());
    settings.trainer.epochs = 2;
    const RunOutcome third = trained(settings);
    QVERIFY2(third.ok(), third.error().c_str());
  }

  // A disk on which nothing moves: the other ranks end at the limit, rank 0 as soon as it can.
  void aHungDiskEndsTheRun_data() {
    QTest::addColumn<int>("ranks");
    for (const int ranks : {1, 2, 3}) QTest::addRow("%d ranks", ranks) << ranks;
  }
  void aHungDiskEndsTheRun() {
    QFETCH(int, ranks);
    const auto restore = qScopeGuard([] { runtime::diskWait() = {}; });
    runtime::diskWait().limit = 2s;
    std::atomic<bool> told{false};
    std::string text;
    const auto begin = std::chrono::steady_clock::now();
    std::chrono::nanoseconds toldAfter{};
    runtime::diskWait().onStuck = [&](const Error& error) {  // a worker leaves here
      text = error.text();
      toldAfter = std::chrono::steady_clock::now() - begin;
      told = true;
    };
    std::optional<runtime::LocalGroups> groups;
    if (ranks > 1) {
      auto made = runtime::LocalGroups::make(cluster::Mesh({{"data", ranks}}), kLimit);
      QVERIFY(made.ok());
      groups.emplace(std::move(*made));
    }
    const auto came =
        onRanks(groups ? &*groups : nullptr, ranks, [](const runtime::Groups& mine, int rank) {
          return doAt(0, mine, rank, []() -> Status {
            std::this_thread::sleep_for(10s);
            return {};
          });
        });
    QVERIFY(told);
    QVERIFY2(text.find("rank 0 has waited 2 s for its disk") != std::string::npos, text.c_str());
    QVERIFY2(text.find("reading a file") != std::string::npos, text.c_str());
    QVERIFY(toldAfter >= 2s && toldAfter < 8s);
    for (std::size_t rank = 0; rank < came.size(); ++rank) {
      QCOMPARE(came[rank].status.code(), Code::kDeadlineExceeded);
      QVERIFY(rank == 0 || came[rank].after < 8s);
    }
  }
};

QTEST_GUILESS_MAIN(SlowDiskTest)
#include "slow_disk_test.moc"
