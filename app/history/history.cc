#include "app/history/history.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "app/history/integrity.h"
#include "app/history/run_csv.h"
#include "app/history/run_table.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/list_folder.h"
#include "engine/base/log.h"
#include "engine/specs/error_info.h"
#include "engine/storage/database.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;
using storage::Database;
using storage::Statement;
using storage::Transaction;

constexpr std::size_t kMostFilterBytes = 16 << 20;

// Renames a damaged database if no other process has it open.
Status setHistoryAside(const std::string& path, const Status& intact, const OpenLock& lock) {
  if (intact.ok()) return makeError(Code::kDataLoss, "cannot use {}", path);
  Error error = intact.error();
  if (error.code != Code::kDataLoss) return error;
  error.next =
      "close all other Lockstep programs; the next one to start renames the file and rebuilds the "
      "list of runs";
  if (!lock.alone()) return error;
  LOCKSTEP_ASSIGN(const std::string aside, setAside(path));
  logWarning(
      "{} ({}). It has been renamed to {}; the list of runs is rebuilt from the files of the runs.",
      error.what.text(), error.why.text(), aside);
  return {};
}

}  // namespace

struct History::State {
  std::string folder;
  std::unique_ptr<OpenLock> lock;
  std::unique_ptr<Database> database;
  std::int64_t ownChanges = 0;
  std::string pathOf(const std::string& run) const { return folder + "/runs/" + run + ".db"; }
  Status changed(Status status) {
    if (status.ok()) ++ownChanges;
    return status;
  }
};

History::History(std::unique_ptr<State> state) : state_(std::move(state)) {}
History::~History() = default;

Result<std::unique_ptr<History>> History::open(const std::string& folder, bool check) {
  std::error_code error;
  fs::create_directories(folder + "/runs", error);
  if (error) {
    std::error_code ignored;
    const std::string missing = fs::is_directory(folder, ignored) ? folder + "/runs" : folder;
    Error failed =
        systemError(error.value(), message("cannot create the history's folder {}", missing));
    if (fs::exists(missing, ignored))
      failed.next = "rename the file that is there, or use another --home";
    return failed;
  }
  auto state = std::make_unique<State>();
  state->folder = folder;
  const std::string path = folder + "/history.db";
  state->lock = std::make_unique<OpenLock>(path);
  const bool there = fs::exists(path, error);
  check = there && (check || (state->lock->alone() && hasLog(path)));
  Status intact = check ? Database::check(path) : Status();
  Result<std::unique_ptr<Database>> database = intact.code() == Code::kDataLoss
                                                   ? intact.error()
                                                   : openDatabase(path, historySchemas(), true);
  if (!database.ok() && database.error().code == Code::kDataLoss) {
    if (intact.ok()) intact = Database::check(path);
    LOCKSTEP_TRY(setHistoryAside(path, intact, *state->lock));
    database = openDatabase(path, historySchemas(), true);
  } else if (database.ok() && (*database)->made() && there && state->lock->alone()) {
    logWarning("{} was empty; the list of runs is rebuilt from the files of the runs.", path);
  }
  if (!database.ok()) return database.error();
  state->database = std::move(*database);
  const bool fresh = state->database->made();
  std::unique_ptr<History> history(new History(std::move(state)));
  for (const fs::path& file : fresh ? listFolder(folder + "/runs") : std::vector<fs::path>())
    if (file.extension() == ".db")
      if (const auto store = openRunStore(file.string()); store.ok())
        history->listAgain(file.stem().string(), **store);
  if (fresh) history->restoreFilters();
  history->state_->lock->share();
  return history;
}

// Where history.db was lost.
void History::restoreFilters() {
  std::error_code ignored;
  if (!fs::exists(filtersFile(), ignored)) return;
  const Status restored = [&]() -> Status {
    LOCKSTEP_ASSIGN(const std::string json, readFile(filtersFile(), kMostFilterBytes));
    return addFiltersFromJson(*state_->database, json);
  }();
  if (!restored.ok()) logWarning("the saved filters are lost: {}", restored.error().text());
}

