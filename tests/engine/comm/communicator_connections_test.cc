// Connections of a Gloo group are made when they are first needed: how many there are, what is read
// from the store for them, and peers that are busy, have left, freeze or do not answer then.
#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "engine/base/random.h"
#include "engine/comm/network_address.h"
#include "tests/support/communicator_groups.h"

namespace lockstep::tests {
namespace {

using comm::Communicator;
using comm::ReduceOp;

constexpr Nanoseconds kSecond = 1'000'000'000;

// Counts what ranks say and ask.
class CountingStore final : public comm::Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    ++sets;
    return store_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Nanoseconds timeout) override {
    ++gets;
    return store_.get(key, timeout);
  }
  std::atomic<int> sets{0}, gets{0};

 private:
  MemoryStore store_;
};

// Takes some time for each answer.
class SlowStore final : public comm::Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    return store_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Nanoseconds timeout) override {
    constexpr Nanoseconds kTakes = 7 * kSecond / 10;
    usleep(static_cast<useconds_t>(std::min(kTakes, timeout) / 1000));
    if (timeout <= kTakes) return makeError(Code::kDeadlineExceeded, "key {}", key);
    return store_.get(key, timeout - kTakes);
  }

 private:
  MemoryStore store_;
};

// Gives another port for one rank.
class MisleadingStore final : public comm::Store {
 public:
  MisleadingStore(comm::Store& store, int rank, int port)
      : store_(store), end_("/" + std::to_string(rank)), port_(port) {}
  Status set(const std::string& key, const std::string& value) override {
    return store_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Nanoseconds timeout) override {
    auto text = store_.get(key, timeout);
    if (!text.ok() || !key.ends_with(end_)) return text;
    const auto first = text->find(' '), second = text->rfind(' ');
    return text->substr(0, first + 1) + std::to_string(port_) + text->substr(second);
  }

 private:
  comm::Store& store_;
  const std::string end_;
  const int port_;
};

// Where the threads of a test wait for each other.
class MeetingPoint {
 public:
  explicit MeetingPoint(int size) : size_(size) {}
  // Returns false if not all have come in time.
  bool meet() {
    std::unique_lock lock(mutex_);
    const int round = arrived_++ / size_;
    changed_.notify_all();
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return arrived_ >= (round + 1) * size_; });
  }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
};

using Body = std::function<std::string(std::unique_ptr<Communicator>& group, MeetingPoint& point)>;

// Runs `body` for every rank on a thread; returns the ranks' answers. The groups end once all have
// answered.
std::vector<std::string> runRanks(int size, const std::function<comm::Store&(int rank)>& storeOf,
                                  const Body& body, Nanoseconds timeout = 20 * kSecond) {
  std::vector<std::string> answers(static_cast<std::size_t>(size));
  std::vector<std::unique_ptr<Communicator>> groups(static_cast<std::size_t>(size));
  MeetingPoint point(size);
  const std::string prefix = uniquePrefix();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto made = comm::connectGloo({rank, size, "", "", prefix, timeout}, storeOf(rank));
      if (made.ok()) groups[static_cast<std::size_t>(rank)] = std::move(*made);
      answers[static_cast<std::size_t>(rank)] =
          made.ok() ? body(groups[static_cast<std::size_t>(rank)], point)
                    : "joining: " + made.error().text();
    });
  for (auto& thread : threads) thread.join();
  return answers;
}

void compareAll(const std::vector<std::string>& answers) {
  for (const auto& answer : answers) QCOMPARE(QString::fromStdString(answer), QString());
}

// Established connections between sockets of this process; each has two of them, perhaps with
// several descriptors.
int connections() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  std::set<ino_t> sockets;
  while (const dirent* entry = readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    struct stat state {};
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (fstat(fd, &state) == 0 && S_ISSOCK(state.st_mode) &&
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      sockets.insert(state.st_ino);
  }
  return static_cast<int>(sockets.size() / 2);
}

