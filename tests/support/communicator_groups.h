// Groups of ranks for tests, as threads of this process or as forked processes, over any kind of
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

// A store for ranks of one host, in a folder.
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

// The thread sanitizer does not support forked children that start and end threads, as Gloo and
// concurrent sends and receives do.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kForkedThreadsWork = false;
#else
inline constexpr bool kForkedThreadsWork = true;
#endif

using RankBody = std::function<std::string(comm::Communicator&)>;  // returns "", or the error

inline std::string uniquePrefix() {
  static int count = 0;
  return "group" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

// Shared by the ranks before their group is formed.
struct GroupSetup {
  GroupSetup(int size, comm::Store& shared)
      : memory(comm::makeSharedMemory(comm::sharedMemoryBytes(size)).value()),
        prefix(uniquePrefix()),
        store(shared) {}
  ~GroupSetup() { close(memory); }
  GroupSetup(const GroupSetup&) = delete;
  GroupSetup& operator=(const GroupSetup&) = delete;

  int memory;
  std::string prefix;
  comm::Store& store;
};

// The kinds of communicators, and how to form a group.
struct GroupKind {
  const char* name;
  // Forms all ranks as threads of one process; null if each rank, perhaps in its own process, opens
  // its own.
  Result<std::vector<std::unique_ptr<comm::Communicator>>> (*together)(int size,
                                                                       Nanoseconds timeout);
  Result<std::unique_ptr<comm::Communicator>> (*open)(const GroupOptions& options, int rank,
                                                      const GroupSetup& setup);
};
inline constexpr GroupKind kGroupKinds[] = {
    {"in-process", comm::makeInProcessGroup, nullptr},
    {"shm", nullptr,
     [](const GroupOptions& options, int rank, const GroupSetup& setup) {
       return comm::openSharedMemory(setup.memory, 0, rank, options.size, options.oversubscribed,
                                     options.timeout);
     }},
    {"gloo", nullptr,
     [](const GroupOptions& options, int rank, const GroupSetup& setup) {
       return comm::connectGloo({rank, options.size, "", "", setup.prefix, options.timeout},
                                setup.store);
     }},
};
inline const GroupKind& groupKind(std::string_view name) {
  for (const GroupKind& kind : kGroupKinds)
    if (kind.name == name) return kind;
  std::abort();
}

// Runs `body` for every rank on a thread; returns the ranks' answers.
inline std::vector<std::string> runAsThreads(const GroupOptions& options, const RankBody& body) {
  std::vector<std::string> answers(static_cast<std::size_t>(options.size));
  const GroupKind& kind = groupKind(options.kind);
  std::vector<std::unique_ptr<comm::Communicator>> group;
  if (kind.together != nullptr) group = kind.together(options.size, options.timeout).value();
  MemoryStore store;
  const GroupSetup setup(options.size, store);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    threads.emplace_back([&, rank] {
      auto& answer = answers[static_cast<std::size_t>(rank)];
      std::unique_ptr<comm::Communicator> own;
      if (!group.empty()) {
        own = std::move(group[static_cast<std::size_t>(rank)]);
      } else {
        auto made = kind.open(options, rank, setup);
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

// Ranks as processes, each with a pipe for progress marks and, last, its answer.
class ProcessGroup {
 public:
  using Say = std::function<void()>;
  using Body = std::function<std::string(comm::Communicator&, const Say&)>;

  ProcessGroup(const GroupOptions& options, const std::string& folder, const Body& body) {
    FolderStore store(folder);
    const GroupSetup setup(options.size, store);
    for (int rank = 0; rank < options.size; ++rank) {
      int ends[2];
      if (pipe(ends) != 0) std::abort();
      const pid_t pid = fork();
      if (pid == 0) {
        for (const int other : pipes_) close(other);
        close(ends[0]);
        child(options, setup, body, rank, ends[1]);
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

  // Waits for the rank's next progress mark; false if it ended instead.
  bool progress(int rank) {
    char byte = 0;
    return read(pipes_[static_cast<std::size_t>(rank)], &byte, 1) == 1 && byte == '.';
  }

  // Returns the rank's answer once its process has closed the pipe; "?" if there was none.
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
  [[noreturn]] static void child(const GroupOptions& options, const GroupSetup& setup,
                                 const Body& body, int rank, int pipe) {
    const auto write = [pipe](std::string_view text) {
      if (::write(pipe, text.data(), text.size()) < 0) _exit(3);
    };
    auto made = groupKind(options.kind).open(options, rank, setup);
    const std::string answer = made.ok() ? body(**made, [&] { write("."); }) : made.error().text();
    if (made.ok()) made->reset();
    write("=" + answer);
    _exit(0);
  }

  std::vector<pid_t> pids_;
  std::vector<int> pipes_;
};

}  // namespace lockstep::tests