// A run whose file is there, where history.db was lost.
void History::listAgain(const std::string& run, const RunStore& store) {
  const bool known = [&]() -> Status {
    Transaction transaction(*state_->database);
    LOCKSTEP_TRY(transaction.status());
    LOCKSTEP_TRY(addRowFromJson(*state_->database, "run", store.about(kAboutRow)));
    LOCKSTEP_TRY(addRowFromJson(*state_->database, "document", store.about(kAboutDocuments)));
    LOCKSTEP_TRY(addTagsFromJson(*state_->database, run, store.about(kAboutTags)));
    return transaction.commit();
  }()
                                  .ok();
  RunRow row;
  row.run = run;
  if (known)
    if (auto found = this->row(run); found.ok()) row = std::move(*found);
  if (isFinal(row.phase)) return;
  // How it went on: what it recorded.
  const std::string path = state_->pathOf(run);
  const auto lock = lockRunStore(path);
  const bool recorded = !lock.ok() && lock.error().code == Code::kAlreadyExists;
  if (lock.ok()) close(*lock);
  // A run that is being recorded is under way; expireAbandoned() ends it when recording stops. So
  // is one that was recorded: the row in its file is that of its launch.
  if (recorded || (row.phase == RunState::LAUNCHING && store.recorded()))
    row.phase = RunState::RUNNING;
  for (const SeriesInfo& series : store.series()) {
    if (series.name == "loss") row.figures.steps = std::llround(series.lastX);
    if (!known && series.name.starts_with("rank/") && series.name.ends_with("/step")) ++row.world;
    if (isMetric(series.name)) row.figures.metric = series.name;
  }
  if (const auto epochs = store.epochs(); !epochs.empty()) {
    const EpochRow& last = epochs.back();
    row.figures.epochs = last.epoch;
    row.figures.trainLoss = last.trainLoss;
    if (last.evaluated())
      row.figures.evalLoss = last.evalLoss, row.figures.evalMetric = last.evalMetric;
  }
  if (known) {
    (void)update(row);
    return;
  }
  if (!recorded) row.phase = RunState::EXPIRED;
  row.error = "the history was lost; only the data that the run recorded was recovered";
  struct stat info {};
  if (stat(path.c_str(), &info) == 0)
    row.createdNs = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000;
  (void)add(row, {});  // another process may have been quicker
}

const std::string& History::folder() const { return state_->folder; }

Status History::add(const RunRow& row, const RunDocuments& documents) {
  if (row.run.empty() || row.run.find('/') != std::string::npos)
    return invalidArgument("\"{}\" is not a run's id", row.run);
  // a run has its file from the beginning
  LOCKSTEP_ASSIGN(const auto store, makeRunStore(state_->pathOf(row.run)));
  Transaction transaction(*state_->database);
  LOCKSTEP_TRY(transaction.status());
  LOCKSTEP_TRY(writeRow(*state_->database, RowWrite::kAdd, row));
  LOCKSTEP_TRY(app::changeTags(*state_->database, row.run, {row.tags, {}}));
  LOCKSTEP_TRY(writeDocuments(*state_->database, row.run, documents));
  LOCKSTEP_TRY(state_->changed(transaction.commit()));
  noteIn(*store, row.run);
  return {};
}

// Stores the run's rows in its file, from which a new history.db reads them.
void History::noteIn(RunStore& store, const std::string& run) {
  (void)store.setAbout({{kAboutRow, rowAsJson(*state_->database, "run", run)},
                        {kAboutDocuments, rowAsJson(*state_->database, "document", run)},
                        {kAboutTags, tagsAsJson(*state_->database, run)}});
}

void History::noteInRunFile(const std::string& run) {
  const auto store = openRunStore(state_->pathOf(run));
  if (store.ok()) noteIn(**store, run);  // else whoever opens it is told
}

