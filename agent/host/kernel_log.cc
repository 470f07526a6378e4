#include "agent/host/kernel_log.h"

#include <fcntl.h>
#include <sys/klog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <deque>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hex.h"
#include "engine/base/unique_fd.h"
#include "engine/base/utf8.h"

namespace lockstep::agent {
namespace {

using Line = node::v1::ReadKernelLogReply::Line;

constexpr int kMostLines = 5000, kUsualLines = 200;
constexpr int kLevels = 8;                         // the facility stands above them
constexpr std::size_t kMostRecord = 16384;         // bytes; the kernel's are at most 8192
constexpr int kMostBuffer = 64 << 20;              // bytes of the system call
constexpr Nanoseconds kReadLimit = 5'000'000'000;  // a kernel that talks all the time

template <typename T>
bool takeNumber(std::string_view& text, T& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return true;
}

bool takeChar(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// The kernel writes bytes that are not printable ASCII as \xNN.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("\\x") && i + 3 < text.size()) {
      if (const auto byte = fromHex(text.substr(i + 2, 2))) {
        out += *byte;
        i += 3;
        continue;
      }
    }
    out += text[i];
  }
  return validUtf8(out);
}

Error refused(int code) {
  Error error =
      makeError(Code::kPermissionDenied, "the account may not read the kernel's messages");
  const auto restricted = readFile("/proc/sys/kernel/dmesg_restrict", 64);
  error.why = restricted.ok() && restricted->starts_with("1")
                  ? Message("the node's kernel.dmesg_restrict is 1")
                  : systemError(code, "").why;
  error.next = "run sudo dmesg on the node, or allow it there: sudo sysctl kernel.dmesg_restrict=0";
  return error;
}

bool isRefusal(int code) { return code == EPERM || code == EACCES; }

void keepNewest(std::deque<Line>& lines, std::optional<Line> line, int most) {
  if (!line) return;
  lines.push_back(std::move(*line));
  if (lines.size() > static_cast<std::size_t>(most)) lines.pop_front();
}

// Returns 0, or the errno with which the device cannot be read.
int readDevice(std::deque<Line>& lines, int most) {
  const UniqueFd device(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!device) return errno;
  std::array<char, kMostRecord> record{};
  const Nanoseconds end = monotonicNow() + kReadLimit;
  while (monotonicNow() < end) {
    const ssize_t got = read(device.get(), record.data(), record.size());
    if (got > 0) {
      keepNewest(lines, parseKernelRecord({record.data(), static_cast<std::size_t>(got)}), most);
      continue;
    }
    // EPIPE: the record was overwritten, the next read has the oldest that is left
    if (got < 0 && (errno == EINTR || errno == EPIPE)) continue;
    return got == 0 || errno == EAGAIN || !lines.empty() ? 0 : errno;
  }
  return 0;
}

int readSystemCall(std::deque<Line>& lines, int most) {
  constexpr int kReadAll = 3, kBufferSize = 10;
  const int size = std::clamp(klogctl(kBufferSize, nullptr, 0), 1 << 16, kMostBuffer);
  std::string text(static_cast<std::size_t>(size), '\0');
  const int got = klogctl(kReadAll, text.data(), size);
  if (got < 0) return errno;
  text.resize(static_cast<std::size_t>(got));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t lineEnd = std::min(text.find('\n', at), text.size());
    keepNewest(lines, parseKernelLine(std::string_view(text).substr(at, lineEnd - at)), most);
    at = lineEnd + 1;
  }
  return 0;
}

}  // namespace

std::optional<Line> parseKernelRecord(std::string_view record) {
  int priority = 0;
  std::int64_t sequence = 0, microseconds = 0;
  if (!takeNumber(record, priority) || !takeChar(record, ',') || !takeNumber(record, sequence) ||
      !takeChar(record, ',') || !takeNumber(record, microseconds) || priority < 0 ||
      microseconds < 0 || microseconds > std::int64_t{1} << 52)
    return std::nullopt;
  const std::size_t text = record.find(';');
  if (text == std::string_view::npos) return std::nullopt;
  record.remove_prefix(text + 1);
  Line line;
  line.set_level(priority % kLevels);
  line.set_boot_ns(microseconds * 1000);
  line.set_text(unescaped(record.substr(0, record.find('\n'))));
  return line;
}

std::optional<Line> parseKernelLine(std::string_view text) {
  int priority = 0;
  if (!takeChar(text, '<') || !takeNumber(text, priority) || !takeChar(text, '>') || priority < 0)
    return std::nullopt;
  Line line;
  line.set_level(priority % kLevels);
  std::string_view rest = text;
  if (takeChar(rest, '[')) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    double seconds = 0;
    if (takeNumber(rest, seconds) && takeChar(rest, ']') && seconds >= 0 && seconds < 1e9) {
      line.set_boot_ns(static_cast<std::int64_t>(seconds * 1e9));
      text = rest;
      takeChar(text, ' ');
    }
  }
  line.set_text(validUtf8(text));
  return line;
}

Result<node::v1::ReadKernelLogReply> readKernelLog(const node::v1::ReadKernelLogRequest& request) {
  const int most = request.lines() == 0 ? kUsualLines : request.lines();
  if (most < 1 || most > kMostLines)
    return invalidArgument("{} lines were requested, expected 1 to {}", most, kMostLines);
  std::deque<Line> lines;
  const int failed = readDevice(lines, most);
  if (failed != 0) {
    lines.clear();
    const int failedToo = readSystemCall(lines, most);
    if (failedToo != 0) {
      if (isRefusal(failed) || isRefusal(failedToo))
        return refused(isRefusal(failed) ? failed : failedToo);
      return systemError(failedToo, "cannot read the kernel's messages");
    }
  }
  const std::int64_t bootWall = wallNow() - monotonicNow();
  node::v1::ReadKernelLogReply reply;
  for (Line& line : lines) {
    line.set_wall_ns(bootWall + line.boot_ns());
    *reply.add_lines() = std::move(line);
  }
  return reply;
}

}  // namespace lockstep::agent
