#include "agent/workload/program_setup.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "agent/base/line_collector.h"
#include "agent/base/paths.h"
#include "agent/workload/code_folder.h"
#include "agent/workload/environment.h"
#include "agent/workload/program.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/base/remove_tree.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLogBytes = std::int64_t{256} << 10;
constexpr Nanoseconds kSecond = 1'000'000'000;

// Whether the open file is still the one at the path: the folder may have been removed meanwhile.
bool isAt(int fd, const std::string& path) {
  struct stat open {
  }, there{};
  return fstat(fd, &open) == 0 && stat(path.c_str(), &there) == 0 && open.st_ino == there.st_ino &&
         open.st_dev == there.st_dev;
}

Result<UniqueFd> hold(const SetupFolder& folder, int operation) {
  for (;;) {
    LOCKSTEP_TRY(makeFolders(folder.path));
    UniqueFd file(open(folder.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file && errno == ENOENT) continue;  // it is being removed
    if (!file) return systemError(errno, message("cannot open {}", folder.lock()));
    while (flock(file.get(), operation) != 0) {
      if (errno == EWOULDBLOCK) return makeError(Code::kUnavailable, "{} is in use", folder.path);
      if (errno != EINTR) return systemError(errno, message("cannot lock {}", folder.lock()));
    }
    if (isAt(file.get(), folder.lock())) return file;
  }
}

// One command, to its end.
Status runCommand(const std::string& command, const std::vector<std::string>& environment,
                  const std::string& folder,
                  const std::function<void(std::string_view)>& onOutput) {
  Program::Options options;
  options.path = "/bin/sh";
  options.words = {"sh", "-c", command};
  options.environment = environment;
  options.folder = folder;
  LOCKSTEP_ASSIGN(Program program, Program::start(options));
  LineCollector lines;
  const auto take = [&](std::string_view bytes) {
    lines.add(bytes, monotonicNow());
    std::uint64_t dropped = 0;
    (void)lines.take(dropped);  // its tail stays
    onOutput(bytes);
  };
  while (program.wait(kSecond, take)) {
  }
  if (WIFEXITED(program.status()) && WEXITSTATUS(program.status()) == 0) return {};
  lines.end(monotonicNow());
  Error error = makeError(Code::kFailedPrecondition, "the setup command `{}` {}", command,
                          endText(program.status()));
  if (!lines.tail().empty()) error.why = message("its last lines:\n{}", lines.tail());
  return error;
}

// A file's content, by reference where the file system can.
Status copyContent(int from, int to, const std::string& name) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  for (ssize_t count = 1; count > 0;) {
    count = copy_file_range(from, nullptr, to, nullptr, kPiece, 0);
    if (count == 0) return {};
    if (count < 0 && errno != EINTR) break;
    count = 1;
  }
  std::vector<char> buffer(std::size_t{1} << 20);
  for (;;) {  // the file systems differ, or cannot
    const ssize_t count = read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, message("cannot read {}", name));
    if (count == 0) return {};
    for (ssize_t done = 0; done < count;) {
      const ssize_t wrote = write(to, buffer.data() + done, static_cast<std::size_t>(count - done));
      if (wrote < 0 && errno != EINTR) return systemError(errno, message("cannot write {}", name));
      done += std::max<ssize_t>(wrote, 0);
    }
  }
}

Status copyFile(const std::string& from, const std::string& to, const struct stat& info) {
  const UniqueFd in(open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!in) return systemError(errno, message("cannot open {}", from));
  const UniqueFd out(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out) return systemError(errno, message("cannot create {}", to));
  LOCKSTEP_TRY(copyContent(in.get(), out.get(), from));
  const timespec times[2] = {info.st_atim, info.st_mtim};  // make looks at them
  if (fchmod(out.get(), info.st_mode & 0777) != 0 || futimens(out.get(), times) != 0)
    return systemError(errno, message("cannot write {}", to));
  return {};
}

