// The order in which a rank's device issues messages and collectives. On a device queue a message
// is a rendezvous: it blocks the queue of the sender, too, until the other rank has issued its
// side. A schedule assumes that sends do not block; a send is therefore issued at or after its
// place in the plan's order, never before.
#pragma once

#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Messages that a device issues as one group: none of them depends on another.
struct MessageGroup {
  struct Message {
    int entry = 0;  // index in the rank's schedule; a send may belong to an earlier entry
    StepId step = 0;
    bool operator==(const Message&) const = default;
  };
  // The group is issued before this step of the entry; the number of steps means after the last.
  StepId before = 0;
  // pending sends, and the receives at `before` and the steps after it
  std::vector<Message> messages;
  // Whether step `before` waits for the group: it receives, or sends memory that the entry writes.
  bool awaited = false;
  bool operator==(const MessageGroup&) const = default;
};

// Returns the groups of each schedule entry, by `before`, where all ranks run `schedule` (by
// stage). All ranks use one global order, that of a run of all stages in virtual time, so the first
// message or collective in it that is not done always has all its ranks ready: there is no
// deadlock. The plan's verifier proves that memory being sent is not written before it is received.
// Precondition: the plan verifies. Errors: kFailedPrecondition where a message is not a send or
// receive between two ranks, of memory that outlives its program.
Result<std::vector<std::vector<MessageGroup>>> messageOrder(
    const Plan& plan, const std::vector<std::vector<ScheduleEntry>>& schedule, int rank);

}  // namespace lockstep::plan
