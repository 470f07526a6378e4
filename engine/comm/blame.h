// Which rank of a Gloo group holds the others up, found by every rank from the farewells of those
// that fail. A rank that says farewell is alive. The search goes back to the rank that timed out
// first, and from there along who waits for whom, to ranks that wait for nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/comm/gloo_wire.h"

namespace lockstep::comm {

// The last that a rank has heard of a peer: its farewell, the end of its connection, that it cannot
// be connected to, or nothing.
enum class Last : std::uint8_t { kFarewell, kEnd, kUnreachable, kSilence };
struct Heard {
  Last last = Last::kSilence;
  Farewell words;
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
  std::string place;       // of a rank without a connection: where it was sought, if known

  Code code() const;
  Message text(int rank, Nanoseconds timeout) const;  // as it is told on `rank`
};

// `own` is the farewell of `rank`; `hear` is called once per peer. A silent rank is blamed alone if
// those that wait for it have waited for half the timeout. Before that, they may have come late
// themselves.
Blame findBlame(int rank, const Farewell& own, Nanoseconds timeout,
                const std::function<Heard(int peer)>& hear);

}  // namespace lockstep::comm
