// A run's curves as event files of TensorBoard (engine/base/tf_record.h).
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "app/history/history.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Writes a folder for each of the runs (ids) into `folder`, which is made if it is not there. What
// is of a rank, a node, a GPU or a link to another node is in folders below it, so that TensorBoard
// shows all of them in one chart: "node/n1/gpu/0/utilisation" is the tag "gpu/utilisation" in
// node/n1/gpu/0, "rank/2/forward" the tag "rank/forward" in rank/2, "node/n1/to/n2/rate" the tag
// "link/rate" in node/n1/to/n2. A value of a program of the user's own has the tag that the program
// gave it, another series its own name.
//
// A point over steps has its step, and as its time when that step began on its rank, of the run's
// own series on rank 0; "rank/<r>/began", which is that time, is no curve. A point over epochs has
// its epoch, and the time of the epoch's last step; a point over time has its time, and as its step
// its number in the series, since TensorBoard shows only one point of a step. The times of steps
// that were not recorded are between those of the recorded ones beside them, and if there are none
// that at which the run began.
//
// Numbers are rounded to floats: TensorBoard does that too, and shows no doubles.
//
// A run's folder appears when it is complete. Errors: kAlreadyExists, before anything is written,
// if the folder of a run is there; kCancelled; those of the history and of the file system.
Status writeTensorBoard(const History& history, const std::vector<std::string>& runs,
                        const std::string& folder, const std::stop_token& stop = {});

}  // namespace lockstep::app