Result<std::unique_ptr<RunStore>> History::begin(const RunRow& row, const RunDocuments& documents) {
  if (this->row(row.run).ok())
    return makeError(Code::kAlreadyExists, "run {} is already in the history", row.run);
  LOCKSTEP_ASSIGN(auto store, makeRunStore(state_->pathOf(row.run)));
  LOCKSTEP_TRY(store->lockForRecording());
  LOCKSTEP_TRY(add(row, documents));
  return store;
}

Status History::expireAbandoned() {
  // A run under way has documents, but for those of a lost history.
  constexpr std::string_view kAbandoned =
      "(phase=? AND NOT EXISTS "
      "(SELECT 1 FROM document WHERE document.run=run.run AND nodes<>'') OR phase=? AND NOT EXISTS "
      "(SELECT 1 FROM document WHERE document.run=run.run AND (nodes<>'' OR spec<>'')))";
  std::vector<std::string> abandoned;
  {
    Statement rows(*state_->database, fmt::format("SELECT run FROM run WHERE {}", kAbandoned));
    rows.bind(static_cast<int>(RunState::LAUNCHING)).bind(static_cast<int>(RunState::RUNNING));
    while (rows.step()) abandoned.push_back(rows.text(0));
    LOCKSTEP_TRY(rows.status());
  }
  for (const std::string& run : abandoned) {
    const auto lock = lockRunStore(state_->pathOf(run));
    if (!lock.ok()) continue;  // its launch, or its recorder, is under way
    // Asked again under the lock: a launch may have ended between the list and the lock.
    const Status updated = state_->changed(
        Statement(
            *state_->database,
            fmt::format("UPDATE run SET phase=CASE phase WHEN ? THEN ? ELSE ? END, "
                        "error=CASE WHEN coalesce(error,'')='' THEN ? ELSE error END, finished=? "
                        "WHERE run=? AND {}",
                        kAbandoned))
            .bind(static_cast<int>(RunState::LAUNCHING))
            .bind(static_cast<int>(RunState::EXPIRED))
            .bind(static_cast<int>(RunState::FAILED))
            .bind(std::string_view(
                "its launch was never completed: the program that launched it ended"))
            .bind(wallNow())
            .bind(std::string_view(run))
            .bind(static_cast<int>(RunState::LAUNCHING))
            .bind(static_cast<int>(RunState::RUNNING))
            .run());
    close(*lock);
    LOCKSTEP_TRY(updated);
  }
  return {};
}

Status History::update(const RunRow& row) {
  LOCKSTEP_TRY(state_->changed(writeRow(*state_->database, RowWrite::kUpdate, row)));
  if (isFinal(row.phase)) noteInRunFile(row.run);
  return {};
}

Status History::setDocuments(const std::string& run, const RunDocuments& documents) {
  LOCKSTEP_TRY(state_->changed(writeDocuments(*state_->database, run, documents)));
  noteInRunFile(run);
  return {};
}

Status History::setNotes(const std::string& run, const std::string& notes) {
  LOCKSTEP_TRY(state_->changed(Statement(*state_->database, "UPDATE run SET notes=? WHERE run=?")
                                   .bind(std::string_view(notes))
                                   .bind(std::string_view(run))
                                   .run()));
  noteInRunFile(run);
  return {};
}

namespace {
Error unknownRun(const std::string& run) {
  Error error = makeError(Code::kNotFound, "there is no run \"{}\" in the history", run);
  error.next = "`lockstep history list` shows what is there";
  return error;
}
}  // namespace

Result<RunRow> History::row(const std::string& run) const {
  Statement found(*state_->database,
                  fmt::format("SELECT {},{} FROM run WHERE run=?", kRunColumns, kTagColumn));
  if (found.bind(std::string_view(run)).step()) return readRow(found);
  LOCKSTEP_TRY(found.status());
  return unknownRun(run);
}

