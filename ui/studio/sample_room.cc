#include "ui/studio/sample_room.h"

#include <algorithm>

namespace lockstep::ui {
namespace {

constexpr std::size_t kLeastSamples = 2048;  // of one line
constexpr std::size_t kLeastLines = 8;       // fewer lines get no more samples each
constexpr std::size_t kLimits = 64;

}  // namespace

std::size_t SampleRoom::limit() const {
  return std::max(kMostSamples / std::max(lines_.size(), kLeastLines), kLeastSamples);
}

// Up to a quarter less than the limit. Lines that grow together are thinned at different times, not
// all in one frame.
std::size_t SampleRoom::limitOf(std::size_t line) const {
  return limit() - limit() / 4 * (line % kLimits) / kLimits;
}

// Limits are set again whenever a sixteenth of lines is new: n lines cost n log n.
void SampleRoom::add(const std::shared_ptr<Series>& line) {
  lines_.push_back(line);
  if (lines_.size() >= shared_ + std::max(kLeastLines, shared_ / 16)) {
    std::erase_if(lines_, [](const auto& one) { return one.expired(); });
    shared_ = lines_.size();
    for (std::size_t i = 0; i < lines_.size(); ++i)
      if (const auto held = lines_[i].lock()) held->setLimit(limitOf(i));
  }
  line->setLimit(limitOf(lines_.size() - 1));
}

}  // namespace lockstep::ui