// Files, folders and links; a socket or a pipe is nothing that a program finds in its code.
Status copyEntry(const std::string& from, const std::string& to,
                 const std::function<bool()>& cancelled, int depth) {
  constexpr int kDeepest = 256;
  struct stat info {};
  if (lstat(from.c_str(), &info) != 0) return systemError(errno, message("cannot read {}", from));
  std::error_code failed;
  if (S_ISLNK(info.st_mode)) {
    fs::copy_symlink(from, to, failed);
    return failed ? Status(systemError(failed.value(), message("cannot create {}", to))) : Status();
  }
  if (S_ISREG(info.st_mode)) return copyFile(from, to, info);
  if (!S_ISDIR(info.st_mode)) return {};
  if (depth == kDeepest) return invalidArgument("{} is nested too deeply", from);
  if (mkdir(to.c_str(), 0700) != 0) return systemError(errno, message("cannot create {}", to));
  for (fs::directory_iterator entry(from, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (cancelled()) return makeError(Code::kCancelled, "the launch was cancelled");
    const std::string name = entry->path().filename().string();
    LOCKSTEP_TRY(copyEntry(from + "/" + name, to + "/" + name, cancelled, depth + 1));
  }
  if (failed) return systemError(failed.value(), message("cannot read {}", from));
  const timespec times[2] = {info.st_atim, info.st_mtim};
  utimensat(AT_FDCWD, to.c_str(), times, 0);
  if (chmod(to.c_str(), (info.st_mode & 0777) | 0700) != 0)
    return systemError(errno, message("cannot write {}", to));
  return {};
}

Error notSetUp() {
  Error error = makeError(Code::kFailedPrecondition, "the program is not set up on the node");
  error.next = "launch again, which runs workload.setup";
  return error;
}

}  // namespace

bool SetupFolder::isDone() const { return access(done().c_str(), F_OK) == 0; }

std::string setupKey(const spec::v1::WorkloadSpec& workload, const std::string& codeSha256) {
  std::string text;
  const auto add = [&](const std::string& part) {
    text += fmt::format("{}:{},", part.size(), part);
  };
  add(codeSha256);
  add(std::to_string(workload.setup_size()));
  for (const std::string& command : workload.setup()) add(command);
  add(workload.python().kind());
  add(workload.python().path());
  const std::map<std::string, std::string> sorted(workload.env().begin(), workload.env().end());
  for (const auto& [name, value] : sorted) {
    add(name);
    add(value);
  }
  return sha256Hex(text);
}

Result<UniqueFd> holdSetup(const SetupFolder& folder, bool alone) {
  return hold(folder, alone ? LOCK_EX : LOCK_SH);
}

Result<UniqueFd> tryHoldSetup(const SetupFolder& folder) { return hold(folder, LOCK_EX | LOCK_NB); }

Status runSetup(const spec::v1::WorkloadSpec& workload, const SetupFolder& folder,
                const SetupCommands& commands) {
  if (folder.isDone()) {
    utimensat(AT_FDCWD, folder.done().c_str(), nullptr, 0);
    return {};
  }
  for (const fs::path& left : listFolder(folder.path))
    if (left != folder.lock()) (void)removeTree(left);
  LOCKSTEP_TRY(writeCode(commands.codeFile, folder.code()));
  const std::vector<std::string> environment =
      setupEnvironment(workload, commands.secrets, folder.code(), inheritedEnvironment());
  {
    BoundedFile log(folder.log(), kLogBytes);
    const auto tell = [&](std::string_view bytes) {
      log.write(bytes);
      commands.onOutput(bytes);
    };
    for (int i = 0; i < workload.setup_size(); ++i) {
      commands.onCommand(i + 1, workload.setup(i));
      tell("+ " + workload.setup(i) + "\n");
      Status ran = runCommand(workload.setup(i), environment, folder.code(), tell);
      if (!ran.ok()) {
        ran.error().field = fmt::format("workload.setup[{}]", i);
        return ran;
      }
    }
  }
  // What they have made is on the disk before that is said.
  if (const UniqueFd all(open(folder.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); all)
    syncfs(all.get());
  return writeFileAtomically(folder.done(), commands.run, 0600);
}

Status copySetup(const SetupFolder& folder, const std::string& to,
                 const std::function<bool()>& cancelled) {
  if (!folder.isDone()) return notSetUp();
  LOCKSTEP_ASSIGN(const UniqueFd held, holdSetup(folder, false));
  if (!folder.isDone()) return notSetUp();
  Status copied = copyEntry(folder.code(), to, cancelled, 0);
  std::error_code ignored;
  if (!copied.ok()) fs::remove_all(to, ignored);
  return copied;
}

std::string setupStory(const SetupFolder& folder, const std::string& run) {
  const auto done = readFile(folder.done(), 4096);
  if (!done.ok()) return {};
  if (*done != run) return "was done before, for run " + *done + "\n";
  std::string out;
  for (const std::string& part : {folder.log() + ".1", folder.log()})
    if (const auto text = readFile(part, std::size_t{4} << 20); text.ok()) out += *text;
  return out;
}

}  // namespace lockstep::agent
