// RunLimits: how long a run waits, for what.
//
// Limits on waiting for other nodes are a number of heartbeats, and at least the time given here.
// So nobody is blamed or given up before a silent node can be noticed. How long a stop, an
// evaluation, copies and confirmations may take, are choices, which no heartbeat changes.
#pragma once

#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::agent {

// Heartbeats without a message after which a node is late, and silent.
inline constexpr int kLateHeartbeats = 2, kSilentHeartbeats = 4;

Nanoseconds heartbeatOf(const spec::v1::RunSpec& run);

// What of a run its limits depend on, and the limits that its ranks keep themselves.
struct LimitedRun {
  Nanoseconds heartbeat = 0;   // 0: the run is on one node
  bool ofProgram = false;      // of the user's own
  Nanoseconds collective = 0;  // without progress of a rank; 0: no rank waits for another
  Nanoseconds onGpus = 0;      // the same between GPUs; 0: they exchange nothing among themselves
  bool watchesHangs = false;
  Nanoseconds silentProgram = 0;  // until all of its ranks hang; 0: never
  Nanoseconds disk = 0;           // without progress of a rank's disk; 0: ranks write no files
};

struct RunLimits {
  Nanoseconds prepared = 30'000'000'000;  // until Commit
  // From Commit until every worker is bound; 40 heartbeats: a node that is lost meanwhile is found
  // first.
  Nanoseconds formation = 60'000'000'000;
  // Without a stream to the coordinator, or from a node, or until a majority has confirmed the
  // run's end; 20 heartbeats: time for silence to be noticed, and for a vote.
  Nanoseconds lostPeer = 30'000'000'000;
  // Until a connection between nodes on which nothing comes is probed, and again until it is closed
  // for lack of an answer; 6 heartbeats each, more than silence takes: then a new connection may
  // still be made before the node is lost.
  Nanoseconds keepalive = 3'000'000'000;
  // How long a cascading failure waits for its root cause; 4 heartbeats, after which the node is
  // silent that may be it. After a timeout, a rank first waits up to 1 s for the silent peer's last
  // error.
  Nanoseconds grace = 2'000'000'000;
  // Of a lost node that may come back; 120 heartbeats: twice as long as it can take until it is
  // lost and the others have formed anew.
  Nanoseconds absence = 3600'000'000'000;
  struct Stop {
    Nanoseconds term = 10'000'000'000;  // from Stop to SIGTERM
    Nanoseconds kill = 15'000'000'000;  // from Stop to SIGKILL
  };
  Stop stop;
  // A program of the user's own gets SIGTERM at once, and again.
  Stop stopProgram = {30'000'000'000, 45'000'000'000};
  // From the ranks' end.
  Nanoseconds lastEvaluation = 600'000'000'000;
  Nanoseconds lastCopies = 60'000'000'000;  // of the last checkpoint
  // Until a majority of the nodes has confirmed a request. Clients wait 2.5 s for an answer.
  Nanoseconds kept = 2'000'000'000;

  // Those of a run on several nodes.
  RunLimits withHeartbeat(Nanoseconds heartbeat) const;
  // Lines that tell those which hold for the run, for its log.
  std::vector<std::string> lines(const LimitedRun& run) const;
};

}  // namespace lockstep::agent
