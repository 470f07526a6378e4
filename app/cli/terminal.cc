#include "app/cli/terminal.h"

#include <fmt/format.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <cwchar>
#include <random>
#include <utility>

#include "engine/base/utf8.h"

namespace lockstep::app::cli {
namespace {

// Every sequence of a Style begins with this, which nobody outside this process knows.
const std::string& styleMark() {
  static const std::string mark =
      fmt::format("\x1b[{};", 100'000'000 + std::random_device{}() % 900'000'000);
  return mark;
}

// The length of a Style's sequence at `at`, 0 where there is none.
std::size_t escapeLength(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with(styleMark())) return 0;
  const std::size_t end = text.find('m', at);
  return end == std::string_view::npos ? 0 : end + 1 - at;
}
bool ends(std::string_view sequence) { return sequence.ends_with(";0m"); }

// What a terminal would act on at `at`: its bytes and its code point; none where it is text.
struct Control {
  std::size_t bytes = 0;
  unsigned code = 0;
};
Control controlAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x20 || first == 0x7f) return {1, first};
  if (first == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return {2, byte(1)};  // C1
  // writing
  if (first == 0xe2 && byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae)
    return {3, 0x2000u + byte(2) - 0x80};
  // direction
  if (first == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9)
    return {3, 0x2040u + byte(2) - 0x80};
  return {};
}
bool beginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// The columns of the character that begins at `at`: two for Chinese, none for an accent that joins
// the letter before it.
std::size_t columnsAt(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return 1;
  unsigned code = first & (first >= 0xf0 ? 0x07u : first >= 0xe0 ? 0x0fu : 0x1fu);
  while (++at < text.size() && !beginsCharacter(text[at]))
    code = code << 6 | (static_cast<unsigned char>(text[at]) & 0x3fu);
  static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
  const locale_t before = uselocale(unicode);
  const int columns = wcwidth(static_cast<wchar_t>(code));
  uselocale(before);
  return columns < 0 ? 1 : static_cast<std::size_t>(columns);
}

}  // namespace

TerminalSize terminalSize(int fd) {
  winsize size{};
  TerminalSize out;
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    out = {size.ws_col, size.ws_row};
  return out;
}
bool isTerminal(int fd) {
  const char* kind = std::getenv("TERM");
  return isatty(fd) == 1 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}
bool wantsColour(int fd) {
  const char* off = std::getenv("NO_COLOR");
  return isTerminal(fd) && (off == nullptr || *off == '\0');
}

std::string Style::with(std::string_view code, std::string_view text) const {
  return colours_ ? fmt::format("{0}{1}m{2}{0}0m", styleMark(), code, text) : std::string(text);
}

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t escape = escapeLength(text, i); escape > 0) {
      i += escape;
      continue;
    }
    if (beginsCharacter(text[i])) columns += columnsAt(text, i);
    ++i;
  }
  return columns;
}

std::string fit(std::string_view text, std::size_t columns) {
  if (width(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::string out;
  std::size_t used = 0;
  bool styled = false;
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t escape = escapeLength(text, i); escape > 0) {
      out += text.substr(i, escape);
      styled = !ends(text.substr(i, escape));
      i += escape;
      continue;
    }
    if (beginsCharacter(text[i]) && (used += columnsAt(text, i)) >= columns) break;
    out += text[i++];
  }
  out += "…";
  if (styled) out += styleMark() + "0m";
  return out;
}

std::string padded(std::string_view text, std::size_t columns, bool right) {
  const std::size_t have = width(text);
  const std::string space(columns > have ? columns - have : 0, ' ');
  return right ? space + std::string(text) : std::string(text) + space;
}

namespace {

// Control characters but newline and tab, and bytes that are no UTF-8, as text; a Style's sequences
// stay, for the terminal or marked.
std::string withoutControls(std::string_view text, bool forTerminal) {
  std::string out;
  std::size_t bad = firstNotUtf8(text);
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t escape = escapeLength(text, i); escape > 0) {
      const std::size_t mark = styleMark().size();
      out += forTerminal ? "\x1b[" + std::string(text.substr(i + mark, escape - mark))
                         : std::string(text.substr(i, escape));
      i += escape;
      continue;
    }
    if (i == bad) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
      const std::size_t next = firstNotUtf8(text.substr(i));
      bad = next == std::string_view::npos ? next : i + next;
      continue;
    }
    const Control control = controlAt(text, i);
    if (control.bytes == 0 || text[i] == '\n' || text[i] == '\t') {
      out += text[i++];
      continue;
    }
    out += control.code < 0x80 ? fmt::format("\\x{:02x}", control.code)
                               : fmt::format("\\u{:04x}", control.code);
    i += control.bytes;
  }
  return out;
}

}  // namespace

std::string shown(std::string_view text) { return withoutControls(text, true); }

