#include "agent/host/cores.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "agent/host/metrics.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/threads.h"

namespace lockstep::agent {
namespace {

constexpr auto kLook = std::chrono::milliseconds(30);

// -1: somebody holds it.
int bindName(const std::string& scope, int core) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("{}-{}", scope, core);  // after a zero: no file
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)) == 0)
    return fd;
  close(fd);
  return -1;
}

// Index of the core among the hyper-threads of its physical core: 0, 1, …
int siblingIndex(int core) {
  const auto text = readFile(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", core), 4096);
  if (!text.ok()) return 0;
  // "0,64" or "0-1".
  int index = 0;
  const char* at = text->data();
  const char* const end = at + text->size();
  while (at < end) {
    int first = 0;
    const auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    int last = first;
    at = read.ptr;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    if (core <= last) return index + std::max(0, core - first);
    index += last - first + 1;
    if (at < end && *at == ',') ++at;
  }
  return 0;
}

struct Times {
  std::uint64_t busy = 0, total = 0;
};

// From /proc/stat, by core: total ticks.
std::map<int, Times> coreTimes() {
  std::map<int, Times> out;
  const auto text = readFile("/proc/stat", std::size_t{4} << 20);
  if (!text.ok()) return out;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const char* from = text->data() + at;
    const char* const to = text->data() + end;
    at = end + 1;
    int core = 0;
    if (to - from < 4 || std::string_view(from, 3) != "cpu") break;
    const auto read = std::from_chars(from + 3, to, core);
    if (read.ec != std::errc()) continue;  // the line of all
    Times& times = out[core];
    const char* next = read.ptr;
    for (int field = 0; field < 8; ++field) {
      while (next < to && *next == ' ') ++next;
      std::uint64_t ticks = 0;
      next = std::from_chars(next, to, ticks).ptr;
      times.total += ticks;
      if (field != 3 && field != 4) times.busy += ticks;  // not idle, not waiting for a disk
    }
  }
  return out;
}

bool mostlyBusy(const Times& then, const Times& now) {
  return 2 * (now.busy - then.busy) > now.total - then.total;
}

// The cores in the order in which they are taken, only those at rest where asked for.
std::vector<int> inOrder(std::vector<int> cores, bool choice, bool onlyAtRest) {
  std::map<int, std::pair<bool, int>> key;  // busy, sibling
  for (const int core : cores) key[core] = {false, siblingIndex(core)};
  if (choice) {
    auto before = coreTimes();
    std::this_thread::sleep_for(kLook);
    for (const auto& [core, now] : coreTimes())
      if (key.contains(core)) key[core].first = mostlyBusy(before[core], now);
  }
  if (onlyAtRest) std::erase_if(cores, [&](int core) { return key[core].first; });
  std::stable_sort(cores.begin(), cores.end(), [&](int a, int b) { return key[a] < key[b]; });
  return cores;
}

}  // namespace

CoreClaims::~CoreClaims() { release(); }

CoreClaims::CoreClaims(CoreClaims&& other) noexcept
    : cores_(std::exchange(other.cores_, {})),
      names_(std::exchange(other.names_, {})),
      whyNot_(std::move(other.whyNot_)) {}

CoreClaims& CoreClaims::operator=(CoreClaims&& other) noexcept {
  release();
  cores_ = std::exchange(other.cores_, {});
  names_ = std::exchange(other.names_, {});
  whyNot_ = std::move(other.whyNot_);
  return *this;
}

void CoreClaims::release() {
  for (const int name : names_) close(name);
  names_.clear();
}

const std::vector<int>& CoreClaims::of(std::size_t rank) const {
  static const std::vector<int> kNone;
  return rank < cores_.size() ? cores_[rank] : kNone;
}

CoreClaims CoreClaims::claim(const std::vector<int>& threads, const std::string& scope) {
  return claim(threads, scope, false);
}

CoreClaims CoreClaims::claimAtRest(int threads, const std::string& scope) {
  return claim({threads}, scope, true);
}

