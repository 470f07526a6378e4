// A profiler plug-in for NCCL 2.26 and newer: counts the collectives that a process hands to NCCL,
// also those that nothing in Python calls, in the file beside the pipe of its rank (counts_file.h).
// It is a library of its own, which needs nothing but libc: NCCL opens it in the person's program.
// Its functions never block. Of NCCL's events it asks only for those of collectives, since NCCL can
// give these without work of its own.
//
// The interface is that of plugins/profiler/README.md and src/include/plugin/profiler/ of NCCL
// (2.28). NCCL looks for ncclProfiler_v5, then for v4 and v3.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/workload/counts_file.h"

namespace {

using lockstep::agent::CountsEntry;
using lockstep::agent::CountsFile;
using lockstep::agent::CountsTable;

constexpr int kSuccess = 0;                             // ncclSuccess
constexpr int kGroups = 1 << 0, kCollectives = 1 << 1;  // ncclProfileGroup, ncclProfileColl
constexpr std::size_t kLongestPath = 4096;

// The begin of what describes an event, as far as it is read here. What follows a rank is of a
// collective.
struct EventV3 {
  std::uint8_t type;
  void* parent;
  int rank;
  const char* name;
  std::uint64_t communicator, number;
  const char* function;  // "AllReduce"
};
struct EventV4 {
  std::uint8_t type;
  void* parent;
  int rank;
  std::uint64_t number;
  const char* function;
};
struct EventV5 {
  std::uint64_t type;
  void* parent;
  int rank;
  std::uint64_t number;
  const char* function;
};

using Record = int (*)(void* event, int state, void* arguments);
struct ProfilerV3 {
  const char* name;
  int (*init)(void** context, int* mask);
  int (*start)(void* context, void** event, EventV3* about);
  int (*stop)(void* event);
  Record record;
  int (*finalize)(void* context);
};
struct ProfilerV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* communicatorName, std::uint64_t communicator,
              int nodes, int ranks, int rank, void* logger);
  int (*start)(void* context, void** event, EventV4* about);
  int (*stop)(void* event);
  Record record;
  int (*finalize)(void* context);
};
struct ProfilerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, int* mask, const char* communicatorName,
              int nodes, int ranks, int rank, void* logger);
  int (*start)(void* context, void** event, EventV5* about);
  int (*stop)(void* event);
  Record record;
  int (*finalize)(void* context);
};

using Counter = std::atomic_ref<std::uint64_t>;

// NCCL numbers the collectives of each function by themselves.
struct Last {
  std::atomic<const char*> function;  // null: none yet
  std::atomic<std::uint64_t> number;
};
struct Communicator {
  std::atomic<bool> taken, ofGraphs;
  Last last[16];
};

constexpr std::size_t kEntries = sizeof(CountsTable::entries) / sizeof(CountsEntry);
Communicator communicators[kEntries];  // of the entries of the table
std::atomic<CountsTable*> table;
pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
bool opened = false;  // opening
std::atomic<std::uint64_t> order;
char group;  // its address stands for any group

// Writes the path of the rank's pipe, as resources/python/lockstep finds it. Returns false if there
// is none.
bool findPipe(char* path) {
  const char* const locals = std::getenv("LOCKSTEP_LOCAL_PIPES");
  const char* const local = std::getenv("LOCAL_RANK");
  const char* const own = std::getenv("LOCKSTEP_PIPE");
  int size = -1;
  if (locals != nullptr && local != nullptr)
    size = std::snprintf(path, kLongestPath, "%s%s", locals, local);
  else if (own != nullptr)
    size = std::snprintf(path, kLongestPath, "%s", own);
  return size > 0 && size < static_cast<int>(kLongestPath - 16);
}

// Tells that NCCL has opened this. Nothing is told if the pipe is full.
void tellSource(const char* path, int version) {
  const int pipe = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (pipe < 0) return;
  char line[100];
  const int size = std::snprintf(
      line, sizeof line, "{\"source\": \"NCCL\", \"version\": \"profiler v%d\"}\n", version);
  if (size > 0) (void)!write(pipe, line, static_cast<std::size_t>(size));
  close(pipe);
}

bool runs(std::uint64_t process) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%llu", static_cast<unsigned long long>(process));
  return access(path, F_OK) == 0;
}

