// Communicators in place of a group's, for what communication costs to be measured: they move
// nothing, so that buffers keep what they had.
#pragma once

#include <memory>

#include "engine/comm/communicator.h"

namespace lockstep::comm {

// Rank `rank` of a group of which nobody else is there: every call succeeds at once.
std::unique_ptr<Communicator> makeAlone(int rank, int size);

// The borrowed group's calls as they are, a barrier of it in place of each, or nothing.
enum class Communication : std::uint8_t { kReal, kBarrier, kNone };
class SwitchedCommunicator : public Communicator {
 public:
  // Of the calls that begin from now on. All ranks switch between the same two calls; a message in
  // whose place a barrier stands needs the whole group.
  virtual void play(Communication as) = 0;
};
std::unique_ptr<SwitchedCommunicator> makeSwitched(Communicator& group);

}  // namespace lockstep::comm
