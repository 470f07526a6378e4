#include "engine/runtime/in_flight.h"

#include "engine/base/subnormals.h"

namespace lockstep::runtime {

void InFlight::prepare() {
  if (!lane_) {
    lane_ = std::make_unique<Lane<Collective*>>([this](Collective* const& collective) {
      if (failed_.isSet()) return;
      const FlushSubnormals flushed;
      collective->begin = monotonicNow();
      failed_.set(collective->play());
      collective->end = monotonicNow();
    });
  }
  lane_->reserve();
}

void InFlight::post(Collective& collective) { collective.ticket = lane_->post(&collective); }

Status InFlight::wait(const Collective& collective) {
  if (collective.ticket > 0) lane_->wait(collective.ticket);
  return failed_.status();
}

void InFlight::giveUp(const Collective& collective) {
  if (isDone(collective)) return;
  collective.group->abort();
  lane_->wait(collective.ticket);
}

}  // namespace lockstep::runtime