// Maps the table, unless another process of the rank that runs counts there.
CountsTable* openTable(const char* pipe) {
  char path[kLongestPath];
  std::snprintf(path, sizeof path, "%.4000s.counts", pipe);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* map = MAP_FAILED;
  if (lseek(file, 0, SEEK_END) >= static_cast<off_t>(sizeof(CountsFile)))
    map = mmap(nullptr, sizeof(CountsFile), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (map == MAP_FAILED) return nullptr;
  CountsTable& out = static_cast<CountsFile*>(map)->nccl;
  const auto own = static_cast<std::uint64_t>(getpid());
  Counter process(out.process);
  std::uint64_t other = process.load();
  if ((other != 0 && other != own && runs(other)) || !process.compare_exchange_strong(other, own)) {
    munmap(map, sizeof(CountsFile));
    return nullptr;
  }
  std::memset(out.entries, 0, sizeof out.entries);
  return &out;
}

CountsTable* openOnce(int version) {
  pthread_mutex_lock(&opening);
  char pipe[kLongestPath];
  if (!opened && findPipe(pipe)) {
    table = openTable(pipe);
    if (table.load() != nullptr) tellSource(pipe, version);
  }
  opened = true;
  pthread_mutex_unlock(&opening);
  return table.load();
}

void setName(CountsEntry& entry, std::uint64_t communicator) {
  std::snprintf(entry.group, sizeof entry.group, "nccl/%016llx",
                static_cast<unsigned long long>(communicator));
}

// Returns the entry of a new communicator; null: its collectives are not counted.
CountsEntry* addEntry(int version, int* mask) {
  CountsTable* const found = openOnce(version);
  *mask = kCollectives;  // of all communicators
  if (found == nullptr) return nullptr;
  for (std::size_t i = 0; i < kEntries; ++i)
    if (!communicators[i].taken.exchange(true)) return &found->entries[i];
  return nullptr;
}

Communicator& communicatorOf(const CountsEntry* entry) {
  return communicators[entry - table.load()->entries];
}

// A collective of a captured CUDA graph does not move NCCL's numbers on. At each launch of the
// graph NCCL tells it on the ranks that need a proxy for it, and not on the others.
bool isOfGraph(Communicator& communicator, const char* function, std::uint64_t number) {
  for (Last& last : communicator.last) {
    const char* const known = last.function;
    if (known != nullptr && known != function) continue;
    if (known != nullptr && last.number == number) return true;
    last.number = number;
    last.function = function;
    return false;
  }
  return false;
}

// One thread of a communicator calls this at a time, and one of CUDA for its graphs.
void* begin(CountsEntry* entry, const char* function) {
  std::strncpy(entry->last, function == nullptr ? "collective" : function, sizeof entry->last);
  Counter(entry->order).store(order.fetch_add(1) + 1, std::memory_order_relaxed);
  Counter(entry->inside).store(1, std::memory_order_relaxed);
  Counter(entry->begun).fetch_add(1, std::memory_order_release);
  return entry;
}

int initV3(void** context, int* mask) {
  *context = addEntry(3, mask);
  return kSuccess;
}
int initV4(void** context, int* mask, const char*, std::uint64_t communicator, int, int, int,
           void*) {
  CountsEntry* const entry = addEntry(4, mask);
  if (entry != nullptr) setName(*entry, communicator);
  *context = entry;
  return kSuccess;
}
int initV5(void** context, std::uint64_t communicator, int* mask, const char*, int, int, int,
           void*) {
  CountsEntry* const entry = addEntry(5, mask);
  if (entry != nullptr) setName(*entry, communicator);
  *context = entry;
  return kSuccess;
}

template <typename Event>
int start(void* context, void** event, Event* about) {
  auto* const entry = static_cast<CountsEntry*>(context);
  *event = nullptr;
  if (entry == nullptr) return kSuccess;
  // NCCL 2.26 and 2.27 tell no collectives of a group that has no event.
  if (about->type == kGroups) *event = &group;
  if (about->type != kCollectives) return kSuccess;
  Communicator& communicator = communicatorOf(entry);
  if (communicator.ofGraphs || isOfGraph(communicator, about->function, about->number)) {
    communicator.ofGraphs = true;
    Counter(entry->begun).store(0);  // ranks would differ
    return kSuccess;
  }
  if constexpr (requires { about->communicator; })
    if (entry->group[0] == '\0') setName(*entry, about->communicator);
  *event = begin(entry, about->function);
  return kSuccess;
}

// NCCL has handed the collective to the GPU, which may take long for it.
int stop(void* event) {
  if (event != nullptr && event != &group)
    Counter(static_cast<CountsEntry*>(event)->inside).store(0, std::memory_order_relaxed);
  return kSuccess;
}

int record(void*, int, void*) { return kSuccess; }

int finalize(void* context) {
  auto* const entry = static_cast<CountsEntry*>(context);
  if (entry == nullptr) return kSuccess;
  Counter(entry->begun).store(0);
  entry->group[0] = '\0';
  Communicator& communicator = communicatorOf(entry);
  for (Last& last : communicator.last) last.function = nullptr;
  communicator.ofGraphs = false;
  communicator.taken = false;
  return kSuccess;
}

constexpr const char* kName = "Lockstep";

}  // namespace

#define LOCKSTEP_EXPORT extern "C" __attribute__((visibility("default")))
LOCKSTEP_EXPORT const ProfilerV3 ncclProfiler_v3{kName, initV3, start<EventV3>,
                                                 stop,  record, finalize};
LOCKSTEP_EXPORT const ProfilerV4 ncclProfiler_v4{kName, initV4, start<EventV4>,
                                                 stop,  record, finalize};
LOCKSTEP_EXPORT const ProfilerV5 ncclProfiler_v5{kName, initV5, start<EventV5>,
                                                 stop,  record, finalize};
