#include "app/runs/refill.h"

namespace lockstep::app {

// A node with an empty spool has the end alone, and records that say what is lost.
void Refill::note(const std::string& node, const run::v1::Record& record) {
  bool& tells = telling_[node];
  tells = tells || (!record.has_lost() && !record.has_error() && !record.has_finished());
}

std::vector<Error> Refill::missing(const RunRow& row, bool none,
                                   const std::vector<std::string>& unfinished,
                                   const std::map<std::string, Error>& lost) const {
  Error error;
  error.code = Code::kUnavailable;
  error.what = none ? message("run {} could not be restored", row.run)
                    : message("run {} could be restored only in part", row.run);
  error.next = message(
      "run `lockstep history check {}` to try again, or `lockstep history delete {}` to delete the "
      "run",
      row.run, row.run);
  for (const std::string& node : unfinished) {
    const auto away = unreached_.find(node);
    if (const auto found = lost.find(node); found != lost.end())
      error.why = found->second.code == Code::kNotFound
                      ? message("node {} no longer has the run", node)
                      : found->second.message();
    else if (away != unreached_.end())
      error.why = away->second;
    else
      error.why = message("node {} has not sent the end of its records", node);
    return {std::move(error)};
  }
  for (const auto& [node, tells] : telling_) {
    if (row.figures.steps == 0 || tells) continue;
    error.why = message("node {} has nothing of the run but its end", node);
    return {std::move(error)};
  }
  return {};
}

}  // namespace lockstep::app