Result<RunRow> History::find(const std::string& text) const {
  if (text == "last") {
    LOCKSTEP_ASSIGN(auto newest, list({}, 1));
    if (newest.empty()) {
      Error error = makeError(Code::kNotFound, "the history has no runs yet");
      error.next = "`lockstep run SPEC --local 1` makes one";
      return error;
    }
    return newest.front();
  }
  if (auto whole = row(text); whole.ok()) return whole;
  Statement found(*state_->database,
                  fmt::format("SELECT {},{} FROM run WHERE substr(run,1,length(?1))=?1 LIMIT 2",
                              kRunColumns, kTagColumn));
  found.bind(std::string_view(text));
  if (text.empty() || !found.step()) {
    LOCKSTEP_TRY(found.status());
    return unknownRun(text);
  }
  const RunRow first = readRow(found);
  if (found.step()) {
    Error error = invalidArgument("more than one run begins with \"{}\"", text);
    error.next = "give more of its id; `lockstep history list` shows them";
    return error;
  }
  return first;
}

Result<RunDocuments> History::documents(const std::string& run) const {
  Statement found(
      *state_->database,
      "SELECT spec,resolved,cluster,plan,prediction,nodes,patch FROM document WHERE run=?");
  if (!found.bind(std::string_view(run)).step()) {
    LOCKSTEP_TRY(found.status());
    return unknownRun(run);
  }
  return RunDocuments{found.text(0), found.text(1), found.text(2), found.text(3),
                      found.text(4), found.text(5), found.text(6)};
}

Result<std::vector<RunRow>> History::list(const RunFilter& filter, int limit) const {
  const RunFilter::Query query = filter.query();
  Statement rows(
      *state_->database,
      fmt::format("SELECT {},{} FROM run WHERE {} ORDER BY created DESC, run DESC LIMIT ?",
                  kRunColumns, kTagColumn, query.condition));
  for (const RunFilter::Value& value : query.values) {
    if (const auto* number = std::get_if<std::int64_t>(&value))
      rows.bind(*number);
    else
      rows.bind(std::string_view(std::get<std::string>(value)));
  }
  rows.bind(limit);
  std::vector<RunRow> out;
  while (rows.step()) out.push_back(readRow(rows));
  LOCKSTEP_TRY(rows.status());
  return out;
}

Status History::changeTags(const std::vector<std::string>& runs, const TagChange& change) {
  {
    Transaction transaction(*state_->database);
    LOCKSTEP_TRY(transaction.status());
    for (const std::string& run : runs) {
      LOCKSTEP_TRY(row(run).status());
      LOCKSTEP_TRY(app::changeTags(*state_->database, run, change));
    }
    LOCKSTEP_TRY(state_->changed(transaction.commit()));
  }
  for (const std::string& run : runs) noteInRunFile(run);
  return {};
}

Result<std::vector<TagUse>> History::tags() const { return tagsInUse(*state_->database); }

Status History::saveFilter(const SavedFilter& filter) {
  LOCKSTEP_TRY(state_->changed(app::saveFilter(*state_->database, filter)));
  return noteFilters();
}

// For a history.db that is lost one day.
Status History::noteFilters() const {
  LOCKSTEP_ASSIGN(const std::string json, filtersAsJson(*state_->database));
  return writeFileAtomically(filtersFile(), json);
}

std::string History::filtersFile() const { return state_->folder + "/filters.json"; }

Status History::removeFilter(const std::string& name) {
  LOCKSTEP_TRY(savedFilter(name).status());
  LOCKSTEP_TRY(state_->changed(Statement(*state_->database, "DELETE FROM filter WHERE name=?")
                                   .bind(std::string_view(name))
                                   .run()));
  return noteFilters();
}

Result<SavedFilter> History::savedFilter(const std::string& name) const {
  Statement found(*state_->database, "SELECT name, text FROM filter WHERE name=?");
  if (found.bind(std::string_view(name)).step()) return SavedFilter{found.text(0), found.text(1)};
  LOCKSTEP_TRY(found.status());
  Error error = makeError(Code::kNotFound, "there is no saved filter \"{}\"", name);
  error.next = "`lockstep history filter` lists them";
  return error;
}

Result<std::vector<SavedFilter>> History::savedFilters() const {
  Statement rows(*state_->database, "SELECT name, text FROM filter ORDER BY name");
  std::vector<SavedFilter> out;
  while (rows.step()) out.push_back({rows.text(0), rows.text(1)});
  LOCKSTEP_TRY(rows.status());
  return out;
}

