// The page of `lockstep metrics` and `lockstep-agent metrics` over HTTP, to clients that are slow,
// wrong or many.
#include "engine/metrics/page_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <QTest>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace lockstep;
using metrics::PageServer;

namespace {

int portOf(const PageServer& server) {
  return std::stoi(server.address().substr(server.address().rfind(':') + 1));
}

UniqueFd connected(int port) {
  UniqueFd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const timeval limit{20, 0};
  (void)::setsockopt(out.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return UniqueFd();
  return out;
}

void tell(const UniqueFd& fd, const std::string& text) {
  (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

std::string rest(const UniqueFd& fd) {
  std::string out;
  char bytes[4096];
  for (;;) {
    const ssize_t got = ::recv(fd.get(), bytes, sizeof bytes, 0);
    if (got <= 0) return out;
    out.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace

class PageServerTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    auto server = PageServer::listen("0");
    QVERIFY(server.ok());
    QVERIFY(server->loopback() && server->address().starts_with("127.0.0.1:"));
    port_ = portOf(*server);
    thread_ = std::jthread(
        [this, server = std::move(server).value()](const std::stop_token& stop) mutable {
          const auto page = [this]() -> Result<std::string> {
            ++pages_;
            std::this_thread::sleep_for(std::chrono::milliseconds(pause_.load()));
            if (fails_) return makeError(Code::kUnavailable, "no page");
            return page_;
          };
          server.serve({"/metrics", "text/x", page}, [&] { return stop.stop_requested(); });
        });
  }
  void cleanupTestCase() { thread_ = {}; }

  void aPageIsServed() {
    const std::string got = ask("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    QVERIFY(got.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n"));
    QVERIFY(got.find(fmt::format("Content-Length: {}\r\n", page_.size())) != std::string::npos);
    QVERIFY(got.ends_with("\r\n\r\n" + page_));
    const UniqueFd slow = connected(port_);
    for (const char c : std::string("GET /metrics HTTP/1.0\r\nA: b\r\n\r\n"))
      tell(slow, std::string(1, c));
    QVERIFY(rest(slow).ends_with(page_));
  }

  // Longer than a client may take.
  void aPageTakesLong() {
    pause_ = 5500;
    const std::string got = ask("GET /metrics HTTP/1.1\r\n\r\n");
    pause_ = 0;
    QVERIFY(got.ends_with("\r\n\r\n" + page_));
  }

  void whatIsNoRequestIsRefused() {
    const int before = pages_;
    QVERIFY(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    QVERIFY(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    QVERIFY(ask("GET /metrics\r\n\r\n").starts_with("HTTP/1.1 400 "));
    QVERIFY(ask("\r\n\r\n").starts_with("HTTP/1.1 400 "));
    QVERIFY(ask(std::string("\x16\x03\x01\0\xff\r\n\r\n", 9)).starts_with("HTTP/1.1 400 "));
    QVERIFY(ask("GET /" + std::string(20'000, 'a')).empty());
    QCOMPARE(pages_.load(), before);
    fails_ = true;
    const std::string failed = ask("GET /metrics HTTP/1.1\r\n\r\n");
    fails_ = false;
    QVERIFY(failed.starts_with("HTTP/1.1 500 ") && failed.ends_with("no page\n"));
  }

  void headsHave8KiB() {
    const auto headOf = [](std::size_t size) {
      const std::string line = "GET /metrics HTTP/1.1\r\nX: ", end = "\r\n\r\n";
      return line + std::string(size - line.size() - end.size(), 'a') + end;
    };
    QVERIFY(ask(headOf(8192)).ends_with(page_));
    QVERIFY(ask(headOf(8193)).empty());
  }

  // Clients that say nothing do not keep others waiting, and are cut off.
  void silentClientsAreCutOff() {
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 40; ++i) silent.push_back(connected(port_));
    QElapsedTimer timer;
    timer.start();
    QVERIFY(ask("GET /metrics HTTP/1.1\r\n\r\n").ends_with(page_));
    QVERIFY(timer.elapsed() < 4000);
    for (int i = 0; i < 100; ++i) silent.push_back(connected(port_));  // more than are heard
    QVERIFY(ask("GET /metrics HTTP/1.1\r\n\r\n").ends_with(page_));
    for (const UniqueFd& one : silent) QVERIFY(rest(one).empty());
  }

  // While 64 are served, one more has to wait until the first of them is cut off.
  void atMost64AreServedAtATime() {
    const auto isOpen = [](const UniqueFd& fd) {
      char byte = 0;
      return ::recv(fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
    };
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 63; ++i) {
      if (i % 8 == 0) (void)ask("GET / HTTP/1.1\r\n\r\n");  // those before have been accepted
      silent.push_back(connected(port_));
    }
    QVERIFY(ask("GET /metrics HTTP/1.1\r\n\r\n").ends_with(page_));
    QVERIFY(isOpen(silent.front()));
    silent.push_back(connected(port_));
    QVERIFY(ask("GET /metrics HTTP/1.1\r\n\r\n").ends_with(page_));
    QVERIFY(!isOpen(silent.front()));
  }

  void addresses() {
    for (const char* wrong : {"", "x", "99999", "-1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
                              "localhost:0", "::1:0", "[127.0.0.1]:0", "[::1:0", "0x10", "1 "}) {
      const auto server = PageServer::listen(wrong);
      QVERIFY2(!server.ok() && server.error().code == Code::kInvalidArgument, wrong);
    }
    QVERIFY(PageServer::listen("127.0.0.2:0")->loopback());
    QVERIFY(!PageServer::listen("0.0.0.0:0")->loopback());
    if (const auto six = PageServer::listen("[::1]:0"); six.ok())
      QVERIFY(six->loopback() && six->address().starts_with("[::1]:"));
    QVERIFY(!PageServer::listen(std::to_string(port_)).ok());  // taken
  }

 private:
  std::string ask(const std::string& request) const {
    const UniqueFd fd = connected(port_);
    tell(fd, request);
    return rest(fd);
  }

  int port_ = 0;
  const std::string page_ = std::string(3'000'000, 'p');
  std::atomic<int> pages_ = 0;
  std::atomic<int> pause_ = 0;  // milliseconds
  std::atomic<bool> fails_ = false;
  std::jthread thread_;
};

QTEST_GUILESS_MAIN(PageServerTest)
#include "page_server_test.moc"
