#include "agent/host/stacks.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "engine/base/file.h"
#include "engine/base/utf8.h"

extern char** environ;

namespace lockstep::agent {
namespace {

constexpr unsigned kReadSeconds = 10;
constexpr std::size_t kMostFrames = 64;
constexpr int kMostThreads = 64;
constexpr std::size_t kMostCharacters = 200;  // of a name: those of templates are long

// Symbols and lines stand in the files themselves; nothing is looked for elsewhere.
int noOtherFile(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                char**) {
  return -1;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// "lockstep::comm::GlooGroup::recv(…) (gloo.cc:210)", or "0x7f… (libc.so.6)".
std::string frameText(Dwfl* process, Dwarf_Addr address) {
  Dwfl_Module* const module = dwfl_addrmodule(process, address);
  const char* const symbol = module == nullptr ? nullptr : dwfl_module_addrname(module, address);
  std::string out = symbol == nullptr ? fmt::format("{:#x}", address) : demangled(symbol);
  if (out.size() > kMostCharacters) {
    out.resize(kMostCharacters);
    out += "...";
  }
  if (module == nullptr) return out;
  int line = 0;
  Dwfl_Line* const found = dwfl_module_getsrc(module, address);
  const char* file =
      found == nullptr ? nullptr : dwfl_lineinfo(found, nullptr, &line, nullptr, nullptr, nullptr);
  if (file == nullptr)
    file = dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  const std::string path = file == nullptr ? "" : file;
  out += " (" + path.substr(path.rfind('/') + 1);
  return out + (line > 0 ? fmt::format(":{})", line) : ")");
}

int addFrame(Dwfl_Frame* frame, void* given) {
  auto& stack = *static_cast<ThreadStack*>(given);
  Dwarf_Addr address = 0;
  bool isInterrupted = false;
  if (!dwfl_frame_pc(frame, &address, &isInterrupted)) return DWARF_CB_ABORT;
  // A return address is behind the call.
  stack.frames.push_back(
      frameText(dwfl_thread_dwfl(dwfl_frame_thread(frame)), isInterrupted ? address : address - 1));
  return stack.frames.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

int addThread(Dwfl_Thread* thread, void* given) {
  auto& stacks = *static_cast<std::vector<ThreadStack>*>(given);
  ThreadStack stack;
  stack.tid = static_cast<int>(dwfl_thread_tid(thread));
  stacks.push_back(std::move(stack));
  (void)dwfl_thread_getframes(thread, addFrame, &stacks.back());
  return static_cast<int>(stacks.size()) < kMostThreads ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// Returns the word after `key` in a file of /proc, to the end of its line.
std::string lineOf(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  const std::size_t begin =
      at == std::string::npos ? at : text.find_first_not_of(" \t", at + key.size());
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

Result<std::vector<ThreadStack>> stacksOf(int pid) {
  // `result` is an errno, or negative for an error of the library.
  const auto failed = [pid](Code code, int result = -1) {
    Error error = makeError(code, "cannot read the stacks of process {}", pid);
    error.why = result > 0 ? std::strerror(result) : dwfl_errmsg(-1);
    return error;
  };
  Dwfl_Callbacks callbacks{};
  callbacks.find_elf = dwfl_linux_proc_find_elf;
  callbacks.find_debuginfo = noOtherFile;
  const std::unique_ptr<Dwfl, void (*)(Dwfl*)> process(dwfl_begin(&callbacks), dwfl_end);
  if (!process) return failed(Code::kInternal);
  std::vector<ThreadStack> stacks;
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  if (const int result = dwfl_linux_proc_report(process.get(), pid); result != 0)
    return failed(Code::kNotFound, result);
  if (dwfl_report_end(process.get(), nullptr, nullptr) != 0) return failed(Code::kInternal);
  if (const int result = dwfl_linux_proc_attach(process.get(), pid, false); result != 0)
    return failed(Code::kPermissionDenied, result);
  if (dwfl_getthreads(process.get(), addThread, &stacks) < 0 && stacks.empty())
    return failed(Code::kPermissionDenied);
  for (ThreadStack& stack : stacks) {
    const auto status = readFile(fmt::format("{}/{}/status", tasks, stack.tid));
    if (!status.ok()) continue;
    stack.name = lineOf(*status, "Name:");
    stack.state = lineOf(*status, "State:");
  }
  return stacks;
}

void allowStacks() { prctl(PR_SET_PTRACER, getppid()); }

StackReader::~StackReader() {
  for (auto& [fd, reading] : readings_) {
    loop_.unwatch(fd);
    kill(reading.child, SIGKILL);
    waitpid(reading.child, nullptr, 0);
  }
}

void StackReader::read(int pid, Done done) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return done({systemError(errno, "cannot create a pipe").text()});
  UniqueFd output(ends[0]);
  const UniqueFd input(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDERR_FILENO);
  std::array<std::string, 3> words{"lockstep-agent", "stacks", std::to_string(pid)};
  std::array<char*, 4> arguments{words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    return done({systemError(failed, "cannot start a process that reads stacks").text()});
  const int fd = output.get();
  readings_[fd] = {child, std::move(output), {}, std::move(done)};
  loop_.watch(fd, POLLIN, [this, fd](short) { onOutput(fd); });
}

void StackReader::onOutput(int fd) {
  Reading& reading = readings_.at(fd);
  std::array<char, 4096> block{};
  const ssize_t got = ::read(fd, block.data(), block.size());
  if (got > 0) reading.text.append(block.data(), static_cast<std::size_t>(got));
  if (got > 0 || (got < 0 && errno == EINTR)) return;
  loop_.unwatch(fd);
  waitpid(reading.child, nullptr, 0);  // it has closed its output: it ends
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < reading.text.size();) {
    const std::size_t end = std::min(reading.text.find('\n', at), reading.text.size());
    lines.push_back(validUtf8(std::string_view(reading.text).substr(at, end - at)));
    at = end + 1;
  }
  if (lines.empty())
    lines.push_back(fmt::format("cannot read the stacks of a process in {} s", kReadSeconds));
  const Done done = std::move(reading.done);
  readings_.erase(fd);
  done(std::move(lines));
}

Result<int> stacksCommand(const Arguments& arguments) {
  const std::string& word = arguments.words()[0];
  int pid = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), pid);
  if (read.ptr != word.data() + word.size() || pid <= 0)
    return invalidArgument("PID is \"{}\", expected the number of a process", word);
  alarm(kReadSeconds);  // a thread that never stops, in a disk's driver, cannot be read
  const auto stacks = stacksOf(pid);
  if (!stacks.ok()) {
    std::fputs((stacks.error().text() + "\n").c_str(), stderr);
    return 1;
  }
  for (const ThreadStack& stack : *stacks) {
    std::puts(fmt::format("thread {} {}, {}", stack.tid, stack.name, stack.state).c_str());
    for (const std::string& frame : stack.frames) std::puts(("  " + frame).c_str());
  }
  return 0;
}

}  // namespace lockstep::agent
