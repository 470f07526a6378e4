// Outline: downsampling of a spool's old records.
//
// A window of consecutive records is replaced by fewer records of the same kinds, in order; each
// keeps the number of one of the records that it replaces:
// - steps of a rank and samples of the node: two records each, the first with the minimum of every
//   value, the second with the maximum (Record.outline_from is set);
// - clock offsets: the first and the last;
// - events of steps: those of the window's first step that has any;
// - log lines of a rank: its first and last lines, and lines that report a problem; the number of
//   the others is in LogLines.dropped;
// - values that a program reports: of each from each source its first, last, least and greatest,
//   and the first that is no number;
// - everything else is unchanged: errors, warnings, recoveries, states of ranks, epochs,
//   checkpoints and the supervisor's own lines.
// Steps before and after a recovery are not merged. An outline can be outlined again.
#pragma once

#include <vector>

#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// Returns the outline of a window of `records`, in order.
std::vector<run::v1::Record> outlineOf(std::vector<run::v1::Record> records);

}  // namespace lockstep::agent
