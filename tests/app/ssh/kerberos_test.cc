// GSSAPI: tried only where it is configured, once, and never for long. There is no KDC here: a
// ticket cache is written by hand, and its KDC is silent.
#include "app/ssh/kerberos.h"

#include <QElapsedTimer>
#include <QTest>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <thread>

#include "app/ssh/ssh_connection.h"
#include "app/ssh/wire.h"
#include "tests/support/ssh_world.h"

using namespace lockstep;
using namespace lockstep::app;
using World = lockstep::test::SshWorld;
using std::chrono::milliseconds;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A principal of a credentials cache: name type, parts, realm.
std::string principal(const std::vector<std::string>& parts) {
  std::string out = wireU32(1) + wireU32(parts.size()) + wireString("LOCKSTEP.TEST");
  for (const std::string& part : parts) out += wireString(part);
  return out;
}

std::string der(int tag, const std::string& content) {
  return std::string(1, static_cast<char>(tag)) + static_cast<char>(content.size()) + content;
}
std::string derNumber(int value) { return der(2, std::string(1, static_cast<char>(value))); }

// A ticket as RFC 4120 encodes it, with an encrypted part that nobody can read.
std::string ticket() {
  const std::string realm = der(0x1b, "LOCKSTEP.TEST");
  const std::string service =
      der(0x30, der(0xa0, derNumber(2)) +
                    der(0xa1, der(0x30, der(0x1b, "krbtgt") + der(0x1b, "LOCKSTEP.TEST"))));
  const std::string sealed =
      der(0x30, der(0xa0, derNumber(18)) + der(0xa2, der(4, std::string(16, 'c'))));
  return der(0x61, der(0x30, der(0xa0, derNumber(5)) + der(0xa1, realm) + der(0xa2, service) +
                                 der(0xa3, sealed)));
}

// A cache of version 4 with a ticket-granting ticket that no KDC has made.
std::string ticketCache() {
  const auto now = static_cast<std::size_t>(std::time(nullptr));
  std::string out("\x05\x04\x00\x00", 4);
  out += principal({"ann"});
  out += principal({"ann"}) + principal({"krbtgt", "LOCKSTEP.TEST"});
  out += std::string("\x00\x12", 2) + wireString(std::string(32, 'k'));  // aes256
  for (const std::size_t when : {now, now, now + 36000, now + 36000}) out += wireU32(when);
  out += std::string(1, '\0') + wireU32(0) + wireU32(0) + wireU32(0);  // flags, addresses, data
  out += wireString(ticket()) + wireString("");
  return out;
}

// A port that takes what is sent to it and says nothing; by UDP and TCP.
class SilentKdc {
 public:
  SilentKdc() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    udp_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    tcp_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::bind(udp_, reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(udp_, reinterpret_cast<sockaddr*>(&address), &size);
    ::bind(tcp_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(tcp_, 16);
    port_ = ntohs(address.sin_port);
  }
  ~SilentKdc() {
    ::close(udp_);
    ::close(tcp_);
  }
  int port() const { return port_; }
  bool wasAsked() const {
    pollfd fds[] = {{udp_, POLLIN, 0}, {tcp_, POLLIN, 0}};
    return ::poll(fds, 2, 0) > 0;
  }

 private:
  int udp_ = -1, tcp_ = -1, port_ = 0;
};

}  // namespace

class KerberosTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void init() {
    test::writeText(folder_ / "krb5.conf",
                    "[libdefaults]\n  default_realm = LOCKSTEP.TEST\n  rdns = false\n"
                    "  dns_lookup_kdc = false\n  dns_canonicalize_hostname = false\n"
                    "[realms]\n  LOCKSTEP.TEST = {\n    kdc = 127.0.0.1:" +
                        std::to_string(kdc_.port()) +
                        "\n  }\n[domain_realm]\n  127.0.0.1 = LOCKSTEP.TEST\n");
    qputenv("KRB5_CONFIG", QByteArray::fromStdString(folder_ / "krb5.conf"));
    qputenv("KRB5CCNAME", QByteArray::fromStdString("FILE:" + (folder_ / "tickets")));
    ::unlink((folder_ / "tickets").c_str());
  }

  void withoutATicketItIsPassedOver() {
    World world;
    if (!world.serve("GSSAPIAuthentication yes")) QSKIP(world.why.c_str());
    world.trustAll();
    world.extraClientConfig = "GSSAPIAuthentication yes\n";
    QElapsedTimer timer;
    timer.start();
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    QVERIFY2(timer.elapsed() < 30000, std::to_string(timer.elapsed()).c_str());
    QVERIFY(!kdc_.wasAsked());
    // It is told what was missing where nothing else helps.
    world.identity = world.folder / "none";
    SshConnection closed({.host = "n1"}, world.options());
    const Status status = closed.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QVERIFY2(has(status.error().why, "gssapi-with-mic (") && has(status.error().why, "redentials"),
             status.error().text().c_str());
    QCOMPARE(world.prompter->secrets().size(), std::size_t{0});
  }

  void onlyWhereItIsConfiguredAndOffered_data() {
    QTest::addColumn<bool>("client");
    QTest::addColumn<bool>("server");
    QTest::newRow("not configured") << false << true;
    QTest::newRow("not offered") << true << false;
  }
  void onlyWhereItIsConfiguredAndOffered() {
    QFETCH(bool, client);
    QFETCH(bool, server);
    test::writeText(folder_ / "tickets", ticketCache(), 0600);
    World world;
    if (!world.serve(server ? "GSSAPIAuthentication yes" : "GSSAPIAuthentication no"))
      QSKIP(world.why.c_str());
    world.trustAll();
    world.extraClientConfig = client ? "GSSAPIAuthentication yes\n" : "";
    world.identity = world.folder / "none";
    SshConnection connection({.host = "n1"}, world.options());
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QVERIFY2(!has(status.error().why, "tried gssapi"), status.error().text().c_str());
    QVERIFY(!kdc_.wasAsked());
  }

  // A KDC that does not answer costs a bounded time, once, and then the key is tried.
  void silentKdcIsBounded() {
    test::writeText(folder_ / "tickets", ticketCache(), 0600);
    World world;
    if (!world.serve("GSSAPIAuthentication yes")) QSKIP(world.why.c_str());
    world.trustAll();
    world.extraClientConfig = "GSSAPIAuthentication yes\n";
    auto options = world.options();
    options.connectTimeout = milliseconds(4000);
    QElapsedTimer timer;
    timer.start();
    SshConnection connection({.host = "n1"}, options);
    VERIFY_OK(connection.connect());
    QVERIFY(kdc_.wasAsked());
    QVERIFY2(timer.elapsed() >= 3900 && timer.elapsed() < 200000,
             std::to_string(timer.elapsed()).c_str());
    world.identity = world.folder / "none";
    options = world.options();
    options.connectTimeout = milliseconds(2900);
    SshConnection closed({.host = "n1"}, options);
    const Status status = closed.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QVERIFY2(has(status.error().why, "gssapi-with-mic (Kerberos does not answer within 2900 ms)"),
             status.error().text().c_str());
    // Cancelled while it waits.
    options.connectTimeout = std::chrono::minutes(1);
    SshConnection cancelled({.host = "n1"}, options);
    timer.start();
    std::stop_source stop;
    std::thread later([&] {
      test::waitFor([&] { return cancelled.status().state == LinkState::kConnecting; });
      stop.request_stop();
    });
    QCOMPARE(cancelled.connect(stop.get_token()).code(), Code::kCancelled);
    later.join();
    cancelled.close();
    QVERIFY2(timer.elapsed() < 20000, std::to_string(timer.elapsed()).c_str());
  }

 private:
  const test::TempFolder folder_;
  const SilentKdc kdc_;
};

QTEST_GUILESS_MAIN(KerberosTest)
#include "kerberos_test.moc"
