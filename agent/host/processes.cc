#include "agent/host/processes.h"

#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <sstream>
#include <thread>
#include <tuple>
#include <vector>

#include "agent/host/metrics.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/list_folder.h"
#include "engine/base/utf8.h"

namespace lockstep::agent {
namespace {

constexpr double kLeastSeconds = 0.1, kMostSeconds = 10, kUsualSeconds = 1;
constexpr int kMostProcesses = 500, kUsualProcesses = 30;
constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;
constexpr std::size_t kMostCommandBytes = 1000;
constexpr std::string_view kAgentProgram = "lockstep-agent";

std::string slurp(int pid, const char* file) {
  auto text = readFile(fmt::format("/proc/{}/{}", pid, file), kMostFileBytes);
  return text.ok() ? std::move(*text) : std::string();
}

std::vector<int> processIds() {
  std::vector<int> out;
  for (const auto& entry : listFolder("/proc")) {
    const std::string name = entry.filename().string();
    int pid = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (read.ec == std::errc() && read.ptr == name.data() + name.size()) out.push_back(pid);
  }
  return out;
}

using Sample = std::map<int, ProcessStat>;

Sample sampleAll() {
  Sample out;
  for (const int pid : processIds())
    if (auto stat = parseProcessStat(slurp(pid, "stat"))) out.emplace(pid, std::move(*stat));
  return out;
}

std::vector<std::string> zeroTerminated(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string commandText(const std::vector<std::string>& words, const ProcessStat& stat) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    out += word;
    if (out.size() > kMostCommandBytes) break;
  }
  if (out.empty()) out = "[" + stat.name + "]";
  if (out.size() > kMostCommandBytes) {
    out.resize(kMostCommandBytes - 3);
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0U) == 0x80U)
      out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xC0U) out.pop_back();
    out += "...";
  }
  return validUtf8(out);
}

std::string valueOf(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment)
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  return {};
}

// The run of a supervisor's folder, …/runs/RUN/NODE.
std::string runOfFolder(const std::string& folder) {
  const std::size_t node = folder.rfind('/');
  if (node == std::string::npos || node == 0) return {};
  const std::size_t run = folder.rfind('/', node - 1);
  return run == std::string::npos ? "" : folder.substr(run + 1, node - run - 1);
}

// Says which process of Lockstep it is, by its command line.
void notePart(int pid, const std::vector<std::string>& words, node::v1::NodeProcess& out) {
  if (words.size() < 2 || words[0].substr(words[0].rfind('/') + 1) != kAgentProgram) return;
  if (words[1] == "serve") out.set_part("agent");
  if (words[1] == "supervise" && words.size() > 2) {
    out.set_part("supervisor");
    out.set_run(validUtf8(runOfFolder(words[2])));
  }
  if (words[1] != "worker") return;
  out.set_part("worker");
  const auto environment = zeroTerminated(slurp(pid, "environ"));
  out.set_run(validUtf8(valueOf(environment, "LOCKSTEP_RUN")));
  const std::string rank = valueOf(environment, "LOCKSTEP_RANK");
  int value = 0;
  const auto read = std::from_chars(rank.data(), rank.data() + rank.size(), value);
  if (!out.run().empty() && read.ec == std::errc() && read.ptr == rank.data() + rank.size())
    out.set_rank(value);
}

