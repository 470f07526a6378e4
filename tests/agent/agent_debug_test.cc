// Debugging of nodes and ranks, with real processes, workers and gdbserver.
#include <dlfcn.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QElapsedTimer>
#include <QScopeGuard>
#include <QStandardPaths>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <random>

#include "agent/host/debugger.h"
#include "agent/host/kernel_log.h"
#include "agent/host/processes.h"
#include "agent/host/stacks.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/unique_fd.h"
#include "engine/base/utf8.h"
#include "engine/specs/error_info.h"
#include "tests/agent/agent_node.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

constexpr std::int64_t kEndless = 100'000'000;

Error errorOf(const grpc::Status& status) {
  run::v1::ErrorInfo info;
  info.ParseFromString(status.error_details());
  return specs::fromInfo(info);
}

struct Run {
  node::v1::PrepareRequest request;
  node::v1::PrepareReply prepared;
  std::unique_ptr<node::v1::Supervisor::Stub> supervisor;
  std::unique_ptr<Follower> records;

  Run(Node& node, const RunOptions& options) : request(prepareRequest(options)) {
    const grpc::Status status = prepare(node.agent(), request, &prepared);
    if (!status.ok()) throw std::runtime_error(status.error_message());
    supervisor = node::v1::Supervisor::NewStub(channelTo(prepared.socket()));
    records = std::make_unique<Follower>(prepared.socket());
    node::v1::CommitRequest commit;
    commit.set_run(request.run());
    commit.set_generation(1);
    node::v1::CommitReply reply;
    if (const auto begun = supervisor->Commit(deadline().get(), commit, &reply); !begun.ok())
      throw std::runtime_error(begun.error_message());
  }
  std::int64_t step() const { return records->lastStep(0); }
  bool underWay() {
    return eventually([&] { return step() >= 3; }, 60);
  }
  bool goesOn(std::int64_t steps = 20) {
    const std::int64_t now = step();
    return eventually([&] { return step() >= now + steps; });
  }
  grpc::Status stacks(int rank, node::v1::ReadRankStacksReply& reply) {
    node::v1::ReadRankStacksRequest request;
    request.set_rank(rank);
    return supervisor->ReadRankStacks(deadline().get(), request, &reply);
  }
  void kill() {
    node::v1::KillRequest kill;
    kill.set_run(request.run());
    kill.set_generation(1);
    node::v1::KillReply reply;
    supervisor->Kill(deadline().get(), kill, &reply);
    records->waitFinished();
  }
};

char stateOf(int pid) {
  const auto text = readFile(fmt::format("/proc/{}/stat", pid), 65536);
  const auto stat = text.ok() ? agent::parseProcessStat(*text) : std::nullopt;
  return stat ? stat->state : '?';
}

