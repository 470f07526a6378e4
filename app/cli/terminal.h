// Terminal output: text width, colours, tables, bars and formatted numbers.
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

// Writes text unbuffered; all text output goes through it. Escapes control sequences from files and
// nodes; only those of a Style reach the terminal.
void put(std::FILE* to, std::string_view text);
// Writes text unescaped. For trusted text only: ASCII JSON and cursor movements.
void putRaw(std::FILE* to, std::string_view text);
// Writes a document to stdout, as a spec or a table: as it is to a file or a program, which escapes
// would spoil it for, and as put() does to a terminal.
void putDocument(std::string_view text);
// Returns the first write error of stdout. Checked at the end of a command.
Status outputStatus();
// Escapes text as put() does: control characters except newline and tab as "\x1b", "\u202e", bytes
// that are no UTF-8 as "\xff".
std::string shown(std::string_view text);

// A line of stderr that tells how far something is, where that is a terminal. What is written next
// would stand behind it: it is cleared at its end.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::string_view text);  // in the place of what it showed
  void clear();

 private:
  const bool shows_ = isTerminal(2);
  bool shown_ = false;
};

// Makes escape sequences that put() lets through; makes none if colours are off.
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

// Returns the columns that a terminal shows the text in; escape sequences have none.
std::size_t width(std::string_view text);
std::string fit(std::string_view text, std::size_t columns);  // cut with "…" where longer
std::string padded(std::string_view text, std::size_t columns, bool right = false);
// makes text one line without control characters; keeps styles
std::string printable(std::string_view text);

// A table with columns as wide as their widest cell; `right` columns are right-aligned.
struct Table {
  std::vector<std::string> header;
  std::vector<bool> right;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> lines() const;
  std::string text() const;
};

std::string bar(double share, int columns);  // ━━━━━╸────
std::string sparkline(const std::vector<double>& values, int columns);
std::string numberText(double value);               // four digits or more: "0.1235", "65536"
std::string bytesText(double bytes);                // "1.5 GiB"
std::string flopText(double flop);                  // "2.57 k", "1.13 T"
std::string rateText(double bytesPerSecond);        // "1.5 MiB/s"
std::string durationText(double seconds);           // "1:02:03", "2:03", "4.2 s"
std::string millisecondsText(double seconds);       // "1.234"
std::string lossText(double loss, int digits = 4);  // "0.1234"; "–" where it is no number
// "accuracy 90.12 %", "AUC –", "perplexity 4.213"; "" without a metric
std::string metricText(std::string_view metric, double value);
std::string ranksText(int ranks);            // "1 rank", "2 ranks"
std::string localTime(std::int64_t wallNs);  // "2024-05-01 12:00:00"

}  // namespace lockstep::app::cli
