#include "agent/supervisor/copy_pace.h"

#include <algorithm>

namespace lockstep::agent {
namespace {

constexpr double kShare = 0.1;       // of the link
constexpr double kBucket = 1 << 20;  // bytes, a chunk
// Bytes per second: a chunk a second shows that the connection lives.
constexpr double kLeast = kBucket;

}  // namespace

Nanoseconds CopyPace::after(std::int64_t bytes, std::int64_t total, Nanoseconds now) {
  if (link_ <= 0) return 0;
  // A large file takes half of its limit, whatever the link.
  const double atLeast = static_cast<double>(total) / (0.5e-9 * static_cast<double>(limit_));
  const double rate = std::max({kShare * link_, kLeast, atLeast});
  const double gained = rate * 1e-9 * static_cast<double>(now - last_);
  level_ = std::min(kBucket, level_ + gained) - static_cast<double>(bytes);
  last_ = now;
  return level_ >= 0 ? 0 : static_cast<Nanoseconds>(-level_ / rate * 1e9);
}

}  // namespace lockstep::agent
