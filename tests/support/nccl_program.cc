// nccl_program PLUGIN VERSION COLLECTIVES: opens a profiler plug-in, and calls it as NCCL does (its
// src/plugin/profiler.cc and src/enqueue.cc of 2.28), with a communicator in each of four threads.
// The first one is still in a collective when "there" is printed. Ends with its input.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

constexpr int kGroup = 1, kCollective = 2, kKernel = 64, kThreads = 4;

// As in profiler_v3.h, profiler_v4.h and profiler_v5.h, of what the events here have.
struct CollectiveV3 {
  const char* name;
  std::uint64_t communicator, number;
  const char* function;
  const void* from;
  void* to;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct CollectiveV4 {
  std::uint64_t number;
  const char* function;
  const void* from;
  void* to;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
};
template <typename Type, typename Collective>
struct Event {
  Type type;
  void* parent;
  int rank;
  Collective collective;
};
template <typename Init, typename About>
struct Profiler {
  const char* name;
  Init init;
  int (*start)(void* context, void** event, About* about);
  int (*stop)(void* event);
  int (*record)(void* event, int state, void* arguments);
  int (*finalize)(void* context);
};
using EventV3 = Event<std::uint8_t, CollectiveV3>;
using EventV4 = Event<std::uint8_t, CollectiveV4>;
using EventV5 = Event<std::uint64_t, CollectiveV4>;
using ProfilerV3 = Profiler<int (*)(void**, int*), EventV3>;
using ProfilerV4 =
    Profiler<int (*)(void**, int*, const char*, std::uint64_t, int, int, int, void*), EventV4>;
using ProfilerV5 =
    Profiler<int (*)(void**, std::uint64_t, int*, const char*, int, int, int, void*), EventV5>;

void init(const ProfilerV3& profiler, void** context, std::uint64_t, int* mask) {
  profiler.init(context, mask);
}
void init(const ProfilerV4& profiler, void** context, std::uint64_t communicator, int* mask) {
  profiler.init(context, mask, "own", communicator, 1, 2, 0, nullptr);
}
void init(const ProfilerV5& profiler, void** context, std::uint64_t communicator, int* mask) {
  profiler.init(context, communicator, mask, nullptr, 1, 2, 0, nullptr);
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

template <typename Profiler, typename Event>
class Communicator {
 public:
  Communicator(const Profiler& profiler, int id) : profiler_(profiler), id_(id) {
    int mask = 0;
    init(profiler_, &context_, static_cast<std::uint64_t>(id), &mask);
    require(mask == kCollective, "the profiler asks for other events than collectives");
  }
  ~Communicator() { profiler_.finalize(context_); }

  // A group is told also where nobody asks for it. Before version 5, none of its collectives are
  // where it has no event.
  void* begin(int number) {
    group_ = start(kGroup, nullptr, 0);
    if (std::is_same_v<decltype(Event::type), std::uint8_t> && group_ == nullptr) return nullptr;
    return start(kCollective, group_, number);
  }
  void end(void* event) {
    profiler_.record(event, 0, nullptr);
    if (event != nullptr) profiler_.stop(event);
    if (group_ != nullptr) profiler_.stop(group_);
    require(start(kKernel, event, 0) == nullptr, "the profiler takes a kernel for a collective");
  }

 private:
  void* start(int type, void* parent, int number) {
    Event event{};
    event.type = static_cast<decltype(event.type)>(type);
    event.parent = parent;
    if constexpr (requires { event.collective.communicator; })
      event.collective.communicator = static_cast<std::uint64_t>(id_);
    event.collective.number = static_cast<std::uint64_t>(number);
    event.collective.function = number % 2 == 0 ? "AllReduce" : "ReduceScatter";
    void* out = nullptr;
    profiler_.start(context_, &out, &event);
    return out;
  }

  const Profiler& profiler_;
  const int id_;
  void *context_ = nullptr, *group_ = nullptr;
};

template <typename Profiler, typename Event>
void play(void* library, const char* symbol, int collectives) {
  const auto* const profiler = static_cast<const Profiler*>(dlsym(library, symbol));
  require(profiler != nullptr, symbol);
  // What a captured CUDA graph has: the number stays.
  Communicator<Profiler, Event> graph(*profiler, 5);
  for (int launch = 0; launch < 3; ++launch) graph.end(graph.begin(2));
  std::atomic<int> done{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int id = 1; id <= kThreads; ++id)
    threads.emplace_back([&, id] {
      // One before has gone, and its place is free.
      for (int time = 0; time < 100; ++time) Communicator<Profiler, Event>(*profiler, 1000 + id);
      Communicator<Profiler, Event> communicator(*profiler, id);
      void* event = nullptr;
      for (int number = 1; number <= collectives; ++number) {
        if (event != nullptr) communicator.end(event);
        event = communicator.begin(number);
      }
      if (id > 1) communicator.end(event);
      ++done;
      done.notify_one();
      over.wait(false);
    });
  for (int ready = done; ready < kThreads; ready = done) done.wait(ready);
  std::printf("there\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  over = true;
  over.notify_all();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  void* const library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, words[1]);
  const int collectives = std::atoi(words[3]);
  if (std::strcmp(words[2], "3") == 0)
    play<ProfilerV3, EventV3>(library, "ncclProfiler_v3", collectives);
  if (std::strcmp(words[2], "4") == 0)
    play<ProfilerV4, EventV4>(library, "ncclProfiler_v4", collectives);
  if (std::strcmp(words[2], "5") == 0)
    play<ProfilerV5, EventV5>(library, "ncclProfiler_v5", collectives);
  dlclose(library);
}