std::int64_t History::changes() const {
  Statement version(*state_->database, "PRAGMA data_version");
  return (version.step() ? version.integer(0) : 0) + state_->ownChanges;
}

namespace {
// Nodes that are never connected again do not fill the history.
Status insertLeft(Database& database, const std::string& run) {
  LOCKSTEP_TRY(Statement(database,
                         "INSERT OR REPLACE INTO deleted SELECT run, nodes FROM document "
                         "WHERE run=? AND nodes<>''")
                   .bind(std::string_view(run))
                   .run());
  return Statement(database,
                   "DELETE FROM deleted WHERE run NOT IN "
                   "(SELECT run FROM deleted ORDER BY run DESC LIMIT 1000)")
      .run();
}
}  // namespace

Status History::noteLeft(const std::string& run) {
  Transaction transaction(*state_->database);
  LOCKSTEP_TRY(transaction.status());
  LOCKSTEP_TRY(insertLeft(*state_->database, run));
  return transaction.commit();
}

Status History::giveUp(const std::string& run) {
  Transaction transaction(*state_->database);
  LOCKSTEP_TRY(transaction.status());
  LOCKSTEP_ASSIGN(RunRow row, this->row(run));
  if (isFinal(row.phase) || row.unreachableNs == 0) {
    Error error = makeError(Code::kFailedPrecondition, "run {} cannot be given up", run);
    error.why = isFinal(row.phase) ? "it has ended" : "its nodes can be reached";
    error.next =
        isFinal(row.phase) ? "`lockstep history delete` removes it" : "end it with `lockstep kill`";
    return error;
  }
  LOCKSTEP_TRY(setState(row, RunState::FAILED));
  row.finishedNs = row.unreachableNs;  // of what came later nothing is known
  row.unreachableNs = 0;
  if (row.error.empty()) row.error = "given up: the node that coordinates the run is out of reach";
  LOCKSTEP_TRY(insertLeft(*state_->database, run));
  LOCKSTEP_TRY(writeRow(*state_->database, RowWrite::kUpdate, row));
  LOCKSTEP_TRY(state_->changed(transaction.commit()));
  noteInRunFile(run);
  return {};
}

Status History::remove(const std::string& run, bool evenUnderWay) {
  LOCKSTEP_ASSIGN(const RunRow row, this->row(run));
  if (!evenUnderWay && isUnderWay(row.phase) && row.unreachableNs == 0) {
    Error error = makeError(Code::kFailedPrecondition, "run {} is under way", run);
    error.why = "without its entry it could not be found on its nodes again";
    error.next = "stop or kill it first";
    return error;
  }
  const std::string path = state_->pathOf(run);
  auto lock = lockRunStore(path);
  if (!lock.ok()) {
    Error error = lock.error();
    if (error.code == Code::kAlreadyExists) {
      error = makeError(Code::kFailedPrecondition, "run {} is being recorded", run);
      error.next = "wait for its end, or stop it first";
    }
    return error;
  }
  Status done = [&]() -> Status {
    Transaction transaction(*state_->database);
    LOCKSTEP_TRY(transaction.status());
    LOCKSTEP_TRY(insertLeft(*state_->database, run));
    for (const char* table : {"run", "document", "tag"})
      LOCKSTEP_TRY(Statement(*state_->database, fmt::format("DELETE FROM {} WHERE run=?", table))
                       .bind(std::string_view(run))
                       .run());
    return transaction.commit();
  }();
  if (done.ok())
    for (const char* ending : {"", "-wal", "-shm", "-journal", ".lock"})
      unlink((path + ending).c_str());
  close(*lock);
  return state_->changed(done);
}

std::vector<LeftRun> History::leftOnNodes() const {
  std::vector<LeftRun> out;
  Statement rows(*state_->database,
                 "SELECT run, nodes, NOT EXISTS (SELECT 1 FROM run WHERE run.run=deleted.run) "
                 "FROM deleted ORDER BY run DESC");
  while (rows.step()) out.push_back({rows.text(0), rows.text(1), rows.integer(2) != 0});
  return out;
}