// A shell that uses a core, with words of its own.
struct BusyShell {
  explicit BusyShell(const std::string& name) : pid(fork()) {
    if (pid != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/bin/sh", name.c_str(), "-c", "while :; do :; done", nullptr);
    _exit(127);
  }
  ~BusyShell() {
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  const int pid;
};

// DebugRank under way, and what it has said.
class Debugging {
 public:
  Debugging(Run& run, int rank, double seconds = 30) {
    node::v1::DebugRankRequest request;
    request.set_rank(rank);
    request.set_seconds(seconds);
    reader_ = run.supervisor->DebugRank(&context_, request);
    thread_ = std::thread([this] {
      node::v1::DebugRankReply reply;
      while (reader_->Read(&reply)) {
        const std::lock_guard lock(mutex_);
        replies_.push_back(reply);
      }
      const grpc::Status end = reader_->Finish();
      const std::lock_guard lock(mutex_);
      end_ = end;
    });
  }
  ~Debugging() {
    context_.TryCancel();
    thread_.join();
  }
  void cancel() { context_.TryCancel(); }
  std::vector<node::v1::DebugRankReply> replies() const {
    const std::lock_guard lock(mutex_);
    return replies_;
  }
  bool says(node::v1::DebugRankReply::State state, double seconds = 60) const {
    return eventually(
        [&] {
          const auto all = replies();
          return !all.empty() && all.back().state() == state;
        },
        seconds);
  }
  std::optional<grpc::Status> end() const {
    const std::lock_guard lock(mutex_);
    return end_;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<node::v1::DebugRankReply>> reader_;
  mutable std::mutex mutex_;
  std::vector<node::v1::DebugRankReply> replies_;
  std::optional<grpc::Status> end_;
  std::thread thread_;
};

// A debugger that speaks GDB's remote protocol.
class Debugger {
 public:
  explicit Debugger(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    path.copy(to.sun_path, sizeof to.sun_path - 1);
    connected_ = ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  bool connected() const { return connected_; }
  void send(const std::string& body) {
    unsigned sum = 0;
    for (const char c : body) sum += static_cast<unsigned char>(c);
    raw(fmt::format("${}#{:02x}", body, sum & 0xFFU));
  }
  void raw(const std::string& bytes) {
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // The next packet, within a minute.
  std::string receive() {
    for (;;) {
      const std::size_t begin = got_.find('$'), end = got_.find('#', begin);
      if (begin != std::string::npos && end != std::string::npos && end + 3 <= got_.size()) {
        const std::string body = got_.substr(begin + 1, end - begin - 1);
        got_.erase(0, end + 3);
        raw("+");
        return body;
      }
      const timeval limit{60, 0};
      setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      std::array<char, 4096> block{};
      const ssize_t count = recv(socket_.get(), block.data(), block.size(), 0);
      if (count <= 0) return "(nothing)";
      got_.append(block.data(), static_cast<std::size_t>(count));
    }
  }
  std::string ask(const std::string& body) {
    send(body);
    return receive();
  }
  void close() { socket_.reset(); }

 private:
  UniqueFd socket_;
  bool connected_ = false;
  std::string got_;
};

// The address of a function of libc in another process.
std::string addressOf(int pid, const char* function) {
  const auto baseOf = [](int process) {
    const auto maps = readFile(fmt::format("/proc/{}/maps", process), 4 << 20);
    std::size_t at = maps.ok() ? maps->find("libc.so.6") : std::string::npos;
    if (at == std::string::npos) return std::uint64_t{0};
    at = maps->rfind('\n', at) + 1;
    return std::uint64_t{std::strtoull(maps->c_str() + at, nullptr, 16)};
  };
  const auto here = reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, function));
  return fmt::format("{:x}", here - baseOf(getpid()) + baseOf(pid));
}

bool hasGdbserver() { return !QStandardPaths::findExecutable("gdbserver").isEmpty(); }

}  // namespace

class AgentDebugTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // First: it forks before there are threads.
  void whoMayNotReadKernelMessagesIsToldWhy() {
    if (geteuid() != 0) QSKIP("needs root");
    const auto restricted = readFile("/proc/sys/kernel/dmesg_restrict", 64);
    if (!restricted.ok() || !restricted->starts_with("1")) QSKIP("anyone may read them here");
    std::array<int, 2> ends{};
    QCOMPARE(pipe(ends.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
      constexpr uid_t kNobody = 65534;
      if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(3);
      const auto log = agent::readKernelLog({});
      const std::string said =
          log.ok() ? "read" : fmt::format("{}\n{}", codeName(log.error().code), log.error().text());
      _exit(write(ends[1], said.data(), said.size()) < 0 ? 3 : 0);
    }
    close(ends[1]);
    std::array<char, 1024> said{};
    const ssize_t size = read(ends[0], said.data(), said.size());
    close(ends[0]);
    waitpid(child, nullptr, 0);
    QCOMPARE(std::string(said.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))),
             std::string("permission-denied\nthe account may not read the kernel's messages: the "
                         "node's kernel.dmesg_restrict is 1 (run sudo dmesg on the node, or allow "
                         "it there: sudo sysctl kernel.dmesg_restrict=0)"));
  }

