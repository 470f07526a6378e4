// Every algorithm over every kind of communicator and several numbers of ranks.
#include <QTest>

#include <numeric>

#include "engine/base/random.h"
#include "engine/runtime/all_reduce.h"
#include "tests/support/communicator_groups.h"

namespace lockstep::tests {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using ir::Algorithm;

// Of real numbers, so that the order of additions shows.
std::string reduce(Communicator& group, Algorithm how, std::int64_t count) {
  const int size = group.size(), rank = group.rank();
  std::vector<std::int64_t> hosts{0};
  while (hosts.back() < size) hosts.push_back(std::min<std::int64_t>(size, hosts.back() + 3));
  const auto exchanges = plan::exchanges(how, rank, size, count, hosts);
  std::vector<std::byte> staging(
      static_cast<std::size_t>(runtime::stagingBytes(exchanges, DType::kF64)));
  std::vector<double> exact(static_cast<std::size_t>(count));
  std::vector<float> first(static_cast<std::size_t>(count)), most = first;
  for (int r = 0; r < size; ++r)
    for (std::size_t i = 0; i < first.size(); ++i) {
      const auto one = static_cast<float>(randomNormal(static_cast<std::uint64_t>(r), i));
      if (r == rank) first[i] = most[i] = one;
      exact[i] += static_cast<double>(one);
    }
  std::vector<float> again = first;
  for (std::vector<float>* data : {&first, &again}) {
    const Status status =
        runtime::allReduce(group, exchanges, data->data(), DType::kF32, ReduceOp::kSum, staging);
    if (!status.ok()) return status.error().text();
  }
  if (first != again) return "another sum the second time";
  std::vector<float> last = first;
  if (const Status status = group.broadcast(last.data(), count * 4, size - 1); !status.ok())
    return status.error().text();
  if (first != last) return "sums differ between ranks";
  for (std::size_t i = 0; i < first.size(); ++i)
    if (std::abs(exact[i] - static_cast<double>(first[i])) > 1e-5)
      return fmt::format("element {} of {} is {} instead of {}", i, count, first[i], exact[i]);
  std::vector<std::int32_t> integers(first.size(), rank + 1);
  if (const Status status = runtime::allReduce(group, exchanges, integers.data(), DType::kI32,
                                               ReduceOp::kMax, staging);
      !status.ok())
    return status.error().text();
  for (const std::int32_t one : integers)
    if (one != size) return fmt::format("the largest is {}", one);
  return {};
}

}  // namespace

class AllReduceTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void everyCommunicator_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QString>("algorithm");
    QTest::addColumn<int>("size");
    for (const char* kind : {"in-process", "shm", "gloo"})
      for (const Algorithm how : ir::kAlgorithms) {
        if (how == Algorithm::kDirect) continue;  // of the communicator's conformance
        for (const int size : {2, 3, 4, 5, 8})
          QTest::addRow("%s %s %d", kind, ir::algorithmName(how).data(), size)
              << kind << QString(ir::algorithmName(how).data()) << size;
      }
  }
  void everyCommunicator() {
    QFETCH(QString, kind);
    QFETCH(QString, algorithm);
    QFETCH(int, size);
    const Algorithm how = *ir::algorithmFromName(algorithm.toStdString());
    const auto body = [&](Communicator& group) {
      std::string wrong;
      for (const std::int64_t count : {0, 1, 3, 1000, 200'000})  // the last in several pieces
        if (wrong.empty()) wrong = reduce(group, how, count);
      return wrong;
    };
    std::string wrong;  // of every rank: one says what the other suspects
    for (const auto& answer : runAsThreads({kind.toStdString(), size}, body))
      if (!answer.empty()) wrong += answer + "\n";
    QVERIFY2(wrong.empty(), wrong.c_str());
  }

  // A rank that is gone is noticed by all.
  void aRankThatLeaves() {
    for (const char* kind : {"in-process", "gloo"}) {
      const auto body = [&](Communicator& group) -> std::string {
        if (group.rank() == 2) return "left";
        const auto exchanges =
            plan::exchanges(Algorithm::kRing, group.rank(), group.size(), 100'000);
        std::vector<std::byte> staging(
            static_cast<std::size_t>(runtime::stagingBytes(exchanges, DType::kF32)));
        std::vector<float> data(100'000);
        const Status status =
            runtime::allReduce(group, exchanges, data.data(), DType::kF32, ReduceOp::kSum, staging);
        return status.ok() ? "did not notice" : "left";
      };
      for (const auto& answer : runAsThreads({kind, 3, 2'000'000'000}, body))
        QCOMPARE(QString::fromStdString(answer), QString("left"));
    }
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::AllReduceTest)
#include "all_reduce_test.moc"
