#include "agent/worker/stall_watch.h"

#include <algorithm>

namespace lockstep::agent {

std::optional<node::v1::Stalled> StallWatch::look(Nanoseconds now, Nanoseconds frozen) {
  if (activity_ == nullptr) return std::nullopt;
  const runtime::Activity::Position at = activity_->position();
  if (at.changes != changes_) {
    changes_ = at.changes;
    since_ = now;
    if (!std::exchange(told_, false)) return std::nullopt;
    node::v1::Stalled moves;
    moves.set_rank(rank_);
    moves.set_moves(true);
    return moves;
  }
  since_ += frozen;
  if (told_ || changes_ == 0 || now - since_ < kStall) return std::nullopt;
  told_ = true;
  return stalled(at, now);
}

node::v1::Stalled StallWatch::stalled(const runtime::Activity::Position& at,
                                      Nanoseconds now) const {
  node::v1::Stalled out;
  out.set_rank(rank_);
  out.set_for_ns(now - since_);
  out.set_collective(at.collectives);
  if (at.step == nullptr) return out;
  out.set_step(at.trainingStep);
  out.set_name(at.step->name);
  out.set_op(std::string(ir::info(at.step->op).name));
  if (at.last != nullptr && at.last != at.step) out.set_last(at.last->name);
  if (!at.waits) return out;
  const std::vector<int> group = plan_->mesh.group(rank_, at.step->axis);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const bool isPeer = at.peers.empty() || std::find(at.peers.begin(), at.peers.end(),
                                                      static_cast<int>(i)) != at.peers.end();
    if (isPeer && group[i] != rank_) out.add_awaits(group[i]);
  }
  return out;
}

}  // namespace lockstep::agent