  void kernelRecordsAreParsed() {
    const auto line = agent::parseKernelRecord(
        "30,1234,5140900,-,caller=T1;usb \\x1b[31m caf\\xc3\\xa9 \\x5c \\xff \\x\n "
        "SUBSYSTEM=usb\n");
    QVERIFY(line);
    QCOMPARE(line->level(), 6);
    QCOMPARE(line->boot_ns(), std::int64_t{5140900000});
    QCOMPARE(line->text(), std::string("usb \x1b[31m café \\ ? \\x"));
    const auto old = agent::parseKernelLine("<4>[   12.500000] hot <5> [x]");
    QVERIFY(old && old->level() == 4 && old->boot_ns() == 12'500'000'000);
    QCOMPARE(old->text(), std::string("hot <5> [x]"));
    const auto timeless = agent::parseKernelLine("<13>[x] y");
    QVERIFY(timeless && timeless->level() == 5 && timeless->boot_ns() == 0);
    QCOMPARE(timeless->text(), std::string("[x] y"));
    for (const char* none : {"", ";", "6", "6,1", "6,1,2", "-6,1,2;x", "6,1,-2;x", "x,1,2,-;y",
                             "6,1,99999999999999999999;x", "6,1,4611686018427387904;x"})
      QVERIFY2(!agent::parseKernelRecord(none), none);
    for (const char* none : {"", "<", "<6", "<x>y", "6>y", "<-1>y"})
      QVERIFY2(!agent::parseKernelLine(none), none);
  }

  void whateverIsReadIsText() {
    std::mt19937 random(20261126);
    const std::string alphabet(
        "0123456789,;-<>[]. ()\\x\n\t\0\x1b\xff\xc3"
        "Aa",
        31);
    for (int round = 0; round < 20000; ++round) {
      std::string text;
      for (std::size_t length = random() % 60; text.size() < length;)
        text += alphabet[random() % alphabet.size()];
      for (const auto& line :
           {agent::parseKernelRecord("6,1,2,-;" + text), agent::parseKernelRecord(text),
            agent::parseKernelLine("<6>" + text), agent::parseKernelLine(text)})
        if (line) {
          QCOMPARE(firstNotUtf8(line->text()), std::string::npos);
          QVERIFY(line->level() >= 0 && line->level() < 8 && line->boot_ns() >= 0);
        }
      const auto stat = agent::parseProcessStat(
          "7 (" + text + ") R 1 7 7 0 -1 4 1 0 0 0 30 12 0 0 20 0 5 0 4711 1 2\n");
      QVERIFY(stat);
      QVERIFY(stat->state == 'R' && stat->parent == 1 && stat->cpu == 42 && stat->threads == 5 &&
              stat->start == 4711);
      (void)agent::parseProcessStat(text);
    }
  }

  void aBusyProcessIsListed() {
    Node node("n1");
    node.start();
    const std::string name = "busy) R 1\n\x1b]0;owned\x07\xff caf\xc3\xa9 ";
    const BusyShell shell(name);
    node::v1::ListProcessesRequest request;
    request.set_seconds(3);  // a while beside which the call itself is short
    request.set_most(500);
    node::v1::ListProcessesReply reply;
    const auto used = [&] {
      const auto text = readFile(fmt::format("/proc/{}/stat", shell.pid), 65536);
      const auto stat = text.ok() ? agent::parseProcessStat(*text) : std::nullopt;
      return stat ? static_cast<double>(stat->cpu) / static_cast<double>(sysconf(_SC_CLK_TCK)) : -1;
    };
    const double usedBefore = used();
    const Nanoseconds begun = monotonicNow();
    const grpc::Status status = node.agent().ListProcesses(deadline().get(), request, &reply);
    const double share =
        (used() - usedBefore) / (static_cast<double>(monotonicNow() - begun) * 1e-9);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(reply.seconds() >= 3 && reply.seconds() < 30);
    QVERIFY(reply.total() >= reply.processes_size());
    const node::v1::NodeProcess* found = nullptr;
    const node::v1::NodeProcess* own = nullptr;
    double before = std::numeric_limits<double>::infinity();
    for (const auto& process : reply.processes()) {
      QVERIFY(process.cores() <= before);
      before = process.cores();
      QCOMPARE(firstNotUtf8(process.command()), std::string::npos);
      if (process.pid() == shell.pid) found = &process;
      if (process.pid() == node.pid()) own = &process;
    }
    QVERIFY(found);
    // Other work may share its core.
    qInfo("%.2f cores, %.2f as seen from here", found->cores(), share);
    QVERIFY(found->cores() > 0.02 && std::abs(found->cores() - share) < 0.2);
    QCOMPARE(found->state(), std::string("R"));
    QCOMPARE(found->parent(), getpid());
    QCOMPARE(found->threads(), 1);
    QVERIFY(found->memory_bytes() > 100'000 && found->age_seconds() < 60);
    QVERIFY(found->part().empty() && found->run().empty() && !found->has_rank());
    QCOMPARE(found->command(), "busy) R 1\n\x1b]0;owned\x07? caf\xc3\xa9  -c while :; do :; done");
    QVERIFY(!found->user().empty());
    QVERIFY(own && own->part() == "agent");
  }

  void processesThatEndAreNoTrouble() {
    std::atomic<bool> over = false;
    std::thread spawner([&] {
      while (!over) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        waitpid(child, nullptr, 0);
      }
    });
    node::v1::ListProcessesRequest request;
    request.set_seconds(0.1);
    for (int round = 0; round < 5; ++round) {
      const auto reply = agent::listProcesses(request, [] { return false; });
      QVERIFY(reply.ok());
      QVERIFY(reply->processes_size() > 0);
      for (const auto& process : reply->processes()) QVERIFY(!process.user().empty());
    }
    over = true;
    spawner.join();
    const auto cancelled = agent::listProcesses({}, [] { return true; });
    QCOMPARE(cancelled.status().code(), Code::kCancelled);
  }

  void requestsAreChecked() {
    Node node("n1");
    node.start();
    for (const double seconds : {-1.0, 0.05, 10.5, std::nan(""), 1e300}) {
      node::v1::ListProcessesRequest request;
      request.set_seconds(seconds);
      node::v1::ListProcessesReply reply;
      const auto status = node.agent().ListProcesses(deadline().get(), request, &reply);
      QCOMPARE(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    }
    for (const int most : {-1, 501, std::numeric_limits<int>::min()}) {
      node::v1::ListProcessesRequest request;
      request.set_most(most);
      node::v1::ListProcessesReply reply;
      const auto status = node.agent().ListProcesses(deadline().get(), request, &reply);
      QCOMPARE(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    }
    for (const int lines : {-1, 5001}) {
      node::v1::ReadKernelLogRequest request;
      request.set_lines(lines);
      node::v1::ReadKernelLogReply reply;
      const auto status = node.agent().ReadKernelLog(deadline().get(), request, &reply);
      QCOMPARE(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    }
  }

  void kernelMessagesAreTheNewest() {
    Node node("n1");
    node.start();
    node::v1::ReadKernelLogRequest request;
    request.set_lines(5);
    node::v1::ReadKernelLogReply few;
    const grpc::Status status = node.agent().ReadKernelLog(deadline().get(), request, &few);
    if (!status.ok()) {
      QCOMPARE(errorOf(status).code, Code::kPermissionDenied);
      QVERIFY(!errorOf(status).next.empty());
      return;
    }
    QVERIFY(few.lines_size() <= 5);
    request.set_lines(5000);
    node::v1::ReadKernelLogReply many;
    QVERIFY(node.agent().ReadKernelLog(deadline().get(), request, &many).ok());
    QVERIFY(many.lines_size() >= few.lines_size());
    for (const auto& line : many.lines()) {
      QVERIFY(line.level() >= 0 && line.level() < 8);
      QVERIFY(line.wall_ns() <= wallNow() + 60'000'000'000);
    }
    if (few.lines_size() == 0) return;
    const std::string& last = few.lines(few.lines_size() - 1).text();
    bool found = false;
    for (const auto& line : many.lines()) found = found || line.text() == last;
    QVERIFY2(found, last.c_str());
  }

  void ranksAreMarkedAndTheirStacksRead() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 2, .comm = "gloo", .maxSteps = kEndless});
    QVERIFY(run.underWay());
    node::v1::ListProcessesRequest request;
    request.set_seconds(0.3);
    request.set_most(1);
    node::v1::ListProcessesReply listed;
    QVERIFY(node.agent().ListProcesses(deadline().get(), request, &listed).ok());
    std::map<int, int> ranks;
    int supervisors = 0, others = 0;
    for (const auto& process : listed.processes()) {
      others += process.part().empty() ? 1 : 0;
      if (process.run() != run.request.run()) continue;
      if (process.part() == "supervisor") ++supervisors;
      if (process.part() == "worker" && process.has_rank()) ranks[process.rank()] = process.pid();
    }
    QCOMPARE(others, 1);  // those of Lockstep come on top
    QCOMPARE(supervisors, 1);
    QCOMPARE(ranks.size(), std::size_t{2});

    for (const int rank : {0, 1}) {
      node::v1::ReadRankStacksReply reply;
      const grpc::Status status = run.stacks(rank, reply);
      QVERIFY2(status.ok(), status.error_message().c_str());
      QCOMPARE(reply.pid(), ranks[rank]);
      QVERIFY(reply.threads_size() > 1 && !reply.incomplete());
      std::string text;
      std::int64_t longest = 0;
      for (const std::string& line : agent::stackLines(reply)) text += line + "\n";
      for (const auto& thread : reply.threads()) {
        QVERIFY(thread.tid() > 0 && !thread.state().empty());
        QVERIFY(thread.stopped_ns() > 0);
        longest = std::max(longest, thread.stopped_ns());
      }
      std::vector<std::int64_t> stops;
      for (const auto& thread : reply.threads()) stops.push_back(thread.stopped_ns());
      std::sort(stops.begin(), stops.end());
      qInfo("rank %d: %d threads, stopped for %.2f ms in the median, at most %.2f ms", rank,
            reply.threads_size(), static_cast<double>(stops[stops.size() / 2]) * 1e-6,
            static_cast<double>(longest) * 1e-6);
      QVERIFY2(text.find("lockstep::") != std::string::npos, text.c_str());
      QVERIFY2(longest < 200'000'000, "a loaded machine may take long, but not that long");
    }
    QVERIFY(run.goesOn());
    for (const int rank : {-1, 2, 1 << 30}) {
      node::v1::ReadRankStacksReply reply;
      const auto status = run.stacks(rank, reply);
      QVERIFY(!status.ok());
      QCOMPARE(errorOf(status).code, rank < 0 ? Code::kInvalidArgument : Code::kNotFound);
    }
    run.kill();
    node::v1::ReadRankStacksReply reply;
    const Error error = errorOf(run.stacks(0, reply));
    QCOMPARE(error.code, Code::kNotFound);
    QVERIFY2(error.text().find("ended") != std::string::npos, error.text().c_str());
  }

  // Its state stays as it was: what stopped it may let it go on.
  void aFrozenWorkerIsRead() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 2, .comm = "gloo", .maxSteps = kEndless});
    QVERIFY(run.underWay());
    const int pid = run.records->pidOf(1);
    ::kill(pid, SIGSTOP);
    QVERIFY(eventually([&] { return stateOf(pid) == 'T'; }));
    node::v1::ReadRankStacksReply reply;
    const grpc::Status status = run.stacks(1, reply);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(reply.threads_size() > 1);
    QVERIFY(reply.threads(0).frames_size() > 0);
    QCOMPARE(stateOf(pid), 'T');
    ::kill(pid, SIGCONT);
    QVERIFY(run.goesOn());
    run.kill();
  }

  // A thread cannot be stopped while it waits for its child as after vfork().
  void whatCannotBeStoppedIsGivenUp() {
    const pid_t waiting = fork();
    if (waiting == 0) {
      setpgid(0, 0);
      agent::allowStacks();
      if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0L, 0L, 0L, 0L) == 0)
        for (;;) pause();
      _exit(0);
    }
    const auto end = qScopeGuard([waiting] {
      ::kill(-waiting, SIGKILL);
      waitpid(waiting, nullptr, 0);
    });
    QVERIFY(eventually([&] { return stateOf(waiting) == 'D'; }));
    QElapsedTimer clock;
    clock.start();
    QCOMPARE(runAgent({"stacks", std::to_string(waiting)}).code, -2);  // killed by its alarm
    QVERIFY2(clock.elapsed() > 9000 && clock.elapsed() < 20000,
             std::to_string(clock.elapsed()).c_str());
  }

  void whatADebuggerHasChangedIsFollowed() {
    agent::DebuggerWatch watch;
    const auto asked = [&](const std::string& body, const std::string& answer) {
      watch.fromDebugger("+$" + body + "#00");
      for (const char c : "$" + answer + "#00") watch.fromServer(std::string(1, c));
    };
    asked("qSupported:multiprocess+;swbreak+", "PacketSize=47ff;multiprocess+");
    QVERIFY(watch.namesProcesses());
    asked("Z0,401136,1", "OK");
    asked("Z1,401200,1;X1,0", "OK");
    asked("Z0,dead,1", "E01");
    asked("X400000,3:$#", "");  // no packet of this form comes unescaped
    QCOMPARE(watch.breakpoints(), (std::set<std::string>{"0,401136,1", "1,401200,1"}));
    watch.fromDebugger("$vCont;c#00");
    QVERIFY(watch.isRunning() && !watch.awaitsReply());
    watch.fromServer("$O48#00");
    watch.fromServer("%Stop:T05#00");
    QVERIFY(watch.isRunning());
    watch.fromServer("$T05swbreak:;#00");
    QVERIFY(!watch.isRunning());
    asked("z0,401136,1", "OK");
    QCOMPARE(watch.breakpoints(), (std::set<std::string>{"1,401200,1"}));
    QVERIFY(!watch.isDetached());
    asked("D;1a", "OK");
    QVERIFY(watch.isDetached());
  }

  void aDebuggerAttachesAndLeaves() {
    if (!hasGdbserver()) QSKIP("gdbserver is not installed");
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 1, .maxSteps = kEndless});
    QVERIFY(run.underWay());
    const int pid = run.records->pidOf(0);
    Debugging debugging(run, 0);
    QVERIFY(debugging.says(node::v1::DebugRankReply::WAITING));
    const auto reply = debugging.replies().back();
    QCOMPARE(reply.pid(), pid);
    QCOMPARE(reply.patience_seconds(), 0.0);
    QVERIFY2(reply.program().ends_with("lockstep-agent"), reply.program().c_str());
    struct stat info {};
    QCOMPARE(stat(reply.socket().c_str(), &info), 0);
    QCOMPARE(info.st_mode & 0777, mode_t{0600});
    QVERIFY(run.goesOn());  // nobody is connected

    Debugging second(run, 0);
    QVERIFY(eventually([&] { return second.end().has_value(); }));
    QCOMPARE(errorOf(*second.end()).code, Code::kAlreadyExists);

    Debugger debugger(reply.socket());
    QVERIFY(debugger.connected());
    QVERIFY(debugger.ask("?").starts_with("T"));
    QVERIFY(debugging.says(node::v1::DebugRankReply::ATTACHED));
    QVERIFY(eventually([&] { return stateOf(pid) == 't'; }));
    QVERIFY(eventually([&] {  // it stands still, once all that it did is told
      const std::int64_t before = run.step();
      QTest::qWait(500);
      return run.step() == before;
    }));
    node::v1::ReadRankStacksReply stacks;
    const Error busy = errorOf(run.stacks(0, stacks));
    QCOMPARE(busy.code, Code::kFailedPrecondition);
    QVERIFY2(busy.why.text().find("debugs it") != std::string::npos, busy.text().c_str());
    QCOMPARE(debugger.ask("D"), std::string("OK"));
    debugger.close();
    QVERIFY(debugging.says(node::v1::DebugRankReply::WAITING));
    QVERIFY(run.goesOn());
    QCOMPARE(run.records->pidOf(0), pid);
    debugging.cancel();
    QVERIFY(eventually([&] { return stat(reply.socket().c_str(), &info) != 0; }));
    run.kill();
  }

  // The supervisor would wait for its end as long as the person at the debugger.
  void aWorkerThatIsKilledAtTheDebuggersPrompt() {
    if (!hasGdbserver()) QSKIP("gdbserver is not installed");
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 1, .maxSteps = kEndless});
    QVERIFY(run.underWay());
    const int pid = run.records->pidOf(0);
    Debugging debugging(run, 0);
    QVERIFY(debugging.says(node::v1::DebugRankReply::WAITING));
    Debugger debugger(debugging.replies().back().socket());
    QVERIFY(debugger.connected());
    QVERIFY(debugger.ask("?").starts_with("T"));
    QVERIFY(eventually([&] { return stateOf(pid) == 't'; }));
    QVERIFY(::kill(pid, SIGKILL) == 0);
    QVERIFY(eventually([&] { return !std::filesystem::exists(fmt::format("/proc/{}", pid)); }));
    QVERIFY(eventually([&] { return debugging.end().has_value(); }));
    run.kill();
  }

  // gdbserver would leave its breakpoints in the worker, which would die of the first.
  void aDebuggerThatIsCutOffLeavesNoTrace_data() {
    QTest::addColumn<QString>("function");  // at which the breakpoint is
    QTest::addColumn<int>("resumed");       // so many times
    QTest::addColumn<bool>("cancelled");
    QTest::newRow("before the breakpoint") << "clock_gettime" << 0 << false;
    QTest::newRow("at the breakpoint") << "clock_gettime" << 1 << false;
    QTest::newRow("behind the breakpoint") << "clock_gettime" << 3 << false;
    QTest::newRow("while it runs") << "abort" << 1 << false;
    QTest::newRow("by the client") << "abort" << 1 << true;
    QTest::newRow("by the client, at the breakpoint") << "clock_gettime" << 1 << true;
  }
  void aDebuggerThatIsCutOffLeavesNoTrace() {
    if (!hasGdbserver()) QSKIP("gdbserver is not installed");
    QFETCH(QString, function);
    QFETCH(int, resumed);
    QFETCH(bool, cancelled);
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 1, .maxSteps = kEndless});
    QVERIFY(run.underWay());
    const int pid = run.records->pidOf(0);
    Debugging debugging(run, 0);
    QVERIFY(debugging.says(node::v1::DebugRankReply::WAITING));
    Debugger debugger(debugging.replies().back().socket());
    // As GDB does: the program counter of a stop is then at the breakpoint, not behind it.
    QVERIFY(debugger.ask("qSupported:swbreak+;vContSupported+").find("swbreak+") !=
            std::string::npos);
    QVERIFY(debugger.ask("?").starts_with("T"));
    QCOMPARE(debugger.ask("QStartNoAckMode"), std::string("OK"));
    const std::string address = addressOf(pid, function.toLatin1());
    QCOMPARE(debugger.ask(fmt::format("Z0,{},1", address)), std::string("OK"));
    const bool isHit = function != "abort";
    for (int i = 0; i < resumed; ++i) {
      debugger.send("vCont;c");
      if (!isHit) continue;
      const std::string stop = debugger.receive();
      QVERIFY2(stop.starts_with("T05"), stop.c_str());
    }
    if (!isHit) QVERIFY(run.goesOn());  // with the debugger
    if (cancelled)
      debugging.cancel();
    else
      debugger.close();
    QVERIFY(eventually([&] { return stateOf(pid) != 't'; }));
    QVERIFY(run.goesOn(50));
    QCOMPARE(run.records->pidOf(0), pid);
    QCOMPARE(run.records->error(), std::string());
    run.kill();
  }

  void othersMayNotDebug() {
    if (geteuid() != 0) QSKIP("needs root");
    if (!hasGdbserver()) QSKIP("gdbserver is not installed");
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 1, .maxSteps = kEndless});
    QVERIFY(run.underWay());
    Debugging debugging(run, 0);
    QVERIFY(debugging.says(node::v1::DebugRankReply::WAITING));
    const std::filesystem::path socket = debugging.replies().back().socket();
    struct stat info {};
    QCOMPARE(stat(socket.c_str(), &info), 0);
    QCOMPARE(info.st_mode & 0777, mode_t{0600});
    QCOMPARE(stat(socket.parent_path().c_str(), &info), 0);
    QCOMPARE(info.st_mode & 0777, mode_t{0700});
    // Let in by folders and modes, the other account is still refused.
    for (auto folder = socket.parent_path(); folder.string().starts_with(node.workdir());
         folder = folder.parent_path())
      QCOMPARE(chmod(folder.c_str(), 0755), 0);
    const bool isElsewhere = !socket.string().starts_with(node.workdir());
    if (isElsewhere) QCOMPARE(chmod(socket.parent_path().c_str(), 0755), 0);
    QCOMPARE(chmod(socket.c_str(), 0666), 0);
    const pid_t child = fork();
    if (child == 0) {
      constexpr uid_t kNobody = 65534;
      sockaddr_un to{};
      to.sun_family = AF_UNIX;
      socket.string().copy(to.sun_path, sizeof to.sun_path - 1);
      const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
      alarm(60);
      if (setuid(kNobody) != 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
        _exit(2);
      char byte = 0;
      _exit(recv(fd, &byte, 1, 0) == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    QVERIFY(WIFEXITED(status));
    QCOMPARE(WEXITSTATUS(status), 0);  // closed without an answer
    QVERIFY(run.goesOn());
    QVERIFY(debugging.says(node::v1::DebugRankReply::WAITING));
    run.kill();
  }

  void aDebuggerIsAwaitedForALimitedTime() {
    if (!hasGdbserver()) QSKIP("gdbserver is not installed");
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 2, .comm = "gloo", .maxSteps = kEndless});
    QVERIFY(run.underWay());
    for (const double seconds : {-1.0, 0.5, 3601.0, std::nan("")}) {
      Debugging refused(run, 0, seconds);
      QVERIFY(eventually([&] { return refused.end().has_value(); }));
      QCOMPARE(refused.end()->error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    }
    Debugging debugging(run, 1, 1);
    QVERIFY(debugging.says(node::v1::DebugRankReply::WAITING));
    QVERIFY(debugging.replies().back().patience_seconds() >= 30);
    QVERIFY(eventually([&] { return debugging.end().has_value(); }));
    QCOMPARE(errorOf(*debugging.end()).code, Code::kDeadlineExceeded);
    run.kill();
  }

  void whereGdbserverIsMissingItSaysWhatToInstall() {
    const QTemporaryDir empty;
    agent::DebuggerOptions options;
    options.pid = getpid();
    options.socket = empty.filePath("debug.sock").toStdString();
    options.wait = 1'000'000'000;
    if (!hasGdbserver()) {
      const Status status = agent::serveDebugger(
          options, [](auto) { return true; }, [] { return false; });
      QCOMPARE(status.code(), Code::kFailedPrecondition);
      QVERIFY(status.error().next.text().find("apt install gdbserver") != std::string::npos);
    }
    // A process that has ended, and one that is traced already.
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    options.pid = child;
    const Status ended = agent::serveDebugger(
        options, [](auto) { return true; }, [] { return false; });
    if (hasGdbserver()) QVERIFY(ended.ok());
    QVERIFY(!std::filesystem::exists(options.socket));
  }
};

QTEST_GUILESS_MAIN(AgentDebugTest)
#include "agent_debug_test.moc"
