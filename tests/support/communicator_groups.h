// Groups of ranks for tests: as threads of this process or as forked processes, over any kind of
// communicator.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/file.h"
#include "engine/comm/communicator.h"
#include "engine/comm/memory_store.h"

namespace lockstep::tests {

using comm::MemoryStore;

// Ranks of one host meet in a folder.
class FolderStore final : public comm::Store {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}
  Status set(const std::string& key, const std::string& value) override {
    return writeFileAtomically(path(key), value);
  }
  Result<std::string> get(const std::string& key, Nanoseconds timeout) override {
    const Nanoseconds deadline = monotonicNow() + timeout;
    while (!std::filesystem::exists(path(key))) {
      if (monotonicNow() >= deadline) return makeError(Code::kDeadlineExceeded, "key {}", key);
      usleep(500);
    }
    return readFile(path(key));
  }

 private:
  std::string path(std::string key) const {
    for (char& c : key)
      if (c == '/') c = '_';
    return folder_ + "/" + key;
  }
  std::string folder_;
};

struct GroupOptions {
  std::string kind;  // of kGroupKinds
  int size = 1;
  Nanoseconds timeout = 10'000'000'000;
  bool oversubscribed = true;
};

// The thread sanitizer breaks where a child of a fork starts and ends threads, as Gloo does and who
// sends and receives at once.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kForkedThreadsWork = false;
#else
inline constexpr bool kForkedThreadsWork = true;
#endif

using RankBody = std::function<std::string(comm::Communicator&)>;  // "" or what went wrong

inline std::string uniquePrefix() {
  static int count = 0;
  return "group" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

// What the ranks of a group have in common before it is one.
struct Meeting {
  Meeting(int size, comm::Store& shared)
      : memory(comm::makeSharedMemory(comm::sharedMemoryBytes(size)).value()),
        prefix(uniquePrefix()),
        store(shared) {}
  ~Meeting() { close(memory); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int memory;
  std::string prefix;
  comm::Store& store;
};

// Every kind of communicator, and how a group of it is formed.
struct GroupKind {
  const char* name;
  // All ranks together, as threads of one process; null where each, a process perhaps, opens its
  // own.
  Result<std::vector<std::unique_ptr<comm::Communicator>>> (*together)(int size,
                                                                       Nanoseconds timeout);
  Result<std::unique_ptr<comm::Communicator>> (*open)(const GroupOptions& options, int rank,
                                                      const Meeting& meeting);
};
inline constexpr GroupKind kGroupKinds[] = {
    {"in-process", comm::makeInProcessGroup, nullptr},
    {"shm", nullptr,
     [](const GroupOptions& options, int rank, const Meeting& meeting) {
       return comm::openSharedMemory(meeting.memory, 0, rank, options.size, options.oversubscribed,
                                     options.timeout);
     }},
    {"gloo", nullptr,
     [](const GroupOptions& options, int rank, const Meeting& meeting) {
       return comm::connectGloo({rank, options.size, "", "", meeting.prefix, options.timeout},
                                meeting.store);
     }},
};
inline const GroupKind& groupKind(std::string_view name) {
  for (const GroupKind& kind : kGroupKinds)
    if (kind.name == name) return kind;
  std::abort();
}

// Plays `body` once a rank on threads; gives each rank's answer.
inline std::vector<std::string> runAsThreads(const GroupOptions& options, const RankBody& body) {
  std::vector<std::string> answers(static_cast<std::size_t>(options.size));
  const GroupKind& kind = groupKind(options.kind);
  std::vector<std::unique_ptr<comm::Communicator>> group;
  if (kind.together != nullptr) group = kind.together(options.size, options.timeout).value();
  MemoryStore store;
  const Meeting meeting(options.size, store);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    threads.emplace_back([&, rank] {
      auto& answer = answers[static_cast<std::size_t>(rank)];
      std::unique_ptr<comm::Communicator> own;
      if (!group.empty()) {
        own = std::move(group[static_cast<std::size_t>(rank)]);
      } else {
        auto made = kind.open(options, rank, meeting);
        if (!made.ok()) {
          answer = made.error().text();
          return;
        }
        own = std::move(*made);
      }
      answer = body(*own);
    });
  }
  for (auto& thread : threads) thread.join();
  return answers;
}

// Ranks as processes, each with a pipe on which it says that it goes on and, last, its answer.
class ProcessGroup {
 public:
  using Say = std::function<void()>;
  using Body = std::function<std::string(comm::Communicator&, const Say&)>;

  ProcessGroup(const GroupOptions& options, const std::string& folder, const Body& body) {
    FolderStore store(folder);
    const Meeting meeting(options.size, store);
    for (int rank = 0; rank < options.size; ++rank) {
      int ends[2];
      if (pipe(ends) != 0) std::abort();
      const pid_t pid = fork();
      if (pid == 0) {
        for (const int other : pipes_) close(other);
        close(ends[0]);
        child(options, meeting, body, rank, ends[1]);
      }
      close(ends[1]);
      pids_.push_back(pid);
      pipes_.push_back(ends[0]);
    }
  }

  ~ProcessGroup() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    for (const int pipe : pipes_) close(pipe);
  }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }

  // Waits until the rank has said once more that it goes on; false if it ended instead.
  bool progress(int rank) {
    char byte = 0;
    return read(pipes_[static_cast<std::size_t>(rank)], &byte, 1) == 1 && byte == '.';
  }

  // The rank's answer, once its process has closed the pipe; "?" where it gave none.
  std::string answer(int rank) {
    std::string text;
    char buffer[512];
    ssize_t n = 0;
    while ((n = read(pipes_[static_cast<std::size_t>(rank)], buffer, sizeof buffer)) > 0)
      text.append(buffer, static_cast<std::size_t>(n));
    const auto start = text.find('=');
    return start == std::string::npos ? "?" : text.substr(start + 1);
  }

 private:
  [[noreturn]] static void child(const GroupOptions& options, const Meeting& meeting,
                                 const Body& body, int rank, int pipe) {
    const auto write = [pipe](std::string_view text) {
      if (::write(pipe, text.data(), text.size()) < 0) _exit(3);
    };
    auto made = groupKind(options.kind).open(options, rank, meeting);
    const std::string answer = made.ok() ? body(**made, [&] { write("."); }) : made.error().text();
    if (made.ok()) made->reset();
    write("=" + answer);
    _exit(0);
  }

  std::vector<pid_t> pids_;
  std::vector<int> pipes_;
};

}  // namespace lockstep::tests
