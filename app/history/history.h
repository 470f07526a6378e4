// History: all runs with spec, plan, metrics and curves, in SQLite files that studio and command
// line share. history.db has one row per run, its tags, and the saved filters; runs/<run>.db has
// the curves, logs and errors of a run. One recorder writes a run, under a file lock; any number of
// readers read concurrently.
//
// History and RunStore are not thread-safe; each thread opens its own.
// Errors: kUnavailable (locked too long), kResourceExhausted (disk full), kDataLoss (not a history,
// corrupt), kFailedPrecondition (written by a newer Lockstep), kNotFound.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/history/run_filter.h"
#include "app/history/run_row.h"
#include "app/history/run_store.h"
#include "app/history/run_tags.h"
#include "engine/base/status.h"

namespace lockstep::app {

// A run that has ended, was given up or deleted, of which nodes may still have files.
struct LeftRun {
  std::string run;
  std::string nodes;     // JSON, as RunDocuments::nodes: those that may
  bool deleted = false;  // its parts are to be removed, not only ended
};

class History {
 public:
  // Rebuilds history.db from the files of the runs if it is missing, empty or damaged. The file is
  // checked if `check` is set or if the last writer did not close it. A damaged file is renamed
  // (see filesSetAside()); if another process has it open, the error is kDataLoss.
  static Result<std::unique_ptr<History>> open(const std::string& folder, bool check = false);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  Status add(const RunRow& row, const RunDocuments& documents);
  // Like add, but returns the run's store, locked before the row is visible. A launch holds it
  // until the documents say where the run is.
  Result<std::unique_ptr<RunStore>> begin(const RunRow& row, const RunDocuments& documents);
  // Marks launches as EXPIRED whose process ended before it recorded where the run is, and runs of
  // a lost history that are no longer recorded as FAILED.
  Status expireAbandoned();
  // Writes the row by its id, without notes and tags, which have functions of their own.
  Status update(const RunRow& row);
  Status setDocuments(const std::string& run, const RunDocuments& documents);
  Status setNotes(const std::string& run, const std::string& notes);
  Result<RunRow> row(const std::string& run) const;
  // Finds a run by id, unique prefix of an id, or "last".
  Result<RunRow> find(const std::string& text) const;
  Result<RunDocuments> documents(const std::string& run) const;
  // Lists runs, newest first.
  Result<std::vector<RunRow>> list(const RunFilter& filter = {}, int limit = 10000) const;
  // Adds and removes tags of runs; changes all runs or none. kNotFound if one is not there,
  // kInvalidArgument for what is no tag.
  Status changeTags(const std::vector<std::string>& runs, const TagChange& change);
  Result<std::vector<TagUse>> tags() const;  // those in use, by name
  // Saved filters, by name; names are equal if they differ in the case of ASCII letters only. A
  // filter that is saved again is replaced. kInvalidArgument for what parses as no filter.
  Status saveFilter(const SavedFilter& filter);
  Status removeFilter(const std::string& name);  // kNotFound
  Result<SavedFilter> savedFilter(const std::string& name) const;
  Result<std::vector<SavedFilter>> savedFilters() const;
  std::int64_t changes() const;  // grows when another process or this one changed a row
  // Marks an unreachable run as FAILED and ends its recorder. Notes in leftOnNodes() that nodes may
  // still run it. kFailedPrecondition if it is reachable or has ended.
  Status giveUp(const std::string& run);
  // Notes in leftOnNodes() that a node may still have its part of a run that has ended.
  Status noteLeft(const std::string& run);
  // Deletes a run's row and file, and notes in leftOnNodes() that nodes may still have files of it.
  // kFailedPrecondition while it is being recorded and, unless evenUnderWay, while it is running
  // and reachable.
  Status remove(const std::string& run, bool evenUnderWay = false);
  std::vector<LeftRun> leftOnNodes() const;  // newest first; the newest thousand are noted
  Status forgetPart(const std::string& run,
                    const std::string& node);  // nothing is left to do there
  // kDataLoss if the run's file was removed or is damaged.
  Result<std::unique_ptr<RunStore>> openRun(const std::string& run) const;
  // Checks the run's file, reading all of it. Returns nullopt if it is intact. If it is damaged,
  // empty or missing, renames it, creates a new file that a Recorder fills from the run's nodes,
  // and returns the new name of the damaged file ("": it was missing). kFailedPrecondition if the
  // run is being recorded.
  Result<std::optional<std::string>> checkRun(const std::string& run);
  // Exports steps as rows and series as columns ("step", then series over steps). Series over time
  // follow in a second table after an empty line.
  Status exportCsv(const std::string& run, const std::string& path) const;
  Result<std::string> csv(const std::string& run) const;
  const std::string& folder() const;

 private:
  void listAgain(const std::string& run, const RunStore& store);
  std::string filtersFile() const;
  Status noteFilters() const;
  void restoreFilters();
  Status checkFile(const RunRow& row) const;
  void noteIn(RunStore& store, const std::string& run);
  void noteInRunFile(const std::string& run);
  struct State;
  explicit History(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::app
