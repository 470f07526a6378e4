#include "agent/host/metrics.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "agent/base/paths.h"
#include "agent/host/rounded.h"
#include "engine/base/file.h"
#include "engine/base/find_program.h"

namespace lockstep::agent {
namespace {

std::string slurp(const std::string& path) {
  auto text = readFile(path, std::size_t{4} << 20);
  return text.ok() ? std::move(*text) : std::string();
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) break;
    const std::size_t end = text.find_first_of(separators, begin);
    out.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end);
  }
  return out;
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
double decimal(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// Calls f(line) until it says false.
template <typename F>
void forLines(std::string_view text, F f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0 && !f(text.substr(0, end))) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// "key : value" lines, as in cpuinfo, meminfo and os-release.
std::string valueOf(std::string_view text, std::string_view key, char separator) {
  std::string out;
  forLines(text, [&](std::string_view line) {
    const std::size_t at = line.starts_with(key) ? line.find(separator) : std::string_view::npos;
    if (at == std::string_view::npos) return true;
    std::string_view value = line.substr(at + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '"')) value.remove_prefix(1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '"')) value.remove_suffix(1);
    out = value;
    return false;
  });
  return out;
}

// Calls f(folder, whether it is of version 2) for the control group of a controller, as
// /proc/<process>/cgroup says it, and for those above it.
template <typename F>
void forControlGroups(std::string_view groups, const std::string& controller, F f) {
  const auto upwards = [&f](const std::string& mount, std::string path, bool version2) {
    for (;;) {
      f(mount + (path == "/" ? "" : path), version2);
      if (path.empty() || path == "/") return;
      path.erase(path.rfind('/'));
    }
  };
  for (std::string_view line : split(groups, "\n")) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (names.empty()) {
      upwards("/sys/fs/cgroup", path, true);
      upwards("/sys/fs/cgroup/unified", path, true);
    } else {
      const auto each = split(names, ",");
      if (std::find(each.begin(), each.end(), controller) == each.end()) continue;
      upwards("/sys/fs/cgroup/" + controller, path, false);
      if (each.size() > 1) upwards("/sys/fs/cgroup/" + std::string(names), path, false);
    }
  }
}

// In cores; 1e9 where the group has none.
double quotaOf(const std::string& group) {
  double quota = 0, period = 0;
  const std::string text = slurp(group + "/cpu.max");
  if (const auto parts = split(text, " \n"); parts.size() == 2) {
    if (parts[0] != "max") quota = decimal(parts[0]), period = decimal(parts[1]);
  } else {
    quota = decimal(trimmed(slurp(group + "/cpu.cfs_quota_us")));
    period = decimal(trimmed(slurp(group + "/cpu.cfs_period_us")));
  }
  return quota > 0 && period > 0 ? quota / period : 1e9;
}

// From /proc/<pid>/schedstat: total seconds that the main thread was ready and had no core.
double waitingSeconds(std::string_view schedstat) {
  const auto fields = split(schedstat, " \n");
  return fields.size() < 2 ? 0 : static_cast<double>(number(fields[1])) * 1e-9;
}

struct ProcessStat {
  char state = '?';
  int parent = 0;
  std::uint64_t ticks = 0, diskFaults = 0;
};
ProcessStat processStat(std::string_view text) {
  const std::size_t close = text.rfind(')');
  if (close == std::string_view::npos) return {};
  const auto fields = split(text.substr(close + 1), " ");
  if (fields.size() < 13) return {};
  return {fields[0].front(), static_cast<int>(number(fields[1])),
          number(fields[11]) + number(fields[12]), number(fields[9])};
}

// The GPU that the process of each rank uses; where it uses none, that of a process that it has
// started, as the worker of a program starts the program. NVML has to tell PIDs of this namespace.
std::map<int, int> gpusOfRanks(const std::map<int, int>& ranks,
                               const std::map<int, int>& gpuOfProcess) {
  constexpr int kMostGenerations = 16;
  std::set<int> known;
  for (const auto& [rank, pid] : ranks) known.insert(pid);
  std::map<int, int> out;
  for (const auto& [process, gpu] : gpuOfProcess) {
    int pid = process;
    for (int i = 0; i < kMostGenerations && pid > 1 && !known.contains(pid); ++i)
      pid = processStat(slurp(fmt::format("/proc/{}/stat", pid))).parent;
    if (pid == process && known.contains(pid))
      out[pid] = gpu;
    else if (known.contains(pid))
      out.try_emplace(pid, gpu);
  }
  return out;
}

