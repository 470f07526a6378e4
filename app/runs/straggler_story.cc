#include "app/runs/straggler_story.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::app {

namespace {
double lostPerStep(const Straggler& slow) {
  return std::max(slow.stepSeconds - slow.withoutSeconds, 0.0);
}
}  // namespace

StragglerChange StragglerStory::close(std::int64_t step) {
  Straggler was = *std::exchange(slow_, std::nullopt);
  const double lost = was.halted ? was.haltedSeconds : was.link ? lostToLink_ : was.lostSeconds;
  return {StragglerChange::Kind::kOver, std::move(was), step, lost};
}

std::vector<StragglerChange> StragglerStory::take(const std::optional<Straggler>& now,
                                                  std::int64_t step, bool ended) {
  using Kind = StragglerChange::Kind;
  std::vector<StragglerChange> out;
  if (over_) return out;
  over_ = ended;
  const std::int64_t fresh = step - std::exchange(counted_, step);
  const bool same = slow_ && now && isSame(*slow_, *now) && slow_->halted == now->halted;
  if (slow_ && fresh > 0) lostToLink_ += static_cast<double>(fresh) * lostPerStep(*slow_);
  if (same) slow_->lostSeconds = now->lostSeconds;
  if (slow_ && (ended || !same)) out.push_back(close(step));
  if (!now || ended) return out;
  if (!slow_) {
    lostToLink_ = static_cast<double>(std::max<std::int64_t>(step - now->sinceStep + 1, 0)) *
                  lostPerStep(*now);
    out.push_back({Kind::kBegins, *now});
  } else if (slow_->evidence.cause == SlowCause::kUnknown &&
             now->evidence.cause != SlowCause::kUnknown) {
    out.push_back({Kind::kCauseKnown, *now});
  }
  const std::int64_t since = slow_ ? slow_->sinceStep : now->sinceStep;
  slow_ = now;
  slow_->sinceStep = since;
  return out;
}

StragglerRow rowOf(const StragglerChange& change, std::int64_t wallNs) {
  const Straggler& slow = change.slow;
  const bool over = change.kind == StragglerChange::Kind::kOver;
  StragglerRow out;
  out.wallNs = wallNs;
  out.endNs = over ? wallNs : 0;
  out.rank = slow.rank;
  out.node = slow.node;
  if (slow.link) out.to = slow.link->to;
  out.sinceStep = std::max<std::int64_t>(slow.sinceStep, 1);
  out.untilStep = change.untilStep;
  out.factor = slow.halted ? 0 : slow.factor;
  out.phase = slow.phase;
  out.cause = evidenceText(slow.evidence);
  out.halted = slow.halted;
  out.lostSeconds = change.lostSeconds;
  out.text = changeText(change);
  return out;
}

std::string changeText(const StragglerChange& change) {
  if (change.kind != StragglerChange::Kind::kOver) return stragglerText(change.slow);
  const std::string name = stragglerName(change.slow);
  if (change.slow.halted)
    return fmt::format("{} was stopped after step {}: it cost {:.1f} s", name,
                       change.slow.sinceStep, change.lostSeconds);
  return fmt::format("{} was slow in steps {} to {}: it cost {:.1f} s", name, change.slow.sinceStep,
                     change.untilStep, change.lostSeconds);
}

}  // namespace lockstep::app
