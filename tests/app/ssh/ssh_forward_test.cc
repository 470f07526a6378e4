// Forwards of unix sockets: streamlocal, bridge, loss and return of the link.
#include <QElapsedTimer>
#include <QTest>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <thread>

#include "app/ssh/ssh_connection.h"
#include "engine/base/shell_text.h"
#include "tests/support/prompter.h"
#include "tests/support/sshd.h"

using namespace lockstep;
using namespace lockstep::app;
using test::connectUnix;
using test::exchange;

#define VERIFY_OK(expression)                                                   \
  do {                                                                          \
    const auto& checked = (expression);                                         \
    QVERIFY2(checked.ok(), checked.ok() ? "" : checked.error().text().c_str()); \
  } while (false)

class SshForwardTest : public QObject {
  Q_OBJECT
  test::TempFolder folder_;
  std::unique_ptr<test::Sshd> server_;
  std::string why_;
  int count_ = 0;
  std::mutex mutex_;
  std::vector<LinkStatus> states_;

  bool serve(const std::string& extra = "") {
    server_.reset();
    test::SshdOptions options;
    options.extraConfig = extra;
    server_ = test::Sshd::start(folder_ / ("s" + std::to_string(++count_)), folder_ / "id", options,
                                &why_);
    if (!server_) return false;
    test::writeText(folder_ / "known", server_->knownHostsLine() + "\n", 0600);
    test::writeText(folder_ / "config",
                    test::sshConfigFor({server_.get()}, folder_ / "known", folder_ / "id"));
    return true;
  }
  SshConnectionOptions options() {
    SshConnectionOptions options;
    options.node = "node-1";
    options.configFile = folder_ / "config";
    options.runtimeFolder = folder_.path();
    options.firstPause = std::chrono::milliseconds(20);
    options.longestPause = std::chrono::milliseconds(200);
    options.onState = [this](const LinkStatus& status) {
      const std::lock_guard lock(mutex_);
      states_.push_back(status);
    };
    return options;
  }
  std::string bridge() const {
    return BRIDGE_PROGRAM " bridge --socket " + shellQuote(folder_ / "echo");
  }
  void exerciseForward(const std::string& local) {
    QCOMPARE(exchange(connectUnix(local), "hello"), std::optional<std::string>("hello"));
    // Full duplex, more than all buffers together, half-closed at the end.
    std::string bytes(16 << 20, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 7);
    QElapsedTimer timer;
    timer.start();
    QVERIFY(exchange(connectUnix(local), bytes) == bytes);
    qInfo("16 MiB there and back: %lld ms", static_cast<long long>(timer.elapsed()));
  }

 private Q_SLOTS:
  void initTestCase() {
    test::makeKey(folder_ / "id");
    if (!serve()) QSKIP(why_.c_str());
  }