std::int64_t residentBytes(std::string_view statm) {
  const auto fields = split(statm, " ");
  return fields.size() < 2 ? 0
                           : static_cast<std::int64_t>(number(fields[1])) * sysconf(_SC_PAGESIZE);
}

// A driver that wakes its GPUs first takes seconds; those come with the samples then.
constexpr std::chrono::milliseconds kGpuLimit{2000};

bool isWholeDisk(std::string_view name) {
  return access(fmt::format("/sys/block/{}/device", name).c_str(), F_OK) == 0;
}

// Rate of a counter whose last value is `kept`; 0 if it was reset.
double rate(std::uint64_t value, std::uint64_t& kept, double seconds) {
  const double gained =
      seconds > 0 && value >= kept ? static_cast<double>(value - kept) / seconds : 0;
  kept = value;
  return gained;
}

}  // namespace

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  double cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  forControlGroups(slurp("/proc/self/cgroup"), "cpu", [&](const std::string& folder, bool) {
    cores = std::min(cores, quotaOf(folder));
  });
  return std::max(1, static_cast<int>(std::ceil(cores - 0.01)));
}

std::int64_t memoryAvailable() {
  const std::string memory = slurp("/proc/meminfo");
  const std::string available = valueOf(memory, "MemAvailable:", ':');
  if (available.empty()) return -1;
  auto out = static_cast<std::int64_t>(number(available)) * 1024;
  forControlGroups(
      slurp("/proc/self/cgroup"), "memory", [&](const std::string& folder, bool version2) {
        const auto read = [&](const char* name) {
          return static_cast<std::int64_t>(number(slurp(folder + "/" + name)));
        };
        const std::int64_t limit = read(version2 ? "memory.max" : "memory.limit_in_bytes");
        if (limit <= 0) return;  // "max", or no such group here
        const std::int64_t used = read(version2 ? "memory.current" : "memory.usage_in_bytes");
        // File pages that nobody uses are given back when memory is asked for.
        const std::string stat = slurp(folder + "/memory.stat");
        const auto idle = static_cast<std::int64_t>(
            number(valueOf(stat, version2 ? "inactive_file " : "total_inactive_file ", ' ')));
        out = std::min(out, std::max<std::int64_t>(0, limit - used + idle));
      });
  return out;
}

std::int64_t diskFree(const std::string& folder) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return -1;  // it does not tell
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

std::int64_t processMemory(int pid) {
  return residentBytes(slurp(fmt::format("/proc/{}/statm", pid)));
}

node::v1::Inventory inventory(const std::string& workdir) {
  node::v1::Inventory out;
  out.set_hostname(hostName());
  out.set_boot_id(bootId());
  std::error_code ignored;
  out.set_network(std::filesystem::read_symlink("/proc/self/ns/net", ignored).string());
  out.set_wall_ns(wallNow());
  out.set_cores(usableCores());
  const std::string cpu = slurp("/proc/cpuinfo");
  out.set_cpu(valueOf(cpu, "model name", ':'));
  static const std::set<std::string_view> kFlags = {
      "sse4_2",   "avx",      "avx2",        "fma",         "f16c",     "avx512f",
      "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"};
  const std::string flags = valueOf(cpu, "flags", ':');
  for (std::string_view flag : split(flags, " "))
    if (kFlags.contains(flag)) out.add_cpu_flags(std::string(flag));
  out.set_memory_bytes(
      static_cast<std::int64_t>(number(valueOf(slurp("/proc/meminfo"), "MemTotal:", ':')) * 1024));
  out.set_memory_available_bytes(memoryAvailable());
  utsname names{};
  uname(&names);
  out.set_kernel(names.release);
  out.set_os(valueOf(slurp("/etc/os-release"), "PRETTY_NAME=", '='));
  out.set_has_curl(!findProgram("curl", kProgramFolders).empty());
  out.set_workdir(workdir);
  out.set_disk_free_bytes(diskFree(workdir));
  ifaddrs* addresses = nullptr;
  if (getifaddrs(&addresses) == 0) {
    for (ifaddrs* at = addresses; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
      std::array<char, INET6_ADDRSTRLEN> text{};
      if (at->ifa_addr->sa_family == AF_INET) {
        inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr, text.data(),
                  text.size());
      } else if (at->ifa_addr->sa_family == AF_INET6) {
        const in6_addr& address = reinterpret_cast<sockaddr_in6*>(at->ifa_addr)->sin6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
        inet_ntop(AF_INET6, &address, text.data(), text.size());
      } else {
        continue;
      }
      out.add_addresses(fmt::format("{} {}", at->ifa_name, text.data()));
    }
    freeifaddrs(addresses);
  }
  const auto gpus = gpuMonitor().look(kGpuLimit);
  for (const run::v1::GpuSample& gpu : gpus->gpus)
    out.add_gpus(gpu.has_memory_total() ? fmt::format("{}, {:.0f} MiB", gpu.name(),
                                                      std::floor(gpu.memory_total() / (1 << 20)))
                                        : gpu.name());
  out.set_gpu_driver(gpus->driver);
  out.set_pid(getpid());
  return out;
}

