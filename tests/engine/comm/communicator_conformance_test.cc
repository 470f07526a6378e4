// Compares every kind of communicator × group size × operation with straightforward results.
#include <sys/resource.h>
#include <unistd.h>

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "engine/base/random.h"
#include "engine/comm/stand_ins.h"
#include "tests/support/communicator_groups.h"
#include "tests/support/failing_communicator.h"
#include "tests/support/sanitizers.h"

namespace lockstep::tests {
namespace {

using comm::Communicator;
using comm::ReduceOp;

constexpr std::int64_t kCounts[] = {0, 1, 3, 1000, 300'000};

// Small integers, so that sums are exact in every type and order.
template <typename T>
T element(int rank, std::int64_t i) {
  return static_cast<T>(i * 7 % 50 - 25 + rank * (i % 7 - 3));
}

template <typename T>
T reduced(int size, std::int64_t i, ReduceOp op) {
  T value = element<T>(0, i);
  for (int r = 1; r < size; ++r)
    value = op == ReduceOp::kSum ? value + element<T>(r, i) : std::max(value, element<T>(r, i));
  return value;
}

// Rank 0 receives the smallest part, or nothing.
std::vector<std::int64_t> unevenCuts(std::int64_t count, int size) {
  std::vector<std::int64_t> cuts;
  for (int r = 0; r <= size; ++r) cuts.push_back(count * r * r / (size * size));
  return cuts;
}

#define EXPECT_OK(call) \
  if (auto status = (call); !status.ok()) return status.error().text()
#define EXPECT(condition, ...) \
  if (!(condition)) return fmt::format(__VA_ARGS__)

template <typename T>
std::string reductions(Communicator& group, DType dtype, ReduceOp op, std::int64_t count) {
  const int size = group.size(), rank = group.rank();
  std::vector<T> data(count + 1, T{99});
  for (std::int64_t i = 0; i < count; ++i) data[i] = element<T>(rank, i);
  const std::vector<T> input = data;
  EXPECT_OK(group.allReduce(data.data(), count, dtype, op));
  for (std::int64_t i = 0; i < count; ++i)
    EXPECT(data[i] == (reduced<T>(size, i, op)), "all-reduce of {} at {}: {}", count, i, data[i]);
  EXPECT(data[count] == T{99}, "all-reduce wrote past its end");

  const auto cuts = unevenCuts(count, size);
  const std::int64_t own = cuts[rank + 1] - cuts[rank];
  std::vector<T> part(own + 1, T{77});
  EXPECT_OK(group.reduceScatter(input.data(), part.data(), cuts, dtype, op));
  for (std::int64_t i = 0; i < own; ++i)
    EXPECT(part[i] == data[cuts[rank] + i], "reduce-scatter of {} at {}", count, i);
  EXPECT(part[own] == T{77}, "reduce-scatter wrote past its end");

  std::vector<T> whole(count + 1, T{55});
  EXPECT_OK(group.allGather(part.data(), whole.data(), cuts, dtype));
  EXPECT(std::equal(data.begin(), data.end() - 1, whole.begin()), "all-gather of {}", count);
  EXPECT(whole[count] == T{55}, "all-gather wrote past its end");
  std::fill(whole.begin(), whole.end(), T{0});
  std::copy(part.begin(), part.end() - 1, whole.begin() + cuts[rank]);
  EXPECT_OK(group.allGather(whole.data() + cuts[rank], whole.data(), cuts, dtype));
  EXPECT(std::equal(data.begin(), data.end() - 1, whole.begin()), "all-gather in place");
  return {};
}

// Sums of floating-point numbers: bit-identical on all ranks and on repetition.
std::string sameBits(Communicator& group, std::int64_t count) {
  std::vector<float> first(count), again(count);
  for (std::int64_t i = 0; i < count; ++i)
    first[i] = again[i] = static_cast<float>(randomNormal(group.rank() + 1, i));
  EXPECT_OK(group.allReduce(first.data(), count, DType::kF32, ReduceOp::kSum));
  EXPECT_OK(group.allReduce(again.data(), count, DType::kF32, ReduceOp::kSum));
  EXPECT(first == again, "another sum the second time");
  std::vector<float> root = first;
  EXPECT_OK(group.broadcast(root.data(), count * 4, group.size() - 1));
  EXPECT(first == root, "sums differ between ranks");
  return {};
}

std::string bytesBetween(int from, int to, std::int64_t bytes) {
  std::string text(bytes, ' ');
  for (std::int64_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>(i * 31 + from * 7 + to + i / 251);
  return text;
}

std::string movements(Communicator& group, std::int64_t bytes) {
  const int size = group.size(), rank = group.rank();
  for (int root = 0; root < size; ++root) {
    std::string data = rank == root ? bytesBetween(root, root, bytes) : std::string(bytes, '?');
    EXPECT_OK(group.broadcast(data.data(), bytes, root));
    EXPECT(data == bytesBetween(root, root, bytes), "broadcast of {} bytes from {}", bytes, root);
  }
  std::string in, expected;
  for (int r = 0; r < size; ++r) {
    in += bytesBetween(rank, r, bytes);
    expected += bytesBetween(r, rank, bytes);
  }
  std::string out(size * bytes, '?');
  EXPECT_OK(group.allToAll(in.data(), out.data(), bytes));
  EXPECT(out == expected, "all-to-all of {} bytes", bytes);
  // Around the ring; rank 0 receives first, which breaks the cycle.
  if (size > 1) {
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    std::string taken(bytes, '?');
    if (rank == 0) EXPECT_OK(group.recv(taken.data(), bytes, previous, previous));
    EXPECT_OK(group.send(in.data() + next * bytes, bytes, next, rank));
    if (rank != 0) EXPECT_OK(group.recv(taken.data(), bytes, previous, previous));
    EXPECT(taken == bytesBetween(previous, rank, bytes), "message of {} bytes", bytes);
    // All at once, with messages of different lengths.
    const auto lengthOf = [&](int r) { return bytes * (r + 1) / size; };
    taken.assign(static_cast<std::size_t>(lengthOf(previous)), '?');
    EXPECT_OK(group.exchange(in.data() + next * bytes, lengthOf(rank), next, taken.data(),
                             lengthOf(previous), previous, 3));
    EXPECT(taken == bytesBetween(previous, rank, bytes).substr(0, taken.size()),
           "exchange of {} bytes", bytes);
    // All at once, each sending on a thread of its own.
    constexpr int kMessages = 5;
    Status sent;
    std::thread sender([&] {
      for (int i = 0; i < kMessages && sent.ok(); ++i)
        sent = group.send(in.data() + next * bytes, bytes, next, i);
    });
    Status received;
    for (int i = 0; i < kMessages && received.ok(); ++i) {
      taken.assign(static_cast<std::size_t>(bytes), '?');
      received = group.recv(taken.data(), bytes, previous, i);
      if (received.ok() && taken != bytesBetween(previous, rank, bytes))
        received = invalidArgument("message {} is another one", i);
    }
    sender.join();
    EXPECT_OK(sent);
    EXPECT_OK(received);
  }
  EXPECT_OK(group.barrier());
  return {};
}

std::string conform(Communicator& group) {
  std::string wrong;
  for (const std::int64_t count : kCounts) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      wrong += reductions<float>(group, DType::kF32, op, count);
      wrong += reductions<double>(group, DType::kF64, op, count);
      wrong += reductions<std::int32_t>(group, DType::kI32, op, count);
      wrong += reductions<std::int64_t>(group, DType::kI64, op, count);
      if (!wrong.empty()) return wrong;
    }
    wrong += sameBits(group, count);
    wrong += movements(group, count);
    if (!wrong.empty()) return wrong;
  }
  return wrong;
}

}  // namespace

class CommunicatorConformanceTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void operations_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<int>("size");
    QTest::addColumn<bool>("processes");
    for (const GroupKind& kind : kGroupKinds)
      for (const int size : {1, 2, 3, 4, 5, 8})
        for (const bool processes : {false, true}) {
          if (processes && kind.open == nullptr) continue;
          QTest::addRow("%s %d %s", kind.name, size, processes ? "processes" : "threads")
              << kind.name << size << processes;
        }
  }
  void operations() {
    QFETCH(QString, kind);
    QFETCH(int, size);
    QFETCH(bool, processes);
    const GroupOptions options{kind.toStdString(), size};
    if (!processes) {
      for (const auto& answer : runAsThreads(options, conform))
        QCOMPARE(QString::fromStdString(answer), QString());
      return;
    }
    if (!kForkedThreadsWork)
      QSKIP("the thread sanitizer does not stand threads in a forked process");
    const QTemporaryDir folder;
    ProcessGroup group(options, folder.path().toStdString(),
                       [](Communicator& own, const auto&) { return conform(own); });
    for (int r = 0; r < size; ++r) QCOMPARE(QString::fromStdString(group.answer(r)), QString());
  }

  void spinningGroup() {
    const GroupOptions options{"shm", 2, 10'000'000'000, false};
    for (const auto& answer : runAsThreads(options, conform))
      QCOMPARE(QString::fromStdString(answer), QString());
  }

  void standsIn() {
    const auto body = [](Communicator& group) -> std::string {
      const auto switched = comm::makeSwitched(group);
      const auto summed = [&](comm::Communication as, bool all) -> std::string {
        switched->setCommunication(as);
        float values[] = {1, 2};
        if (all || group.rank() == 0)
          EXPECT_OK(switched->allReduce(values, 2, DType::kF32, ReduceOp::kSum));
        const float expected = as == comm::Communication::kReal ? 2 : 1;
        EXPECT(values[0] == expected && values[1] == 2 * expected, "{} {}", values[0], values[1]);
        return {};
      };
      std::string wrong = summed(comm::Communication::kReal, true);
      if (wrong.empty())
        wrong = summed(comm::Communication::kNone, false);  // does not wait for peers
      if (wrong.empty()) wrong = summed(comm::Communication::kBarrier, true);
      if (wrong.empty()) wrong = summed(comm::Communication::kReal, true);
      if (!wrong.empty()) return wrong;
      switched->setCommunication(comm::Communication::kBarrier);
      EXPECT_OK(group.rank() == 0 ? switched->broadcast(nullptr, 1 << 20, 0) : group.barrier());
      const auto alone = comm::makeAlone(1, 3);
      EXPECT(alone->rank() == 1 && alone->size() == 3, "rank {} of {}", alone->rank(),
             alone->size());
      EXPECT_OK(alone->barrier());
      return {};
    };
    for (const GroupKind& kind : kGroupKinds)
      for (const auto& answer : runAsThreads({kind.name, 2}, body))
        QCOMPARE(QString::fromStdString(answer), QString());
  }

  void maximumKeepsNan() {
    const auto body = [](Communicator& group) -> std::string {
      float values[] = {group.rank() == 1 ? std::nanf("") : 1.0f, 2.0f};
      EXPECT_OK(group.allReduce(values, 2, DType::kF32, ReduceOp::kMax));
      EXPECT(std::isnan(values[0]) && values[1] == 2.0f, "{} {}", values[0], values[1]);
      return {};
    };
    for (const GroupKind& kind : kGroupKinds)
      for (const auto& answer : runAsThreads({kind.name, 3}, body))
        QCOMPARE(QString::fromStdString(answer), QString());
  }

  void wrongArguments() {
    auto group = comm::makeInProcessGroup(1, 1'000'000'000).value();
    float value = 0;
    QCOMPARE(group[0]->allReduce(&value, 1, DType::kBf16, ReduceOp::kSum).code(),
             Code::kInvalidArgument);
    QCOMPARE(group[0]->allReduce(&value, -1, DType::kF32, ReduceOp::kSum).code(),
             Code::kInvalidArgument);
    const std::int64_t falling[] = {2, 1};
    QCOMPARE(group[0]->allGather(&value, &value, falling, DType::kF32).code(),
             Code::kInvalidArgument);
    QCOMPARE(group[0]->send(&value, 4, 0, 0).code(), Code::kInvalidArgument);
    QCOMPARE(group[0]->broadcast(&value, 4, 1).code(), Code::kInvalidArgument);
    QCOMPARE(group[0]->allReduce(&value, 1, DType::kF32, ReduceOp::kSum).code(), Code::kOk);
  }

  // A group too large for memory, or for the implementation, is an error.
  void groupsThatCannotBe() {
    for (const int size : {0, comm::kMaxSharedRanks + 1})
      QCOMPARE(comm::makeInProcessGroup(size, 1'000'000'000).error().code, Code::kInvalidArgument);
    if (test::kSanitized) QSKIP("sanitizers reserve more addresses than a limit leaves");
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit before{};
    QCOMPARE(getrlimit(RLIMIT_AS, &before), 0);
    const rlimit limit{static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (1 << 20),
                       before.rlim_max};
    QCOMPARE(setrlimit(RLIMIT_AS, &limit), 0);
    const auto group = comm::makeInProcessGroup(comm::kMaxSharedRanks, 1'000'000'000);
    QCOMPARE(setrlimit(RLIMIT_AS, &before), 0);
    QVERIFY(!group.ok());
    QCOMPARE(group.error().code, Code::kResourceExhausted);
    QVERIFY2(group.error().what.text().starts_with("out of memory for the messages of 64 ranks"),
             group.error().what.text().c_str());
  }

  void everyCallCanFail() {
    for (int failing = -1; failing < 3; ++failing) {
      auto group = comm::makeInProcessGroup(2, 5'000'000'000).value();
      std::vector<int> done(2);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < 2; ++rank)
        threads.emplace_back([&, rank] {
          FailingCommunicator own(std::move(group[rank]), rank == 0 ? failing : -1);
          while (done[rank] < 3 && own.barrier().ok()) ++done[rank];
        });
      for (auto& thread : threads) thread.join();
      QCOMPARE(done[0], failing < 0 ? 3 : failing);
      QVERIFY(done[1] <= done[0]);
    }
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::CommunicatorConformanceTest)
#include "communicator_conformance_test.moc"