  void streamlocal() {
    QVERIFY(serve());
    test::EchoServer echo(folder_ / "echo");
    SshConnection connection({.host = "n1"}, options());
    auto local = connection.forward(folder_ / "echo", "");
    VERIFY_OK(local);
    QVERIFY(local->size() <= 100);
    struct stat info {};
    ::stat(local->c_str(), &info);
    QCOMPARE(info.st_mode & 0777, 0600u);
    VERIFY_OK(connection.connect());
    exerciseForward(*local);
    // A sender whose reader has stalled is held back, and nobody else is.
    const int stalled = connectUnix(*local);
    std::string bytes(1 << 16, 'x');
    std::uint64_t taken = 0;
    bool full = false;
    QVERIFY(test::waitFor([&] {
      ssize_t n;
      while ((n = ::send(stalled, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) {
        taken += static_cast<std::uint64_t>(n);
        full = false;
      }
      if (full) return true;  // nothing more was taken while another exchange went through
      full = true;
      return exchange(connectUnix(*local), "meanwhile") != "meanwhile";
    }));
    QVERIFY(taken < 64u << 20);
    ::close(stalled);
    exerciseForward(*local);
    connection.stopForward(*local);
    QVERIFY(::access(local->c_str(), F_OK) != 0);
  }

  void manyConnectionsAtOnce() {
    QVERIFY(serve());
    test::EchoServer echo(folder_ / "echo");
    SshConnection connection({.host = "n1"}, options());
    auto local = connection.forward(folder_ / "echo", bridge());
    VERIFY_OK(local);
    VERIFY_OK(connection.connect());
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int i = 0; i < 40; ++i)
      threads.emplace_back([&, i] {
        const std::string bytes(200000 + static_cast<std::size_t>(i),
                                static_cast<char>('a' + i % 26));
        if (exchange(connectUnix(*local), bytes) == bytes) ++good;
      });
    for (auto& thread : threads) thread.join();
    QCOMPARE(good.load(), 40);
  }

  // The connection waits; the forward does not try again and again.
  void aForwardWithoutDescriptorsRests() {
    QVERIFY(serve());
    test::EchoServer echo(folder_ / "echo");
    SshConnection connection({.host = "n1"}, options());
    auto local = connection.forward(folder_ / "echo", "");
    VERIFY_OK(local);
    VERIFY_OK(connection.connect());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    local->copy(address.sun_path, sizeof address.sun_path - 1);
    const int caller = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int next = ::dup(caller);  // the lowest that is free
    ::close(next);
    rlimit before{};
    QCOMPARE(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
    QCOMPARE(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const int connected = ::connect(caller, reinterpret_cast<sockaddr*>(&address), sizeof address);
    const std::clock_t begin = std::clock();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const double used = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    QCOMPARE(::setrlimit(RLIMIT_NOFILE, &before), 0);
    QCOMPARE(connected, 0);
    QVERIFY2(used < 0.3, qPrintable(QString::number(used)));
    QCOMPARE(exchange(caller, "after"), std::optional<std::string>("after"));
  }

  void bridgeWhereForwardingIsRefused_data() {
    QTest::addColumn<QString>("config");
    QTest::newRow("streamlocal") << "AllowStreamLocalForwarding no";
    QTest::newRow("tcp") << "AllowTcpForwarding no\nAllowStreamLocalForwarding no";
    QTest::newRow("disabled") << "DisableForwarding yes";
  }
  void bridgeWhereForwardingIsRefused() {
    QFETCH(QString, config);
    QVERIFY(serve(config.toStdString()));
    test::EchoServer echo(folder_ / "echo");
    SshConnection connection({.host = "n1"}, options());
    auto plain = connection.forward(folder_ / "echo", "");
    auto bridged = connection.forward(folder_ / "echo", bridge());
    VERIFY_OK(bridged);
    VERIFY_OK(connection.connect());
    QCOMPARE(exchange(connectUnix(*plain), "x").value_or(""), std::string());
    exerciseForward(*bridged);
    exerciseForward(*bridged);
  }

  void absentSocketClosesAtOnce() {
    QVERIFY(serve());
    SshConnection connection({.host = "n1"}, options());
    auto local = connection.forward(folder_ / "nothing", "");
    VERIFY_OK(connection.connect());
    QCOMPARE(exchange(connectUnix(*local), "x").value_or(""), std::string());
    // It works as soon as somebody listens.
    test::EchoServer echo(folder_ / "nothing");
    QCOMPARE(exchange(connectUnix(*local), "x"), std::optional<std::string>("x"));
  }

  void sameListenerAfterTheSessionWasKilled() {
    QVERIFY(serve());
    test::EchoServer echo(folder_ / "echo");
    SshConnection connection({.host = "n1"}, options());
    auto local = connection.forward(folder_ / "echo", "");
    VERIFY_OK(connection.connect());
    for (int i = 0; i < 3; ++i) {
      QCOMPARE(exchange(connectUnix(*local), "before"), std::optional<std::string>("before"));
      const int cut = connectUnix(*local);
      char byte = 'x';
      QCOMPARE(::send(cut, &byte, 1, MSG_NOSIGNAL), ssize_t{1});
      QCOMPARE(::recv(cut, &byte, 1, 0), ssize_t{1});  // it is under way
      QVERIFY(server_->killSessions() > 0);
      QCOMPARE(::recv(cut, &byte, 1, 0), ssize_t{0});  // those under way end
      ::close(cut);
      QElapsedTimer timer;
      timer.start();
      QCOMPARE(exchange(connectUnix(*local), "after"), std::optional<std::string>("after"));
      qInfo("healed after %lld ms", static_cast<long long>(timer.elapsed()));
    }
  }

  void connectionsWithoutAChannelOutliveTheLink() {
    QVERIFY(serve());
    test::EchoServer echo(folder_ / "echo");
    SshConnection connection({.host = "n1"}, options());
    auto local = connection.forward(folder_ / "echo", "");
    auto stopped = connection.forward(folder_ / "echo", "");
    VERIFY_OK(connection.connect());
    const auto descriptors = [] {
      const std::filesystem::directory_iterator all("/proc/self/fd");
      return std::distance(begin(all), end(all));
    };
    QVERIFY(server_->freeze(true) > 0);
    const auto before = descriptors();
    const int caller = connectUnix(*local);
    const int other = connectUnix(*stopped);
    // Both are accepted, and nobody answers for their channels.
    QVERIFY(test::waitFor([&] { return descriptors() == before + 4; }));
    server_->stop();
    QVERIFY(test::waitFor([&] { return connection.status().state == LinkState::kReconnecting; }));
    connection.stopForward(*stopped);
    QCOMPARE(exchange(other, "x").value_or(""), std::string());
    QVERIFY(server_->restart());
    QCOMPARE(exchange(caller, "kept"), std::optional<std::string>("kept"));
  }

  void pausesGrowAndSayWhy() {
    QVERIFY(serve());
    test::EchoServer echo(folder_ / "echo");
    SshConnection connection({.host = "n1"}, options());
    auto local = connection.forward(folder_ / "echo", "");
    VERIFY_OK(connection.connect());
    {
      const std::lock_guard lock(mutex_);
      states_.clear();
    }
    server_->stop();
    QVERIFY(test::waitFor([&] { return connection.status().attempt >= 4; }));
    {
      const std::lock_guard lock(mutex_);
      const auto lost = std::find_if(states_.begin(), states_.end(), [](const LinkStatus& status) {
        return status.state == LinkState::kReconnecting;
      });
      QVERIFY(lost != states_.end());
      QVERIFY(lost->reason && !lost->reason->what.empty());
      QVERIFY(lost->retryIn.count() > 0);
    }
    QVERIFY(server_->restart());
    QCOMPARE(exchange(connectUnix(*local), "back"), std::optional<std::string>("back"));
  }

  void failsWhenOnlyAPersonCanHelp() {
    QVERIFY(serve());
    auto prompter = std::make_shared<test::ScriptedPrompter>();
    auto settings = options();
    settings.prompter = prompter;
    SshConnection connection({.host = "n1"}, settings);
    auto local = connection.forward(folder_ / "echo", "");
    VERIFY_OK(connection.connect());
    test::writeText(folder_ / "known", "", 0600);  // now the key is unknown: nobody is asked
    server_->killSessions();
    QVERIFY(test::waitFor([&] { return connection.status().state == LinkState::kFailed; }));
    QCOMPARE(connection.status().reason->code, Code::kPermissionDenied);
    QVERIFY(prompter->hostKeys().empty());
    QCOMPARE(exchange(connectUnix(*local), "x").value_or(""), std::string());
    // A person starts it again, and is asked.
    test::EchoServer echo(folder_ / "echo");
    VERIFY_OK(connection.connect());
    QCOMPARE(prompter->hostKeys().size(), std::size_t{1});
    QCOMPARE(exchange(connectUnix(*local), "x"), std::optional<std::string>("x"));
  }

  void stoppedServerIsNoticed() {
    QVERIFY(serve());
    auto settings = options();
    settings.keepaliveInterval = std::chrono::milliseconds(100);
    settings.keepaliveLimit = std::chrono::milliseconds(3000);
    settings.connectTimeout = std::chrono::milliseconds(5000);
    SshConnection connection({.host = "n1"}, settings);
    VERIFY_OK(connection.connect());
    // An idle but living link stays.
    QVERIFY(
        !test::waitFor([&] { return connection.status().state != LinkState::kConnected; }, 4500));
    QElapsedTimer timer;
    timer.start();
    const auto frozen = server_->freeze(true);
    QVERIFY(frozen > 0);
    QVERIFY(test::waitFor([&] { return connection.status().state == LinkState::kReconnecting; }));
    QVERIFY(timer.elapsed() < 25000);
    QVERIFY(connection.status().reason->what.text().find("does not respond") != std::string::npos);
    server_->freeze(false);
    QVERIFY(test::waitFor([&] { return connection.status().state == LinkState::kConnected; }));
  }

  void silenceEndsStreamsOfEveryKind_data() {
    QTest::addColumn<QString>("extra");
    QTest::newRow("forwards") << "";
    QTest::newRow("bridges") << "AllowStreamLocalForwarding no\nMaxSessions 40\n";
    QTest::newRow("few slots") << "AllowStreamLocalForwarding no\nMaxSessions 3\n";
  }
  void silenceEndsStreamsOfEveryKind() {
    QFETCH(QString, extra);
    QVERIFY(serve(extra.toStdString()));
    test::EchoServer echo(folder_ / "echo");
    auto settings = options();
    settings.keepaliveInterval = std::chrono::milliseconds(200);
    settings.keepaliveLimit = std::chrono::milliseconds(3000);
    settings.connectTimeout = std::chrono::milliseconds(5000);
    SshConnection connection({.host = "n1"}, settings);
    auto local = connection.forward(folder_ / "echo", bridge());
    VERIFY_OK(connection.connect());
    for (int round = 0; round < 3; ++round) {
      // Idle, full in both directions, printing, reading, and not open yet.
      std::vector<int> streams;
      for (int i = 0; i < 12; ++i) {
        streams.push_back(connectUnix(*local));
        const std::string bytes(i % 3 == 0 ? 1 : 4 << 20, 'x');
        ::send(streams.back(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
      char byte = 0;
      pollfd answer{streams.front(), POLLIN, 0};
      QVERIFY(::poll(&answer, 1, 60000) == 1);
      QCOMPARE(::recv(streams.front(), &byte, 1, 0), ssize_t{1});  // one at least is under way
      auto sftp = connection.openSubsystem("sftp");
      VERIFY_OK(sftp);
      std::vector<std::thread> commands;
      std::vector<Result<ExecResult>> ends(6, makeError(Code::kInternal, "not ended"));
      for (std::size_t i = 0; i < ends.size(); ++i)
        commands.emplace_back([&, i] {
          const char* command = i % 3 == 0 ? "yes" : i % 3 == 1 ? "cat; sleep 60" : "sleep 60";
          ExecOptions exec;
          exec.outputLimit = std::size_t{1} << 40;
          if (i % 3 == 1) exec.input = std::string(8 << 20, 'x');
          ends[i] = connection.exec(command, exec);
        });
      QVERIFY(server_->freeze(true) > 0);
      QVERIFY(test::waitFor([&] { return connection.status().state == LinkState::kReconnecting; }));
      for (auto& command : commands) command.join();
      for (const auto& end : ends) {
        QVERIFY(!end.ok());
        QVERIFY2(end.error().text().find("does not respond") != std::string::npos,
                 end.error().text().c_str());
      }
      for (const int stream : streams) ::close(stream);
      server_->freeze(false);
      server_->killSessions();
      connection.start();
      VERIFY_OK(connection.waitConnected(std::chrono::seconds(60)));
    }
    QCOMPARE(exchange(connectUnix(*local), "after"), std::optional<std::string>("after"));
  }
};

QTEST_GUILESS_MAIN(SshForwardTest)
#include "ssh_forward_test.moc"
