// The agent's parts without processes: lines, step packing, names, samples.
#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <map>
#include <random>
#include <thread>

#include "agent/base/key_value_store.h"
#include "agent/base/line_collector.h"
#include "agent/base/paths.h"
#include "agent/base/run_folder.h"
#include "agent/host/cores.h"
#include "agent/host/metrics.h"
#include "agent/host/rounded.h"
#include "agent/host/speed.h"
#include "agent/node/sweep.h"
#include "agent/worker/prepare.h"
#include "agent/worker/rank_groups.h"
#include "agent/worker/telemetry.h"
#include "engine/base/file.h"
#include "engine/base/file_system.h"
#include "engine/base/threads.h"
#include "engine/base/unique_fd.h"
#include "lockstep/node/v1/worker.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::agent;

class AgentPartsTest : public QObject {
  Q_OBJECT
  QTemporaryDir folder_;
  std::string path(const char* name) { return folder_.filePath(name).toStdString(); }

 private Q_SLOTS:
  // No file is left; a folder that is not there is an error.
  void disksAreTimed() {
    const QTemporaryDir folder;
    const auto time = timeDiskWrite(folder.path().toStdString(), (3 << 20) + 1, 0.05);
    QVERIFY2(time.ok(), time.ok() ? "" : time.error().text().c_str());
    QVERIFY(time->least > 0 && time->median >= time->least);
    QVERIFY(timeDiskWrite(folder.path().toStdString(), 1, 3600).ok());  // after some writes
    QVERIFY(QDir(folder.path()).isEmpty());
    QVERIFY(!timeDiskWrite("/nowhere/at/all", 1 << 20, 0.05).ok());
  }

