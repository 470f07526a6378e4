#include "agent/base/line_collector.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/base/utf8.h"

namespace lockstep::agent {

void LineCollector::add(std::string_view bytes, Nanoseconds now) {
  for (char c : bytes) {
    if (c == '\n') {
      line(std::move(partial_), now);
      partial_.clear();
      returned_ = false;
    } else if (c == '\r') {
      returned_ = true;
    } else {
      if (std::exchange(returned_, false)) partial_.clear();
      if (partial_.size() < kMaxLine) partial_ += c;
    }
  }
}

void LineCollector::end(Nanoseconds now) {
  if (!partial_.empty()) line(std::move(partial_), now);
  partial_.clear();
}

void LineCollector::line(std::string text, Nanoseconds now) {
  std::string valid = validUtf8(text);
  tail_.push_back(valid);
  if (tail_.size() > kTail) tail_.pop_front();
  if (filled_ != 0)
    tokens_ =
        std::min(kBurst, tokens_ + static_cast<double>(now - filled_) * 1e-9 * kLinesPerSecond);
  filled_ = now;
  if (tokens_ < 1) {
    ++dropped_;
    return;
  }
  tokens_ -= 1;
  lines_.push_back(std::move(valid));
}

std::vector<std::string> LineCollector::take(std::uint64_t& dropped) {
  dropped = dropped_;
  dropped_ = 0;
  return std::exchange(lines_, {});
}

std::string LineCollector::tail() const {
  std::string out;
  for (const std::string& text : tail_) out += (out.empty() ? "" : "\n") + text;
  return out;
}

BoundedFile::BoundedFile(std::string path, std::int64_t limit)
    : path_(std::move(path)), limit_(limit) {
  open();
}
BoundedFile::~BoundedFile() {
  if (fd_ >= 0) close(fd_);
}

void BoundedFile::open() {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  struct stat info {};
  size_ = fd_ >= 0 && fstat(fd_, &info) == 0 ? info.st_size : 0;
}

void BoundedFile::write(std::string_view bytes) {
  if (fd_ < 0) return;
  if (size_ + static_cast<std::int64_t>(bytes.size()) > limit_) {
    close(fd_);
    std::rename(path_.c_str(), (path_ + ".1").c_str());
    open();
    if (fd_ < 0) return;
  }
  const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
  if (count > 0) size_ += count;
}

}  // namespace lockstep::agent
