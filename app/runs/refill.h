// Refill: whether the nodes have sent all of a run whose file in the history is filled again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/history/run_row.h"
#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

class Refill {
 public:
  void note(const std::string& node, const run::v1::Record& record);
  void reached(const std::string& node) { unreached_.erase(node); }
  void unreached(const std::string& node, Message why) { unreached_[node] = std::move(why); }

  // Returns why something is missing of the run `row`; empty: nothing is. `none`: nothing could be
  // restored; `unfinished`: nodes that have not sent their last record; `lost`: nodes that have no
  // records of the run.
  std::vector<Error> missing(const RunRow& row, bool none,
                             const std::vector<std::string>& unfinished,
                             const std::map<std::string, Error>& lost) const;

 private:
  std::map<std::string, Message> unreached_;  // nodes out of reach, and why
  std::map<std::string, bool> telling_;  // whether a node sent records of the run, not only its end
};

}  // namespace lockstep::app
