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

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/utf8.h"
#include "engine/specs/error_info.h"
#include "lockstep/node/v1/worker.pb.h"

extern char** environ;

namespace lockstep::agent {
namespace {

constexpr unsigned kReadSeconds = 10;
constexpr std::size_t kMostFrames = 64;
constexpr std::size_t kMostThreads = 64;
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

struct ReadThread {
  int tid = 0;
  std::vector<Dwarf_Addr> addresses;  // innermost first
  Nanoseconds stopped = 0;
  int failure = 0;  // of the library
};

int addFrame(Dwfl_Frame* frame, void* given) {
  auto& addresses = *static_cast<std::vector<Dwarf_Addr>*>(given);
  Dwarf_Addr address = 0;
  bool isInterrupted = false;
  if (!dwfl_frame_pc(frame, &address, &isInterrupted)) return DWARF_CB_ABORT;
  // A return address is behind the call.
  addresses.push_back(isInterrupted ? address : address - 1);
  return addresses.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// The thread is stopped from the first frame to the last.
int addThread(Dwfl_Thread* thread, void* given) {
  auto& threads = *static_cast<std::vector<ReadThread>*>(given);
  ReadThread& read = threads.emplace_back();
  read.tid = static_cast<int>(dwfl_thread_tid(thread));
  read.addresses.reserve(kMostFrames);
  const Nanoseconds begin = monotonicNow();
  if (dwfl_thread_getframes(thread, addFrame, &read.addresses) < 0) read.failure = dwfl_errno();
  read.stopped = monotonicNow() - begin;
  return threads.size() <= kMostThreads ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// Reads the tables by which stacks are unwound, so that no thread is stopped meanwhile.
int readTables(Dwfl_Module* module, void**, const char*, Dwarf_Addr, void*) {
  Dwarf_Addr bias = 0;
  (void)dwfl_module_eh_cfi(module, &bias);
  (void)dwfl_module_dwarf_cfi(module, &bias);
  return DWARF_CB_OK;
}

// Returns the word after `key` in a file of /proc, to the end of its line.
std::string lineOf(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  const std::size_t begin =
      at == std::string::npos ? at : text.find_first_not_of(" \t", at + key.size());
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

// Why no thread of a process could be read; `failure` is of the library.
Error unreadable(int pid, int failure) {
  Error error = makeError(Code::kPermissionDenied, "cannot read the stacks of process {}", pid);
  const auto status = readFile(fmt::format("/proc/{}/status", pid));
  const std::string tracer = status.ok() ? lineOf(*status, "TracerPid:") : "";
  if (!status.ok()) {
    error.code = Code::kNotFound;
    error.why = "it has ended";
  } else if (!tracer.empty() && tracer != "0") {
    error.code = Code::kFailedPrecondition;
    error.why = message("process {} debugs it", tracer);
    error.next = "end that debugger first";
  } else {
    const char* said = dwfl_errmsg(failure);
    error.why = said == nullptr ? "" : said;
    const auto scope = readFile("/proc/sys/kernel/yama/ptrace_scope", 64);
    if (scope.ok() && (scope->starts_with("2") || scope->starts_with("3")))
      error.next = "set the node's kernel.yama.ptrace_scope to 1";
  }
  return error;
}

}  // namespace

Result<node::v1::ReadRankStacksReply> stacksOf(int pid) {
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
  if (const int result = dwfl_linux_proc_report(process.get(), pid); result != 0)
    return failed(Code::kNotFound, result);
  if (dwfl_report_end(process.get(), nullptr, nullptr) != 0) return failed(Code::kInternal);
  (void)dwfl_getmodules(process.get(), readTables, nullptr, 0);
  if (const int result = dwfl_linux_proc_attach(process.get(), pid, false); result != 0)
    return failed(Code::kPermissionDenied, result);
  std::vector<ReadThread> threads;
  const int result = dwfl_getthreads(process.get(), addThread, &threads);
  if (result < 0 && threads.empty()) return failed(Code::kPermissionDenied);
  if (std::none_of(threads.begin(), threads.end(),
                   [](const ReadThread& one) { return !one.addresses.empty(); }))
    return unreadable(pid, threads.empty() ? 0 : threads.front().failure);
  node::v1::ReadRankStacksReply out;
  out.set_pid(pid);
  for (const ReadThread& thread : threads) {
    if (out.threads_size() == static_cast<int>(kMostThreads)) {
      out.set_incomplete(true);
      break;
    }
    node::v1::ThreadStack& stack = *out.add_threads();
    stack.set_tid(thread.tid);
    stack.set_stopped_ns(thread.stopped);
    for (const Dwarf_Addr address : thread.addresses)
      stack.add_frames(validUtf8(frameText(process.get(), address)));
    const auto status = readFile(fmt::format("/proc/{}/task/{}/status", pid, thread.tid));
    if (!status.ok()) {  // it has ended meanwhile
      if (stack.frames().empty()) out.mutable_threads()->RemoveLast();
      continue;
    }
    stack.set_name(validUtf8(lineOf(*status, "Name:")));
    stack.set_state(validUtf8(lineOf(*status, "State:")));
  }
  return out;
}

std::vector<std::string> stackLines(const node::v1::ReadRankStacksReply& stacks) {
  std::vector<std::string> out;
  for (const node::v1::ThreadStack& stack : stacks.threads()) {
    out.push_back(fmt::format("thread {} {}, {}", stack.tid(), stack.name(), stack.state()));
    for (const std::string& frame : stack.frames()) out.push_back("  " + frame);
  }
  return out;
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
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return done(systemError(errno, "cannot create a pipe"));
  UniqueFd output(ends[0]);
  const UniqueFd input(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
  std::array<std::string, 4> words{"lockstep-agent", "stacks", std::to_string(pid), "--message"};
  std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                                 nullptr};
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return done(systemError(failed, "cannot start a process that reads stacks"));
  const int fd = output.get();
  readings_[fd] = {child, pid, std::move(output), {}, std::move(done)};
  loop_.watch(fd, POLLIN, [this, fd](short) { onOutput(fd); });
}

void StackReader::onOutput(int fd) {
  Reading& reading = readings_.at(fd);
  std::array<char, 4096> block{};
  const ssize_t got = ::read(fd, block.data(), block.size());
  if (got > 0) reading.bytes.append(block.data(), static_cast<std::size_t>(got));
  if (got > 0 || (got < 0 && errno == EINTR)) return;
  loop_.unwatch(fd);
  waitpid(reading.child, nullptr, 0);  // it has closed its output: it ends
  const Reading read = std::move(reading);
  readings_.erase(fd);
  node::v1::StackReading said;
  if (read.bytes.empty() || !said.ParseFromString(read.bytes)) {
    Error error =
        makeError(Code::kDeadlineExceeded, "cannot read the stacks of process {}", read.pid);
    error.why = message("it took more than {} s", kReadSeconds);
    return read.done(error);
  }
  if (said.has_error()) return read.done(specs::fromInfo(said.error()));
  read.done(std::move(*said.mutable_stacks()));
}

Result<int> stacksCommand(const Arguments& arguments) {
  const std::string& word = arguments.words()[0];
  int pid = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), pid);
  if (read.ptr != word.data() + word.size() || pid <= 0)
    return invalidArgument("PID is \"{}\", expected the number of a process", word);
  alarm(kReadSeconds);  // a thread that never stops, in a disk's driver, cannot be read
  const auto stacks = stacksOf(pid);
  if (arguments.has("message")) {
    node::v1::StackReading out;
    if (stacks.ok())
      *out.mutable_stacks() = *stacks;
    else
      *out.mutable_error() = specs::toInfo(stacks.error());
    const std::string bytes = out.SerializeAsString();
    return std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() ? 0 : 1;
  }
  if (!stacks.ok()) {
    std::fputs((stacks.error().text() + "\n").c_str(), stderr);
    return 1;
  }
  for (const std::string& line : stackLines(*stacks)) std::puts(line.c_str());
  return 0;
}

}  // namespace lockstep::agent