Status History::forgetPart(const std::string& run, const std::string& node) {
  Transaction transaction(*state_->database);
  LOCKSTEP_TRY(transaction.status());
  LOCKSTEP_TRY(
      Statement(
          *state_->database,
          "UPDATE deleted SET nodes=(SELECT json_group_array(json(value)) FROM json_each(nodes) "
          "WHERE json_extract(value, '$.node') IS NOT ?) WHERE run=?")
          .bind(std::string_view(node))
          .bind(std::string_view(run))
          .run());
  LOCKSTEP_TRY(Statement(*state_->database, "DELETE FROM deleted WHERE nodes='[]'").run());
  return transaction.commit();
}

Result<std::unique_ptr<RunStore>> History::openRun(const std::string& run) const {
  LOCKSTEP_TRY(row(run).status());
  const std::string path = state_->pathOf(run);
  Error error;
  if (std::error_code ignored; !fs::exists(path, ignored)) {
    error = makeError(Code::kDataLoss, "the curves and logs of run {} are gone", run);
    error.why = message("{} was removed", path);
  } else if (auto store = openRunStore(path); store.ok() || store.error().code != Code::kDataLoss) {
    return store;
  } else {
    error = store.error();
  }
  error.next = message(
      "run `lockstep history check {}` to rename the file and read the run again from its nodes, "
      "or `lockstep history delete {}` to delete the run",
      run, run);
  return error;
}

// kDataLoss if the file of a run is damaged, or lacks what was recorded of it.
Status History::checkFile(const RunRow& row) const {
  const std::string path = state_->pathOf(row.run);
  LOCKSTEP_TRY(Database::check(path));
  LOCKSTEP_ASSIGN(const auto store, openRunStore(path));
  if (const Status curves = store->checkCurves(); !curves.ok()) {
    Error error = makeError(curves.code(), "{} is damaged", path);
    error.why = curves.error().message();
    return error;
  }
  const bool expected = isFinal(row.phase) && row.figures.steps > 0;
  if (!expected || store->recorded() || !store->about(kAboutRefill).empty()) return {};
  Error error = makeError(Code::kDataLoss, "{} is damaged", path);
  error.why = "it has nothing of the run, which was recorded";
  return error;
}

Result<std::optional<std::string>> History::checkRun(const std::string& run) {
  LOCKSTEP_ASSIGN(const RunRow row, this->row(run));
  const std::string path = state_->pathOf(run);
  std::error_code ignored;
  const bool there = fs::exists(fs::symlink_status(path, ignored));
  if (there) {
    const Status intact = checkFile(row);
    if (intact.ok()) {
      noteInRunFile(run);  // one of an earlier version does not have it
      return std::optional<std::string>();
    }
    if (intact.code() != Code::kDataLoss) return intact.error();
  }
  const auto lock = lockRunStore(path);
  if (!lock.ok()) {
    Error error = lock.error();
    if (error.code == Code::kAlreadyExists) {
      error = makeError(Code::kFailedPrecondition, "run {} is being recorded", run);
      error.next = "wait until the run ends, or close the program that records it";
    }
    return error;
  }
  std::string aside;
  const Status done = [&]() -> Status {
    if (there) {
      LOCKSTEP_ASSIGN(aside, setAside(path));
    }
    LOCKSTEP_ASSIGN(const auto store, makeRunStore(path));
    return store->setAbout({{kAboutRefill, "1"}});
  }();
  close(*lock);
  LOCKSTEP_TRY(done);
  noteInRunFile(run);
  return std::optional(aside);
}

Result<std::string> History::csv(const std::string& run) const {
  LOCKSTEP_ASSIGN(const auto store, openRun(run));
  return csvOf(*store);
}

Status History::exportCsv(const std::string& run, const std::string& path) const {
  LOCKSTEP_ASSIGN(const std::string text, csv(run));
  return writeFileAtomically(path, text);
}

}  // namespace lockstep::app
