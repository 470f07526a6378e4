// What a rank of a large Gloo group sends and keeps: barriers and small all-reduces in rounds,
// memory by the messages that there were. Peers that leave or freeze while others are in a later
// round.
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "engine/base/random.h"
#include "tests/support/communicator_groups.h"
#include "tests/support/sanitizers.h"

namespace lockstep::tests {
namespace {

using comm::Communicator;
using comm::ReduceOp;

// Segments with data that the TCP sockets of this process have sent, each counted once; small
// messages are one each.
std::int64_t sentSegments() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  std::set<ino_t> seen;
  std::int64_t sum = 0;
  while (const dirent* entry = readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    struct stat state {};
    if (fstat(fd, &state) != 0 || !S_ISSOCK(state.st_mode) || !seen.insert(state.st_ino).second)
      continue;
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0)
      sum += std::int64_t{info.tcpi_data_segs_out} - info.tcpi_total_retrans;
  }
  return sum;
}

std::int64_t residentBytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Messages of a rank where each round reaches eight times as many ranks as the one before.
int messagesOfARank(int size) {
  int count = 0;
  for (int held = 1; held < size; held *= 8) count += std::min(7, (size - 1) / held);
  return count;
}

std::string said(const Status& status) { return status.ok() ? "" : status.error().text(); }

template <typename T>
std::string reduces(Communicator& group, DType dtype, ReduceOp op, std::int64_t count) {
  std::vector<T> data(count), expected(count);
  const auto element = [](int rank, std::int64_t i) {
    return static_cast<T>(static_cast<float>(1000 * randomNormal(rank + 1, i)));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    data[i] = element(group.rank(), i);
    expected[i] = element(0, i);
    for (int r = 1; r < group.size(); ++r) {
      const T next = element(r, i);
      expected[i] = op == ReduceOp::kSum ? expected[i] + next : std::max(expected[i], next);
    }
  }
  if (auto status = group.allReduce(data.data(), count, dtype, op); !status.ok())
    return said(status);
  return data == expected ? "" : fmt::format("another result of {} {}", count, dtypeName(dtype));
}

// Adds what all ranks have sent by now, or takes it away; all wait until it is read.
Status count(Communicator& group, int sign, std::int64_t& segments) {
  char byte = 0;
  if (group.rank() != 0) LOCKSTEP_TRY(group.send(&byte, 1, 0, 0));
  for (int r = 1; group.rank() == 0 && r < group.size(); ++r)
    LOCKSTEP_TRY(group.recv(&byte, 1, r, 0));
  if (group.rank() == 0) segments += sign * sentSegments();
  return group.broadcast(&byte, 1, 0);
}

// Runs `call` on every rank; `segments` becomes what all ranks together sent for it.
Status counted(Communicator& group, std::int64_t& segments, const std::function<Status()>& call) {
  LOCKSTEP_TRY(count(group, -1, segments));
  LOCKSTEP_TRY(call());
  if (group.rank() == 0) segments -= 2 * (group.size() - 1);  // to and from rank 0, between counts
  return count(group, 1, segments);
}

}  // namespace

class CommunicatorScaleTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // A connection takes two descriptors at each end.
  void initTestCase() {
    rlimit files{};
    QCOMPARE(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    QCOMPARE(setrlimit(RLIMIT_NOFILE, &files), 0);
  }

  void messagesAndMemory_data() {
    QTest::addColumn<int>("size");
    for (const int size : {2, 8, 9, 20, 32, 64}) QTest::addRow("%d ranks", size) << size;
  }
  void messagesAndMemory() {
    QFETCH(int, size);
    std::int64_t opening = 0, barrier = 0, small = 0, taken = -residentBytes();
    const auto answers = runAsThreads({"gloo", size, 60'000'000'000}, [&](Communicator& group) {
      float data[3] = {};
      // Connections are made, with messages of their own, before messages are counted.
      Status status = counted(group, opening, [&] { return group.barrier(); });
      if (status.ok()) status = counted(group, barrier, [&] { return group.barrier(); });
      if (status.ok())
        status = counted(group, small,
                         [&] { return group.allReduce(data, 3, DType::kF32, ReduceOp::kSum); });
      if (group.rank() == 0) taken += residentBytes();
      if (status.ok()) status = group.barrier();
      std::string wrong = said(status);
      for (const std::int64_t count : {0, 1, 1000, 8192})
        wrong += reduces<float>(group, DType::kF32, ReduceOp::kSum, count);
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        wrong += reduces<float>(group, DType::kF32, op, 100);
        wrong += reduces<double>(group, DType::kF64, op, 100);
        wrong += reduces<std::int32_t>(group, DType::kI32, op, 100);
        wrong += reduces<std::int64_t>(group, DType::kI64, op, 100);
      }
      return wrong;
    });
    for (const auto& answer : answers) QCOMPARE(QString::fromStdString(answer), QString());
    QCOMPARE(barrier, std::int64_t{size} * messagesOfARank(size));
    QCOMPARE(small, barrier);
    if (test::kSanitized) return;  // keep memory of their own for each page
    // Of the boxes of a peer, 136 KiB, only pages with messages are taken; 8 MiB are the threads'.
    const std::int64_t peers = std::int64_t{size} * (size - 1);
    QVERIFY2(taken < peers * (32 << 10) + (8 << 20), std::to_string(taken).c_str());
  }

  // A rank that leaves is named by all, also by those that no round has as its neighbours.
  void peerLeaves() {
    constexpr int kSize = 12;
    const auto answers = runAsThreads({"gloo", kSize}, [](Communicator& group) -> std::string {
      for (int i = 0; i < 5; ++i)
        if (auto status = group.barrier(); !status.ok()) return "early: " + status.error().text();
      if (group.rank() == 5) return {};
      const auto status = group.barrier();
      if (status.ok()) return "no error";
      return status.error().why.text().find("rank 5 ") != std::string::npos ? ""
                                                                            : status.error().text();
    });
    for (const auto& answer : answers) QCOMPARE(QString::fromStdString(answer), QString());
  }

  // Nor does a rank that waits for one that waits for the frozen one take the former for frozen.
  void peerFreezes() {
    if (!kForkedThreadsWork)
      QSKIP("the thread sanitizer does not stand threads in a forked process");
    constexpr int kSize = 12, kFrozen = 5;
    const QTemporaryDir folder;
    ProcessGroup group({"gloo", kSize, 8'000'000'000}, folder.path().toStdString(),
                       [](Communicator& own, const ProcessGroup::Say& say) {
                         for (int i = 0;; ++i) {
                           if (auto status = own.barrier(); !status.ok())
                             return std::string(codeName(status.code())) + ": " +
                                    status.error().text();
                           if (i < 3) say();
                         }
                       });
    for (int rank = 0; rank < kSize; ++rank)
      for (int i = 0; i < 3; ++i) QVERIFY(group.progress(rank));
    QElapsedTimer clock;
    clock.start();
    kill(group.pid(kFrozen), SIGSTOP);
    for (int rank = 0; rank < kSize; ++rank) {
      if (rank == kFrozen) continue;
      const std::string answer = group.answer(rank);
      QVERIFY2(answer.starts_with("deadline-exceeded: "), answer.c_str());
      QVERIFY2(answer.find("rank 5 ") != std::string::npos, answer.c_str());
    }
    QVERIFY2(clock.elapsed() < 40'000, std::to_string(clock.elapsed()).c_str());
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::CommunicatorScaleTest)
#include "communicator_scale_test.moc"