// Whether a rank's greeting to a lower one, perhaps given up, leaves no more than these.
bool becomes(int expected) {
  QElapsedTimer clock;
  clock.start();
  while (connections() != expected && clock.elapsed() < 5000) usleep(10'000);
  return connections() == expected;
}

struct MessageBetween {
  int from, to;
  std::int64_t bytes;
};

std::vector<MessageBetween> messagesOf(const std::string& pattern, int size) {
  std::vector<MessageBetween> out;
  constexpr int kMicroBatches = 3;
  if (pattern == "pipeline") {
    for (int i = 0; i < kMicroBatches; ++i) {
      for (int r = 0; r + 1 < size; ++r) out.push_back({r, r + 1, 50'000});
      for (int r = size - 1; r > 0; --r) out.push_back({r, r - 1, 70'000});
    }
  } else if (pattern == "random") {
    for (std::uint64_t i = 0; i < 2 * static_cast<std::uint64_t>(size); ++i) {
      const auto draw = [&](std::uint64_t what, int below) {
        return static_cast<int>(randomUniform(22 + what, i) * below);
      };
      const int from = draw(0, size), to = (from + 1 + draw(1, size - 1)) % size;
      out.push_back({from, to, draw(2, 200'000)});
    }
  }
  return out;
}

// Plays the messages in their order.
std::string exchangeMessages(Communicator& group, const std::vector<MessageBetween>& messages) {
  int tag = 0;
  for (const auto& [from, to, bytes] : messages) {
    const std::string sent(static_cast<std::size_t>(bytes), static_cast<char>('a' + ++tag % 26));
    if (from == group.rank())
      if (auto status = group.send(sent.data(), bytes, to, tag); !status.ok())
        return status.error().text();
    if (to == group.rank()) {
      std::string taken(sent.size(), '?');
      if (auto status = group.recv(taken.data(), bytes, from, tag); !status.ok())
        return status.error().text();
      if (taken != sent) return "another message";
    }
  }
  return {};
}

// Sums the ranks' numbers by passing them on around the ring.
std::string sumAroundTheRing(Communicator& group) {
  const int size = group.size(), rank = group.rank();
  std::int32_t sum = rank, passed = rank;
  for (int step = 1; step < size; ++step) {
    std::int32_t taken = -1;
    if (auto status = group.exchange(&passed, sizeof passed, (rank + 1) % size, &taken,
                                     sizeof taken, (rank + size - 1) % size, step);
        !status.ok())
      return status.error().text();
    sum += passed = taken;
  }
  return sum == size * (size - 1) / 2 ? "" : "another sum";
}

// The distinct pairs of ranks among the messages, and those next to each other on the ring.
std::set<std::pair<int, int>> pairsOf(const std::vector<MessageBetween>& messages, int size) {
  std::set<std::pair<int, int>> out;
  for (const auto& message : messages) out.insert(std::minmax(message.from, message.to));
  for (int r = 0; r < size; ++r)
    if (const int next = (r + 1) % size; next != r) out.insert(std::minmax(r, next));
  return out;
}

// Waits for a message of `peer`, or sends it one.
std::string failing(Communicator& group, int peer, bool sends) {
  char byte = 0;
  const Status status = sends ? group.send(&byte, 1, peer, 0) : group.recv(&byte, 1, peer, 0);
  return status.ok() ? "no error"
                     : std::string(codeName(status.code())) + ": " + status.error().text();
}

}  // namespace

class CommunicatorConnectionsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void onlyWhatIsUsed_data() {
    QTest::addColumn<int>("size");
    QTest::addColumn<QString>("pattern");
    for (const int size : {1, 2, 3, 5, 8, 17, 32})
      for (const char* pattern : {"ring", "pipeline", "random"})
        if (size > 1 || std::string_view(pattern) == "ring")
          QTest::addRow("%s, %d ranks", pattern, size) << size << pattern;
  }
  void onlyWhatIsUsed() {
    QFETCH(int, size);
    QFETCH(QString, pattern);
    const auto messages = messagesOf(pattern.toStdString(), size);
    const auto pairs = static_cast<int>(pairsOf(messages, size).size());
    CountingStore store;
    const auto answers = runRanks(
        size, [&](int) -> comm::Store& { return store; },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          std::string wrong =
              messages.empty() ? sumAroundTheRing(*group) : exchangeMessages(*group, messages);
          if (!point.meet()) return wrong + " not all came";
          if (group->rank() == 0 && wrong.empty() && !becomes(pairs))
            wrong = fmt::format("{} connections of {}", connections(), pairs);
          if (!point.meet()) wrong += " not all came";
          return wrong;
        });
    compareAll(answers);
    QCOMPARE(store.sets.load(), size > 1 ? size : 0);
    const int around = size * std::min(2, size - 1);  // each rank asks where its neighbours are
    const int others = pairs - (size > 2 ? size : size - 1);
    QVERIFY2(store.gets >= around && store.gets <= around + 2 * others,
             std::to_string(store.gets).c_str());
  }

  // All connections that a group can have, made at once from both ends.
  void allAtOnce() {
    constexpr int kSize = 12;
    MemoryStore store;
    const auto answers = runRanks(
        kSize, [&](int) -> comm::Store& { return store; },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          std::vector<std::int32_t> out(kSize), in(kSize);
          for (int r = 0; r < kSize; ++r)
            out[static_cast<std::size_t>(r)] = group->rank() * 100 + r;
          if (auto status = group->allToAll(out.data(), in.data(), sizeof in[0]); !status.ok())
            return status.error().text();
          for (int r = 0; r < kSize; ++r)
            if (in[static_cast<std::size_t>(r)] != r * 100 + group->rank()) return "another number";
          if (!point.meet()) return "not all came";
          return becomes(kSize * (kSize - 1) / 2) ? "" : std::to_string(connections());
        });
    compareAll(answers);
  }

  // Connecting to a rank, and sending to it, needs no call of it. It reads what was sent although
  // the sender has left.
  void aBusyRankIsConnectedTo_data() {
    QTest::addColumn<int>("from");
    QTest::addColumn<int>("to");
    QTest::newRow("to a higher rank") << 1 << 3;
    QTest::newRow("to a lower rank") << 3 << 1;
  }
  void aBusyRankIsConnectedTo() {
    QFETCH(int, from);
    QFETCH(int, to);
    MemoryStore store;
    const auto answers = runRanks(
        4, [&](int) -> comm::Store& { return store; },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          const int rank = group->rank();
          int number = 7;
          if (rank == from) {
            if (auto status = group->send(&number, sizeof number, to, 5); !status.ok())
              return status.error().text();
            group.reset();
          }
          if (!point.meet()) return "not all came";
          if (rank != to) return {};
          number = 0;
          if (auto status = group->recv(&number, sizeof number, from, 5); !status.ok())
            return status.error().text();
          return number == 7 ? "" : "another number";
        });
    compareAll(answers);
  }

  void aSlowStoreIsWaitedFor() {
    SlowStore store;
    const auto answers = runRanks(
        4, [&](int) -> comm::Store& { return store; },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint&) -> std::string {
          const Status status = group->barrier();
          return status.ok() ? "" : status.error().text();
        });
    compareAll(answers);
  }

  void whoHasLeftIsNamed_data() {
    QTest::addColumn<int>("rank");
    QTest::addColumn<int>("gone");
    QTest::addColumn<bool>("sends");
    for (const auto& [rank, gone] : {std::pair(0, 2), {2, 0}})
      for (const bool sends : {false, true})
        QTest::addRow("rank %d, %s rank %d", rank, sends ? "sends to" : "waits for", gone)
            << rank << gone << sends;
  }
  void whoHasLeftIsNamed() {
    QFETCH(int, rank);
    QFETCH(int, gone);
    QFETCH(bool, sends);
    MemoryStore store;
    QElapsedTimer clock;
    const auto answers = runRanks(
        4, [&](int) -> comm::Store& { return store; },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          const int own = group->rank();
          if (own == gone) group.reset();
          if (!point.meet()) return "not all came";
          if (own == rank) {
            clock.start();
            return failing(*group, gone, sends);
          }
          return {};
        });
    const std::string& answer = answers[static_cast<std::size_t>(rank)];
    QVERIFY2(answer.starts_with("aborted: "), answer.c_str());
    QVERIFY2(answer.find(fmt::format("rank {} ", gone)) != std::string::npos, answer.c_str());
    QVERIFY2(clock.elapsed() < 8000, std::to_string(clock.elapsed()).c_str());
  }

  // Rank 0 fails since rank 1 has left, which rank 3 learns when it connects to rank 0.
  void whoHasFailedTellsThoseThatConnectLater() {
    MemoryStore store;
    const auto answers = runRanks(
        5, [&](int) -> comm::Store& { return store; },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          const int rank = group->rank();
          std::string answer;
          if (rank == 1) group.reset();
          if (rank == 0) answer = failing(*group, 1, false);
          if (!point.meet()) return "not all came";
          if (rank == 3) answer = failing(*group, 0, false);
          return answer;
        });
    for (const std::size_t rank : {0, 3}) {
      QVERIFY2(answers[rank].starts_with("aborted: "), answers[rank].c_str());
      QVERIFY2(answers[rank].find("rank 1 has ended") != std::string::npos, answers[rank].c_str());
    }
  }

  // All others name it, by their own connection or told by another.
  void whoHasLeftIsNamedByAll() {
    constexpr int kSize = 20, kGone = 5;
    MemoryStore store;
    const auto answers = runRanks(
        kSize, [&](int) -> comm::Store& { return store; },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          const bool leaves = group->rank() == kGone;
          if (leaves) group.reset();
          if (!point.meet()) return "not all came";
          const Status status = leaves ? Status() : group->barrier();
          if (!point.meet()) return "not all came";
          if (leaves) return {};
          if (status.ok()) return "no error";
          return status.error().why.text().find(fmt::format("rank {} ", kGone)) != std::string::npos
                     ? ""
                     : status.error().text();
        });
    compareAll(answers);
  }

  // Nobody answers where rank 2 is said to be; only the abort ends the call.
  void abortWhileConnecting() {
    MemoryStore store;
    auto silent = comm::listenAt("127.0.0.1");
    QVERIFY(silent.ok());
    MisleadingStore misleading(store, 2, silent->port);
    const auto answers = runRanks(
        4,
        [&](int rank) -> comm::Store& {
          return rank == 0 ? misleading : static_cast<comm::Store&>(store);
        },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          std::string answer;
          if (group->rank() == 0) {
            std::thread aborts([&] {
              usleep(300'000);
              group->abort();
            });
            QElapsedTimer clock;
            clock.start();
            answer = failing(*group, 2, false);
            if (clock.elapsed() > 5000) answer += " late";
            aborts.join();
          }
          return point.meet() ? answer : "not all came";
        },
        60 * kSecond);
    QVERIFY2(answers[0].starts_with("aborted: "), answers[0].c_str());
    QVERIFY2(answers[0].find("this rank was aborted") != std::string::npos, answers[0].c_str());
    QVERIFY2(answers[0].find("late") == std::string::npos, answers[0].c_str());
  }

  void whoDoesNotAnswerIsNamedInTime() {
    MemoryStore store;
    auto silent = comm::listenAt("127.0.0.1");
    QVERIFY(silent.ok());
    MisleadingStore misleading(store, 2, silent->port);
    QElapsedTimer clock;
    const auto answers = runRanks(
        4,
        [&](int rank) -> comm::Store& {
          return rank == 0 ? misleading : static_cast<comm::Store&>(store);
        },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          std::string answer;
          if (group->rank() == 0) {
            clock.start();
            answer = failing(*group, 2, false);
          }
          return point.meet() ? answer : "not all came";
        },
        5 * kSecond);
    QVERIFY2(answers[0].starts_with("deadline-exceeded: "), answers[0].c_str());
    QVERIFY2(answers[0].find("rank 2 did not answer") != std::string::npos, answers[0].c_str());
    QVERIFY2(answers[0].find(fmt::format(":{}", silent->port)) != std::string::npos,
             answers[0].c_str());
    QVERIFY2(clock.elapsed() < 12'000, std::to_string(clock.elapsed()).c_str());
  }

  // Rank 2 has yet to use the connection on which rank 0 tells that it waits in vain.
  void whoWaitsForAnotherIsNotBlamed() {
    MemoryStore store;
    const auto answers = runRanks(
        5, [&](int) -> comm::Store& { return store; },
        [&](std::unique_ptr<Communicator>& group, MeetingPoint& point) -> std::string {
          std::string answer;
          if (group->rank() == 0) answer = failing(*group, 2, false);
          if (group->rank() == 2) {
            usleep(1'500'000);
            answer = failing(*group, 3, false);
          }
          return point.meet() ? answer : "not all came";
        },
        5 * kSecond);
    for (const std::size_t rank : {0, 2}) {
      QVERIFY2(answers[rank].starts_with("deadline-exceeded: "), answers[rank].c_str());
      QVERIFY2(answers[rank].find("rank 3 did not answer") != std::string::npos,
               answers[rank].c_str());
    }
  }

  // In a chain where each waits for the one before it, ranks connect to those that are accused, to
  // learn whether they are alive.
  void theHeadOfAChainIsNamed_data() {
    QTest::addColumn<int>("signal");
    QTest::newRow("killed") << SIGKILL;
    QTest::newRow("frozen") << SIGSTOP;
  }
  void theHeadOfAChainIsNamed() {
    if (!kForkedThreadsWork)
      QSKIP("the thread sanitizer does not stand threads in a forked process");
    QFETCH(int, signal);
    constexpr int kSize = 9, kHit = 3;
    const QTemporaryDir folder;
    const std::string hit = folder.path().toStdString() + "/hit";
    ProcessGroup group({"gloo", kSize, 5 * kSecond}, folder.path().toStdString(),
                       [&](Communicator& own, const ProcessGroup::Say& say) -> std::string {
                         say();
                         while (!std::filesystem::exists(hit)) usleep(1000);
                         if (own.rank() > kHit) return failing(own, own.rank() - 1, false);
                         while (own.rank() != kHit) usleep(100'000);  // until the test ends
                         return {};
                       });
    for (int rank = 0; rank < kSize; ++rank) QVERIFY(group.progress(rank));
    kill(group.pid(kHit), signal);
    QVERIFY(writeFileAtomically(hit, "").ok());
    for (int rank = kHit + 1; rank < kSize; ++rank) {
      const std::string answer = group.answer(rank);
      QVERIFY2(answer.starts_with(signal == SIGKILL ? "aborted: " : "deadline-exceeded: "),
               answer.c_str());
      QVERIFY2(answer.find("rank 3 ") != std::string::npos, answer.c_str());
    }
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::CommunicatorConnectionsTest)
#include "communicator_connections_test.moc"