CoreClaims CoreClaims::claim(const std::vector<int>& threads, const std::string& scope,
                             bool onlyAtRest) {
  const std::vector<int> given = givenCores();
  const auto wanted = static_cast<std::size_t>(std::accumulate(threads.begin(), threads.end(), 0));
  if (wanted == 0) return CoreClaims();
  if (wanted > given.size())
    return CoreClaims(
        fmt::format("{} compute threads are more than the {} cores", wanted, given.size()));
  if (usableCores() < static_cast<int>(given.size()))
    return CoreClaims(fmt::format("a quota of {} cores lets the kernel choose among {}",
                                  usableCores(), given.size()));
  CoreClaims out;
  std::vector<int> taken;
  for (const int core : inOrder(given, wanted < given.size(), onlyAtRest)) {
    if (taken.size() == wanted) break;
    const int name = bindName(scope, core);
    if (name < 0) continue;
    out.names_.push_back(name);
    taken.push_back(core);
  }
  if (taken.size() < wanted)
    return CoreClaims(fmt::format("others hold {} of the {} cores, and {} are needed",
                                  given.size() - taken.size(), given.size(), wanted));
  std::sort(taken.begin(), taken.end());
  auto next = taken.begin();
  for (const int count : threads) {
    out.cores_.emplace_back(next, next + count);
    next += count;
  }
  out.whyNot_.clear();
  return out;
}

struct PinnedThread::State {
  std::vector<int> cores;
  std::string scope;
  CoreClaims held;  // besides what the supervisor holds for the run
  int thread = threadId();
  CachedProcFile schedule{fmt::format("/proc/self/task/{}/schedstat", threadId())};
  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;  // mutex
  std::thread watch;

  // Nanoseconds, ever, that the thread was ready and had no core.
  std::optional<Nanoseconds> waited() {
    const std::string_view text = schedule.read();
    const std::size_t space = text.find(' ');
    Nanoseconds out = 0;
    if (space == std::string_view::npos ||
        std::from_chars(text.data() + space + 1, text.data() + text.size(), out).ec != std::errc())
      return std::nullopt;
    return out;
  }

  void look() {
    constexpr double kMuch = 0.25;
    constexpr int kTwice = 2, kRest = 10;  // seconds; looking for other cores is not for every one
    Nanoseconds since = monotonicNow();
    auto before = waited();
    for (int busy = 0; before;) {
      {
        std::unique_lock lock(mutex);
        if (changed.wait_for(lock, std::chrono::seconds(1), [this] { return ending; })) return;
      }
      const Nanoseconds now = monotonicNow();
      const auto total = waited();
      if (!total) return;
      const double share = static_cast<double>(*total - *before) / static_cast<double>(now - since);
      before = total;
      since = now;
      busy = share > kMuch || busy < 0 ? busy + 1 : 0;
      if (busy < kTwice) continue;
      busy = -kRest;
      CoreClaims other = CoreClaims::claimAtRest(static_cast<int>(cores.size()), scope);
      if (!other.pinned() || !moveThread(thread, cores, other.of(0))) continue;
      logInfo("the compute thread waited {:.0f} % of its time for core {} and goes on on core {}",
              100 * share, fmt::join(cores, ", "), fmt::join(other.of(0), ", "));
      held = std::move(other);
      cores = held.of(0);
    }
  }
};

void setCores(const CoreClaims& claims, std::size_t rank, node::v1::WorkerStart& out) {
  out.mutable_cores()->Assign(claims.of(rank).begin(), claims.of(rank).end());
  out.set_unpinned(claims.whyNot());
}

PinnedThread::PinnedThread(const node::v1::WorkerStart& start, std::string scope) {
  const std::vector<int> cores(start.cores().begin(), start.cores().end());
  if (cores.empty()) {
    if (!start.unpinned().empty())
      logInfo("rank {} computes on any core: {}", start.rank(), start.unpinned());
    return;
  }
  if (!pinThread(0, cores)) {
    logInfo("rank {} computes on any core: the kernel refuses core {}", start.rank(),
            fmt::join(cores, ", "));
    return;
  }
  logInfo("rank {} computes on core {}", start.rank(), fmt::join(cores, ", "));
  state_ = std::make_unique<State>();
  state_->cores = cores;
  state_->scope = std::move(scope);
  state_->watch = helperThread("pin-watch", [state = state_.get()] { state->look(); });
}

PinnedThread::~PinnedThread() {
  if (!state_) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
  }
  state_->watch.join();
  moveThread(state_->thread, state_->cores, givenCores());
}

}  // namespace lockstep::agent
