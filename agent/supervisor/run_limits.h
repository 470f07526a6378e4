// RunLimits: how long a run waits, for what. Those on waiting for other nodes follow from the
// heartbeat, for the reasons given in engine/specs/run_limits.h. How long a stop, an evaluation,
// copies and confirmations may take, are choices, which no heartbeat changes.
#pragma once

#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/specs/run_limits.h"

namespace lockstep::agent {

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
  // Those that grow with the heartbeat; on one node they stay as they are here.
  Nanoseconds formation = specs::kFormation.least;
  Nanoseconds lostPeer = specs::kLostPeer.least;
  Nanoseconds keepalive = specs::kKeepalive.least;
  Nanoseconds grace = specs::kGrace.least;
  Nanoseconds absence = specs::kAbsence.least;
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
