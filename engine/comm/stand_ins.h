// Mock communicators for measuring the cost of communication: they move no data, and buffers keep
// their contents.
#pragma once

#include <memory>

#include "engine/comm/communicator.h"

namespace lockstep::comm {

// Rank `rank` of a group without peers: every call succeeds at once.
std::unique_ptr<Communicator> makeAlone(int rank, int size);

// Real calls of the borrowed group, a barrier of it in place of each, or nothing.
enum class Communication : std::uint8_t { kReal, kBarrier, kNone };
class SwitchedCommunicator : public Communicator {
 public:
  // Applies to calls that begin from now on. All ranks must switch between the same two calls. A
  // barrier in place of a message involves the whole group.
  virtual void setCommunication(Communication as) = 0;
};
std::unique_ptr<SwitchedCommunicator> makeSwitched(Communicator& group);

}  // namespace lockstep::comm
