// A rank that freezes or stays away while the others come to it late, and wait in different
// collectives and rounds: nobody blames a rank that is not at fault.
#include <signal.h>
#include <unistd.h>

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <random>
#include <regex>
#include <thread>
#include <vector>

#include "tests/support/communicator_groups.h"

namespace lockstep::tests {
namespace {

using comm::Communicator;
using comm::ReduceOp;

constexpr Nanoseconds kSecond = 1'000'000'000;

// What a round's ranks do together, from one seed on all of them.
class Round {
 public:
  Round(Communicator& group, unsigned seed)
      : group_(group), random_(seed), in_(2 * kMost), out_(2 * kMost) {}

  Status next() {
    const int size = group_.size();
    const std::int64_t count = random_() % 2 == 0 ? 100 : 40'000;
    std::vector<std::int64_t> cuts(size + 1);
    for (int r = 0; r <= size; ++r) cuts[r] = count * r / size;
    const int root = static_cast<int>(random_() % static_cast<unsigned>(size));
    switch (random_() % 8) {
      case 0:
        return group_.barrier();
      case 1:
        return group_.allReduce(in_.data(), count, DType::kF32, ReduceOp::kSum);
      case 2:
        return group_.reduceScatter(in_.data(), out_.data(), cuts, DType::kF32, ReduceOp::kMax);
      case 3:
        return group_.allGather(in_.data(), out_.data(), cuts, DType::kF32);
      case 4:
        return group_.broadcast(in_.data(), count, root);
      case 5:
        return group_.allToAll(in_.data(), out_.data(), count * 4 / size);
      case 6:
        return around(count);
      default:
        return along(count);
    }
  }

 private:
  static constexpr std::size_t kMost = 40'000;

  Status around(std::int64_t count) {
    const int size = group_.size(), rank = group_.rank();
    return group_.exchange(out_.data(), count, (rank + 1) % size, in_.data(), count,
                           (rank + size - 1) % size, 3);
  }
  // From rank to rank, as between the stages of a pipeline.
  Status along(std::int64_t count) {
    const std::int64_t bytes = count * 4;
    if (group_.rank() > 0) LOCKSTEP_TRY(group_.recv(in_.data(), bytes, group_.rank() - 1, 1));
    if (group_.rank() + 1 == group_.size()) return {};
    return group_.send(in_.data(), bytes, group_.rank() + 1, 1);
  }

  Communicator& group_;
  std::mt19937 random_;
  std::vector<float> in_, out_;
};

enum class Fault { kFreezes, kFreezesAtAnyTime, kStaysAway };

struct Case {
  unsigned seed = 0;
  Nanoseconds timeout = 0;
  int size = 0, frozen = 0, calls = 0;
  Fault fault = Fault::kFreezes;

  Case(unsigned number, int most, Nanoseconds limit) : seed(number), timeout(limit) {
    std::mt19937 random(seed);
    size = 2 + static_cast<int>(random() % static_cast<unsigned>(most - 1));
    frozen = static_cast<int>(random() % static_cast<unsigned>(size));
    calls = static_cast<int>(random() % 6);
    fault = static_cast<Fault>(seed % 3);
  }
  std::string text() const {
    return fmt::format("seed {}: rank {} of {} after {} calls, fault {}: ", seed, frozen, size,
                       calls, static_cast<int>(fault));
  }
};

void fail(const Case& one, int rank) {
  std::mt19937 random(one.seed + 1000 + static_cast<unsigned>(rank));
  const auto delay = [&](Nanoseconds from, Nanoseconds to) {
    return static_cast<useconds_t>((from + static_cast<Nanoseconds>(random()) % (to - from)) /
                                   1000);
  };
  const Nanoseconds latest = one.timeout * 2 / 5;
  if (rank != one.frozen) {
    usleep(delay(0, latest));
  } else if (one.fault == Fault::kFreezes) {
    raise(SIGSTOP);
  } else if (one.fault == Fault::kStaysAway) {
    for (;;) pause();
  } else {  // while all go on
    std::thread([after = delay(latest, latest + kSecond)] {
      usleep(after);
      kill(getpid(), SIGSTOP);
    }).detach();
  }
}

// Runs collectives until an error, and returns it.
std::string runUntilError(Communicator& own, const Case& one) {
  Round round(own, one.seed);
  for (int call = 0;; ++call) {
    if (call == one.calls) fail(one, own.rank());
    if (const Status status = round.next(); !status.ok())
      return std::string(codeName(status.code())) + ": " + status.error().why.text();
  }
}

// The ranks that a text blames.
std::vector<int> blamed(const std::string& text) {
  std::vector<int> out;
  static const std::regex number("[0-9]+");
  const std::string names = text.substr(0, text.find(" did not answer"));
  for (std::sregex_iterator at(names.begin(), names.end(), number), end; at != end; ++at)
    out.push_back(std::stoi(at->str()));
  return out;
}

}  // namespace

class FrozenRankTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void nobodyElseIsBlamed_data() {
    QTest::addColumn<unsigned>("seed");
    QTest::addColumn<int>("most");
    QTest::addColumn<int>("seconds");
    for (unsigned seed = 2; seed <= 6; ++seed) QTest::addRow("%u", seed) << seed << 12 << 8;
    QTest::newRow("many ranks") << 100u << 32 << 15;
  }
  void nobodyElseIsBlamed() {
    if (!kForkedThreadsWork)
      QSKIP("the thread sanitizer does not stand threads in a forked process");
    QFETCH(unsigned, seed);
    QFETCH(int, most);
    QFETCH(int, seconds);
    const Case one(seed, most, seconds * kSecond);
    const QTemporaryDir folder;
    ProcessGroup group(
        {"gloo", one.size, one.timeout}, folder.path().toStdString(),
        [&one](Communicator& own, const ProcessGroup::Say&) { return runUntilError(own, one); });
    for (int rank = 0; rank < one.size; ++rank) {
      if (rank == one.frozen) continue;
      const std::string answer = one.text() + group.answer(rank);
      const auto ranks = blamed(answer.substr(one.text().size()));
      QVERIFY2(std::count(ranks.begin(), ranks.end(), one.frozen) == 1, answer.c_str());
      QVERIFY2(ranks.size() == 1 || answer.find("one of ranks ") != std::string::npos,
               answer.c_str());
    }
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::FrozenRankTest)
#include "frozen_rank_test.moc"
