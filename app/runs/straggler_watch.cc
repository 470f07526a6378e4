#include "app/runs/straggler_watch.h"

#include <algorithm>
#include <utility>

namespace lockstep::app {

void StragglerWatch::take(const std::string& node, double seconds,
                          const run::v1::NodeSample& sample) {
  ranks_.take(node, seconds, sample);
  links_.take(node, seconds, sample);
}

void StragglerWatch::clear() {
  ranks_.clear();
  links_.clear();
}

Straggler StragglerWatch::linkOf(const SlowLink& link, double stepSeconds,
                                 std::int64_t step) const {
  Straggler out;
  out.rank = -1;
  out.node = link.from;
  out.factor = link.usualRate / link.rate;
  out.stepSeconds = stepSeconds;
  out.withoutSeconds = stepSeconds * (1 - link.lostShare);
  out.phase = analysis::slowPhaseName(analysis::SlowPhase::kTransfer);
  out.link = link;
  out.sinceStep = slow_ && isSame(*slow_, out) ? slow_->sinceStep : step;
  return out;
}

std::vector<StragglerChange> StragglerWatch::look(const analysis::StepAnalyzer& steps,
                                                  const GpuWatch& gpus,
                                                  const std::function<std::string(int)>& nodeOf,
                                                  std::int64_t step, bool ended) {
  std::optional<Straggler> now;
  const auto& slow = steps.stragglers();
  const auto worst = std::max_element(slow.begin(), slow.end(), [](const auto& a, const auto& b) {
    return a.lostShare < b.lostShare;
  });
  const std::optional<RankWatch::Halted> halted = ended ? std::nullopt : ranks_.halted();
  const std::optional<SlowLink> link = ended ? std::nullopt : links_.slowest();
  if (halted) {
    now.emplace();
    now->rank = halted->rank;
    now->halted = true;
    now->haltedSeconds = halted->seconds;
    now->sinceStep = step;
    now->evidence = {SlowCause::kStopped, 1, 0};
  } else if (link && (worst == slow.end() || worst->lostShare < link->lostShare)) {
    now = linkOf(*link, steps.recent().seconds, step);
  } else if (worst != slow.end()) {
    now.emplace();
    now->rank = worst->rank;
    now->factor = worst->factor;
    now->stepSeconds = worst->stepSeconds;
    now->withoutSeconds = worst->withoutSeconds;
    now->slowRanks = static_cast<int>(slow.size());
    now->lostSeconds = worst->lostSeconds;
    now->sinceStep = worst->since;
    now->phase = analysis::slowPhaseName(worst->phase);
    now->evidence = ranks_.evidence(*worst, gpus);
  }
  if (now && now->rank >= 0) now->node = nodeOf(now->rank);
  slow_ = std::move(now);
  return story_.take(slow_, step, ended);
}

}  // namespace lockstep::app
