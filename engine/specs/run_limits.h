// How long the nodes and ranks of a run are waited for. Supervisors keep these limits, and a launch
// tells them beforehand.
//
// Limits on waiting for other nodes are a number of heartbeats, so that nobody is blamed or given
// up before a silent node can be noticed. Where heartbeats are quick, a least time holds.
#pragma once

#include <algorithm>

#include "engine/base/clock.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

// The interval of a run's heartbeats; 50 ms at least.
Nanoseconds heartbeatOf(const spec::v1::RunSpec& run);

// Heartbeats without a message after which a node is late, and silent. One that is delayed makes a
// node neither.
inline constexpr int kLateHeartbeats = 2, kSilentHeartbeats = 4;

// So many times a unit (a heartbeat, or a step), but at least so long.
struct Limit {
  int times;
  Nanoseconds least;
  constexpr Nanoseconds of(Nanoseconds unit) const { return std::max(least, times * unit); }
};

// Of heartbeats.

// How long a failure that may follow from another is not judged: by then the node that may be its
// cause is known to be silent. After a timeout, a rank first waits up to 1 s for the last error of
// the silent peer.
inline constexpr Limit kGrace{kSilentHeartbeats, 2'000'000'000};
// A connection between nodes on which nothing comes is probed after this time, and closed after as
// long again without an answer. That is more than it takes until a node is silent; both together
// are less than kLostPeer, so that a new connection can still be made.
inline constexpr Limit kKeepalive{6, 3'000'000'000};
// How long a node may have no stream to the coordinator, the coordinator none from a node, and the
// run's end no majority that confirms it. It is enough to notice silence, and for a vote.
inline constexpr Limit kLostPeer{20, 30'000'000'000};
// From Commit until every worker is bound: a node that is lost meanwhile is found first.
inline constexpr Limit kFormation{2 * kLostPeer.times, 60'000'000'000};
// Of a lost node that may come back: twice as long as it can take until it is lost and the others
// have formed anew.
inline constexpr Limit kAbsence{2 * (kLostPeer.times + kFormation.times), 3600'000'000'000};

// Of the usual step.

// How long a rank may hold the others up: no step takes so much longer than the others.
inline constexpr Limit kHang{10, 2'000'000'000};

}  // namespace lockstep::specs
