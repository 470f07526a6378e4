#include "ui/studio/sample_room.h"

#include <algorithm>

namespace lockstep::ui {
namespace {

constexpr std::size_t kLeastSamples = 2048;  // of one line
constexpr std::size_t kLeastLines = 8;       // fewer lines get no more samples each

}  // namespace

std::size_t SampleRoom::limit() const {
  return std::max(kMostSamples / std::max(lines_.size(), kLeastLines), kLeastSamples);
}

// Limits are set again whenever a sixteenth of lines is new: n lines cost n log n.
void SampleRoom::add(const std::shared_ptr<Series>& line) {
  lines_.push_back(line);
  if (lines_.size() >= shared_ + std::max(kLeastLines, shared_ / 16)) {
    std::erase_if(lines_, [](const auto& one) { return one.expired(); });
    shared_ = lines_.size();
    for (const auto& one : lines_)
      if (const auto held = one.lock()) held->setLimit(limit());
  }
  line->setLimit(limit());
}

}  // namespace lockstep::ui
