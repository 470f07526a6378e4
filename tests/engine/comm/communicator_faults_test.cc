// Peers that die, hang, leave, disagree or never arrive: every rank gets an error that names the
// peer, in bounded time.
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>

#include <atomic>
#include <cstdio>
#include <future>
#include <random>

#include "tests/support/communicator_groups.h"

namespace lockstep::tests {
namespace {

using comm::Communicator;
using comm::ReduceOp;

constexpr Nanoseconds kSecond = 1'000'000'000;

// All-reduces until an error; returns it as "code: text".
std::string reduceUntilError(Communicator& group, std::int64_t count,
                             const ProcessGroup::Say& say) {
  std::vector<float> data(count);
  for (int i = 0;; ++i) {
    if (auto status = group.allReduce(data.data(), count, DType::kF32, ReduceOp::kSum);
        !status.ok())
      return std::string(codeName(status.code())) + ": " + status.error().text();
    if (i < 20) say();
  }
}

double processorSeconds() {  // of this thread
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

int listeningSockets() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int accepting = 0;
    socklen_t length = sizeof accepting;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &length) == 0) count += accepting;
  }
  return count;
}

// Repeatedly connects to every port this process listens on, and misbehaves as `kind` says.
class Strays {
 public:
  Strays(const std::string& kind, int size)
      : kind_(kind), size_(size), thread_([this] { run(); }) {}
  ~Strays() {
    ending_ = true;
    thread_.join();
    for (const int fd : held_) close(fd);
  }
  int count() const { return count_; }

 private:
  static std::vector<sockaddr_in> listeners() {
    std::vector<sockaddr_in> found;
    for (int fd = 0; fd < 1024; ++fd) {
      int accepting = 0;
      socklen_t length = sizeof accepting;
      sockaddr_in address{};
      if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &length) != 0 || accepting == 0)
        continue;
      length = sizeof address;
      if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
          address.sin_addr.s_addr == htonl(INADDR_LOOPBACK))  // the group's listener
        found.push_back(address);
    }
    return found;
  }
  std::string bytes(std::size_t count) {
    std::string out(count, '\0');
    for (char& byte : out) byte = static_cast<char>(random_());
    return out;
  }
  std::string hello(int to) {
    std::string out = "LSGROUP2";
    for (const int rank : {0, to}) out += std::string{0, 0, 0, static_cast<char>(rank)};
    return out + bytes(16);
  }
  void run() {
    const std::vector<std::string> all = {
        "idle",        "closes",        "resets",          "one byte",
        "garbage",     "a long stream", "half a greeting", "a greeting without proof",
        "wrong proof", "replayed"};
    while (!ending_) {
      const auto found = listeners();
      if (found.empty()) usleep(200);
      for (const sockaddr_in& address : found)
        for (int i = 0; i < (kind_ == "flood" ? 50 : 1); ++i)
          visit(address, kind_ == "all of them" ? all[random_() % all.size()] : kind_);
      if (kind_ != "flood") usleep(500);
    }
  }
  void visit(const sockaddr_in& address, const std::string& kind) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(fd);
      return;
    }
    ++count_;
    const auto say = [&](const std::string& text) {
      return send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
    };
    const auto hear = [&] {
      timeval limit{0, 5000};
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      std::string answer(48, '\0');
      const ssize_t n = recv(fd, answer.data(), answer.size(), MSG_WAITALL);
      answer.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
      return answer;
    };
    if (kind == "one byte") say("L");
    if (kind == "garbage") say(bytes(1 + random_() % 4096));
    if (kind == "a long stream")
      for (int i = 0; i < 16 && say(bytes(65536)); ++i) continue;
    if (kind == "half a greeting") say(hello(1).substr(0, random_() % 32));
    if (kind == "a greeting without proof")
      say(hello(1 + static_cast<int>(random_() % static_cast<unsigned>(size_ - 1))));
    if (kind == "wrong proof" || kind == "replayed")
      for (int to = 1; to < size_; ++to)
        if (say(hello(to))) {
          const std::string challenge = hear();
          if (challenge.size() < 48) break;
          say(kind == "replayed" ? challenge.substr(16) : bytes(32));
        }
    if (kind == "resets") {
      const linger now{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    if (kind == "closes" || kind == "resets" || held_.size() > 300) {
      close(fd);
      return;
    }
    held_.push_back(fd);
  }

  const std::string kind_;
  const int size_;
  std::minstd_rand random_{17};
  std::atomic<bool> ending_{false};
  std::atomic<int> count_{0};
  std::vector<int> held_;
  std::thread thread_;
};

}  // namespace

class CommunicatorFaultsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void peerIsHit_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<int>("signal");
    QTest::addColumn<int>("size");
    QTest::addColumn<qlonglong>("count");
    for (const GroupKind& kind : kGroupKinds)
      for (const int size : {2, 4})
        for (const qlonglong count : {100, 1'000'000})
          for (const int signal : {SIGKILL, SIGSTOP}) {
            if (kind.open == nullptr) continue;
            QTest::addRow("%s %d ranks %lld %s", kind.name, size, count,
                          signal == SIGKILL ? "killed" : "frozen")
                << kind.name << signal << size << count;
          }
  }
  void peerIsHit() {
    QFETCH(QString, kind);
    QFETCH(int, signal);
    QFETCH(int, size);
    QFETCH(qlonglong, count);
    if (kind == "gloo" && !kForkedThreadsWork)
      QSKIP("the thread sanitizer does not stand threads in a forked process");
    const QTemporaryDir folder;
    // Also the limit of joining, which takes its time on a busy machine.
    const GroupOptions options{kind.toStdString(), size, 4 * kSecond};
    ProcessGroup group(options, folder.path().toStdString(),
                       [count](Communicator& own, const ProcessGroup::Say& say) {
                         return reduceUntilError(own, count, say);
                       });
    for (int i = 0; i < 5; ++i) QVERIFY(group.progress(1));
    QElapsedTimer clock;
    clock.start();
    kill(group.pid(1), signal);
    for (int r = 0; r < size; ++r) {
      if (r == 1) continue;
      const std::string answer = group.answer(r);
      const char* code = signal == SIGKILL ? "aborted: " : "deadline-exceeded: ";
      QVERIFY2(answer.starts_with(code), answer.c_str());
      QVERIFY2(answer.find("rank 1 ") != std::string::npos, answer.c_str());
    }
    QVERIFY2(clock.elapsed() < 20000, std::to_string(clock.elapsed()).c_str());
  }

  void peerLeaves() {
    for (const GroupKind& kind : kGroupKinds) {
      const auto answers = runAsThreads({kind.name, 3}, [](Communicator& group) -> std::string {
        for (int i = 0; i < 10; ++i)
          if (auto status = group.barrier(); !status.ok()) return "early: " + status.error().text();
        if (group.rank() == 2) return {};
        const auto status = group.barrier();
        return status.code() == Code::kAborted ? status.error().why.text() : status.error().text();
      });
      QCOMPARE(answers[2], std::string());
      QVERIFY2(answers[0].starts_with("rank 2 "), answers[0].c_str());
      QVERIFY2(answers[1].starts_with("rank 2 "), answers[1].c_str());
    }
  }

  // A rank sleeps while it waits for a message. So it does when a rank has left that it does not
  // wait for.
  void waitingTakesNoProcessorTime() {
    const auto answers = runAsThreads({"gloo", 3}, [](Communicator& group) -> std::string {
      if (const auto status = group.barrier(); !status.ok()) return status.error().text();
      if (group.rank() == 2) return {};
      char out = 1, in = 0;
      const int peer = 1 - group.rank();
      if (group.rank() == 1) {
        usleep(800'000);
        if (const auto status = group.send(&out, 1, peer, 0); !status.ok())
          return status.error().text();
        usleep(800'000);
        return group.exchange(&out, 1, peer, &in, 1, peer, 0).ok() ? "" : "no exchange";
      }
      const double before = processorSeconds();
      if (const auto status = group.recv(&in, 1, peer, 0); !status.ok())
        return status.error().text();
      if (const auto status = group.exchange(&out, 1, peer, &in, 1, peer, 0); !status.ok())
        return status.error().text();
      const double used = processorSeconds() - before;
      return used < 0.2 ? "" : fmt::format("{} s", used);
    });
    for (const auto& answer : answers) QCOMPARE(QString::fromStdString(answer), QString());
  }

  void abortFromAnotherThread() {
    for (const GroupKind& kind : kGroupKinds) {
      QElapsedTimer clock;
      clock.start();
      const auto answers = runAsThreads({kind.name, 3}, [](Communicator& group) -> std::string {
        // A barrier may still be pending on a peer when rank 1 has completed it and aborts.
        if (auto status = group.barrier(); !status.ok())
          return status.error().why.text().find("rank 1 ") != std::string::npos
                     ? ""
                     : status.error().text();
        if (group.rank() == 1) {
          const auto aborting = std::async(std::launch::async, [&] { group.abort(); });
          // Nobody sends: only the abort ends the call.
          char byte = 0;
          const auto status = group.recv(&byte, 1, 0, 0);
          const auto later = group.barrier();
          return status.code() == Code::kAborted && later.code() == Code::kAborted
                     ? ""
                     : "aborted rank: " + status.error().text();
        }
        char byte = 0;
        const auto status = group.recv(&byte, 1, 1, 0);
        if (status.code() != Code::kAborted) return "peer: " + status.error().text();
        return status.error().why.text().find("rank 1 ") != std::string::npos
                   ? ""
                   : status.error().text();
      });
      for (const auto& answer : answers) QCOMPARE(QString::fromStdString(answer), QString());
      QVERIFY(clock.elapsed() < 20000);
    }
  }

  void differentCalls() {
    for (const GroupKind& kind : kGroupKinds) {
      const auto answers = runAsThreads({kind.name, 2}, [](Communicator& group) -> std::string {
        std::vector<float> data(200'000);
        const auto status = group.allReduce(data.data(), group.rank() == 0 ? 100'000 : 200'000,
                                            DType::kF32, ReduceOp::kSum);
        return status.ok() ? "no error" : std::string(codeName(status.code()));
      });
      for (const auto& answer : answers)
        QVERIFY2(answer == "invalid-argument" || answer == "aborted", answer.c_str());
      const auto messages = runAsThreads({kind.name, 2}, [](Communicator& group) -> std::string {
        char text[8] = {};
        const auto status =
            group.rank() == 0 ? group.send(text, 8, 1, 5) : group.recv(text, 8, 0, 6);
        return std::string(codeName(status.code()));
      });
      QCOMPARE(messages[1], std::string("invalid-argument"));
    }
  }

  void peerNeverJoinsSharedMemory() {
    const int memory = comm::makeSharedMemory(comm::sharedMemoryBytes(2)).value();
    auto own = comm::openSharedMemory(memory, 0, 0, 2, true, kSecond / 5).value();
    const auto taken = comm::openSharedMemory(memory, 0, 0, 2, true, kSecond);
    QCOMPARE(taken.error().code, Code::kAlreadyExists);
    const auto status = own->barrier();
    QCOMPARE(status.code(), Code::kDeadlineExceeded);
    QVERIFY(status.error().why.text().starts_with("rank 1 did not join"));
    QCOMPARE(own->barrier().code(), Code::kDeadlineExceeded);
    close(memory);
  }

  // A group's ranks are named as ranks of the run.
  void ranksAreNamedAsInTheRun() {
    const comm::RankNames names({4, 7});
    const int memory = comm::makeSharedMemory(comm::sharedMemoryBytes(2)).value();
    auto own = comm::openSharedMemory(memory, 0, 0, 2, true, kSecond / 5, names).value();
    const auto alone = own->barrier();
    QVERIFY(alone.error().why.text().starts_with("rank 7 did not join"));
    QCOMPARE(alone.error().rank, 4);
    close(memory);
    MemoryStore store;
    const auto join = [&, prefix = uniquePrefix()](int rank) {
      return comm::connectGloo({rank, 2, "", "", prefix, 10 * kSecond, names}, store);
    };
    auto leaves = std::async(std::launch::async, [&] { return join(1).status(); });
    auto stays = join(0);
    QVERIFY(stays.ok() && leaves.get().ok());
    const auto left = (*stays)->barrier();
    QVERIFY2(left.error().why.text().starts_with("rank 7 has ended"), left.error().text().c_str());
    QCOMPARE(left.error().rank, 4);
  }

  void unsealedMemoryIsRefused() {
    FILE* file = std::tmpfile();
    QVERIFY(file != nullptr);
    const auto opened = comm::openSharedMemory(fileno(file), 0, 0, 2, true, kSecond);
    QCOMPARE(opened.error().code, Code::kFailedPrecondition);
    std::fclose(file);
    const int memory = comm::makeSharedMemory(comm::sharedMemoryBytes(2)).value();
    QCOMPARE(comm::openSharedMemory(memory, 0, 0, 3, true, kSecond).error().code,
             Code::kFailedPrecondition);
    QVERIFY(ftruncate(memory, 0) != 0);
    close(memory);
  }

  void glooAddresses() {
    MemoryStore store;
    comm::GlooOptions options{0, 2, "", "", "p", kSecond / 5};
    options.interface = "nope0";
    auto made = comm::connectGloo(options, store);
    QCOMPARE(made.error().code, Code::kFailedPrecondition);
    QVERIFY(made.error().text().find("nope0") != std::string::npos);
    options.interface = "";
    options.address = "192.0.2.1";
    made = comm::connectGloo(options, store);
    QCOMPARE(made.error().code, Code::kFailedPrecondition);
    QVERIFY(made.error().text().find("192.0.2.1") != std::string::npos);
    options.address = "no such host";
    QCOMPARE(comm::connectGloo(options, store).error().code, Code::kFailedPrecondition);
    options.address = "";
    options.interface = "lo";
    made = comm::connectGloo(options, store);
    QCOMPARE(made.error().code, Code::kUnavailable);
    QVERIFY(made.error().text().find("rank 1") != std::string::npos);
  }

  void glooPeerUnreachable() {
    // Rank 1's published listener closes before rank 0 connects.
    MemoryStore store;
    comm::GlooOptions options{1, 2, "", "", "p", kSecond / 10};
    QCOMPARE(comm::connectGloo(options, store).error().code, Code::kUnavailable);
    options.rank = 0;
    const auto made = comm::connectGloo(options, store);
    QCOMPARE(made.error().code, Code::kUnavailable);
    QVERIFY(made.error().text().find("rank 1 at 127.0.0.1:") != std::string::npos);
  }

  // Unrelated connections while a group forms: scanners, health checks, wrong addresses.
  void strayConnectionsAreIgnored_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<int>("size");
    for (const char* kind :
         {"idle", "closes", "resets", "one byte", "garbage", "a long stream", "half a greeting",
          "a greeting without proof", "wrong proof", "replayed", "flood", "all of them"})
      for (const int size : {2, 5}) QTest::addRow("%s, %d ranks", kind, size) << kind << size;
  }
  void strayConnectionsAreIgnored() {
    QFETCH(QString, kind);
    QFETCH(int, size);
    Strays strays(kind.toStdString(), size);
    QElapsedTimer clock;
    for (int round = 0; round < 5; ++round) {
      clock.start();
      // Ranks arrive one after another, so that listeners wait for a while.
      MemoryStore store;
      const std::string prefix = uniquePrefix();
      std::vector<std::string> answers(static_cast<std::size_t>(size));
      std::vector<std::thread> ranks;
      for (int r = 0; r < size; ++r)
        ranks.emplace_back([&, r] {
          usleep(static_cast<useconds_t>(20'000 * (round % 2 == 0 ? r : size - 1 - r)));
          auto group = comm::connectGloo({r, size, "", "", prefix, 20 * kSecond}, store);
          float sum = 1;
          const Status status = group.ok()
                                    ? (*group)->allReduce(&sum, 1, DType::kF32, ReduceOp::kSum)
                                    : group.status();
          answers[static_cast<std::size_t>(r)] =
              !status.ok() ? status.error().text() : std::to_string(static_cast<int>(sum));
        });
      for (auto& rank : ranks) rank.join();
      for (const auto& answer : answers)
        QCOMPARE(QString::fromStdString(answer), QString::number(size));
      QVERIFY2(clock.elapsed() < 15000, std::to_string(clock.elapsed()).c_str());
    }
    QVERIFY(strays.count() > 0);
  }

  void glooFormsAnewAndListensNoMore() {
    for (int generation = 0; generation < 20; ++generation) {
      const auto answers = runAsThreads({"gloo", 3}, [](Communicator& group) -> std::string {
        if (auto status = group.barrier(); !status.ok()) return status.error().text();
        if (const int open = listeningSockets(); open != 0) return std::to_string(open);
        if (auto status = group.barrier(); !status.ok()) return status.error().text();
        if (group.rank() == 0) group.abort();
        return group.barrier().ok() ? "alive" : "";
      });
      for (const auto& answer : answers) QCOMPARE(QString::fromStdString(answer), QString());
    }
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::CommunicatorFaultsTest)
#include "communicator_faults_test.moc"
