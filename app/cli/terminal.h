// Text for a terminal: widths, colours, tables, bars, and numbers as people read them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app::cli {

struct TerminalSize {
  int columns = 80, rows = 24;
};
TerminalSize terminalSize(int fd);
bool isTerminal(int fd);   // one that understands cursor movement
bool wantsColour(int fd);  // a terminal, and NO_COLOR is not set

// Writes text at once. The one way for text to leave a command: what files and nodes say is shown,
// and never interpreted; sequences of a Style alone reach the terminal.
void put(std::FILE* to, std::string_view text);
// As it is: what holds nothing foreign, as JSON in ASCII and moves of the cursor.
void putRaw(std::FILE* to, std::string_view text);
// Whether all that was put on stdout went out; the first cause where it did not. For the end of a
// command.
Status outputStatus();
// As put writes it: control characters but newline and tab as "\x1b", "\u202e".
std::string shown(std::string_view text);

// Escape sequences that put() passes on, marked so that none of another origin does; or nothing
// where colours are off.
class Style {
 public:
  explicit Style(bool colours) : colours_(colours) {}
  std::string bold(std::string_view text) const { return with("1", text); }
  std::string dim(std::string_view text) const { return with("2", text); }
  std::string red(std::string_view text) const { return with("31", text); }
  std::string green(std::string_view text) const { return with("32", text); }
  std::string yellow(std::string_view text) const { return with("33", text); }
  std::string cyan(std::string_view text) const { return with("36", text); }

 private:
  std::string with(std::string_view code, std::string_view text) const;
  bool colours_;
};

std::size_t width(std::string_view text);                     // columns; escape sequences have none
std::string fit(std::string_view text, std::size_t columns);  // cut with "…" where longer
std::string padded(std::string_view text, std::size_t columns, bool right = false);
// in one line, without control characters; styles stay
std::string printable(std::string_view text);

// Columns as wide as their widest cell, two spaces between; `right` columns are numbers.
struct Table {
  std::vector<std::string> header;
  std::vector<bool> right;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> lines() const;
  std::string text() const;
};

std::string bar(double share, int columns);  // ━━━━━╸────
std::string sparkline(const std::vector<double>& values, int columns);
std::string bytesText(double bytes);                // "1.5 GiB"
std::string rateText(double bytesPerSecond);        // "1.5 MiB/s"
std::string durationText(double seconds);           // "1:02:03", "2:03", "4.2 s"
std::string millisecondsText(double seconds);       // "1.234"
std::string lossText(double loss, int digits = 4);  // "0.1234"; "–" where it is no number
// "accuracy 90.12 %", "AUC –", "perplexity 4.213"; "" without one
std::string metricText(std::string_view metric, double value);
std::string localTime(std::int64_t wallNs);  // "2024-05-01 12:00:00"

}  // namespace lockstep::app::cli