CachedProcFile::~CachedProcFile() {
  if (fd_ >= 0) close(fd_);
}

CachedProcFile::CachedProcFile(CachedProcFile&& other) noexcept
    : path_(std::move(other.path_)),
      text_(std::move(other.text_)),
      fd_(std::exchange(other.fd_, -1)) {}

std::string_view CachedProcFile::read() {
  constexpr std::size_t kPart = 16 << 10, kLimit = 4 << 20;
  if (fd_ < 0) fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  std::size_t size = 0;
  while (fd_ >= 0 && size < kLimit) {
    if (text_.size() < size + kPart) text_.resize(size + kPart);
    const ssize_t count = pread(fd_, text_.data() + size, kPart, static_cast<off_t>(size));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  return std::string_view(text_).substr(0, size);
}

NodeSampler::Process::Process(int pid)
    : stat(fmt::format("/proc/{}/stat", pid)),
      memory(fmt::format("/proc/{}/statm", pid)),
      schedule(fmt::format("/proc/{}/schedstat", pid)),
      groups(fmt::format("/proc/{}/cgroup", pid)) {}

double NodeSampler::Process::throttledSeconds() {
  if (const std::string_view now = groups.read(); now != groupsText) {
    groupsText = now;
    throttles.clear();
    forControlGroups(groupsText, "cpu", [this](const std::string& folder, bool) {
      if (CachedProcFile file(folder + "/cpu.stat"); !file.read().empty())
        throttles.push_back(std::move(file));
    });
  }
  double most = 0;
  for (CachedProcFile& file : throttles) {
    const std::string_view text = file.read();
    most = std::max({most, decimal(valueOf(text, "throttled_usec", ' ')) * 1e-6,
                     decimal(valueOf(text, "throttled_time", ' ')) * 1e-9});
  }
  return most;
}

NodeSampler::NodeSampler(std::string workdir, GpuMonitor& gpus, PackagePower power)
    : workdir_(std::move(workdir)), gpus_(gpus), power_(std::move(power)) {
  (void)gpus_.look(std::chrono::milliseconds(0));
}

run::v1::NodeSample NodeSampler::sample(const std::map<int, int>& ranks) {
  run::v1::NodeSample out;
  const Nanoseconds now = monotonicNow();
  const double seconds = before_ == 0 ? 0 : static_cast<double>(now - before_) * 1e-9;
  before_ = now;
  sampleCores(seconds, out);
  if (const auto watts = power_.watts(now)) out.set_package_w(*watts);
  sampleMemory(out);
  sampleNetwork(seconds, out);
  sampleDisks(seconds, out);
  if (const auto fields = split(load_.read(), " "); !fields.empty())
    out.set_load1(decimal(fields[0]));
  const auto gpus = gpus_.latest();
  for (const run::v1::GpuSample& gpu : gpus->gpus) *out.add_gpu() = gpu;
  sampleRanks(ranks, *gpus, seconds, out);
  return out;
}

void NodeSampler::sampleCores(double seconds, run::v1::NodeSample& out) {
  std::size_t core = 0;
  forLines(stat_.read(), [&](std::string_view line) {
    if (!line.starts_with("cpu")) return false;
    const auto fields = split(line, " ");
    Busy busy;
    for (std::size_t i = 1; i < fields.size() && i <= 8; ++i) {
      busy.total += number(fields[i]);
      if (i != 4 && i != 5) busy.busy += number(fields[i]);  // not idle, not waiting for a disk
    }
    if (cores_.size() <= core) cores_.resize(core + 1);
    Busy& kept = cores_[core];
    const double share = seconds > 0 && busy.total > kept.total && busy.busy >= kept.busy
                             ? static_cast<double>(busy.busy - kept.busy) /
                                   static_cast<double>(busy.total - kept.total)
                             : 0;
    kept = busy;
    if (core == 0)
      out.set_cpu(inParts(share));
    else
      out.add_core(inParts(share));
    ++core;
    return true;
  });
}

void NodeSampler::sampleMemory(run::v1::NodeSample& out) {
  const std::string_view memory = memory_.read();
  const double total = static_cast<double>(number(valueOf(memory, "MemTotal:", ':'))) * 1024;
  const double available =
      static_cast<double>(number(valueOf(memory, "MemAvailable:", ':'))) * 1024;
  out.set_memory_total(total);
  out.set_memory_used(total - available);
}

void NodeSampler::sampleNetwork(double seconds, run::v1::NodeSample& out) {
  std::uint64_t in = 0, sent = 0, loopback = 0;
  forLines(network_.read(), [&](std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return true;
    const auto name = split(line.substr(0, colon), " ");
    const auto fields = split(line.substr(colon + 1), " ");
    if (name.empty() || fields.size() < 9) return true;
    if (name[0] == "lo") {
      loopback = number(fields[8]);
    } else {
      in += number(fields[0]);
      sent += number(fields[8]);
    }
    return true;
  });
  out.set_network_in(roundedRate(rate(in, netIn_, seconds)));
  out.set_network_out(roundedRate(rate(sent, netOut_, seconds)));
  out.set_loopback(roundedRate(rate(loopback, loopback_, seconds)));
}

void NodeSampler::sampleDisks(double seconds, run::v1::NodeSample& out) {
  std::uint64_t read = 0, written = 0;
  double busiest = -1;
  forLines(disks_.read(), [&](std::string_view line) {
    const auto fields = split(line, " ");
    if (fields.size() < 13) return true;
    auto disk = wholeDisks_.find(fields[2]);
    if (disk == wholeDisks_.end())
      disk = wholeDisks_.emplace(fields[2], Disk{isWholeDisk(fields[2]), number(fields[12])}).first;
    if (!disk->second.isWhole) return true;
    read += number(fields[5]) * 512;
    written += number(fields[9]) * 512;
    busiest = std::max(busiest, 1e-3 * rate(number(fields[12]), disk->second.busy, seconds));
    return true;
  });
  sampleDiskBusy(busiest, seconds, out);
  out.set_disk_read(roundedRate(rate(read, read_, seconds)));
  out.set_disk_write(roundedRate(rate(written, written_, seconds)));
  out.set_disk_free(static_cast<double>(diskFree(workdir_)));
}

// `busiest`: of the disks, as the kernel counts their requests; < 0: it has none. Pressure counts
// what waits for a network's disk as well.
void NodeSampler::sampleDiskBusy(double busiest, double seconds, run::v1::NodeSample& out) {
  const std::string_view pressure = diskPressure_.read();
  if (const std::size_t at = pressure.find("total="); at != std::string_view::npos)
    busiest = std::max(busiest, 1e-6 * rate(number(pressure.substr(at + 6)), diskWaited_, seconds));
  if (busiest >= 0 && seconds > 0) out.set_disk_busy(inParts(busiest));
}

void NodeSampler::sampleRanks(const std::map<int, int>& ranks, const GpuReading& gpus,
                              double seconds, run::v1::NodeSample& out) {
  std::erase_if(processes_, [&](const auto& kept) {
    return std::none_of(ranks.begin(), ranks.end(),
                        [&](const auto& rank) { return rank.second == kept.first; });
  });
  const double tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  const std::map<int, int> gpuOfRank = gpusOfRanks(ranks, gpus.gpuOfProcess);
  for (const auto& [rank, pid] : ranks) {
    Process& process = processes_.try_emplace(pid, pid).first->second;
    const ProcessStat stat = processStat(process.stat.read());
    if (stat.state == '?') continue;
    run::v1::RankSample* one = out.add_rank();
    one->set_rank(rank);
    one->set_memory(static_cast<double>(residentBytes(process.memory.read())));
    one->set_stopped(stat.state == 'T' || stat.state == 't');
    if (const auto gpu = gpuOfRank.find(pid); gpu != gpuOfRank.end()) one->set_gpu(gpu->second);
    const ProcessCounts counts{static_cast<double>(stat.ticks) / tick,
                               waitingSeconds(process.schedule.read()), process.throttledSeconds(),
                               static_cast<double>(stat.diskFaults)};
    const ProcessCounts old = std::exchange(process.counts, counts);
    if (!std::exchange(process.known, true) || seconds <= 0) continue;
    const auto rate = [&](double ProcessCounts::*count) {
      return std::max(counts.*count - old.*count, 0.0) / seconds;
    };
    one->set_cpu(rate(&ProcessCounts::cpu));
    one->set_waiting(rate(&ProcessCounts::waiting));
    one->set_throttled(rate(&ProcessCounts::throttled));
    one->set_disk_faults(rate(&ProcessCounts::diskFaults));
  }
}

}  // namespace lockstep::agent
