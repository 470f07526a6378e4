// Outline: what is left of a spool's old records.
//
// A window of consecutive records becomes fewer records of the same kinds, in order, each under the
// number of one that it had:
// - steps of a rank and samples of the node: two records of each, the first with the least of every
//   value, the last with the greatest (Record.outline_from is set);
// - clock offsets: the first and the last;
// - events of steps: those of the window's first step that has any;
// - log lines of a rank: its first and last lines, and lines that tell of trouble; the number of
//   the others is in LogLines.dropped;
// - everything else as it was: errors, warnings, recoveries, states of ranks, epochs, checkpoints
//   and the lines of the supervisor itself.
// Steps before and after a recovery are not put together. An outline of outlines is an outline.
#pragma once

#include <vector>

#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// Of a window of `records`, in order.
std::vector<run::v1::Record> outlineOf(std::vector<run::v1::Record> records);

}  // namespace lockstep::agent
