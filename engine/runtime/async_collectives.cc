#include "engine/runtime/async_collectives.h"

#include "engine/base/subnormals.h"

namespace lockstep::runtime {

void AsyncCollectives::prepare() {
  if (!lane_) {
    lane_ = std::make_unique<Lane<Collective*>>([this](Collective* const& collective) {
      if (failed_.isSet()) return;
      const FlushSubnormals flushed;
      collective->begin = monotonicNow();
      failed_.set(collective->run());
      collective->end = monotonicNow();
    });
  }
  lane_->reserve();
}

void AsyncCollectives::post(Collective& collective) {
  collective.ticket = lane_->post(&collective);
}

Status AsyncCollectives::wait(const Collective& collective) {
  if (collective.ticket > 0) lane_->wait(collective.ticket);
  return failed_.status();
}

void AsyncCollectives::giveUp(const Collective& collective) {
  if (isDone(collective)) return;
  collective.group->abort();
  lane_->wait(collective.ticket);
}

}  // namespace lockstep::runtime
