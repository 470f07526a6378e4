// Who is let into a group: only who knows the key that a rank announced in the group's store, for
// this group, generation and pair of ranks. Real sockets; the test speaks the greeting itself.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/socket.h>

#include <QElapsedTimer>
#include <QTest>

#include <atomic>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "engine/base/hex.h"
#include "engine/base/unique_fd.h"
#include "engine/comm/gloo_wire.h"
#include "engine/comm/network_address.h"
#include "engine/comm/rendezvous.h"
#include "tests/support/communicator_groups.h"

namespace lockstep::tests {
namespace {

using comm::ReduceOp;

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr std::string_view kMagic = "LSGROUP2";
constexpr std::size_t kNonce = 16, kProof = 32;

// What a rank announces in the store.
struct Announced {
  std::string host, key;
  int port = 0;
  static Announced read(comm::Store& store, const std::string& prefix, int rank) {
    const auto text = store.get(prefix + "/" + std::to_string(rank), 10 * kSecond);
    Announced out;
    std::string key;
    std::istringstream(text.value()) >> out.host >> out.port >> key;
    out.key = fromHex(key).value();
    return out;
  }
  std::string text() const { return fmt::format("{} {} {}", host, port, toHex(key)); }
};

constexpr int kNobody = 9;  // a port at which nothing listens

void announce(comm::Store& store, const std::string& group, int rank, int port = kNobody) {
  static_cast<void>(store.set(fmt::format("{}/{}", group, rank),
                              Announced{"127.0.0.1", std::string(32, 'k'), port}.text()));
}

// What Gloo sends before a message.
std::string preambleOf(std::uint64_t opcode, std::uint64_t slot, std::uint64_t length,
                       std::uint64_t remoteOffset) {
  const comm::Preamble out{sizeof out + length, opcode, slot, 0, length, remoteOffset};
  return {reinterpret_cast<const char*>(&out), sizeof out};
}

std::string rankBytes(int rank) { return {0, 0, 0, static_cast<char>(rank)}; }

// The proof of an end of the connection from rank 0 to `to`.
std::string proofOf(const std::string& key, std::string_view end, const std::string& group,
                    int size, int to, const std::string& nonces) {
  const std::string text =
      fmt::format("{} {} of {} ranks\n", end, group, size) + rankBytes(0) + rankBytes(to) + nonces;
  std::string out(kProof, '\0');
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(out.data()), nullptr);
  return out;
}

// A connection to a rank's port, by blocking calls of at most 10 s.
class Caller {
 public:
  explicit Caller(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
    limit(fd_.get());
  }
  explicit Caller(UniqueFd fd) : fd_(std::move(fd)), connected_(true) { limit(fd_.get()); }
  bool connected() const { return connected_; }
  void say(std::string_view bytes) const {
    static_cast<void>(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  // Fewer bytes where the other end closes the connection.
  std::string hear(std::size_t count) const {
    std::string out(count, '\0');
    const ssize_t n = recv(fd_.get(), out.data(), count, MSG_WAITALL);
    out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return out;
  }
  // "+": let in; "": the connection was closed; "?": neither in 10 s.
  std::string answer() const {
    char byte = 0;
    const ssize_t n = recv(fd_.get(), &byte, 1, 0);
    if (n < 0 && errno == EAGAIN) return "?";
    return n == 1 ? std::string(1, byte) : "";
  }
  // Greets as rank 0 with this key and group.
  std::string greet(const std::string& key, const std::string& group, int size, int to) const {
    const std::string nonce(kNonce, 'n');
    say(std::string(kMagic) + rankBytes(0) + rankBytes(to) + nonce);
    const std::string challenge = hear(kNonce + kProof);
    if (challenge.size() < kNonce + kProof) return "no challenge";
    say(proofOf(key, "connect", group, size, to, nonce + challenge.substr(0, kNonce)));
    return answer();
  }
  int descriptor() const { return fd_.get(); }

 private:
  static void limit(int fd) {
    const timeval limit{10, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  UniqueFd fd_;
  bool connected_ = false;
};

// A rank that forms its group and all-reduces once on a thread.
class Rank {
 public:
  Rank(int rank, int size, std::string group, comm::Store& store, Nanoseconds limit = 20 * kSecond)
      : thread_([this, rank, size, group = std::move(group), &store, limit] {
          auto made = comm::connectGloo({rank, size, "", "", group, limit}, store);
          float sum = 1;
          const Status status =
              made.ok() ? (*made)->allReduce(&sum, 1, DType::kF32, ReduceOp::kSum) : made.status();
          outcome_ = status.ok() ? std::to_string(static_cast<int>(sum)) : status.error().text();
        }) {}
  ~Rank() {
    if (thread_.joinable()) thread_.join();
  }
  std::string outcome() {
    thread_.join();
    return outcome_;
  }

 private:
  std::string outcome_;
  std::thread thread_;  // declared last: uses the other member
};

// Gives rank 0 another port for rank 1, with the key that rank 1 announced.
class RelayedStore final : public comm::Store {
 public:
  RelayedStore(comm::Store& store, int port) : store_(store), port_(port) {}
  Status set(const std::string& key, const std::string& value) override {
    return store_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Nanoseconds timeout) override {
    if (!key.ends_with("/1")) return store_.get(key, timeout);
    Announced announced = Announced::read(store_, key.substr(0, key.size() - 2), 1);
    announced.port = port_;
    return announced.text();
  }

 private:
  comm::Store& store_;
  const int port_;
};

// The ports of a connection, this end's first.
std::pair<int, int> portsOf(const UniqueFd& connection) {
  sockaddr_in own{}, other{};
  socklen_t length = sizeof own;
  getsockname(connection.get(), reinterpret_cast<sockaddr*>(&own), &length);
  length = sizeof other;
  getpeername(connection.get(), reinterpret_cast<sockaddr*>(&other), &length);
  return {ntohs(own.sin_port), ntohs(other.sin_port)};
}

UniqueFd accepted(const comm::Listener& listener) {
  pollfd event{listener.socket.get(), POLLIN, 0};
  if (poll(&event, 1, 10'000) != 1) return {};
  return UniqueFd(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

}  // namespace

class RendezvousTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // With the key, and all else right, the test itself is let in: the refusals below are not for
  // another reason.
  void whoKnowsTheKeyIsLetIn() {
    MemoryStore store;
    const std::string group = uniquePrefix() + "/2/data/0";
    announce(store, group, 0);
    Rank rank(1, 2, group, store);
    const Announced announced = Announced::read(store, group, 1);
    {
      const Caller caller(announced.port);
      QCOMPARE(caller.greet(announced.key, group, 2, 1), std::string("+"));
    }
    QVERIFY(rank.outcome().find("rank 0") != std::string::npos);  // which leaves at once
  }

  void whoDoesNotIsRefused_data() {
    QTest::addColumn<QString>("what");
    for (const char* what : {"no key", "key of another rank", "generation before", "another run",
                             "another size", "proof of the accepting end"})
      QTest::newRow(what) << what;
  }
  void whoDoesNotIsRefused() {
    QFETCH(QString, what);
    MemoryStore store;
    const std::string run = uniquePrefix(), group = run + "/2/data/0";
    announce(store, group, 0);  // ranks accept connections once they know where all others are
    Rank first(1, 2, group, store);
    const Announced announced = Announced::read(store, group, 1);
    const Caller caller(announced.port);
    QVERIFY(caller.connected());
    if (what == "proof of the accepting end") {
      caller.say(std::string(kMagic) + rankBytes(0) + rankBytes(1) + std::string(kNonce, 'n'));
      const std::string challenge = caller.hear(kNonce + kProof);
      QCOMPARE(challenge.size(), kNonce + kProof);
      caller.say(challenge.substr(kNonce));
      QCOMPARE(caller.answer(), std::string());
    } else {
      const std::string key = what == "no key"                ? std::string(32, '\0')
                              : what == "key of another rank" ? std::string(32, 'k')
                                                              : announced.key;
      const std::string claimed = what == "generation before" ? run + "/1/data/0"
                                  : what == "another run"     ? "x" + group
                                                              : group;
      QCOMPARE(caller.greet(key, claimed, what == "another size" ? 3 : 2, 1), std::string());
    }
    // The group forms all the same.
    Rank second(0, 2, group, store);
    QCOMPARE(first.outcome(), std::string("2"));
    QCOMPARE(second.outcome(), std::string("2"));
  }

  // What rank 0 said to rank 1, said again on another connection.
  void aReplayedGreetingIsRefused() {
    MemoryStore store;
    const std::string group = uniquePrefix() + "/1/data/0";
    Rank one(1, 3, group, store);
    const Announced announced = Announced::read(store, group, 1);
    auto relay = comm::listenAt("127.0.0.1");
    QVERIFY(relay.ok());
    RelayedStore relayed(store, relay->port);
    announce(store, group, 0);
    Rank zero(0, 3, group, relayed);
    // Rank 2 is announced and does not answer, so that rank 1 goes on listening.
    auto silent = comm::listenAt("127.0.0.1");
    QVERIFY(silent.ok());
    announce(store, group, 2, silent->port);
    const Caller from(accepted(*relay)), to(announced.port);
    const std::string hello = from.hear(8 + 4 + 4 + kNonce);
    to.say(hello);
    from.say(to.hear(kNonce + kProof));
    const std::string proof = from.hear(kProof);
    QCOMPARE(proof.size(), kProof);
    to.say(proof);
    QCOMPARE(to.answer(), std::string("+"));

    const Caller again(announced.port);
    again.say(hello);
    QCOMPARE(again.hear(kNonce + kProof).size(), kNonce + kProof);
    again.say(proof);
    QCOMPARE(again.answer(), std::string());
    silent->socket.reset();
  }

  // A program at the port of rank 1 that does not know its key gets no proof from rank 0.
  void anImpostorThatListensIsRefused() {
    MemoryStore store;
    const std::string group = uniquePrefix() + "/1/data/0";
    auto impostor = comm::listenAt("127.0.0.1");
    QVERIFY(impostor.ok());
    announce(store, group, 1, impostor->port);
    Rank zero(0, 2, group, store);
    const Caller caller(accepted(*impostor));
    QCOMPARE(caller.hear(8 + 4 + 4 + kNonce).size(), std::size_t{32});
    caller.say(std::string(kNonce + kProof, 'x'));
    QCOMPARE(caller.answer(), std::string());
    QVERIFY(zero.outcome().find("another program, or another rank, answered") != std::string::npos);
  }

  void whoSaysNothingIsCutOff() {
    MemoryStore store;
    const std::string group = uniquePrefix() + "/1/data/0";
    Rank one(1, 2, group, store, 16 * kSecond);
    announce(store, group, 0);
    const Announced announced = Announced::read(store, group, 1);
    QElapsedTimer clock;
    clock.start();
    const Caller silent(announced.port), slow(announced.port);
    slow.say(kMagic);
    QCOMPARE(silent.answer(), std::string());
    QCOMPARE(slow.answer(), std::string());
    QVERIFY2(clock.elapsed() > 3000 && clock.elapsed() < 10000,
             std::to_string(clock.elapsed()).c_str());
  }

  // The others have time left, and who knows the key is let in at once.
  void ofTooManyTheOldestAreClosed() {
    MemoryStore store;
    const std::string group = uniquePrefix() + "/2/data/0";
    announce(store, group, 0);
    Rank rank(1, 2, group, store);
    const Announced announced = Announced::read(store, group, 1);
    constexpr int kMost = 256 + 2, kMore = 20;
    QElapsedTimer clock;
    clock.start();
    {
      std::vector<std::unique_ptr<Caller>> quiet;
      for (int i = 0; i < kMost + kMore; ++i)
        quiet.push_back(std::make_unique<Caller>(announced.port));
      for (int i = 0; i < kMore; ++i)
        QCOMPARE(quiet[static_cast<std::size_t>(i)]->answer(), std::string());
      const Caller caller(announced.port);
      QCOMPARE(caller.greet(announced.key, group, 2, 1), std::string("+"));
      QVERIFY2(clock.elapsed() < 5000, std::to_string(clock.elapsed()).c_str());
    }
    QVERIFY(rank.outcome().find("rank 0") != std::string::npos);  // which leaves at once
  }

  // Two ranks that connect to each other at about the same time keep the same connection.
  void bothConnectAtOnce() {
    std::minstd_rand random(22);
    for (int round = 0; round < 60; ++round) {
      constexpr int kSize = 4, kLow = 0, kHigh = 2;
      MemoryStore store;
      const std::string group = uniquePrefix();
      std::atomic<int> joined{0};
      std::vector<std::pair<int, int>> ports(kSize);
      std::vector<std::unique_ptr<comm::Rendezvous>> ranks(kSize);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < kSize; ++rank)
        threads.emplace_back([&, rank, pause = static_cast<useconds_t>(random() % 1000)] {
          auto made = comm::Rendezvous::join({rank, kSize, "", "", group, 20 * kSecond}, store);
          ++joined;
          if (!made.ok()) return;
          const auto own = static_cast<std::size_t>(rank);
          ranks[own] = std::move(*made);
          if (rank != kLow && rank != kHigh) return;
          while (joined < kSize) std::this_thread::yield();
          usleep(pause);
          const int peer = rank == kLow ? kHigh : kLow;
          const auto met = ranks[own]->connect(peer, 10 * kSecond, 0);
          if (met.ok() && *met) ports[own] = portsOf(ranks[own]->take(peer));
        });
      for (auto& thread : threads) thread.join();
      QVERIFY(ports[kLow].first > 0 && ports[kLow].second > 0);
      QCOMPARE(ports[kLow].first, ports[kHigh].second);
      QCOMPARE(ports[kLow].second, ports[kHigh].first);
    }
  }

  // The port is at the address that the rank was given, and at no other of this host.
  void thePortIsAtOneAddress() {
    MemoryStore store;
    const std::string group = uniquePrefix() + "/1/data/0";
    std::thread rank([&] {
      static_cast<void>(comm::connectGloo({1, 2, "127.0.0.77", "", group, kSecond}, store));
    });
    const Announced announced = Announced::read(store, group, 1);
    QCOMPARE(announced.host, std::string("127.0.0.77"));
    QVERIFY(!Caller(announced.port).connected());  // at 127.0.0.1
    rank.join();
  }

  // A member that was let in, and announces sizes that do not fit.
  void sizesThatDoNotFitEndTheGroup_data() {
    QTest::addColumn<qulonglong>("opcode");
    QTest::addColumn<qulonglong>("slot");
    QTest::addColumn<qulonglong>("length");
    QTest::addColumn<qulonglong>("remoteOffset");
    constexpr qulonglong kMost = ~0ull;
    QTest::newRow("length") << 0ull << 1ull << kMost / 2 << 0ull;
    QTest::newRow("one byte more") << 0ull << 1ull << qulonglong{24 + 65536 + 1} << 0ull;
    QTest::newRow("overflow") << 0ull << 1ull << 4096ull << kMost - 4000;
    QTest::newRow("unknown slot") << 0ull << 7ull << 24ull << 0ull;
    QTest::newRow("another operation") << 2ull << 1ull << 24ull << 0ull;
    QTest::newRow("nothing") << 0ull << 1ull << 0ull << 0ull;
  }
  void sizesThatDoNotFitEndTheGroup() {
    QFETCH(qulonglong, opcode);
    QFETCH(qulonglong, slot);
    QFETCH(qulonglong, length);
    QFETCH(qulonglong, remoteOffset);
    MemoryStore store;
    const std::string group = uniquePrefix() + "/1/data/0";
    announce(store, group, 0);
    Rank rank(1, 2, group, store);
    const Announced announced = Announced::read(store, group, 1);
    const Caller caller(announced.port);
    QCOMPARE(caller.greet(announced.key, group, 2, 1), std::string("+"));
    caller.say(preambleOf(opcode, slot, length, remoteOffset));
    caller.say(std::string(4096, '\xff'));
    QElapsedTimer clock;
    clock.start();
    const std::string outcome = rank.outcome();
    QVERIFY2(outcome.find("rank 0") != std::string::npos, outcome.c_str());
    QVERIFY2(clock.elapsed() < 5000, outcome.c_str());
  }

  // A message is received in whatever pieces it comes; for the rest of one a rank waits no longer
  // than for another.
  void messagesComeInPieces_data() {
    QTest::addColumn<int>("missing");
    for (const int missing : {0, 1, 20, 28, 50}) QTest::addRow("%d missing", missing) << missing;
  }
  void messagesComeInPieces() {
    QFETCH(int, missing);
    MemoryStore store;
    const std::string group = uniquePrefix() + "/1/data/0";
    announce(store, group, 0);
    Rank rank(1, 2, group, store, 3 * kSecond);
    const Announced announced = Announced::read(store, group, 1);
    const Caller caller(announced.port);
    QCOMPARE(caller.greet(announced.key, group, 2, 1), std::string("+"));
    comm::MessageHeader header;
    header.call.total = header.length = sizeof(float);
    const float value = 41;
    std::string text = preambleOf(0, comm::kDataSlot, sizeof header + sizeof value, 0);
    text.append(reinterpret_cast<const char*>(&header), sizeof header);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    text.resize(text.size() - static_cast<std::size_t>(missing));
    for (std::size_t at = 0, size = 1; at < text.size(); at += size, size = size * 5 % 17) {
      caller.say(text.substr(at, size));
      usleep(2000);
    }
    QElapsedTimer clock;
    clock.start();
    const std::string outcome = rank.outcome();
    QVERIFY2(missing == 0 ? outcome == "42"
                          : outcome.find("rank 0 did not answer for 3 s") != std::string::npos,
             outcome.c_str());
    QVERIFY2(clock.elapsed() < 8000, outcome.c_str());
  }

  // The farewell at the end of what a peer sends is found; a peer without an end is given up.
  void theLastWordsCount_data() {
    QTest::addColumn<bool>("hasFarewell");
    QTest::addColumn<QString>("expected");
    QTest::newRow("a farewell") << true << "rank 0 timed out waiting for this rank";
    QTest::newRow("no end") << false << "rank 0 did not answer";
  }
  void theLastWordsCount() {
    QFETCH(bool, hasFarewell);
    QFETCH(QString, expected);
    MemoryStore store;
    const std::string group = uniquePrefix() + "/1/data/0";
    announce(store, group, 0);
    Rank rank(1, 2, group, store);
    const Announced announced = Announced::read(store, group, 1);
    const Caller caller(announced.port);
    QCOMPARE(caller.greet(announced.key, group, 2, 1), std::string("+"));
    QElapsedTimer clock;
    clock.start();
    const std::string more(100'000, '\xff');
    caller.say(preambleOf(0, 7, 24, 0) + more);
    comm::Farewell farewell;
    farewell.cause = 0;
    farewell.waited = 20 * kSecond;
    farewell.await(1);
    if (hasFarewell) caller.say({reinterpret_cast<const char*>(&farewell), sizeof farewell});
    std::jthread goesOn([&](const std::stop_token& stop) {
      while (!hasFarewell && !stop.stop_requested()) caller.say(more);
    });
    const std::string outcome = rank.outcome();
    QVERIFY2(outcome.find(expected.toStdString()) != std::string::npos, outcome.c_str());
    QVERIFY2(clock.elapsed() < 5000, outcome.c_str());
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::RendezvousTest)
#include "rendezvous_test.moc"
