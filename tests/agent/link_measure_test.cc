// Measurements of links over loopback: figures, and what is closed: strangers, wrong keys, lengths
// that are too large, silence.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QElapsedTimer>
#include <QTest>
#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "agent/node/link_measure.h"

using namespace lockstep;
using namespace lockstep::agent;

namespace {

class Listening {
 public:
  Listening() {
    std::promise<node::v1::ListenForMeasurementsReply> ready;
    thread_ = std::thread([this, &ready] {
      node::v1::ListenForMeasurementsRequest request;
      request.set_address("127.0.0.1");
      const Status ended = listenForMeasurements(
          request,
          [&](const node::v1::ListenForMeasurementsReply& reply) {
            ready.set_value(reply);
            return true;
          },
          [this] { return ends_.load(); });
      if (!ended.ok()) ready.set_value({});
    });
    at = ready.get_future().get();
  }
  ~Listening() {
    ends_ = true;
    thread_.join();
  }
  node::v1::MeasurePeerRequest request() const {
    node::v1::MeasurePeerRequest out;
    out.set_address("127.0.0.1");
    out.set_port(at.port());
    out.set_key(at.key());
    out.set_seconds(0.2);
    return out;
  }
  int connect() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(at.port()));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit{10, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    return -1;
  }
  node::v1::ListenForMeasurementsReply at;

 private:
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace

class LinkMeasureTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void linksAreMeasured() {
    const Listening listening;
    QVERIFY(listening.at.port() > 0);
    QCOMPARE(listening.at.key().size(), std::size_t{64});
    for (int i = 0; i < 3; ++i) {
      QElapsedTimer clock;
      clock.start();
      const auto reply = measurePeer(listening.request());
      QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
      QVERIFY(reply->bytes_per_second() > 1e7);
      QVERIFY(reply->round_trip() > 0);
      QVERIFY(reply->round_trip() < 0.1);
      QVERIFY(clock.elapsed() < 5000);
    }
  }

  void keysAreNew() {
    const Listening one, other;
    QVERIFY(one.at.key() != other.at.key());
  }

  void othersAreClosed_data() {
    QTest::addColumn<QByteArray>("says");
    QTest::addColumn<bool>("withKey");
    QTest::newRow("nothing") << QByteArray() << false;
    QTest::newRow("garbage") << QByteArray(200, 'x') << false;
    QTest::newRow("a key that differs in its last byte") << QByteArray("last") << false;
    QTest::newRow("half a length") << QByteArray(3, '\0') << true;
    QTest::newRow("a length that is too large") << QByteArray(8, '\x7f') << true;
    QTest::newRow("less than announced") << QByteArray("\0\0\0\0\0\0\1\0abc", 11) << true;
  }
  void othersAreClosed() {
    QFETCH(QByteArray, says);
    QFETCH(bool, withKey);
    const Listening listening;
    QByteArray bytes = withKey ? QByteArray::fromStdString(listening.at.key()) + says : says;
    if (says == "last") {
      bytes = QByteArray::fromStdString(listening.at.key());
      bytes.back() = bytes.back() == '0' ? '1' : '0';
    }
    const int fd = listening.connect();
    QVERIFY(fd >= 0);
    QCOMPARE(::send(fd, bytes.data(), static_cast<std::size_t>(bytes.size()), MSG_NOSIGNAL),
             static_cast<ssize_t>(bytes.size()));
    QElapsedTimer clock;
    clock.start();
    char byte = 0;
    QVERIFY(::recv(fd, &byte, 1, 0) <= 0);  // nothing is answered
    QVERIFY2(clock.elapsed() < 5000, qPrintable(QString::number(clock.elapsed())));
    ::close(fd);
    QVERIFY(measurePeer(listening.request()).ok());
  }

  void manyConnectionsHoldNothingUp() {
    const Listening listening;
    std::vector<int> held;
    for (int i = 0; i < 40; ++i) held.push_back(listening.connect());
    QTest::qWait(2500);  // until the silent ones are closed
    QVERIFY(measurePeer(listening.request()).ok());
    for (const int fd : held) ::close(fd);
  }

  void aNodeThatIsNotThereIsTold() {
    node::v1::MeasurePeerRequest request;
    {
      const Listening listening;
      request = listening.request();
    }
    const auto reply = measurePeer(request);
    QVERIFY(!reply.ok());
    QCOMPARE(reply.error().code, Code::kUnavailable);
    request.set_address("no address");
    QVERIFY(!measurePeer(request).ok());
  }
};

QTEST_GUILESS_MAIN(LinkMeasureTest)
#include "link_measure_test.moc"
