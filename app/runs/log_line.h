// A line of a worker's log, taken apart: programs of Lockstep begin each with time and level.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::app {

struct LogLine {
  std::int64_t wallNs = 0;  // as the line says; 0: it does not
  char level = 0;           // 'D', 'I', 'W', 'E'; 0: it does not say
  std::string_view text;    // without both
};

// "2024-05-01T12:00:00.123Z I text"; any other line is text.
LogLine parseLogLine(std::string_view line);

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };
inline constexpr std::array<std::string_view, 4> kLogLevels{"debug", "info", "warning", "error"};
// What the line says or, of programs that know no levels, what its words suggest.
LogLevel levelOf(const LogLine& line);

}  // namespace lockstep::app
