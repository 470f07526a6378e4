// Splits a worker's output into lines of valid UTF-8, limits their rate, and keeps the last ones
// for error messages.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

namespace lockstep::agent {

class LineCollector {
 public:
  static constexpr double kLinesPerSecond = 200, kBurst = 1000;
  static constexpr std::size_t kMaxLine = 8192, kTail = 20;

  // A carriage return begins the line anew.
  void add(std::string_view bytes, Nanoseconds now);
  void end(Nanoseconds now);  // what is left without a newline is a line
  // Returns the lines since the last call, and how many were dropped before them.
  std::vector<std::string> take(std::uint64_t& dropped);
  bool empty() const { return lines_.empty() && dropped_ == 0; }
  std::string tail() const;  // the last lines, joined by newlines

 private:
  void line(std::string text, Nanoseconds now);

  std::string partial_;
  bool returned_ = false;  // the next text replaces it, as in progress bars
  std::vector<std::string> lines_;
  std::deque<std::string> tail_;
  std::uint64_t dropped_ = 0;
  double tokens_ = kBurst;
  Nanoseconds filled_ = 0;
};

// A rotating log file of at most two times `limit` bytes; older output is in "<path>.1". Write
// errors are ignored, since the records have the lines too.
class BoundedFile {
 public:
  BoundedFile(std::string path, std::int64_t limit);
  ~BoundedFile();
  BoundedFile(const BoundedFile&) = delete;
  BoundedFile& operator=(const BoundedFile&) = delete;
  void write(std::string_view bytes);

 private:
  void open();
  std::string path_;
  std::int64_t limit_, size_ = 0;
  int fd_ = -1;
};

}  // namespace lockstep::agent
