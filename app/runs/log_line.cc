#include "app/runs/log_line.h"

#include <algorithm>
#include <ctime>

namespace lockstep::app {

LogLine parseLogLine(std::string_view line) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z L ";
  LogLine out{0, 0, line};
  if (line.size() < kForm.size()) return out;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const char form = kForm[i], found = line[i];
    const bool digit = found >= '0' && found <= '9';
    if (form == '0'   ? !digit
        : form == 'L' ? std::string_view("DIWE").find(found) == std::string_view::npos
                      : found != form)
      return out;
  }
  const auto number = [&](std::size_t from, std::size_t count) {
    int value = 0;
    for (std::size_t i = from; i < from + count; ++i) value = value * 10 + (line[i] - '0');
    return value;
  };
  constexpr int kFirstYear = 1970, kLastYear = 2261;  // of a time in nanoseconds
  const int year = number(0, 4);
  if (year < kFirstYear || year > kLastYear) return out;
  std::tm utc{};
  utc.tm_year = year - 1900;
  utc.tm_mon = number(5, 2) - 1;
  utc.tm_mday = number(8, 2);
  utc.tm_hour = number(11, 2);
  utc.tm_min = number(14, 2);
  utc.tm_sec = number(17, 2);
  out.wallNs =
      static_cast<std::int64_t>(timegm(&utc)) * 1'000'000'000 + number(20, 3) * 1'000'000LL;
  out.level = line[25];
  out.text = line.substr(kForm.size());
  return out;
}

LogLevel levelOf(const LogLine& line) {
  constexpr std::string_view kLetters = "DIWE";
  if (const auto known = kLetters.find(line.level); line.level != 0 && known < kLetters.size())
    return static_cast<LogLevel>(known);
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const auto has = [&](std::string_view word) {
    return !std::ranges::search(line.text, word, {}, lower, lower).empty();
  };
  constexpr std::string_view kBad[] = {" E ", "error", "fatal", "Traceback", "abort"};
  constexpr std::string_view kDoubtful[] = {" W ", "warning"};
  return std::ranges::any_of(kBad, has)        ? LogLevel::kError
         : std::ranges::any_of(kDoubtful, has) ? LogLevel::kWarning
                                               : LogLevel::kInfo;
}

}  // namespace lockstep::app
