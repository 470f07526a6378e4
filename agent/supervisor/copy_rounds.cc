#include "agent/supervisor/copy_rounds.h"

#include <algorithm>
#include <utility>

namespace lockstep::agent {

void CopyRounds::beginGeneration(bool fromCheckpoint, bool isCopied) {
  exists_ = fromCheckpoint;
  isCopied_ = isCopied;
  if (!fromCheckpoint || published_ <= copied_) published_ = 0;
  giveUp();
  last_ = 0;
}

void CopyRounds::onMembersChange() {
  isCopiedHere_ = false;
  published_ = 0;
}

void CopyRounds::onPublished(std::int64_t step) {
  exists_ = true;
  published_ = std::max(published_, step);
}

void CopyRounds::onCopied(std::int64_t step) {
  isCopied_ = isCopiedHere_ = true;
  copied_ = step;
}

std::int64_t CopyRounds::begin(std::set<std::string> by) {
  if (step_ != 0 || published_ <= last_ || by.empty()) return 0;
  step_ = last_ = published_;
  isHurried_ = false;
  awaited_ = std::move(by);
  return step_;
}

void CopyRounds::giveUp() {
  step_ = 0;
  awaited_.clear();
  failed_ = false;
}

CopyRounds::Answer CopyRounds::onAnswer(const std::string& node, std::int64_t step, bool failed) {
  if (step != step_ || awaited_.erase(node) == 0) return Answer::kNotOver;
  failed_ = failed_ || failed;
  if (!awaited_.empty()) return Answer::kNotOver;
  step_ = 0;
  return std::exchange(failed_, false) ? Answer::kFailed : Answer::kAllCopied;
}

}  // namespace lockstep::agent