// Names of accounts, each looked up once: the name service may be slow.
class UserNames {
 public:
  const std::string& of(unsigned user) {
    auto [entry, isNew] = names_.try_emplace(user);
    if (!isNew) return entry->second;
    std::array<char, 16384> buffer{};
    passwd record{};
    passwd* found = nullptr;
    const bool known =
        getpwuid_r(user, &record, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
    entry->second = known ? validUtf8(found->pw_name) : fmt::format("{}", user);
    return entry->second;
  }

 private:
  std::map<unsigned, std::string> names_;
};

// The effective user of /proc/PID/status; absent: it has ended.
std::optional<unsigned> userOf(int pid) {
  const std::string status = slurp(pid, "status");
  constexpr std::string_view kKey = "\nUid:\t";
  const std::size_t at = status.find(kKey);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t second = status.find('\t', at + kKey.size());
  if (second == std::string::npos) return std::nullopt;
  unsigned user = 0;
  const char* begin = status.data() + second + 1;
  const auto read = std::from_chars(begin, status.data() + status.size(), user);
  return read.ec == std::errc() ? std::optional(user) : std::nullopt;
}

double sinceBoot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Listed {
  node::v1::NodeProcess process;
  ProcessStat stat;
};

// With what the two samples tell, and which process of Lockstep it is.
Listed describe(int pid, const ProcessStat& now, const ProcessStat* before, double seconds) {
  static const double ticksPerSecond = static_cast<double>(sysconf(_SC_CLK_TCK));
  Listed out{{}, now};
  const bool isSame = before != nullptr && before->start == now.start;
  const std::uint64_t used = now.cpu - std::min(now.cpu, isSame ? before->cpu : 0);
  out.process.set_pid(pid);
  out.process.set_parent(now.parent);
  out.process.set_threads(now.threads);
  out.process.set_state(std::string(1, now.state));
  out.process.set_cores(static_cast<double>(used) / ticksPerSecond / seconds);
  out.process.set_age_seconds(
      std::max(0.0, sinceBoot() - static_cast<double>(now.start) / ticksPerSecond));
  out.process.set_memory_bytes(processMemory(pid));
  // Its command line is part of its memory. One that hangs in the kernel, perhaps with a lock on
  // its memory, is named instead: reading would hang as well.
  const bool hangs = isSame && now.state == 'D' && before->state == 'D';
  const auto words = hangs ? std::vector<std::string>() : zeroTerminated(slurp(pid, "cmdline"));
  out.process.set_command(commandText(words, now));
  notePart(pid, words, out.process);
  return out;
}

bool isBusier(const Listed& a, const Listed& b) {
  const auto key = [](const Listed& one) {
    return std::tuple(-one.process.cores(), -one.process.memory_bytes(), one.process.pid());
  };
  return key(a) < key(b);
}

}  // namespace

Result<node::v1::ListProcessesReply> listProcesses(const node::v1::ListProcessesRequest& request,
                                                   const std::function<bool()>& cancelled) {
  const double seconds = request.seconds() == 0 ? kUsualSeconds : request.seconds();
  if (!(seconds >= kLeastSeconds && seconds <= kMostSeconds))
    return invalidArgument("the interval is {} s, expected {} to {} s", seconds, kLeastSeconds,
                           kMostSeconds);
  const int most = request.most() == 0 ? kUsualProcesses : request.most();
  if (most < 1 || most > kMostProcesses)
    return invalidArgument("{} processes were requested, expected 1 to {}", most, kMostProcesses);
  const Nanoseconds begin = monotonicNow();
  const Sample before = sampleAll();
  const Nanoseconds end = begin + static_cast<Nanoseconds>(seconds * 1e9);
  while (monotonicNow() < end) {
    if (cancelled()) return makeError(Code::kCancelled, "the list of processes was cancelled");
    constexpr Nanoseconds kLook = 50'000'000;
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::clamp<Nanoseconds>(end - monotonicNow(), 0, kLook)));
  }
  const double passed = static_cast<double>(monotonicNow() - begin) * 1e-9;
  const Sample now = sampleAll();
  std::vector<Listed> all;
  for (const auto& [pid, stat] : now) {
    const auto earlier = before.find(pid);
    all.push_back(
        describe(pid, stat, earlier == before.end() ? nullptr : &earlier->second, passed));
  }
  std::sort(all.begin(), all.end(), isBusier);
  node::v1::ListProcessesReply reply;
  reply.set_total(static_cast<int>(all.size()));
  reply.set_others_hidden(slurp(1, "stat").empty());
  reply.set_seconds(passed);
  UserNames names;
  int others = 0, ours = 0;
  for (Listed& one : all) {
    if (one.process.part().empty() ? ++others > most : ++ours > kMostProcesses) continue;
    const auto user = userOf(one.process.pid());
    if (!user) continue;  // it has ended meanwhile
    one.process.set_user(names.of(*user));
    *reply.add_processes() = std::move(one.process);
  }
  return reply;
}

std::vector<int> processesOfRank(const std::string& run, int rank) {
  std::vector<int> out;
  const std::string number = fmt::format("{}", rank);
  for (const int pid : processIds()) {
    const auto environment = zeroTerminated(slurp(pid, "environ"));
    if (valueOf(environment, "LOCKSTEP_RUN") == run &&
        valueOf(environment, "LOCKSTEP_RANK") == number)
      out.push_back(pid);
  }
  return out;
}

void reapOrphans(const std::function<bool(int pid)>& isOwn) {
  const int self = getpid(), session = getsid(0);
  std::istringstream children(slurp(self, fmt::format("task/{}/children", self).c_str()));
  for (int pid = 0; children >> pid;)
    if (getsid(pid) != session && !isOwn(pid)) waitpid(pid, nullptr, WNOHANG);
}

}  // namespace lockstep::agent
