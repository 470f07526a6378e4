// The actions of alerts: real programs, and a real HTTP server on this machine.
#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <dlfcn.h>
#include <netdb.h>

#include <cstring>

#include "app/alerts/alert_actions.h"
#include "app/alerts/webhook.h"
#include "tests/app/alerts/loopback_server.h"

using namespace lockstep;
using namespace lockstep::app;
using lockstep::tests::kHttpOk;
using lockstep::tests::LoopbackServer;

// In place of the system's, also for libcurl: the name server of "slow.test" is long in answering.
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* node,
                                                                  const char* service,
                                                                  const addrinfo* hints,
                                                                  addrinfo** result) {
  if (node != nullptr && std::strcmp(node, "slow.test") == 0) {
    std::this_thread::sleep_for(std::chrono::seconds(6));
    return EAI_AGAIN;
  }
  static const auto system =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return system(node, service, hints, result);
}

namespace {

// Drains the inbox until it is so.
bool drainUntil(Inbox& inbox, const std::function<bool()>& done, int limitMs = 60'000) {
  QElapsedTimer spent;
  spent.start();
  while (!done()) {
    if (spent.elapsed() > limitMs) return false;
    inbox.wait(std::chrono::milliseconds(20));
    inbox.drain();
  }
  return true;
}

AlertSettings withCommand(const std::string& command) {
  AlertSettings out;
  out.command = command;
  return out;
}
AlertSettings withWebhook(const std::string& url) {
  AlertSettings out;
  out.webhook = url;
  return out;
}

Status perform(AlertAction action, const AlertSettings& settings) {
  return performAlertAction(action, settings, sampleAlert(AlertRule::kStall));
}

}  // namespace

class AlertActionsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void theCommandGetsTheAlert() {
    const QTemporaryDir folder;
    const QString file = folder.filePath("told $HOME;x");  // no shell looks at it
    const Status done =
        perform(AlertAction::kCommand, withCommand(fmt::format("tee '{}'", file.toStdString())));
    QVERIFY2(done.ok(), done.ok() ? "" : done.error().text().c_str());
    QFile told(file);
    QVERIFY(told.open(QIODevice::ReadOnly));
    const QByteArray text = told.readAll();
    QVERIFY2(text.startsWith(R"({"event":"alert","rule":"stall","state":"raised")"), text);
    QVERIFY(text.endsWith("}\n"));
    QCOMPARE(text.count('\n'), 1);
  }

  void failuresOfTheCommandSayWhy() {
    const auto text = [](const std::string& command) {
      const Status done = perform(AlertAction::kCommand, withCommand(command));
      return done.ok() ? std::string() : done.error().text();
    };
    QVERIFY(text("/nowhere/notify").find("cannot run /nowhere/notify") != std::string::npos);
    QVERIFY(text("sh -c 'echo no such user >&2; exit 3'").find("status 3: no such user") !=
            std::string::npos);
    QVERIFY(text("false").find("the alert command false failed") != std::string::npos);
  }

  // Also what the command has started, and where it writes without end.
  void aCommandThatHangsIsKilled() {
    QElapsedTimer spent;
    spent.start();
    const std::string mark = fmt::format("{}", 100'000 + QCoreApplication::applicationPid());
    std::stop_source stop;
    std::jthread later([&stop] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      stop.request_stop();
    });
    const Status done =
        performAlertAction(AlertAction::kCommand, withCommand("sh -c 'sleep " + mark + "; yes'"),
                           sampleAlert(AlertRule::kStall), stop.get_token());
    QCOMPARE(done.code(), Code::kCancelled);
    QVERIFY(spent.elapsed() < 9000);  // its own limit is 10 s
    const auto sleeps = [&] {
      for (const QString& pid : QDir("/proc").entryList(QDir::Dirs)) {
        QFile line("/proc/" + pid + "/cmdline");
        if (line.open(QIODevice::ReadOnly) &&
            line.readAll() == QByteArray("sleep") + '\0' + mark.c_str() + '\0')
          return true;
      }
      return false;
    };
    QVERIFY(QTest::qWaitFor([&] { return !sleeps(); }, 60'000));
    const Status endless = perform(AlertAction::kCommand, withCommand("yes"));
    QCOMPARE(endless.code(), Code::kDeadlineExceeded);
  }

  void theWebhookGetsTheAlert() {
    const LoopbackServer server(kHttpOk);
    const Status done = perform(AlertAction::kWebhook, withWebhook(server.url("/hooks/secret")));
    QVERIFY2(done.ok(), done.ok() ? "" : done.error().text().c_str());
    const auto requests = server.requests();
    QCOMPARE(requests.size(), std::size_t{1});
    QVERIFY(requests[0].starts_with("POST /hooks/secret HTTP/1.1\r\n"));
    QVERIFY(requests[0].find("Content-Type: application/json\r\n") != std::string::npos);
    QVERIFY(requests[0].find("\r\n\r\n{\"event\":\"alert\",\"rule\":\"stall\"") !=
            std::string::npos);
  }

  void failuresOfTheWebhookHideItsSecrets() {
    const LoopbackServer target(kHttpOk);
    const auto failure = [](const LoopbackServer& server) {
      const Status done = perform(AlertAction::kWebhook, withWebhook(server.url("/T0/secret")));
      return done.ok() ? std::string() : done.error().text();
    };
    const std::string refused =
        failure(LoopbackServer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"));
    QVERIFY2(refused.find("status 403") != std::string::npos, refused.c_str());
    // A redirect is not followed.
    const std::string moved = failure(LoopbackServer(fmt::format(
        "HTTP/1.1 307 Moved\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", target.url("/other"))));
    QVERIFY2(moved.find("status 307") != std::string::npos, moved.c_str());
    QVERIFY(target.requests().empty());
    const std::string broken = failure(LoopbackServer("no HTTP\r\n\r\n"));
    QVERIFY(!broken.empty());
    const std::string silent = failure(LoopbackServer(""));
    QVERIFY2(silent.find("did not answer within 10 s") != std::string::npos, silent.c_str());
    for (const std::string& text : {refused, moved, broken, silent})
      QVERIFY2(
          text.find("secret") == std::string::npos && text.find("hunter2") == std::string::npos,
          text.c_str());
  }

  // The limit is one for all that a call does.
  void aNameServerThatIsSlowHoldsNothingUp() {
    QElapsedTimer spent;
    spent.start();
    const Status late = postJson("http://slow.test:9/secret", "{}", std::chrono::milliseconds(500));
    QCOMPARE(late.code(), Code::kDeadlineExceeded);
    QVERIFY2(spent.elapsed() < 5500, qPrintable(QString::number(spent.elapsed())));
    std::stop_source stop;
    const std::jthread later([&stop] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      stop.request_stop();
    });
    spent.restart();
    const Status cancelled =
        postJson("http://slow.test:9/secret", "{}", std::chrono::seconds(10), stop.get_token());
    QCOMPARE(cancelled.code(), Code::kCancelled);
    QVERIFY2(spent.elapsed() < 5500, qPrintable(QString::number(spent.elapsed())));
    QTest::qWait(6500);  // what still asks the name server is alone with it
  }

  // A webhook that does not answer keeps no command waiting.
  void commandsDoNotWaitForWebhooks() {
    const LoopbackServer silent("");
    const QTemporaryDir folder;
    const std::string file = folder.filePath("told").toStdString();
    Inbox inbox;
    AlertActions actions(inbox, [](const Error&) {});
    AlertSettings settings = withCommand("tee -a " + file);
    settings.webhook = silent.url("/");
    for (int i = 0; i < 3; ++i) actions.act(sampleAlert(AlertRule::kStall), settings);
    QVERIFY(!actions.idle());
    QElapsedTimer spent;
    spent.start();
    QVERIFY(drainUntil(
        inbox, [&] { return actions.pending(AlertAction::kCommand) == 0; }, 9000));
    QFile told(QString::fromStdString(file));
    QVERIFY(told.open(QIODevice::ReadOnly));
    QCOMPARE(told.readAll().count('\n'), 3);
    QCOMPARE(actions.pending(AlertAction::kWebhook), std::size_t{3});
  }

  // In the background, in order; of failures in a row the first is told.
  void actionsAreRunInTheBackground() {
    const LoopbackServer server(kHttpOk);
    const QTemporaryDir folder;
    const std::string file = folder.filePath("told").toStdString();
    Inbox inbox;
    std::vector<std::string> failures;
    AlertActions actions(inbox, [&](const Error& error) { failures.push_back(error.text()); });
    AlertSettings settings = withCommand("tee -a " + file);
    settings.webhook = server.url("/");
    settings.of(AlertRule::kStall).actions = {true, true, false};
    for (const AlertRule rule : {AlertRule::kStall, AlertRule::kDiskFree, AlertRule::kRunEnded})
      actions.act(sampleAlert(rule), settings);
    QVERIFY(drainUntil(inbox, [&] { return actions.idle(); }));
    QFile told(QString::fromStdString(file));
    QVERIFY(told.open(QIODevice::ReadOnly));
    const QByteArray text = told.readAll();
    QCOMPARE(text.count('\n'), 3);
    QVERIFY(text.indexOf("stall") < text.indexOf("disk-free"));
    QCOMPARE(server.requests().size(), std::size_t{2});
    QVERIFY(failures.empty());
    for (int i = 0; i < 3; ++i) actions.act(sampleAlert(AlertRule::kStall), withCommand("false"));
    QVERIFY(drainUntil(inbox, [&] { return actions.idle(); }));
    QCOMPARE(failures.size(), std::size_t{1});
    actions.act(sampleAlert(AlertRule::kStall), withCommand("true"));
    actions.act(sampleAlert(AlertRule::kStall), withCommand("false"));
    QVERIFY(drainUntil(inbox, [&] { return actions.idle(); }));
    QCOMPARE(failures.size(), std::size_t{2});
  }

  void theEndCancelsWhatIsUnderWay() {
    const LoopbackServer silent("");
    QElapsedTimer spent;
    Inbox inbox;
    {
      AlertActions actions(inbox, [](const Error&) {});
      actions.act(sampleAlert(AlertRule::kStall), withWebhook(silent.url("/")));
      QVERIFY(QTest::qWaitFor([&] { return !silent.requests().empty(); }, 9000));
      spent.start();
    }
    QVERIFY(spent.elapsed() < 9000);  // its own limit is 10 s
    inbox.drain();
  }
};

QTEST_GUILESS_MAIN(AlertActionsTest)
#include "alert_actions_test.moc"
