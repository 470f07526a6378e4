// PeerListener: a connection is handed over when the whole first record of a TLS handshake has
// come, in whatever pieces, and unread.
#include "agent/supervisor/peer_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <QTest>
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/support/strangers.h"

using namespace lockstep;
using namespace lockstep::agent;

namespace {

// A listener, and what it has handed over.
class Door {
 public:
  explicit Door(PeerListenerLimits limits = {})
      : listener_(PeerListener::open("127.0.0.1", limits).value()) {
    listener_->begin([this](UniqueFd connection) {
      const std::lock_guard lock(mutex_);
      accepted_.push_back(std::move(connection));
      changed_.notify_all();
    });
  }
  std::uint16_t port() const { return static_cast<std::uint16_t>(listener_->port()); }
  // The next connection that is handed over within so long, or none.
  UniqueFd next(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [this] { return !accepted_.empty(); })) return {};
    UniqueFd out = std::move(accepted_.front());
    accepted_.erase(accepted_.begin());
    return out;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<UniqueFd> accepted_;
  std::unique_ptr<PeerListener> listener_;
};

// A record with a TLS header of this type and length, and so many bytes after it.
std::string record(char type, std::size_t length, std::size_t bytes) {
  std::string out{type, 3, 1, static_cast<char>(length >> 8), static_cast<char>(length & 0xff)};
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(i * 7);
  return out;
}

constexpr char kHandshake = 0x16;

}  // namespace

class PeerListenerTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void wholeRecordsAreHandedOver() {
    std::minstd_rand random(19);
    const auto upTo = [&](std::size_t most) { return 1 + random() % most; };
    Door door;
    for (int round = 0; round < 60; ++round) {
      const std::size_t length = round == 0 ? 1 : round == 1 ? std::size_t{1} << 14 : upTo(3000);
      const std::size_t more = round % 3 == 0 ? upTo(200) : 0;  // of what follows
      const std::string words = record(kHandshake, length, length) + std::string(more, 'x');
      const UniqueFd client(test::connectAndSay(door.port(), ""));
      QVERIFY(client);
      UniqueFd accepted;
      for (std::size_t sent = 0; sent < words.size();) {
        const std::size_t piece = std::min(upTo(words.size()), words.size() - sent);
        QCOMPARE(::send(client.get(), words.data() + sent, piece, MSG_NOSIGNAL),
                 static_cast<ssize_t>(piece));
        sent += piece;
        const bool whole = sent >= 5 + length;
        if (!accepted) accepted = door.next(std::chrono::milliseconds(whole ? 10000 : 2));
        QCOMPARE(static_cast<bool>(accepted), whole);
      }
      std::string read(words.size() + 1, 0);
      std::size_t count = 0;
      QVERIFY(QTest::qWaitFor([&] {
        const ssize_t got =
            ::recv(accepted.get(), read.data() + count, read.size() - count, MSG_DONTWAIT);
        count += got > 0 ? static_cast<std::size_t>(got) : 0;
        return count >= words.size();
      }));
      QCOMPARE(read.substr(0, count), words);
      // Later words are reported one by one, as before.
      QCOMPARE(::send(client.get(), "y", 1, MSG_NOSIGNAL), ssize_t{1});
      int least = 0;
      socklen_t size = sizeof least;
      QCOMPARE(::getsockopt(accepted.get(), SOL_SOCKET, SO_RCVLOWAT, &least, &size), 0);
      QCOMPARE(least, 1);
    }
  }

  void othersAreClosedAtOnce_data() {
    QTest::addColumn<QByteArray>("words");
    const auto row = [](const char* name, const std::string& words) {
      QTest::newRow(name) << QByteArray::fromStdString(words);
    };
    row("http", "GET / HTTP/1.0\r\n\r\n");
    row("data before a handshake", record(0x17, 100, 100));
    row("empty record", record(kHandshake, 0, 0) + "more");
    row("record that is too long", record(kHandshake, (1 << 14) + 1, 100));
    row("another version", std::string{kHandshake, 2, 1, 0, 1, 1});
  }
  void othersAreClosedAtOnce() {
    QFETCH(QByteArray, words);
    Door door({.greetingMs = 60000});
    const UniqueFd client(test::connectAndSay(door.port(), words.toStdString()));
    QVERIFY(test::isClosed(client.get(), 10));
    QVERIFY(!door.next(std::chrono::milliseconds(0)));
  }

  // Half of a record, or of its header, and then the end, or nothing.
  void halfRecordsAreNotHandedOver() {
    Door door({.greetingMs = 300});
    for (const std::size_t bytes : {1, 4, 5, 6, 104}) {
      const std::string words = record(kHandshake, 100, 100).substr(0, bytes);
      const UniqueFd leaves(test::connectAndSay(door.port(), words));
      ::shutdown(leaves.get(), SHUT_WR);
      const UniqueFd waits(test::connectAndSay(door.port(), words));
      QVERIFY(test::isClosed(leaves.get(), 10));
      QVERIFY(test::isClosed(waits.get(), 10));
      QVERIFY(!door.next(std::chrono::milliseconds(0)));
    }
  }
};

QTEST_GUILESS_MAIN(PeerListenerTest)
#include "peer_listener_test.moc"
