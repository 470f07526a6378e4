// Finds the rank of a Gloo group that holds the others up. A rank that fails sends its peers a
// farewell, which shows that it is alive and says whom it waits for. Each rank searches by itself:
// from the rank that timed out first, along who waits for whom, to ranks that wait for nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/comm/gloo_wire.h"

namespace lockstep::comm {

// The last that a rank has heard of a peer.
enum class Last : std::uint8_t {
  kFarewell,
  kEnd,          // its connection has ended
  kUnreachable,  // it cannot be connected to
  kSilence,      // nothing
};
struct Heard {
  Last last = Last::kSilence;
  Farewell words;  // of kFarewell
};

struct Blame {
  enum class Kind : std::uint8_t {
    kSilent,       // the rank does not answer
    kEnded,        // the rank has closed its connection
    kUnreachable,  // the rank cannot be connected to
    kFailed,       // the rank has failed for a reason of its own
    kDisagree,     // two ranks have issued different calls
    kUndecided,    // one of the ranks
  };
  Kind kind = Kind::kUndecided;
  std::vector<int> ranks;  // of the group, in order
  int first = 0;           // the rank that failed first
  std::string place;       // of a rank without a connection: the address that was tried, if known

  Code code() const;
  Message text(int rank, Nanoseconds timeout) const;  // as it is told on `rank`
};

// Finds who is to blame, as this `rank` sees it. `own` is what this rank says in its farewell.
// `hear(peer)` returns the last that this rank has heard of a peer; it is called once per peer.
// A silent rank is blamed alone if the ranks that wait for it have waited for half the timeout.
// Ranks that have waited for less may have come late themselves.
Blame findBlame(int rank, const Farewell& own, Nanoseconds timeout,
                const std::function<Heard(int peer)>& hear);

}  // namespace lockstep::comm
