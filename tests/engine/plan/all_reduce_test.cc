// Simulates the messages of each algorithm in memory: all ranks get the same complete sums.
#include <QTest>

#include <cmath>
#include <deque>
#include <map>

#include "engine/base/random.h"
#include "engine/plan/all_reduce.h"

using namespace lockstep;
using ir::Algorithm;
using plan::Exchange;

namespace {

std::vector<std::int64_t> hostsOf(int ranks, int each) {
  std::vector<std::int64_t> cuts;
  for (int first = 0; first < ranks; first += each) cuts.push_back(first);
  cuts.push_back(ranks);
  return cuts;
}

// Simulates ranks whose sends do not block. run() returns "" or what went wrong.
class Simulation {
 public:
  Simulation(Algorithm how, int ranks, std::int64_t count, const std::vector<std::int64_t>& hosts) {
    for (int rank = 0; rank < ranks; ++rank) {
      script_.push_back(plan::exchanges(how, rank, ranks, count, hosts));
      std::vector<float> mine;
      for (std::int64_t i = 0; i < count; ++i)
        mine.push_back(static_cast<float>(
            randomNormal(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i))));
      data_.push_back(std::move(mine));
    }
    input_ = data_;
    at_.resize(script_.size());
    sent_.resize(script_.size());
  }

  std::string run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < script_.size(); ++rank)
        while (step(rank)) moved = true;
    }
    for (std::size_t rank = 0; rank < script_.size(); ++rank)
      if (at_[rank] < script_[rank].size()) return fmt::format("rank {} waits forever", rank);
    for (const auto& [pair, messages] : mail_)
      if (!messages.empty()) return fmt::format("a message of rank {} is not received", pair.first);
    for (std::size_t rank = 0; rank < data_.size(); ++rank)
      if (data_[rank] != data_[0]) return fmt::format("rank {} has another sum", rank);
    for (std::size_t i = 0; i < data_[0].size(); ++i) {
      double sum = 0, magnitude = 0;
      for (const auto& one : input_)
        sum += static_cast<double>(one[i]), magnitude += std::abs(static_cast<double>(one[i]));
      if (std::abs(sum - static_cast<double>(data_[0][i])) > 1e-6 * magnitude)
        return fmt::format("element {} is {} instead of {}", i, data_[0][i], sum);
    }
    return {};
  }
  std::int64_t mostSent() const {
    std::int64_t most = 0;
    for (const auto& script : script_) {
      std::int64_t all = 0;
      for (const Exchange& one : script) all += one.sent.end - one.sent.begin;
      most = std::max(most, all);
    }
    return most;
  }
  std::size_t mostSteps() const {
    std::size_t most = 0;
    for (const auto& script : script_) most = std::max(most, script.size());
    return most;
  }

 private:
  bool step(std::size_t rank) {
    if (at_[rank] == script_[rank].size()) return false;
    const Exchange& one = script_[rank][at_[rank]];
    std::vector<float>& mine = data_[rank];
    const int self = static_cast<int>(rank);
    bool moved = false;
    if (one.to >= 0 && !sent_[rank]) {
      mail_[{self, one.to}].emplace_back(mine.begin() + one.sent.begin,
                                         mine.begin() + one.sent.end);
      sent_[rank] = moved = true;
    }
    if (one.from >= 0) {
      auto& box = mail_[{one.from, self}];
      if (box.empty()) return moved;
      const std::vector<float> got = std::move(box.front());
      box.pop_front();
      if (std::ssize(got) != one.received.end - one.received.begin) return false;
      for (std::size_t i = 0; i < got.size(); ++i) {
        float& to = mine[static_cast<std::size_t>(one.received.begin) + i];
        to = one.reduces ? to + got[i] : got[i];
      }
    }
    sent_[rank] = false;
    ++at_[rank];
    return true;
  }

  std::vector<std::vector<Exchange>> script_;
  std::vector<std::vector<float>> data_, input_;
  std::vector<std::size_t> at_;
  std::vector<char> sent_;
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> mail_;
};

}  // namespace

class AllReduceTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void everyRankHasTheSum() {
    for (const Algorithm how : ir::kAlgorithms) {
      if (how == Algorithm::kDirect) continue;
      for (int ranks = 1; ranks <= 17; ++ranks)
        for (const int perHost : {1, 2, 3, 5})
          for (const std::int64_t count : {0, 1, 7, 1000}) {
            const std::string wrong = Simulation(how, ranks, count, hostsOf(ranks, perHost)).run();
            QVERIFY2(wrong.empty(),
                     fmt::format("{} of {} ranks, {} a host, {}: {}", ir::algorithmName(how), ranks,
                                 perHost, count, wrong)
                         .c_str());
          }
    }
    QVERIFY(plan::exchanges(Algorithm::kDirect, 0, 4, 100).empty());
  }

  // The numbers of messages and elements are those of the literature.
  void whatARankSends() {
    const auto of = [](Algorithm how) { return Simulation(how, 8, 800, hostsOf(8, 4)); };
    QCOMPARE(of(Algorithm::kRing).mostSteps(), std::size_t{14});
    QCOMPARE(of(Algorithm::kRing).mostSent(), std::int64_t{1400});
    QCOMPARE(of(Algorithm::kHalvingDoubling).mostSteps(), std::size_t{6});
    QCOMPARE(of(Algorithm::kHalvingDoubling).mostSent(), std::int64_t{1400});
    QCOMPARE(of(Algorithm::kTree).mostSteps(), std::size_t{6});
    QCOMPARE(of(Algorithm::kHierarchical).mostSteps(), std::size_t{6});  // 2 + 2 + 2
  }

  void names() {
    for (const Algorithm how : ir::kAlgorithms)
      QVERIFY(ir::algorithmFromName(ir::algorithmName(how)) == how);
    QVERIFY(!ir::algorithmFromName("auto"));
  }
};

QTEST_GUILESS_MAIN(AllReduceTest)
#include "all_reduce_test.moc"
