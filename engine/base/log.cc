#include "engine/base/log.h"

#include <unistd.h>

#include <atomic>
#include <string>

#include "engine/base/clock.h"

namespace lockstep {
namespace {
std::atomic<LogLevel> lowestLevel{LogLevel::kInfo};
}

void setLogLevel(LogLevel lowest) { lowestLevel = lowest; }

void logLine(LogLevel level, std::string_view text) {
  if (level < lowestLevel.load(std::memory_order_relaxed)) return;
  const std::string line =
      fmt::format("{} {} {}\n", isoTime(wallNow()), "DIWE"[static_cast<int>(level)], text);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace lockstep
