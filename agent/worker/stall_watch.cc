#include "agent/worker/stall_watch.h"

namespace lockstep::agent {

using runtime::Activity;

std::optional<node::v1::Stalled> StallWatch::look(Nanoseconds now, Nanoseconds frozen) {
  if (activity_ == nullptr) return std::nullopt;
  const std::uint64_t changes =
      activity_->at(Activity::kTraining).changes + activity_->at(Activity::kCommunication).changes;
  if (changes != changes_) {
    changes_ = changes;
    since_ = now;
    if (!std::exchange(told_, false)) return std::nullopt;
    node::v1::Stalled moves;
    moves.set_rank(rank_);
    moves.set_moves(true);
    return moves;
  }
  since_ += frozen;
  if (told_ || changes == 0 || now - since_ < kStall) return std::nullopt;
  told_ = true;
  return position(now);
}

node::v1::Stalled StallWatch::position(Nanoseconds now) const {
  const Activity::Position training = activity_->at(Activity::kTraining);
  const Activity::Position behind = activity_->at(Activity::kCommunication);
  node::v1::Stalled out;
  out.set_rank(rank_);
  out.set_for_ns(now - since_);
  out.set_collective(activity_->collectives());
  if (training.step == nullptr) return out;
  // A thread that waits for an asynchronous collective waits for those before it too; where they
  // have completed it does not wait, but hangs itself.
  const bool isAsynchronous = training.step->stream != plan::kComputeStream;
  const bool waits = training.step->kind == plan::StepKind::kCollective &&
                     (!isAsynchronous || behind.step != nullptr);
  const plan::Step& step = waits && behind.step != nullptr ? *behind.step : *training.step;
  out.set_step(training.trainingStep);
  out.set_name(step.name);
  out.set_op(std::string(ir::info(step.op).name));
  if (!waits) return out;
  const std::vector<int> group = plan_->mesh.group(rank_, step.axis);
  const plan::Peers peers = plan::peersOf(step);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const int coordinate = static_cast<int>(i);
    const bool isPeer =
        peers.count == 0 || (coordinate >= peers.first && coordinate < peers.first + peers.count);
    if (isPeer && group[i] != rank_) out.add_awaits(group[i]);
  }
  return out;
}

}  // namespace lockstep::agent