namespace {
int outputError = 0;  // errno of the first write to stdout that failed
}

void putRaw(std::FILE* to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fileno(to), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;  // Ctrl-C, which also the reader of a pipe hears
    if (count < 0) {
      if (to == stdout && outputError == 0) outputError = errno;
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}
void put(std::FILE* to, std::string_view text) { putRaw(to, shown(text)); }
void putDocument(std::string_view text) {
  isatty(STDOUT_FILENO) == 1 ? put(stdout, text) : putRaw(stdout, text);
}

void ProgressLine::show(std::string_view text) {
  if (!shows_) return;
  putRaw(stderr, fmt::format("\r{}\x1b[K", text));
  shown_ = true;
}
void ProgressLine::clear() {
  if (std::exchange(shown_, false)) putRaw(stderr, "\r\x1b[K");
}

Status outputStatus() {
  if (outputError == 0) return {};
  Error error = systemError(outputError, "cannot write the output");
  error.next = "what was written is not all: free space there, or write elsewhere";
  return error;
}

std::string printable(std::string_view text) {
  std::string out = withoutControls(text, false);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return out;
}

std::vector<std::string> Table::lines() const {
  std::vector<std::size_t> widths(header.size());
  auto rows = this->rows;
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);  // whatever stands in it, one line
  for (std::size_t c = 0; c < header.size(); ++c) {
    widths[c] = width(header[c]);
    for (const auto& row : rows)
      if (c < row.size()) widths[c] = std::max(widths[c], width(row[c]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t c = 0; c < cells.size() && c < widths.size(); ++c) {
      if (c > 0) out += "  ";
      const bool toRight = c < right.size() && right[c];
      const bool last = c + 1 == cells.size();
      out += last && !toRight ? cells[c] : padded(cells[c], widths[c], toRight);
    }
    return out;
  };
  std::vector<std::string> out{line(header)};
  for (const auto& row : rows) out.push_back(line(row));
  return out;
}
std::string Table::text() const {
  std::string out;
  for (const std::string& line : lines()) out += line + "\n";
  return out;
}

std::string bar(double share, int columns) {
  const double filled = std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0) * columns;
  const int whole = static_cast<int>(filled);
  std::string out;
  for (int i = 0; i < columns; ++i)
    out += i < whole ? "━" : (i == whole && filled - whole >= 0.5 ? "╸" : "─");
  return out;
}

std::string sparkline(const std::vector<double>& values, int columns) {
  static constexpr std::array<std::string_view, 8> kLevels{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty() || columns <= 0) return {};
  const auto count = std::min(values.size(), static_cast<std::size_t>(columns));
  std::vector<double> means(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = i * values.size() / count, to = (i + 1) * values.size() / count;
    for (std::size_t k = from; k < to; ++k) means[i] += values[k];
    means[i] /= static_cast<double>(to - from);
  }
  double low = INFINITY, high = -INFINITY;
  for (double mean : means)
    if (std::isfinite(mean)) low = std::min(low, mean), high = std::max(high, mean);
  std::string out;
  for (double mean : means) {
    if (!std::isfinite(mean)) {
      out += "×";
      continue;
    }
    const double share = high > low ? (mean - low) / (high - low) : 0;
    out += kLevels[static_cast<std::size_t>(std::lround(share * 7))];
  }
  return out;
}

std::string numberText(double value) {
  return std::abs(value) < 9999.5 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}
std::string bytesText(double bytes) {
  static constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}
std::string flopText(double flop) {
  static constexpr std::array<char, 5> kUnits{'k', 'M', 'G', 'T', 'P'};
  double value = flop * 1e-3;
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) value *= 1e-3, ++unit;
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}
std::string rateText(double bytesPerSecond) { return bytesText(bytesPerSecond) + "/s"; }

std::string durationText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "–";
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}
std::string millisecondsText(double seconds) {
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f}", ms, ms < 10 ? 3 : ms < 100 ? 2 : 1);
}
std::string lossText(double loss, int digits) {
  return std::isnan(loss) ? "–" : fmt::format("{:.{}f}", loss, digits);
}
std::string metricText(std::string_view metric, double value) {
  const auto text = [&](std::string_view name, std::string_view number) {
    return fmt::format("{} {}", name, std::isnan(value) ? "–" : number);
  };
  if (metric == "accuracy") return text("accuracy", fmt::format("{:.2f} %", 100 * value));
  if (metric == "perplexity") return text("perplexity", fmt::format("{:.3f}", value));
  if (metric == "auc") return text("AUC", fmt::format("{:.4f}", value));
  return {};
}

std::string ranksText(int ranks) { return ranks == 1 ? "1 rank" : fmt::format("{} ranks", ranks); }
std::string localTime(std::int64_t wallNs) {
  if (wallNs <= 0) return "–";
  const std::time_t seconds = wallNs / 1'000'000'000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace lockstep::app::cli
