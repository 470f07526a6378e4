#include "agent/supervisor/evaluations.h"

namespace lockstep::agent {

bool Evaluations::onCheckpoint(std::int64_t step, std::vector<node::v1::FileSource> sources) {
  if (!ended_ || ended_->step() != step) return false;
  newest_.emplace();
  *newest_->mutable_epoch() = *ended_;
  *newest_->mutable_sources() = {sources.begin(), sources.end()};
  ended_.reset();
  return true;
}

std::optional<node::v1::Evaluate> Evaluations::newest() const {
  if (!newest_ || newest_->epoch().step() <= answered_) return std::nullopt;
  return newest_;
}

bool Evaluations::onEvaluated(const node::v1::Evaluated& evaluated) {
  const std::int64_t step = evaluated.epoch().step();
  if (step <= answered_) return false;
  answered_ = step;
  if (evaluated.error().code().empty()) last_ = evaluated.epoch();
  return true;
}

}  // namespace lockstep::agent
