// In what order a rank's device plays messages and collectives. On a device's queue a message is a
// meeting: what is given after it begins when the other rank has come, also on the side that sends.
// A schedule is made for messages that leave while their sender goes on; so a send is given later
// than the plan's order comes to it, never sooner.
#pragma once

#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Messages that a device gives together: none of them waits for another.
struct MessageGroup {
  struct Message {
    int play = 0;  // among the step's: a send may be of an earlier one
    StepId step = 0;
    bool operator==(const Message&) const = default;
  };
  // it is given before this step of the play, or, where that is their number, after all
  StepId before = 0;
  // sends that the order has come to; receives of steps `before` and those after it
  std::vector<Message> messages;
  // before `before` is played: it receives, or lends memory that the play writes
  bool awaited = false;
  bool operator==(const MessageGroup&) const = default;
};

// Those of each play, where all ranks play `schedule` (by stage), the groups of a play by `before`.
// Order: that of a play of all stages in virtual time, the same for all ranks: each rank gives its
// messages and collectives in it. So the first that has not been played has both sides, or all
// ranks, come to it, and none waits for ever. Memory that is sent is, as the plan's verifier
// proves, not written until it has been received. Precondition: the plan verifies. Errors:
// kFailedPrecondition where messages are no sends and receives of memory that outlasts a play.
Result<std::vector<std::vector<MessageGroup>>> messageOrder(
    const Plan& plan, const std::vector<std::vector<Play>>& schedule, int rank);

}  // namespace lockstep::plan
