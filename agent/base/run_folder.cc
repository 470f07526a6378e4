#include "agent/base/run_folder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <sstream>

#include "agent/base/open_files.h"
#include "agent/base/unix_server.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/base/text.h"
#include "engine/base/unique_fd.h"
#include "engine/specs/error_info.h"

extern char** environ;

namespace lockstep::agent {
namespace {
constexpr std::size_t kStateBytes = 32;      // longer than every state's name
constexpr std::size_t kSecretBytes = 65536;  // what a pipe holds

// Returns the reading end of a pipe that holds `bytes` and nothing after them.
Result<UniqueFd> filledPipe(const std::string& bytes) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return systemError(errno, "cannot create a pipe");
  UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  if (bytes.size() > kSecretBytes ||
      write(writing.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    return invalidArgument(
        "the run's keys and secret variables have {} bytes and do not fit into a pipe",
        bytes.size());
  return reading;
}
}  // namespace

std::string RunFolder::socket() const {
  return fmt::format("{}/r-{}.sock", runtime, sha256Hex(path).substr(0, 12));
}

Result<node::v1::PrepareRequest> RunFolder::readRequest() const {
  LOCKSTEP_ASSIGN(const std::string bytes, readFile(request()));
  node::v1::PrepareRequest out;
  if (!out.ParseFromString(bytes))
    return makeError(Code::kDataLoss, "{} is not a run's request", request());
  return out;
}

run::v1::RunState RunFolder::readState() const {
  auto text = readFile(state(), 4096);
  run::v1::RunState out = run::v1::RUN_STATE_UNSPECIFIED;
  if (text.ok()) run::v1::RunState_Parse(text->substr(0, text->find('\n')), &out);
  return out;
}

Status RunFolder::writeState(run::v1::RunState value) const {
  std::string text = run::v1::RunState_Name(value);
  text.resize(kStateBytes, '\n');
  Status written = writeFileAtomically(state(), text, 0600);
  if (written.code() != Code::kResourceExhausted) return written;
  // A full disk: what is there is written over, which needs no space. States are of one length and
  // written at once, so that readers see the one or the other.
  const int fd = open(state().c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return written;
  const bool whole = pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  close(fd);
  return whole ? Status() : written;
}

Status writeSupervisor(const RunFolder& folder, const SupervisorInfo& info) {
  const specs::Protocols& speaks = info.speaks;
  return writeFileAtomically(
      folder.supervisor(),
      fmt::format("{}\n{}\n{}\n{} {} {}\n{}\n", info.pid, info.socket, info.peerAddress,
                  speaks.oldest, speaks.newest, speaks.version, fmt::join(speaks.features, " ")),
      0600);
}

std::optional<SupervisorInfo> findSupervisor(const RunFolder& folder) {
  if (!isLocked(folder.lock())) return std::nullopt;
  auto text = readFile(folder.supervisor(), 65536);
  if (!text.ok()) return std::nullopt;
  // Later versions may add lines; earlier ones wrote the first three.
  SupervisorInfo info;
  std::string pid, protocols, features;
  std::istringstream lines(*text);
  if (!std::getline(lines, pid) || !std::getline(lines, info.socket) ||
      !std::getline(lines, info.peerAddress) || lines.eof())
    return std::nullopt;
  info.pid = std::atoi(pid.c_str());
  if (std::getline(lines, protocols) && std::getline(lines, features)) {
    std::istringstream(protocols) >> info.speaks.oldest >> info.speaks.newest >>
        info.speaks.version;
    std::istringstream words(features);
    for (std::string word; words >> word;) info.speaks.features.push_back(word);
  }
  pid_t peer = 0;
  auto fd = connectUnix(info.socket, &peer);
  if (!fd.ok()) return std::nullopt;
  close(*fd);
  if (peer != info.pid) return std::nullopt;  // what an earlier supervisor left
  return info;
}

RunFolder runFolder(const Workdir& workdir, const std::string& run, const std::string& node) {
  return {workdir.runs() + "/" + run + "/" + node, workdir.runtime};
}

std::vector<RunFolder> findRuns(const Workdir& workdir, const std::string& run) {
  std::vector<RunFolder> out;
  auto add = [&](const std::filesystem::path& folder) {
    for (const auto& node : listFolder(folder)) {
      RunFolder found{node.string(), workdir.runtime};
      if (access(found.request().c_str(), F_OK) == 0) out.push_back(std::move(found));
    }
  };
  if (!run.empty()) {
    add(workdir.runs() + "/" + run);
  } else {
    for (const auto& folder : listFolder(workdir.runs())) add(folder);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

int tryLock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

bool isLocked(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return locked;
}

Result<int> startSupervisor(const RunFolder& folder, const std::vector<std::string>& options,
                            const node::v1::RunSecrets& secrets) {
  unlink(folder.failure().c_str());
  LOCKSTEP_ASSIGN(const UniqueFd pipe, filledPipe(secrets.SerializeAsString()));
  const std::string path = executablePath();
  std::vector<std::string> words = {path, "supervise", folder.path, "--runtime", folder.runtime};
  words.insert(words.end(), options.begin(), options.end());
  if (const std::uint64_t limit = originalOpenFiles(); limit > 0 && limit < RLIM_INFINITY)
    words.insert(words.end(), {"--open-files", std::to_string(limit)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<std::string> entries = {
      "LOCKSTEP_RUN=" + std::filesystem::path(folder.path).parent_path().filename().string()};
  for (char** at = environ; *at != nullptr; ++at)
    if (!std::string_view(*at).starts_with("LOCKSTEP_RUN=")) entries.emplace_back(*at);
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const std::string log = folder.logs() + "/supervisor.log";
  posix_spawn_file_actions_adddup2(&files, pipe.get(), STDIN_FILENO);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  pid_t pid = -1;
  const int failure =
      posix_spawn(&pid, path.c_str(), &files, &attributes, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failure != 0) return systemError(failure, "cannot start the run's supervisor");
  return pid;
}

Result<node::v1::RunSecrets> takeSecrets() {
  std::string bytes(kSecretBytes, '\0');
  const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC)); null)
    dup2(null.get(), STDIN_FILENO);
  node::v1::RunSecrets out;
  if (!out.ParseFromString(bytes)) return makeError(Code::kDataLoss, "the run's keys are damaged");
  return out;
}

void writeFailure(const RunFolder& folder, const Error& error) {
  (void)writeFileAtomically(folder.failure(), specs::toInfo(error).SerializeAsString(), 0600);
}

namespace {
// Why it does not serve: what it has written, else the end of its log.
Error startFailure(const RunFolder& folder, bool gone) {
  Error error = makeError(gone ? Code::kInternal : Code::kDeadlineExceeded,
                          "the run's supervisor {}", gone ? "did not start" : "does not answer");
  const auto bytes = readFile(folder.failure(), 1 << 20);
  if (run::v1::ErrorInfo info; bytes.ok() && info.ParseFromString(*bytes)) {
    const Error failure = specs::fromInfo(info);
    // A file of the run that is not there is not the run that is not there.
    error.code = failure.code == Code::kNotFound ? Code::kDataLoss : failure.code;
    error.why = failure.message();
    return error;
  }
  auto log = readFile(folder.logs() + "/supervisor.log", 1 << 20);
  if (log.ok())
    error.why = withoutLineEnds(log->substr(log->size() > 2000 ? log->size() - 2000 : 0));
  return error;
}
}  // namespace

Result<SupervisorInfo> awaitSupervisor(const RunFolder& folder, int pid, Nanoseconds limit) {
  const Nanoseconds end = monotonicNow() + limit;
  for (;;) {
    if (auto found = findSupervisor(folder)) return *found;
    siginfo_t info{};
    // Left for the agent to reap: only looked at here.
    const bool gone =
        waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == pid;
    if (gone || monotonicNow() > end) return startFailure(folder, gone);
    poll(nullptr, 0, 5);
  }
}

}  // namespace lockstep::agent
