#include "engine/base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "engine/base/list_folder.h"

namespace lockstep {
namespace {

std::atomic<bool> pinned{false};  // whether any thread of this process was ever pinned

std::vector<int> coresOfThread(int id) {
  // A host may have more cores than a cpu_set_t holds; the kernel then rejects the size.
  for (int most = CPU_SETSIZE; most <= 1 << 16; most *= 2) {
    cpu_set_t* set = CPU_ALLOC(most);
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    const bool known = sched_getaffinity(id, bytes, set) == 0;
    std::vector<int> out;
    for (int core = 0; known && core < most; ++core)
      if (CPU_ISSET_S(core, bytes, set)) out.push_back(core);
    CPU_FREE(set);
    if (known) return out;
  }
  return {};
}

}  // namespace

std::vector<int> givenCores() {
  static std::mutex mutex;
  static std::vector<int> given;
  const std::lock_guard lock(mutex);
  if (!pinned.load()) given = coresOfThread(0);
  return given;
}

bool pinThread(int id, std::span<const int> cores) {
  if (cores.empty()) return false;
  static_cast<void>(givenCores());
  pinned.store(true);
  const int most = *std::max_element(cores.begin(), cores.end()) + 1;
  cpu_set_t* set = CPU_ALLOC(most);
  const std::size_t bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set);
  for (const int core : cores) CPU_SET_S(core, bytes, set);
  const bool done = sched_setaffinity(id, bytes, set) == 0;
  CPU_FREE(set);
  return done;
}

bool moveThread(int id, std::span<const int> cores, std::span<const int> others) {
  if (!pinThread(id, others)) return false;
  for (const auto& task : listFolder("/proc/self/task")) {
    const int other = std::atoi(task.filename().c_str());
    if (std::ranges::equal(coresOfThread(other), cores)) pinThread(other, others);
  }
  return true;
}

int threadId() { return static_cast<int>(gettid()); }

std::thread helperThread(std::string name, std::function<void()> body) {
  return std::thread([name = std::move(name), body = std::move(body)] {
    pthread_setname_np(pthread_self(), name.c_str());
    if (pinned.load()) pinThread(0, givenCores());
    body();
  });
}

}  // namespace lockstep
