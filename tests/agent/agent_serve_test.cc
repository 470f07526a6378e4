// The front door: starting, finding, replacing and leaving; handshake and samples; what Prepare
// refuses; the bridge.
#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QDir>
#include <QFile>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>
#include <array>
#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "agent/base/unix_server.h"
#include "agent/node/reachability.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/unique_fd.h"
#include "engine/specs/protocol.h"
#include "tests/agent/agent_node.h"
#include "tests/support/sanitizers.h"
#include "tests/support/strangers.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

run::v1::ErrorInfo errorOf(const grpc::Status& status) {
  run::v1::ErrorInfo info;
  info.ParseFromString(status.error_details());
  return info;
}

bool nothingKept(const Node& node) {
  const std::filesystem::path runs = node.workdir() + "/runs";
  return !std::filesystem::exists(runs) || std::filesystem::is_empty(runs);
}

mode_t modeOf(const std::filesystem::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

// Whether a process makes a measurement for this agent.
bool isMeasuring(qint64 agent) {
  const std::string run = fmt::format("LOCKSTEP_RUN=measure-{}-", agent);
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto variables = readFile(process.path().string() + "/environ", 1 << 20);
    if (variables.ok() && variables->find(run) != std::string::npos) return true;
  }
  return false;
}

// What a process of this user gets from a socket at which gRPC is served.
enum Greeting { kUnreachable, kClosed, kAnswered };
int greetAs(uid_t user, const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    path.copy(to.sun_path, sizeof to.sun_path - 1);
    const std::string preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 33);
    char byte = 0;
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    alarm(20);
    if (setuid(user) != 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
      _exit(kUnreachable);
    send(fd, preface.data(), preface.size(), MSG_NOSIGNAL);
    _exit(recv(fd, &byte, 1, 0) == 1 ? kAnswered : kClosed);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

class AgentServeTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void startsOnceAndIsFoundAgain() {
    Node node("n1");
    node.start();
    const int pid = node.pid();
    QVERIFY(alive(pid));
    struct stat info {};
    QCOMPARE(stat(node.socket().c_str(), &info), 0);
    QCOMPARE(info.st_mode & 0777, mode_t{0600});
    QVERIFY(node.socket().size() <= 100);
    node.start();
    QCOMPARE(node.pid(), pid);

    node::v1::HandshakeRequest request;
    request.set_protocol(specs::kNewestProtocol);
    node::v1::HandshakeReply reply;
    const grpc::Status status = node.agent().Handshake(deadline().get(), request, &reply);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QCOMPARE(reply.inventory().pid(), pid);
    QCOMPARE(reply.inventory().workdir(), node.workdir());
    QVERIFY(reply.inventory().cores() >= 1);
    QVERIFY(!reply.version().empty());
    request.set_protocol(99);
    QCOMPARE(node.agent().Handshake(deadline().get(), request, &reply).error_code(),
             grpc::StatusCode::FAILED_PRECONDITION);
  }

  // Of the protocols that both speak the newest is taken; where there is none, both are named.
  void versionsAgreeOnAProtocol() {
    Node node("n1");
    node.start();
    const auto ask = [&](int oldest, int newest, node::v1::HandshakeReply& reply) {
      node::v1::HandshakeRequest request;
      request.set_protocol(newest);
      request.mutable_speaks()->set_oldest(oldest);
      request.mutable_speaks()->set_newest(newest);
      return node.agent().Handshake(deadline().get(), request, &reply);
    };
    node::v1::HandshakeReply reply;
    const int own = specs::kNewestProtocol;
    for (const auto& [oldest, newest] : {std::pair(own, own), {1, 99}, {own, 99}, {1, own}}) {
      const grpc::Status status = ask(oldest, newest, reply);
      QVERIFY2(status.ok(), status.error_message().c_str());
      QCOMPARE(reply.protocol(), own);
    }
    const specs::Protocols speaks = specs::fromProto(reply.speaks());
    QCOMPARE(speaks.oldest, specs::kOldestProtocol);
    QCOMPARE(speaks.newest, own);
    QCOMPARE(speaks.version, reply.version());
    for (const specs::Feature& feature : specs::features()) QVERIFY(speaks.has(feature.name));
    QVERIFY(!speaks.has("no-such-feature"));
    for (const auto& [oldest, newest] : {std::pair(0, 1), {98, 99}}) {
      const run::v1::ErrorInfo error = errorOf(ask(oldest, newest, reply));
      QCOMPARE(error.code(), std::string("failed-precondition"));
      QCOMPARE(error.what().text(),
               fmt::format("the agent speaks protocol {}, the client protocol {} to {}", own,
                           oldest, newest));
      QVERIFY(!error.next().text().empty());
    }
  }

  // A supervisor says what it speaks, as one of an earlier or a later version does.
  void aSupervisorTellsItsProtocols() {
    Node node("n1");
    node.start();
    const auto request = prepareRequest({.run = newRunId()});
    node::v1::PrepareReply reply;
    const grpc::Status status = prepare(node.agent(), request, &reply);
    QVERIFY2(status.ok(), status.error_message().c_str());
    const auto told = [&] {
      node::v1::FindRunRequest find;
      find.set_run(request.run());
      node::v1::RunOnNode found;
      if (!node.agent().FindRun(deadline().get(), find, &found).ok() || !found.has_speaks())
        return specs::Protocols{-1, -1, {}, {}};
      return specs::fromProto(found.speaks());
    };
    QCOMPARE(told().newest, specs::kNewestProtocol);
    QVERIFY(told().has(specs::kCheckpointOnRequest));
    node::v1::RunOnNode itself;
    const auto supervisor = node::v1::Supervisor::NewStub(channelTo(reply.socket()));
    QVERIFY(supervisor->Status(deadline().get(), {}, &itself).ok());
    QCOMPARE(specs::fromProto(itself.speaks()).features, told().features);
    QCOMPARE(told().version, itself.speaks().version());

    const std::string file =
        node.workdir() + "/runs/" + request.run() + "/" + request.node() + "/supervisor";
    const std::string written = readFile(file).value();
    std::size_t third = 0;
    for (int line = 0; line < 3; ++line) third = written.find('\n', third) + 1;
    QVERIFY(writeFileAtomically(file, written.substr(0, third)).ok());
    QCOMPARE(told().newest, 1);
    QVERIFY(told().features.empty());
    QVERIFY(writeFileAtomically(file, written.substr(0, third) + "7 9 v9\nfly sing\nmore\n").ok());
    QCOMPARE(told().oldest, 7);
    QCOMPARE(told().newest, 9);
    QVERIFY(told().has("fly") && told().has("sing"));
    QCOMPARE(told().version, std::string("v9"));
  }

  void aKilledAgentIsReplaced() {
    Node node("n1");
    node.start();
    const int pid = node.pid();
    node.killAgent();
    node.start();
    QVERIFY(node.pid() != pid);
    QVERIFY(!alive(pid));
  }

  // A measurement ends with the agent, and so does the process that makes it.
  void leavesWhileItMeasures() {
    const QTemporaryDir folder(QDir::tempPath() + "/ls-XXXXXX");
    QProcess agent;
    agent.start(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-agent",
                {"serve", "--allow-root", "--workdir", folder.path()});
    const auto gone = qScopeGuard([&] {
      agent.kill();
      agent.waitForFinished(5000);
    });
    QVERIFY(agent.waitForReadyRead(60000));
    const QJsonObject line = QJsonDocument::fromJson(agent.readLine()).object();
    const auto stub = node::v1::Agent::NewStub(channelTo(line["socket"].toString().toStdString()));
    node::v1::MeasureRequest request;
    request.set_plan(prepareRequest({.run = newRunId()}).plan());
    request.set_ranks(1);
    request.set_backend("reference");
    request.set_seconds(60);
    node::v1::MeasureReply reply;
    auto measured = std::async(std::launch::async,
                               [&] { return stub->Measure(deadline(90).get(), request, &reply); });
    const qint64 pid = agent.processId();
    QVERIFY(eventually([&] { return isMeasuring(pid); }));
    agent.terminate();
    QVERIFY(agent.waitForFinished(60000));
    QCOMPARE(agent.exitStatus(), QProcess::NormalExit);
    QCOMPARE(agent.exitCode(), 0);
    QVERIFY(!measured.get().ok());
    QVERIFY(eventually([&] { return !isMeasuring(pid); }));
  }

  // Two studios of two versions take turns on one account: each finds its own agent, for ever.
  void versionsLiveBesideEachOther() {
    Node node("n1", {"--superseded-exit", "1"});
    node.start();
    const int first = node.pid();
    const std::string folder = node.workdir() + "/versions/" + std::string(64, 'a');
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(
        qEnvironmentVariable("LOCKSTEP_BIN").toStdString() + "/lockstep-agent",
        folder + "/lockstep-agent");
    const auto serveOther = [&] {
      QProcess process;
      process.start(QString::fromStdString(folder + "/lockstep-agent"),
                    {"serve", "--detach", "--allow-root", "--workdir",
                     QString::fromStdString(node.workdir())});
      process.waitForFinished(60000);
      return QJsonDocument::fromJson(process.readAllStandardOutput()).object();
    };
    const auto leases = [&] {
      return QDir(QString::fromStdString(folder + "/leases")).entryList(QDir::Files | QDir::Hidden);
    };
    auto watching = deadline(120);
    node::v1::WatchNodeRequest request;
    auto reader = node.agent().WatchNode(watching.get(), request);
    run::v1::NodeSample sample;
    QVERIFY(reader->Read(&sample));  // a client is there
    int second = -1;
    for (int round = 0; round < 4; ++round) {
      const QJsonObject line = serveOther();
      QCOMPARE(line["version"].toString(), QString(64, 'a'));
      QVERIFY(line["socket"].toString().toStdString() != node.socket());
      if (second < 0) second = line["pid"].toInt();
      QCOMPARE(line["pid"].toInt(), second);
      node.start();
      QCOMPARE(node.pid(), first);
      QVERIFY(alive(first) && alive(second));
    }
    QCOMPARE(leases().size(), 1);
    QVERIFY2(leases()[0].endsWith("." + QString::number(second)), qPrintable(leases()[0]));
    // The one that was started before leaves once it has no client; the other goes on.
    (void)serveOther();
    QTest::qWait(2500);
    QVERIFY(alive(first));
    watching->TryCancel();
    reader->Finish();
    reader.reset();  // they hold the connection
    watching.reset();
    node.disconnect();
    QVERIFY(eventually([&] { return !alive(first); }));
    QVERIFY(alive(second));
    node.start();
    QVERIFY(node.pid() != first);
    // Both leave on request, and nothing stays of them.
    const int third = node.pid();
    QCOMPARE(runAgent({"leave", "--workdir", node.workdir()}).code, 0);
    QVERIFY(eventually([&] { return !alive(second) && !alive(third); }));
    QVERIFY(leases().isEmpty());
    for (const auto& entry : std::filesystem::directory_iterator(node.workdir() + "/sock"))
      QVERIFY2(entry.path().extension() != ".sock", entry.path().c_str());
  }

  // The port by which nodes prove that they reach each other sends a number to whoever connects,
  // reads nothing, and is at one address.
  void thePortThatProvesReachabilitySendsANumber() {
    node::v1::ListenForPeersRequest request;
    request.add_addresses("127.0.0.1");
    std::atomic<bool> cancelled = false;
    std::promise<node::v1::ListenForPeersReply> ready;
    std::thread listening([&] {
      agent::listenForPeers(
          request,
          [&](const node::v1::ListenForPeersReply& reply) {
            ready.set_value(reply);
            return true;
          },
          [&] { return cancelled.load(); });
    });
    auto end = qScopeGuard([&] {
      cancelled = true;
      listening.join();
    });
    const node::v1::ListenForPeersReply reply = ready.get_future().get();
    QCOMPARE(reply.listeners_size(), 1);
    const auto port = static_cast<std::uint16_t>(reply.listeners(0).port());
    QCOMPARE(reply.greeting().size(), std::size_t{32});
    for (int time = 0; time < 2; ++time) {
      const UniqueFd stranger(test::connectAndSay(port, ""));
      QVERIFY(stranger);
      std::string heard(100, '\0');
      const ssize_t count = recv(stranger.get(), heard.data(), heard.size(), MSG_WAITALL);
      QCOMPARE(heard.substr(0, count > 0 ? static_cast<std::size_t>(count) : 0), reply.greeting());
    }
    QVERIFY(!UniqueFd(test::connectAndSay(port, "", 2)));
    end.dismiss();
    cancelled = true;
    listening.join();
    QVERIFY(!UniqueFd(test::connectAndSay(port, "")));
  }

  // The folder is closed to them; where it is not, the agent hangs up, and so does a supervisor.
  void processesOfOtherUsersAreRefused() {
    if (geteuid() != 0) QSKIP("needs root");
    Node node("n1");
    node.start();
    node::v1::PrepareReply prepared;
    QVERIFY(prepare(node.agent(), prepareRequest({.run = newRunId()}), &prepared).ok());
    constexpr uid_t kNobody = 65534;
    const std::vector<std::filesystem::path> sockets = {node.socket(), prepared.socket()};
    for (const auto& socket : sockets) {
      QCOMPARE(modeOf(socket), mode_t{0600});
      QCOMPARE(modeOf(socket.parent_path()), mode_t{0700});
      QCOMPARE(greetAs(geteuid(), socket), int{kAnswered});
      QCOMPARE(greetAs(kNobody, socket), int{kUnreachable});
    }
    for (const auto& socket : sockets) {
      for (auto folder = socket.parent_path(); folder.string().starts_with(node.workdir());
           folder = folder.parent_path())
        QCOMPARE(chmod(folder.c_str(), 0755), 0);
      QCOMPARE(chmod(socket.c_str(), 0666), 0);
      QCOMPARE(greetAs(kNobody, socket), int{kClosed});
      QCOMPARE(greetAs(geteuid(), socket), int{kAnswered});
    }
  }

  void rootIsRefusedUnlessAllowed() {
    if (geteuid() != 0) QSKIP("needs root");
    const QTemporaryDir folder;
    const std::string workdir = folder.filePath("work").toStdString();
    const Output refused = runAgent({"serve", "--workdir", workdir, "--detach"});
    QCOMPARE(refused.code, 3);
    QVERIFY2(refused.err.find("--allow-root") != std::string::npos, refused.err.c_str());
    QVERIFY(!std::filesystem::exists(workdir));
    QCOMPARE(runAgent({"serve", "--workdir", workdir, "--detach", "--allow-root"}).code, 0);
    QCOMPARE(runAgent({"leave", "--workdir", workdir}).code, 0);
  }

  // Sockets of a workdir that is too deep for them stand elsewhere; they go with the agent too.
  void aDeepWorkdirLeavesNothing() {
    const QTemporaryDir folder;
    const std::string workdir = folder.path().toStdString() + "/" + std::string(120, 'd');
    const auto start = [&] {
      return runAgent({"serve", "--workdir", workdir, "--detach", "--allow-root"});
    };
    const Output started = start();
    QCOMPARE(started.code, 0);
    const QJsonObject line =
        QJsonDocument::fromJson(QByteArray::fromStdString(started.out)).object();
    const std::filesystem::path sockets =
        std::filesystem::path(line["socket"].toString().toStdString()).parent_path();
    QVERIFY(!sockets.string().starts_with(workdir) && std::filesystem::exists(sockets));
    QCOMPARE(runAgent({"leave", "--workdir", workdir}).code, 0);
    QVERIFY(!std::filesystem::exists(sockets));
    QVERIFY(std::filesystem::exists(workdir));
    QCOMPARE(start().code, 0);  // and can be made again
    QCOMPARE(runAgent({"leave", "--workdir", workdir}).code, 0);
    QVERIFY(!std::filesystem::exists(sockets));
  }

  // gRPC that ends waits up to 10 s for a thread that polls, as after a file was sent: a supervisor
  // that is asked to leave would be killed before that, and its lease would stay.
  void grpcStaysWhenItsLastServerEnds() {
    const QTemporaryDir folder(QDir::tempPath() + "/ls-XXXXXX");
    node::v1::Agent::Service service;
    {
      const auto server =
          must(agent::UnixServer::start(folder.filePath("a.sock").toStdString(), service));
      QCOMPARE(server->connections(), 0);
    }
    QVERIFY(grpc_is_initialized() != 0);
  }

  // What killed processes leave goes with the next start; what is served, or new, stays.
  void deadSocketsGo() {
    Node node("n1");
    const std::string runtime = node.workdir() + "/sock";
    std::filesystem::create_directories(runtime);
    std::filesystem::permissions(runtime, std::filesystem::perms::owner_all);
    const auto makeSocket = [&](const std::string& name, bool serves, bool old) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      const std::string path = runtime + "/" + name;
      path.copy(address.sun_path, sizeof address.sun_path - 1);
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) qFatal("bind");
      if (serves) listen(fd, 1);
      const timespec times[2] = {{1000, 0}, {1000, 0}};
      if (old) utimensat(AT_FDCWD, path.c_str(), times, 0);
      if (!serves) close(fd);
      return serves ? fd : -1;
    };
    makeSocket("r-0123456789ab.sock", false, true);
    makeSocket("agent-0123456789ab.sock", false, true);
    makeSocket("r-new.sock", false, false);
    const int served = makeSocket("r-served.sock", true, true);
    node.start();
    QVERIFY(eventually([&] { return !std::filesystem::exists(runtime + "/r-0123456789ab.sock"); }));
    QVERIFY(
        eventually([&] { return !std::filesystem::exists(runtime + "/agent-0123456789ab.sock"); }));
    QVERIFY(std::filesystem::exists(runtime + "/r-new.sock"));
    QVERIFY(std::filesystem::exists(runtime + "/r-served.sock"));
    close(served);
  }

  void leavesWhenIdle() {
    Node node("n1", {"--idle-exit", "3"});
    node.start();
    const int pid = node.pid();
    {
      auto watching = deadline(60);
      node::v1::WatchNodeRequest request;
      request.set_hertz(10);
      auto reader = node.agent().WatchNode(watching.get(), request);
      run::v1::NodeSample sample;
      const auto begin = std::chrono::steady_clock::now();
      int samples = 0;
      while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)) {
        QVERIFY(reader->Read(&sample));
        ++samples;
      }
      QVERIFY2(samples >= 5, qPrintable(QString::number(samples)));  // and stayed, past its limit
      QVERIFY(sample.memory_total() > 0);
      watching->TryCancel();
      reader->Finish();
    }
    node.disconnect();
    QVERIFY(eventually([&] { return !alive(pid); }));
  }

  void idleCostsLittle() {
    Node node("n1");
    node.start();
    node::v1::HandshakeRequest request;
    request.set_protocol(specs::kNewestProtocol);
    node::v1::HandshakeReply reply;
    QVERIFY(node.agent().Handshake(deadline().get(), request, &reply).ok());
    auto status = readFile("/proc/" + std::to_string(node.pid()) + "/status");
    QVERIFY(status.ok());
    const std::size_t at = status->find("VmRSS:");
    const long kilobytes = std::atol(status->c_str() + at + 6);
    QVERIFY2(kilobytes < 50 * 1024 || test::kSanitized, qPrintable(QString::number(kilobytes)));
  }

  void prepareRefusesWhatCannotRun_data() {
    QTest::addColumn<int>("which");
    QTest::addColumn<QString>("code");
    QTest::addColumn<QString>("text");
    QTest::newRow("wrong plan hash") << 0 << "invalid-argument"
                                     << "not the one that was announced";
    QTest::newRow("plan that is none") << 1 << "invalid-argument"
                                       << "plan";
    QTest::newRow("missing data file") << 2 << "not-found"
                                       << "/no/such/images.gz";
    QTest::newRow("wrong data hash") << 3 << "failed-precondition"
                                     << "is not the run's";
    QTest::newRow("no data file") << 4 << "data-loss"
                                  << "neither an IDX file of bytes nor gzip";
    QTest::newRow("run id with a path") << 5 << "invalid-argument"
                                        << "is not a run's id";
    QTest::newRow("node with a path") << 18 << "invalid-argument"
                                      << "is not a node's name";
    QTest::newRow("rank out of range") << 6 << "invalid-argument"
                                       << "rank 9";
    QTest::newRow("corrupt gzip") << 7 << "data-loss"
                                  << "the gzip stream is corrupt";
    QTest::newRow("truncated gzip") << 8 << "data-loss"
                                    << "the gzip stream is truncated";
    QTest::newRow("labels given as images") << 9 << "data-loss"
                                            << "used as images";
    QTest::newRow("images of another size") << 10 << "invalid-argument"
                                            << "its images are 32x32x1; the model takes 28x28x1";
    QTest::newRow("labels past the classes") << 11 << "data-loss"
                                             << "record 1 has label 10; expected 0 to 9";
    QTest::newRow("counts that differ") << 12 << "data-loss"
                                        << "10000 labels for the 60000 images";
    QTest::newRow("labels missing") << 13 << "invalid-argument"
                                    << "no data.evaluate.labels";
    QTest::newRow("no checkpoint") << 14 << "not-found"
                                   << "there is no folder /no/such/run";
    QTest::newRow("a shared volume that another node has") << 19 << "not-found"
                                                           << "there is no folder /no/such/run";
    QTest::newRow("a FIFO") << 16 << "failed-precondition"
                            << "is not a regular file";
    QTest::newRow("a device") << 17 << "failed-precondition"
                              << "is not a regular file";
    QTest::newRow("no memory") << 15 << "resource-exhausted"
                               << "3 ranks need";
  }
  void prepareRefusesWhatCannotRun() {
    QFETCH(int, which);
    QFETCH(QString, code);
    QFETCH(QString, text);
    static std::unique_ptr<Node> node;
    if (!node) {
      node = std::make_unique<Node>("n1");
      node->start();
    }
    RunOptions options{.run = newRunId()};
    if (which == 15) options.hidden = 500'000'000;  // terabytes
    const bool isSecond = which == 19;              // of two nodes
    if (isSecond) {
      options.nodes = {"n0", "n1"};
      options.ranks = 1;
      options.comm = "gloo";
    }
    auto request = prepareRequest(options, isSecond ? 1 : 0);
    if (which == 0) request.set_plan_hash(std::string(64, '0'));
    if (which == 1) request.set_plan("nonsense");
    if (which == 2) (*request.mutable_data_paths())["train.images"] = "/no/such/images.gz";
    if (which == 3)
      request.mutable_spec()->mutable_data()->mutable_train()->set_labels_sha256(
          std::string(64, 'a'));
    if (which == 4) (*request.mutable_data_paths())["train.labels"] = "/etc/passwd";
    if (which == 5) request.set_run("../escape");
    if (which == 18) request.set_node("../escape");
    if (which == 6) request.add_ranks(9);
    auto& paths = *request.mutable_data_paths();
    const auto& given = request.spec().data();
    const std::string own = node->workdir() + "/data";
    const auto write = [&](const std::string& bytes) {
      QVERIFY(writeFileAtomically(own, bytes).ok());
    };
    auto packed = readFile(given.train().images());
    QVERIFY(packed.ok());
    if (which == 7) (*packed)[packed->size() / 2] ^= 0x10;
    if (which == 7) write(*packed);
    if (which == 8) write(packed->substr(0, packed->size() - 100));
    if (which == 7 || which == 8) paths["train.images"] = own;
    if (which == 9) paths["train.images"] = given.train().labels();
    const std::string two("\0\0\0\2", 4);
    if (which == 10 || which == 11) {
      const std::string side(which == 10 ? "\0\0\0\40" : "\0\0\0\34", 4);
      const std::size_t pixels = which == 10 ? 32 * 32 : 28 * 28;
      write(std::string("\0\0\10\3", 4) + two + side + side + std::string(2 * pixels, '\1'));
      QVERIFY(writeFileAtomically(own + "-labels", std::string("\0\0\10\1", 4) + two + "\3" +
                                                       (which == 11 ? "\12" : "\4"))
                  .ok());
      paths["train.images"] = own;
      paths["train.labels"] = own + "-labels";
    }
    if (which == 12) paths["train.labels"] = given.evaluate().labels();
    if (which == 16) QCOMPARE(mkfifo((own + "-fifo").c_str(), 0600), 0);
    if (which == 16) paths["train.images"] = own + "-fifo";
    if (which == 17) paths["train.images"] = "/dev/zero";
    if (which == 13) request.mutable_spec()->mutable_data()->mutable_evaluate()->clear_labels();
    if (which == 14 || isSecond) request.set_resume_from("/no/such/run");
    if (isSecond) {
      request.mutable_spec()->mutable_training()->mutable_checkpoint()->set_path("/no/such");
      request.mutable_tls()->set_key_pem("a key");
    }
    node::v1::PrepareReply reply;
    const grpc::Status status = prepare(node->agent(), request, &reply);
    QVERIFY(!status.ok());
    const auto info = errorOf(status);
    QCOMPARE(QString::fromStdString(info.code()), code);
    QVERIFY2((info.what().text() + info.why().text()).find(text.toStdString()) != std::string::npos,
             status.error_message().c_str());
    QCOMPARE(info.node(), request.node());
    QVERIFY(!info.next().text().empty() || which < 7 || which == 18);
    QVERIFY(nothingKept(*node));
    QVERIFY(processesOfRun(request.run()).empty());
    if (which == 15) {
      QVERIFY2(info.why().text().find("MiB are available") != std::string::npos,
               info.why().text().c_str());
      QVERIFY(!info.next().text().empty());
      node.reset();
    }
  }

  void aPrepareExpires() {
    Node node("n1", {"--prepare-seconds", "3"});
    node.start();
    const auto request = prepareRequest({.run = newRunId()});
    node::v1::PrepareReply reply, again;
    const grpc::Status status = prepare(node.agent(), request, &reply);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(prepare(node.agent(), request, &again).ok());
    QCOMPARE(again.socket(), reply.socket());
    QCOMPARE(reply.data_hashes_size(), 4);
    QVERIFY(eventually([&] { return nothingKept(node); }));
    QVERIFY(eventually([&] { return processesOfRun(request.run()).empty(); }));
  }

  // A run whose client is gone before it began does not keep an agent from leaving.
  void leaveAwaitsWhatExpires() {
    Node node("n1", {"--prepare-seconds", "6"});
    node.start();
    const auto request = prepareRequest({.run = newRunId()});
    node::v1::PrepareReply reply;
    QVERIFY(prepare(node.agent(), request, &reply).ok());
    node.disconnect();
    const Output left = runAgent({"leave", "--workdir", node.workdir()});
    QVERIFY2(left.code == 0 && left.err.find("has not begun; waiting") != std::string::npos,
             left.err.c_str());
    QVERIFY(eventually([&] { return processesOfRun(request.run()).empty(); }));
  }

  // The same Prepare again, while its checks go on and after them, has one answer: checks are made
  // once, by one, of what is there then.
  void aPrepareIsMadeOnce() {
    Node node("n1");
    node.start();
    auto request = prepareRequest({.run = newRunId()});
    const auto packed = readFile(request.spec().data().train().images());
    QVERIFY(packed.ok());
    // Files of this test alone, whose readings are counted: of one Prepare, then of four at once.
    const int watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    const auto timesOpened = [&](const std::string& file, const std::function<void()>& work) {
      const int watch = inotify_add_watch(watcher, file.c_str(), IN_OPEN);
      work();
      inotify_rm_watch(watcher, watch);
      int count = 0;
      alignas(inotify_event) std::array<char, 4096> events{};
      for (ssize_t size; (size = read(watcher, events.data(), events.size())) > 0;)
        for (ssize_t at = 0; at < size;) {
          const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
          count += event->wd == watch && (event->mask & IN_OPEN) != 0 ? 1 : 0;
          at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        }
      return count;
    };
    const auto own = [&](const std::string& name) {
      const std::string path = node.workdir() + "/" + name;
      if (!writeFileAtomically(path, *packed).ok()) qFatal("cannot write %s", path.c_str());
      return path;
    };
    auto alone = prepareRequest({.run = newRunId()});
    (*alone.mutable_data_paths())["train.images"] = own("alone");
    const int once = timesOpened(own("alone"), [&] {
      node::v1::PrepareReply reply;
      const grpc::Status status = prepare(node.agent(), alone, &reply, {60});
      QVERIFY2(status.ok(), status.error_message().c_str());
    });
    QVERIFY(once >= 1);
    const std::string shared = own("images");
    (*request.mutable_data_paths())["train.images"] = shared;
    constexpr std::size_t kAsking = 4;
    std::vector<grpc::Status> statuses(kAsking);
    std::vector<node::v1::PrepareReply> replies(kAsking);
    const int together = timesOpened(shared, [&] {
      std::vector<std::jthread> asking;
      for (std::size_t i = 0; i < kAsking; ++i)
        asking.emplace_back(
            [&, i] { statuses[i] = prepare(node.agent(), request, &replies[i], {60}); });
    });
    QCOMPARE(together, once);
    for (std::size_t i = 0; i < kAsking; ++i) {
      QVERIFY2(statuses[i].ok(), statuses[i].error_message().c_str());
      QCOMPARE(replies[i].socket(), replies[0].socket());
      QCOMPARE(replies[i].data_hashes_size(), 4);
      QCOMPARE(replies[i].data_hashes().at("train.images"), sha256Hex(*packed));
    }
    // After the checks too, whatever became of the data.
    QCOMPARE(unlink(shared.c_str()), 0);
    node::v1::PrepareReply again;
    const grpc::Status status = prepare(node.agent(), request, &again);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QCOMPARE(again.socket(), replies[0].socket());
    QCOMPARE(again.data_hashes_size(), 4);
  }

  void theBridgeCarriesBytesBothWays() {
    Node node("n1");
    node.start();
    // A client preface that is none: gRPC answers with its settings and ends; the bridge passes
    // both on and leaves.
    const Output output = runAgent({"bridge", "--socket", node.socket()}, "hello\n");
    QCOMPARE(output.code, 0);
    QVERIFY(!output.out.empty());
    const Output absent = runAgent({"bridge", "--socket", "/no/such/socket"});
    QCOMPARE(absent.code, 3);
    QVERIFY2(absent.err.find("No such file or directory") != std::string::npos, absent.err.c_str());
    const Output unserved = runAgent({"bridge", "--socket", "/dev/null"});
    QVERIFY2(unserved.err.find("no process serves it") != std::string::npos, unserved.err.c_str());
  }

  void wrongArgumentsAreNamed() {
    const auto refused = [](std::vector<std::string> arguments, const std::string& why) {
      const Output output = runAgent(arguments);
      return output.code == 2 && output.out.empty() &&
             output.err.starts_with("lockstep-agent " + arguments.front() + ": " + why);
    };
    for (const char* command :
         {"serve", "bridge", "leave", "metrics", "selftest", "supervise", "worker"}) {
      QVERIFY2(refused({command, "--nonsense"}, "unknown option --nonsense (usage: "), command);
    }
    QVERIFY(
        refused({"serve", "--workdr", "x"}, "unknown option --workdr; did you mean --workdir?"));
    QVERIFY(refused({"serve", "more"}, "\"more\" is too much"));
    QVERIFY(refused({"serve", "--workdir"}, "--workdir needs a value"));
    for (const char* flag : {"--idle-exit", "--superseded-exit", "--prepare-seconds"})
      QVERIFY2(refused({"serve", flag, "1s"}, std::string(flag) + " 1s: a number from 0"), flag);
    for (const char* flag : {"--prepare-seconds", "--lost-seconds", "--absence-seconds",
                             "--evaluation-seconds", "--linger-seconds"})
      QVERIFY2(refused({"supervise", "/r", "--runtime", "/r", flag, "-1"},
                       std::string(flag) + " -1: a number from 0"),
               flag);
    QVERIFY(refused({"supervise", "/r"}, "--runtime is missing"));
    QVERIFY(refused({"supervise", "--runtime", "/r"}, "RUNFOLDER is missing"));
    QVERIFY(refused({"worker", "--fd", "three"}, "--fd three: a number from 0"));
    QVERIFY(refused({"worker"}, "--fd is missing"));
    QVERIFY(refused({"bridge"}, "--socket is missing"));
    QVERIFY(refused({"metrics"}, "--listen is missing"));
    QVERIFY(refused({"selftest", "--device", "tpu"}, "--device tpu: cpu or cuda was expected"));
    QCOMPARE(runAgent({"nonsense"}).code, 2);
    QCOMPARE(runAgent({"--help"}).code, 0);
    QVERIFY(runAgent({"--version"}).out.starts_with("lockstep-agent 0."));
    for (const char* command : {"serve", "bridge", "leave", "selftest", "supervise", "worker"}) {
      const Output help = runAgent({command, "--help"});
      QVERIFY2(help.code == 0 &&
                   help.out.starts_with(std::string("usage:\n  lockstep-agent ") + command),
               (help.out + help.err).c_str());
    }
    const Output worker = runAgent({"worker", "--fd", "0"});
    QVERIFY2(
        worker.code != 0 && worker.err.find("descriptor 0 is no supervisor") != std::string::npos,
        worker.err.c_str());
  }

  // Whatever stands in a path, the line by which a client finds the agent is JSON.
  void theAnnouncementIsJson() {
    const QTemporaryDir folder;
    const std::string workdir = (folder.path() + "/new\nline\t\"").toStdString();
    const Output served = runAgent({"serve", "--workdir", workdir, "--detach", "--allow-root"});
    const QJsonObject line = QJsonDocument::fromJson(served.out.c_str()).object();
    QVERIFY2(line["pid"].toInt() > 0 && QFile::exists(line["socket"].toString()),
             (served.out + served.err).c_str());
    QCOMPARE(runAgent({"leave", "--workdir", workdir}).code, 0);
  }

  void theBuiltInBackendsAgree() {
    const Output output = runAgent({"selftest"});
    QVERIFY2(output.code == 0, output.out.c_str());
  }
};

QTEST_GUILESS_MAIN(AgentServeTest)
#include "agent_serve_test.moc"