  // To four digits, so that no rate is off by more than one in two thousand; small ones are whole.
  void ratesAreRounded() {
    for (const double whole : {0.0, 1.0, 17.0, 9999.0, 10'010.0, 123'400'000.0, 9.999e15})
      QCOMPARE(roundedRate(whole), whole);
    QCOMPARE(roundedRate(0.4), 0.0);
    QCOMPARE(roundedRate(12'344.9), 12'340.0);
    QCOMPARE(roundedRate(99'996), 100'000.0);
    std::mt19937 random(1);
    for (int i = 0; i < 1000; ++i) {
      const double rate = std::exp(std::uniform_real_distribution<>(0, 30)(random));
      const double rounded = roundedRate(rate);
      QVERIFY(std::abs(rounded - rate) <= std::max(0.5, 0.5001e-3 * rate));
      QCOMPARE(std::fmod(rounded, 1), 0.0);
    }
    QVERIFY(std::isinf(roundedRate(HUGE_VAL)));
  }

  void theStoreAnswersGetsInTheirOrder() {
    KeyValueStore store;
    std::vector<std::string> answers;
    const auto answer = [&](const std::string& who) {
      return [&answers, who](const std::string& value) { answers.push_back(who + value); };
    };
    store.get("a", answer("first "));
    store.get("b", answer("other "));
    store.get("a", answer("second "));
    QVERIFY(answers.empty());
    store.set("a", "1");
    QCOMPARE(answers, (std::vector<std::string>{"first 1", "second 1"}));
    store.set("a", "2");  // what was answered is not answered again
    store.get("a", answer("third "));
    QCOMPARE(answers.size(), 3u);
    QCOMPARE(answers.back(), std::string("third 2"));
    store.dropWaiting();
    store.set("b", "3");
    QCOMPARE(answers.size(), 3u);
    const auto reply = keyValueReply<node::v1::ToWorker>(7, "a", "2").kv_value();
    QVERIFY(reply.id() == 7 && reply.key() == "a" && reply.value() == "2");
  }

  void noTwoRanksHoldOneCore() {
    const std::string scope = "lockstep-test-" + std::to_string(getpid());
    const std::vector<int> given = givenCores();
    QVERIFY(!given.empty());
    const auto why = [&](std::size_t ranks) {
      return CoreClaims::claim(std::vector<int>(ranks, 1), scope).whyNot();
    };
    if (usableCores() < static_cast<int>(given.size())) {
      QVERIFY(why(1).find("quota") != std::string::npos);
      return;
    }
    QVERIFY(why(given.size() + 1).find("more than") != std::string::npos);
    {
      const CoreClaims all = CoreClaims::claim(std::vector<int>(given.size(), 1), scope);
      QVERIFY2(all.pinned(), all.whyNot().c_str());
      std::vector<int> cores;
      for (std::size_t rank = 0; rank < given.size(); ++rank) {
        QCOMPARE(all.of(rank).size(), std::size_t{1});
        cores.push_back(all.of(rank)[0]);
      }
      std::sort(cores.begin(), cores.end());
      QCOMPARE(cores, given);
      QVERIFY(all.of(given.size()).empty());
      QVERIFY(!CoreClaims::claimAtRest(1, scope).pinned());
      const CoreClaims late = CoreClaims::claim({1}, scope);
      QVERIFY(!late.pinned() && late.of(0).empty());
      QVERIFY2(late.whyNot().find("others hold") != std::string::npos, late.whyNot().c_str());
    }
    const CoreClaims later = CoreClaims::claim({static_cast<int>(given.size())}, scope);
    QVERIFY2(later.pinned(), later.whyNot().c_str());
    QCOMPARE(later.of(0), given);
  }

  void helpersOfAPinnedThreadAreNot() {
    const std::vector<int> given = givenCores();
    std::thread compute([&] {
      if (!pinThread(0, std::span(given).first(1))) return;
      cpu_set_t own, helpers;
      sched_getaffinity(0, sizeof own, &own);
      helperThread("helper", [&] { sched_getaffinity(0, sizeof helpers, &helpers); }).join();
      QCOMPARE(CPU_COUNT(&own), 1);
      QCOMPARE(CPU_COUNT(&helpers), static_cast<int>(given.size()));
      QCOMPARE(givenCores(), given);
    });
    compute.join();
  }

  void aPinnedThreadIsMovedWithItsTeam() {
    const std::vector<int> given = givenCores();
    if (given.size() < 2) QSKIP("this machine has one core");
    const auto first = std::span(given).first(1), last = std::span(given).last(1);
    std::thread compute([&] {
      if (!pinThread(0, first)) return;
      cpu_set_t own, team, helpers;
      std::promise<void> over;
      const std::shared_future<void> moved = over.get_future().share();
      std::latch helps(1);
      std::thread member([&] {
        moved.wait();
        sched_getaffinity(0, sizeof team, &team);
      });
      std::thread helper = helperThread("helper", [&] {
        helps.count_down();
        moved.wait();
        sched_getaffinity(0, sizeof helpers, &helpers);
      });
      helps.wait();
      const bool done = moveThread(threadId(), first, last);
      over.set_value();
      member.join();
      helper.join();
      sched_getaffinity(0, sizeof own, &own);
      QVERIFY(done && CPU_COUNT(&own) == 1 && CPU_ISSET(static_cast<std::size_t>(last[0]), &own));
      QVERIFY(CPU_EQUAL(&own, &team));
      QCOMPARE(CPU_COUNT(&helpers), static_cast<int>(given.size()));
    });
    compute.join();
  }

  void linesAreSplitLimitedAndValid() {
    LineCollector lines;
    std::uint64_t dropped = 0;
    lines.add("one\ntw", 1);
    lines.add("o\n\xff\xc3\xa9\n", 2);
    QCOMPARE(lines.take(dropped), (std::vector<std::string>{"one", "two", "?\xc3\xa9"}));
    QCOMPARE(dropped, std::uint64_t{0});
    for (int i = 0; i < 3000; ++i) lines.add("line " + std::to_string(i) + "\n", 3);
    QVERIFY(lines.take(dropped).size() <= 1000);
    QVERIFY(dropped >= 2000);
    QVERIFY(lines.tail().ends_with("line 2999"));
    lines.add("last", 4'000'000'000);
    lines.end(4'000'000'000);
    QCOMPARE(lines.take(dropped), std::vector<std::string>{"last"});
  }

  void stepsArePackedWithGapsTold() {
    StepPacker packer(2);
    runtime::StepRecord record;
    for (std::int64_t step = 1; step <= 3; ++step) {
      record.step = step;
      record.begin = 1000 * step;
      record.end = record.begin + 500;
      record.loss = 1.0 / static_cast<double>(step);
      QVERIFY(packer.add(record));
    }
    QCOMPARE(packer.size(), 3);
    record.step = 6;
    record.begin = 9000;
    record.staleness = 2;
    QVERIFY(!packer.add(record));
    const auto first = packer.take();
    QCOMPARE(first.rank(), 2);
    QCOMPARE(first.first_step(), 1);
    QCOMPARE(first.loss_size(), 3);
    QCOMPARE(first.begin_ns(0), 1000);
    QCOMPARE(first.begin_ns(2), 1000);
    QCOMPARE(first.staleness_size(), 0);  // none: no column
    QCOMPARE(first.loss_scale_size(), 0);
    QCOMPARE(first.skipped_size(), 0);
    QVERIFY(packer.add(record));
    const auto second = packer.take();
    QCOMPARE(second.first_step(), 6);
    QCOMPARE(second.dropped(), std::uint64_t{2});
    QCOMPARE(second.begin_ns(0), 9000);
    QCOMPARE(second.staleness(0), 2.0f);
  }

  void stepsThatUpdateNothingAreTold() {
    StepPacker packer(0);
    runtime::StepRecord record;
    record.lossScale = 65536;
    for (std::int64_t step = 1; step <= 4; ++step) {
      record.step = step;
      record.skipped = step == 2 ? 1 : 0;
      if (step == 3) record.lossScale = 32768;
      QVERIFY(packer.add(record));
    }
    const auto chunk = packer.take();
    QCOMPARE(chunk.loss_scale_size(), 4);
    QCOMPARE(chunk.loss_scale(1), 65536.0f);
    QCOMPARE(chunk.loss_scale(2), 32768.0f);
    QCOMPARE(chunk.skipped_size(), 4);
    for (int i = 0; i < 4; ++i) QCOMPARE(chunk.skipped(i), i == 1 ? 1 : 0);
  }

  void freezesAreToldOfTheStepsTheyFellInto() {
    constexpr Nanoseconds ms = 1'000'000;
    FreezeWatch freezes;
    freezes.slept(0, 12 * ms);          // late as a scheduler may be
    freezes.slept(100 * ms, 160 * ms);  // did not run from 110 to 160
    QCOMPARE(freezes.within(0, 1000 * ms), 50 * ms);
    QCOMPARE(freezes.within(120 * ms, 130 * ms), 10 * ms);
    StepPacker packer(0);
    runtime::StepRecord record;
    record.step = 1;
    record.begin = 50 * ms;
    record.end = 100 * ms;
    record.collectiveBegin = 90 * ms;
    QVERIFY(packer.add(record, freezes));
    record.step = 2;
    record.begin = 100 * ms;
    record.end = 170 * ms;
    record.collectiveBegin = 120 * ms;
    QVERIFY(packer.add(record, freezes));
    auto chunk = packer.take();
    QCOMPARE(chunk.frozen_size(), 2);
    QCOMPARE(chunk.frozen(0), 0.0f);
    QVERIFY(std::abs(chunk.frozen(1) - 0.05f) < 1e-6f);
    QVERIFY(std::abs(chunk.frozen_arrived(1) - 0.04f) < 1e-6f);
    freezes.forgetBefore(170 * ms);
    record.step = 3;
    QVERIFY(packer.add(record, freezes));
    chunk = packer.take();
    QCOMPARE(chunk.frozen_size(), 0);  // none: no columns
    QCOMPARE(chunk.loss_size(), 1);
  }

  // From its first wait for files that is worth it, a chunk has a column of them.
  void waitingForFilesIsPacked() {
    StepPacker packer(0);
    runtime::StepRecord record;
    for (const float reading : {1e-6f, 0.02f, 1e-6f}) {
      ++record.step;
      record.reading = reading;
      QVERIFY(packer.add(record));
    }
    const auto chunk = packer.take();
    QCOMPARE(chunk.reading_size(), 3);
    QVERIFY(chunk.reading(0) == 0 && chunk.reading(1) == 0.02f && chunk.reading(2) == 0);
    record.step = 4;
    QVERIFY(packer.add(record));
    QCOMPARE(packer.take().reading_size(), 0);
  }

  // A slow step and the sampled one right after it do not displace each other.
  void slowAndSampledStepsAreSent() {
    std::array<int, 2> ends{};
    QVERIFY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    BlockingChannel channel(ours.get()), answers(theirs.get());
    const auto eventsOf = [](std::int64_t step) {
      plan::Event event;
      event.rank = 3;
      event.step = step;
      return std::vector<plan::Event>(5, event);
    };
    {
      Telemetry telemetry(3, channel, [](std::int64_t) {});
      telemetry.onSlowStep(eventsOf(49));
      telemetry.onEvents(eventsOf(50));
    }
    ours.reset();
    std::map<std::int64_t, bool> sent;
    std::string frame;
    while (answers.receive(frame)) {
      node::v1::FromWorker message;
      QVERIFY(message.ParseFromString(frame) && message.has_events());
      QCOMPARE(message.events().rank(), 3);
      QCOMPARE(message.events().begin_ns_size(), 5);
      sent[message.events().step()] = message.events().slow();
    }
    QCOMPARE(sent, (std::map<std::int64_t, bool>{{49, true}, {50, false}}));
  }

  void ringDropsInsteadOfWaiting() {
    auto ring = std::make_unique<StepRing>();
    runtime::StepRecord record;
    std::size_t taken = 0;
    for (std::size_t i = 0; i < StepRing::kSize + 10; ++i) {
      record.step = static_cast<std::int64_t>(i);
      taken += ring->push(record) ? 1 : 0;
    }
    QCOMPARE(taken, StepRing::kSize);
    for (std::size_t i = 0; i < StepRing::kSize; ++i) {
      QVERIFY(ring->pop(record));
      QCOMPARE(record.step, static_cast<std::int64_t>(i));
    }
    QVERIFY(!ring->pop(record));
  }

  void namesAreChecked() {
    QVERIFY(isPlainName("run-20240501.a_b"));
    for (const char* bad : {"", ".", "..", "../x", "a/b", "a b", ".hidden", "a\n"})
      QVERIFY2(!isPlainName(bad), bad);
  }

  // So a large file is hashed once, also one that has no dimensions, as weights.
  void factsOfFilesOutliveTheAgent() {
    const auto workdir = openWorkdir(path("known"));
    QVERIFY(workdir.ok());
    const std::string file = path("a file");
    QVERIFY(writeFileAtomically(file, "content").ok());
    const std::pair<std::string, Shape> kinds[] = {
        {"weights", {}}, {"", {0}}, {"text", {60000, 28, 28}}};
    for (const auto& [kind, dimensions] : kinds) {
      int reads = 0;
      const auto read = [&, &extents = dimensions]() -> Result<data::FileFacts> {
        ++reads;
        return data::FileFacts{std::string(64, 'a'), extents, 9, 5};
      };
      for (int agents = 0; agents < 2; ++agents) {
        DataCache cache(*workdir);
        const auto facts = cache.inspect(file, kind, read);
        QVERIFY(facts.ok());
        QVERIFY(facts->sha256 == std::string(64, 'a') && facts->dimensions == dimensions);
        QVERIFY(facts->highest == 9 && facts->highestAt == 5);
      }
      QCOMPARE(reads, 1);
    }
  }

  // A socket that is served again while a sweep looks at what was left of it stays.
  void sweepsLeaveWhatIsServedAgain() {
    const auto workdir = openWorkdir(path("swept"));
    QVERIFY(workdir.ok());
    const RunFolder folder = runFolder(*workdir, "run", "n1");
    QVERIFY(makeFolders(folder.path).ok());
    QVERIFY(writeFileAtomically(folder.request(), "").ok());
    std::jthread sweeper([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) sweepWorkdir(*workdir);
    });
    int lost = 0, served = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (std::chrono::steady_clock::now() < end) {
      const int lock = tryLock(folder.lock());
      if (lock < 0) continue;  // a sweep has it for a moment
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      folder.socket().copy(address.sun_path, sizeof address.sun_path - 1);
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      unlink(folder.socket().c_str());
      QCOMPARE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      QCOMPARE(listen(fd, 8), 0);
      std::this_thread::sleep_for(std::chrono::microseconds(served % 300));
      ++served;
      if (access(folder.socket().c_str(), F_OK) != 0) ++lost;
      const timespec times[2] = {{1000, 0}, {1000, 0}};
      // killed long ago, as a sweep sees it
      utimensat(AT_FDCWD, folder.socket().c_str(), times, 0);
      close(fd);
      close(lock);
      std::this_thread::sleep_for(std::chrono::microseconds(served % 50));
    }
    sweeper.request_stop();
    sweeper.join();
    QVERIFY(served > 100);
    QVERIFY2(lost == 0, qPrintable(QString("%1 of %2").arg(lost).arg(served)));
  }

  void longWorkdirsGetAShortSocket() {
    const std::string deep = path("x") + "/" + std::string(120, 'y');
    auto workdir = openWorkdir(deep);
    QVERIFY(workdir.ok());
    QVERIFY(workdir->agentSocket(std::string(64, 'a')).size() <= kMaxSocketPath);
    QVERIFY(isLocalFilesystem(workdir->runtime));
    QDir(QString::fromStdString(workdir->runtime)).removeRecursively();
  }

  // Counters as Linux's powercap shows them: parts of a package count once, and a counter begins
  // again at its range.
  void processorsTellTheirPower() {
    const auto zone = [&](const char* folder, const char* name, std::uint64_t microjoules) {
      const std::string place = path("powercap") + "/" + folder;
      QVERIFY(QDir().mkpath(QString::fromStdString(place)));
      for (const auto& [file, text] :
           {std::pair<std::string, std::string>("name", name),
            std::pair<std::string, std::string>("energy_uj", std::to_string(microjoules)),
            std::pair<std::string, std::string>("max_energy_range_uj", "9000000")})
        QVERIFY(writeFileAtomically(place + "/" + file, text + "\n").ok());
    };
    const auto zones = [&](std::uint64_t package, std::uint64_t memory) {
      zone("intel-rapl:0", "package-0", package);
      zone("intel-rapl:0:0", "core", package / 2);
      zone("intel-rapl:0:1", "dram", memory);
      zone("intel-rapl:1", "psys", package + memory);
      zone("intel-rapl-mmio:0", "package-0", package);
    };
    zones(8'000'000, 100);
    PackagePower power(path("powercap"));
    QVERIFY(!power.watts(5'000'000'000));
    zones(1'000'000, 1'000'100);  // 2 J, and 1 J
    QCOMPARE(power.watts(7'000'000'000), std::optional(1.5));
    QVERIFY(QFile::remove(QString::fromStdString(path("powercap/intel-rapl:0/energy_uj"))));
    QVERIFY(!power.watts(8'000'000'000));
    zones(2'000'000, 2'000'000);
    QVERIFY(!power.watts(9'000'000'000));  // the first again
    zones(2'500'000, 2'000'000);
    QCOMPARE(power.watts(10'000'000'000), std::optional(0.5));
    PackagePower none(path("nowhere"));
    QVERIFY(!none.watts(1) && !none.watts(2));
  }

  void samplesAreOfThisMachine() {
    NodeSampler sampler(folder_.path().toStdString());
    (void)sampler.sample({});
    const Nanoseconds begin = monotonicNow();
    double burn = 0;
    while (monotonicNow() - begin < 200'000'000) burn += 1e-9;
    const auto sample = sampler.sample({{5, getpid()}});
    QVERIFY(burn > 0);
    QVERIFY(sample.cpu() > 0 && sample.cpu() <= 1);
    QVERIFY(sample.core_size() > 0);
    QVERIFY(sample.memory_total() > sample.memory_used());
    if (QFile::exists("/proc/pressure/io")) QVERIFY(sample.has_disk_busy());
    QVERIFY(sample.disk_busy() >= 0 && sample.disk_busy() <= 1);
    QCOMPARE(sample.rank_size(), 1);
    QCOMPARE(sample.rank(0).rank(), 5);
    QVERIFY(sample.rank(0).memory() > 1e6);
    QVERIFY(!sample.rank(0).stopped());
    const auto node = inventory(folder_.path().toStdString());
    QVERIFY(node.cores() >= 1);
    QVERIFY(!node.cpu().empty());
    QVERIFY(node.memory_bytes() > 0);
    QVERIFY(!node.boot_id().empty());
  }

  // As of memory that was swapped out: pages that are only on the disk.
  void readingMemoryFromADiskIsCounted() {
    QTemporaryDir beside(QString::fromStdString(test::buildPath("pagesXXXXXX")));
    const std::string file = beside.filePath("pages").toStdString();
    constexpr std::size_t kSize = 4 << 20, kPage = 4096;
    QVERIFY(writeFileAtomically(file, std::string(kSize, 'x')).ok());  // synced
    const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    const auto readAll = [&] {
      QCOMPARE(posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
      void* const at = mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE, fd.get(), 0);
      QVERIFY(at != MAP_FAILED);
      QCOMPARE(madvise(at, kSize, MADV_RANDOM), 0);
      for (std::size_t i = 0; i < kSize; i += kPage) (void)static_cast<const volatile char*>(at)[i];
      munmap(at, kSize);
    };
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    readAll();
    getrusage(RUSAGE_SELF, &after);
    if (after.ru_majflt - before.ru_majflt < static_cast<long>(kSize / kPage / 2))
      QSKIP("the build folder's pages are not dropped: it is in memory");
    NodeSampler sampler(folder_.path().toStdString());
    const Nanoseconds begin = monotonicNow();
    (void)sampler.sample({{0, getpid()}});
    readAll();
    const double rate = sampler.sample({{0, getpid()}}).rank(0).disk_faults();
    QVERIFY(rate * static_cast<double>(monotonicNow() - begin) * 1e-9 > 100);
    (void)sampler.sample({{0, getpid()}});
    QTest::qWait(50);
    QVERIFY(sampler.sample({{0, getpid()}}).rank(0).disk_faults() < 100);
  }

  void ncclListensOnOneInterface() {
    qputenv("NCCL_SOCKET_IFNAME", "eth");
    QVERIFY(confineNccl("", "").ok());
    QCOMPARE(qgetenv("NCCL_SOCKET_IFNAME"), QByteArray("=lo"));
    QCOMPARE(qgetenv("NCCL_SOCKET_FAMILY"), QByteArray("AF_INET"));
    QCOMPARE(qgetenv("NCCL_RAS_ENABLE"), QByteArray("0"));
    QVERIFY(confineNccl("localhost", "").ok());
    QCOMPARE(qgetenv("NCCL_SOCKET_IFNAME"), QByteArray("=lo"));
    QVERIFY(confineNccl("", "lo").ok());
    QCOMPARE(qgetenv("NCCL_SOCKET_IFNAME"), QByteArray("=lo"));
    const Status other = confineNccl("192.0.2.1", "");
    QCOMPARE(other.code(), Code::kFailedPrecondition);
    QVERIFY(other.error().text().find("192.0.2.1") != std::string::npos);
    // This host can bind it, and no interface has it.
    const Status bindable = confineNccl("127.0.0.77", "");
    QCOMPARE(bindable.code(), Code::kFailedPrecondition);
    QVERIFY(bindable.error().text().find("127.0.0.77") != std::string::npos);
    QCOMPARE(confineNccl("", "none0").code(), Code::kFailedPrecondition);
  }

  void ranksOnGpusAreRefusedWhereTheyHaveNone() {
    const auto ranks = [](int count) {
      std::vector<specs::RankDevice> out{{"onednn", "cpu", 0, 1}};
      for (int i = 0; i < count; ++i) out.push_back({"cuda", "cuda", i, 1});
      return out;
    };
    const auto bytes = [](int count) {
      return std::vector<std::int64_t>(static_cast<std::size_t>(count) + 1, std::int64_t{3} << 30);
    };
    node::v1::GpuSurvey node;
    node.add_libraries("driver CUDA 13.0 (libcuda.so.1)");
    for (const char* name : {"Fake GPU 0", "Fake GPU 1"}) {
      auto* gpu = node.add_gpus();
      gpu->set_name(name);
      gpu->set_memory_bytes(std::int64_t{4} << 30);
      gpu->set_major(8);
    }
    QVERIFY(checkGpus(node, ranks(2), bytes(2), "bf16").ok());
    const Status few = checkGpus(node, ranks(3), bytes(3), "bf16");
    QCOMPARE(few.error().what, std::string("the run has ranks on 3 GPUs of a node that has 2"));
    QCOMPARE(few.error().why,
             std::string("Fake GPU 0, Fake GPU 1; driver CUDA 13.0 (libcuda.so.1)"));
    QCOMPARE(few.error().next, std::string("give its devices of kind cuda a count of 2 at most, "
                                           "or, for ranks to share them, gpus: 2"));
    auto sharing = ranks(2);
    sharing[2].number = 0;
    const Status both = checkGpus(node, sharing, bytes(2), "bf16");
    QCOMPARE(both.error().what, std::string("not enough memory on GPU 0 for its 2 ranks"));
    QCOMPARE(both.error().why, std::string("they need 6144 MiB, Fake GPU 0 has 4096 MiB"));
    node.mutable_gpus(0)->set_memory_bytes(std::int64_t{6} << 30);
    QVERIFY(checkGpus(node, sharing, bytes(2), "bf16").ok());
    node.mutable_gpus(1)->set_memory_bytes(std::int64_t{2} << 30);
    const Status small = checkGpus(node, ranks(2), bytes(2), "bf16");
    QVERIFY(small.code() == Code::kResourceExhausted);
    QCOMPARE(small.error().what, std::string("not enough memory on GPU 1 for its rank"));
    QCOMPARE(small.error().why, std::string("the rank needs 3072 MiB, Fake GPU 1 has 2048 MiB"));
    node.mutable_gpus(1)->set_memory_bytes(std::int64_t{6} << 30);
    node.mutable_gpus(1)->set_major(7);
    node.mutable_gpus(1)->set_minor(5);
    for (const char* precision : {"fp32", "tf32", "fp16"})
      QVERIFY(checkGpus(node, ranks(2), bytes(2), precision).ok());
    QVERIFY(checkGpus(node, ranks(1), bytes(1), "bf16").ok());  // GPU 1 is not used
    const Status old = checkGpus(node, ranks(2), bytes(2), "bf16");
    QCOMPARE(old.error().what, std::string("GPU 1 cannot compute in bf16"));
    QCOMPARE(old.error().why,
             std::string("Fake GPU 1 has compute capability 7.5, bf16 needs 8.0 or above"));
    QCOMPARE(old.error().next, std::string("set training.precision to fp16 or fp32"));
    node.mutable_problem()->mutable_what()->set_text("cuBLASLt cannot be used");
    node.mutable_problem()->mutable_why()->set_text("no such file");
    const Status none = checkGpus(node, ranks(1), bytes(1), "bf16");
    QCOMPARE(none.error().what,
             std::string("the node cannot compute on a GPU: cuBLASLt cannot be used"));
    QCOMPARE(none.error().why, std::string("no such file; driver CUDA 13.0 (libcuda.so.1)"));
    QVERIFY(none.error().next.text().ends_with("or give the node devices of kind cpu"));
  }
};

QTEST_GUILESS_MAIN(AgentPartsTest)
#include "agent_parts_test.moc"
