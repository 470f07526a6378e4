// Links as the kernel accounts for them: real connections on this machine, to an address of
// loopback that no other test uses.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QTest>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "agent/host/links.h"

using namespace lockstep;
using agent::LinkSampler;

namespace {

constexpr const char* kAddress = "127.77.0.2";

// A connection to kAddress; what arrives there is read as long as `reads`.
class Connection {
 public:
  explicit Connection(bool reads) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, kAddress, &address.sin_addr);
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof address;
    ok_ = ::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
          ::listen(listener, 1) == 0 &&
          ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    from_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok_ = ok_ && ::connect(from_, reinterpret_cast<sockaddr*>(&address), size) == 0;
    to_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    ::close(listener);
    if (reads)
      thread_ = std::thread([this] {
        std::vector<char> into(1 << 20);
        while (::recv(to_, into.data(), into.size(), 0) > 0) {
        }
      });
  }
  ~Connection() {
    ::shutdown(from_, SHUT_RDWR);
    ::shutdown(to_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    ::close(from_);
    ::close(to_);
  }
  bool ok() const { return ok_ && to_ >= 0; }
  // Returns how many of so many bytes were taken.
  std::size_t send(std::size_t bytes, bool waits = true) {
    const std::vector<char> data(bytes);
    std::size_t sent = 0;
    while (sent < bytes) {
      const ssize_t count = ::send(from_, data.data() + sent, bytes - sent,
                                   MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT));
      if (count <= 0) break;
      sent += static_cast<std::size_t>(count);
    }
    return sent;
  }

 private:
  int from_ = -1, to_ = -1;
  bool ok_ = false;
  std::thread thread_;
};

}  // namespace

class LinksTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // The loopback has no speed; what is no adapter's has none either.
  void adaptersWithoutASpeed() {
    for (const char* address : {"127.0.0.1", "192.0.2.1", "", "no address"})
      QCOMPARE(agent::adapterSpeed(address), 0.0);
  }

  void aSpeedIsRead() {
    for (const auto& [text, speed] :
         {std::pair("1000\n", 125e6), {"100000\n", 12.5e9}, {"-1\n", 0}, {"-1", 0}, {"", 0}})
      QCOMPARE(agent::adapterSpeedIn(text), speed);
  }

  void init() { sampler_ = {}; }

  void whatIsSentIsMeasured() {
    Nanoseconds before = monotonicNow();
    QVERIFY(sample().empty());  // the first
    Nanoseconds after = monotonicNow();
    Connection connection(true);
    QVERIFY(connection.ok());
    // The kernel counts the time of sending in its ticks, of up to 10 ms each: a transfer may begin
    // and end within one.
    double sending = 0;
    for (int i = 0; i < 20 && sending == 0; ++i) {
      QCOMPARE(connection.send(20'000'000), std::size_t{20'000'000});
      QTest::qWait(600);
      // The time between the samples was at least `least` and at most `most` seconds.
      const Nanoseconds asked = monotonicNow();
      const auto links = sample();
      const Nanoseconds told = monotonicNow();
      const double least = static_cast<double>(asked - after) * 1e-9,
                   most = static_cast<double>(told - before) * 1e-9;
      before = asked;
      after = told;
      if (links.empty()) QSKIP("the kernel does not list connections");
      QCOMPARE(links.size(), std::size_t{1});
      QCOMPARE(links[0].node(), std::string("n2"));
      QVERIFY2(links[0].sent() * least < 2.2e7 && links[0].sent() * most > 1.8e7,
               qPrintable(QString("%1 in %2 to %3 s").arg(links[0].sent()).arg(least).arg(most)));
      QVERIFY(links[0].sending() < 0.9);  // most of the time nothing was under way
      QVERIFY(links[0].round_trip() > 0);
      QVERIFY(links[0].round_trip() < 1);
      QVERIFY((links[0].pace() > 0) == (links[0].sending() > 0));
      QVERIFY(links[0].pace() * links[0].sending() < 1.01 * links[0].sent());
      QVERIFY2(links[0].resent() < 0.05, qPrintable(QString::number(links[0].resent())));
      sending = links[0].sending();
    }
    QVERIFY(sending > 0);
    QTest::qWait(500);
    QVERIFY(sample().empty());  // nothing was sent since
  }

  void samplesComeInIntervals() {
    QVERIFY(sample().empty());
    Connection connection(true);
    connection.send(1000);
    QVERIFY(sample().empty());  // at once
  }

  void onlyTheRanksConnectionsToNodesCount() {
    QVERIFY(sample().empty());
    LinkSampler others, elsewhere;
    QVERIFY(others.sample({1}, nodes()).empty());
    QVERIFY(elsewhere.sample({getpid()}, {{"127.77.0.3", "n3"}}).empty());
    Connection connection(true);
    connection.send(1'000'000);
    QTest::qWait(500);
    QVERIFY(others.sample({1}, nodes()).empty());
    QVERIFY(elsewhere.sample({getpid()}, {{"127.77.0.3", "n3"}}).empty());
  }

  // A node that reads nothing is late; its link is not slow.
  void whatIsNotReadIsNotUnderWay() {
    QVERIFY(sample().empty());
    Connection connection(false);
    QVERIFY(connection.ok());
    QTest::qWait(500);
    connection.send(100'000'000, false);
    sample();
    connection.send(1, false);
    QTest::qWait(1500);
    for (const auto& link : sample())
      QVERIFY2(link.sending() < 0.3, qPrintable(QString::number(link.sending())));
  }

 private:
  static std::map<std::string, std::string> nodes() { return {{kAddress, "n2"}}; }
  std::vector<run::v1::LinkSample> sample() { return sampler_.sample({getpid()}, nodes()); }
  LinkSampler sampler_;
};

QTEST_GUILESS_MAIN(LinksTest)
#include "links_test.moc"
