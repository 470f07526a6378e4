// Log lines for people and for the log spool: "2024-05-01T12:00:00.123Z W text". Thread-safe.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace lockstep {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

void setLogLevel(LogLevel lowest);                    // lower levels are dropped; default kInfo
void logLine(LogLevel level, std::string_view text);  // to stderr, one write per line

template <typename... Args>
void logInfo(fmt::format_string<Args...> text, Args&&... args) {
  logLine(LogLevel::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void logWarning(fmt::format_string<Args...> text, Args&&... args) {
  logLine(LogLevel::kWarning, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void logError(fmt::format_string<Args...> text, Args&&... args) {
  logLine(LogLevel::kError, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace lockstep
