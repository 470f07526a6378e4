#include "app/history/run_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "app/history/curve_store.h"
#include "app/history/integrity.h"
#include "app/history/run_incidents.h"
#include "engine/specs/error_info.h"
#include "engine/storage/database.h"

namespace lockstep::app {
namespace {

using storage::Database;
using storage::Statement;
using storage::Transaction;

const std::string kAboutFact = "fact/";  // begins the keys of facts in `about`
// The columns are for readers of SQL; `info`, an ErrorInfo, has all of an error.
constexpr std::string_view kErrorSchema = "ALTER TABLE error ADD COLUMN info BLOB;";
// The index spares RunStore::eventSteps() the packed events.
constexpr std::string_view kEventSchema =
    "ALTER TABLE event ADD COLUMN slow INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX event_step ON event(step, slow);";
constexpr std::string_view kAboutSchema = "CREATE TABLE about(key TEXT PRIMARY KEY, text TEXT);";
constexpr std::string_view kSchema = R"(
CREATE TABLE log(id INTEGER PRIMARY KEY, wall INTEGER NOT NULL, node TEXT NOT NULL,
  rank INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE epoch(epoch INTEGER PRIMARY KEY, step INTEGER NOT NULL, train_loss REAL,
  eval_loss REAL, eval_metric REAL);
CREATE TABLE error(id INTEGER PRIMARY KEY, code TEXT NOT NULL, what TEXT NOT NULL, why TEXT NOT NULL,
  next TEXT NOT NULL, node TEXT NOT NULL, rank INTEGER NOT NULL, step INTEGER NOT NULL);
CREATE TABLE event(step INTEGER NOT NULL, rank INTEGER NOT NULL, packed BLOB NOT NULL,
  PRIMARY KEY(step, rank));
CREATE TABLE cursor(node TEXT PRIMARY KEY, sequence INTEGER NOT NULL);
)";

}  // namespace

struct RunStore::State {
  std::string path;
  std::unique_ptr<Database> database;
  std::optional<CurveStore> curves;
  int lock = -1;

  ~State() {
    if (lock >= 0) close(lock);
  }
  static Result<std::unique_ptr<State>> open(const std::string& path, bool create);
};

Result<std::unique_ptr<RunStore::State>> RunStore::State::open(const std::string& path,
                                                               bool create) {
  static const std::string first = std::string(CurveStore::kFirstSchema).append(kSchema);
  auto state = std::make_unique<State>();
  state->path = path;
  LOCKSTEP_ASSIGN(state->database,
                  openDatabase(path,
                               {first, kErrorSchema, kAboutSchema, CurveStore::kBatchSchema,
                                kIncidentSchema, kEventSchema, CurveStore::kAxisSchema},
                               create));
  state->curves.emplace(*state->database);
  return state;
}

RunStore::RunStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunStore::~RunStore() = default;

Result<std::unique_ptr<RunStore>> openRunStore(const std::string& path) {
  LOCKSTEP_ASSIGN(auto state, RunStore::State::open(path, false));
  return std::unique_ptr<RunStore>(new RunStore(std::move(state)));
}

Result<std::unique_ptr<RunStore>> makeRunStore(const std::string& path) {
  LOCKSTEP_ASSIGN(auto state, RunStore::State::open(path, true));
  return std::unique_ptr<RunStore>(new RunStore(std::move(state)));
}

Result<int> lockRunStore(const std::string& path) {
  const std::string file = path + ".lock";
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return systemError(errno, message("cannot open {}", file));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int reason = errno;
  close(fd);
  if (reason == EWOULDBLOCK)
    return makeError(Code::kAlreadyExists, "another process records this run");
  return systemError(reason, message("cannot lock {}", file));
}

Status RunStore::lockForRecording() {
  if (state_->lock >= 0) return {};
  LOCKSTEP_ASSIGN(state_->lock, lockRunStore(state_->path));
  state_->curves->forget();  // another recorder may have written since
  return {};
}

Status RunStore::append(const RunBatch& batch) {
  if (state_->lock < 0)
    return makeError(Code::kFailedPrecondition, "the run is not locked for recording");
  Database& database = *state_->database;
  Transaction transaction(database);
  LOCKSTEP_TRY(transaction.status());
  Status written = [&]() -> Status {
    LOCKSTEP_TRY(state_->curves->append(batch.series));
    if (!batch.logs.empty()) {
      Statement log(database, "INSERT INTO log(wall,node,rank,text) VALUES(?,?,?,?)");
      for (const LogRow& row : batch.logs)
        LOCKSTEP_TRY(log.bind(row.wallNs)
                         .bind(std::string_view(row.node))
                         .bind(row.rank)
                         .bind(std::string_view(row.text))
                         .run());
    }
    for (const EpochRow& row : batch.epochs)
      LOCKSTEP_TRY(Statement(database, "INSERT OR REPLACE INTO epoch VALUES(?,?,?,?,?)")
                       .bind(row.epoch)
                       .bind(row.step)
                       .bind(row.trainLoss)
                       .bind(row.evalLoss)
                       .bind(row.evalMetric)
                       .run());
    for (const Error& error : batch.errors) {
      const std::string info = specs::toInfo(error).SerializeAsString();
      LOCKSTEP_TRY(Statement(database,
                             "INSERT INTO error(code,what,why,next,node,rank,step,info) "
                             "VALUES(?,?,?,?,?,?,?,?)")
                       .bind(codeName(error.code))
                       .bind(std::string_view(error.what.text()))
                       .bind(std::string_view(error.why.text()))
                       .bind(std::string_view(error.next.text()))
                       .bind(std::string_view(error.node))
                       .bind(error.rank)
                       .bind(error.step)
                       .bindBlob(std::as_bytes(std::span(info)))
                       .run());
    }
    for (const SpanEvents& events : batch.events)
      LOCKSTEP_TRY(Statement(database, "INSERT OR REPLACE INTO event VALUES(?,?,?,?)")
                       .bind(events.step)
                       .bind(events.rank)
                       .bindBlob(std::as_bytes(std::span(events.packed)))
                       .bind(events.slow ? 1 : 0)
                       .run());
    for (const StragglerRow& row : batch.stragglers) LOCKSTEP_TRY(addStraggler(database, row));
    for (const RestartRow& row : batch.restarts) LOCKSTEP_TRY(addRestart(database, row));
    for (const RunBatch::Fact& fact : batch.facts)
      LOCKSTEP_TRY(Statement(database, "INSERT OR REPLACE INTO about VALUES(?,?)")
                       .bind(std::string_view(kAboutFact + fact.key))
                       .bind(std::string_view(fact.text))
                       .run());
    for (const auto& cursor : batch.cursors)
      LOCKSTEP_TRY(Statement(database, "INSERT OR REPLACE INTO cursor VALUES(?,?)")
                       .bind(std::string_view(cursor.node))
                       .bind(static_cast<std::int64_t>(cursor.sequence))
                       .run());
    return transaction.commit();
  }();
  if (!written.ok()) state_->curves->forget();  // it may be ahead of what was kept
  return written;
}

Status RunStore::checkCurves() const { return state_->curves->check(); }

bool RunStore::recorded() const {
  // Whatever is appended comes with a cursor, but for rows of a test or an earlier version.
  Statement any(*state_->database,
                "SELECT EXISTS(SELECT 1 FROM cursor) OR EXISTS(SELECT 1 FROM series)");
  return any.step() && any.integer(0) != 0;
}

std::uint64_t RunStore::cursor(const std::string& node) const {
  Statement found(*state_->database, "SELECT sequence FROM cursor WHERE node=?");
  return found.bind(std::string_view(node)).step() ? static_cast<std::uint64_t>(found.integer(0))
                                                   : 0;
}

Status RunStore::setAbout(const std::map<std::string_view, std::string>& texts) {
  Transaction transaction(*state_->database);
  LOCKSTEP_TRY(transaction.status());
  for (const auto& [key, text] : texts)
    LOCKSTEP_TRY(Statement(*state_->database, "INSERT OR REPLACE INTO about VALUES(?,?)")
                     .bind(key)
                     .bind(std::string_view(text))
                     .run());
  return transaction.commit();
}

std::vector<RunBatch::Fact> RunStore::facts() const {
  Statement rows(*state_->database,
                 "SELECT substr(key, length(?1) + 1), text FROM about WHERE "
                 "substr(key, 1, length(?1))=?1 ORDER BY key");
  rows.bind(std::string_view(kAboutFact));
  std::vector<RunBatch::Fact> out;
  while (rows.step()) out.push_back({rows.text(0), rows.text(1)});
  return out;
}

Status RunStore::closeStragglers(std::int64_t wallNs) {
  return endStragglers(*state_->database, wallNs);
}

std::string RunStore::about(std::string_view key) const {
  Statement found(*state_->database, "SELECT text FROM about WHERE key=?");
  return found.bind(key).step() ? found.text(0) : std::string();
}

std::vector<SeriesInfo> RunStore::series() const { return state_->curves->series(); }

Result<std::vector<Span>> RunStore::read(const std::string& series, double from, double to,
                                         int maxPoints) const {
  return state_->curves->read(series, from, to, maxPoints);
}

Result<std::vector<Point>> RunStore::readAll(const std::string& series) const {
  return state_->curves->readAll(series);
}

Result<std::vector<Point>> RunStore::readAfter(const std::string& series, double x) const {
  return state_->curves->readAfter(series, x);
}

Result<std::vector<LogRow>> RunStore::logs(const LogFilter& filter, std::int64_t before,
                                           int limit) const {
  Statement rows(
      *state_->database,
      fmt::format("SELECT id, wall, node, rank, text FROM log WHERE (?1='' OR node=?1) AND "
                  "(?2<-1 OR rank=?2) AND (?3='' OR instr(lower(text), lower(?3))>0) AND "
                  "id>?4 AND id<?5 ORDER BY id {} LIMIT ?6",
                  filter.oldestFirst ? "ASC" : "DESC"));
  rows.bind(std::string_view(filter.node))
      .bind(filter.rank)
      .bind(std::string_view(filter.contains))
      .bind(filter.after)
      .bind(before > 0 ? before : std::numeric_limits<std::int64_t>::max())
      .bind(limit);
  std::vector<LogRow> out;
  while (rows.step())
    out.push_back({rows.integer(0), rows.integer(1), rows.text(2),
                   static_cast<int>(rows.integer(3)), rows.text(4)});
  LOCKSTEP_TRY(rows.status());
  if (!filter.oldestFirst) std::reverse(out.begin(), out.end());
  return out;
}

std::vector<EpochRow> RunStore::epochs() const {
  Statement rows(*state_->database, "SELECT * FROM epoch ORDER BY epoch");
  std::vector<EpochRow> out;
  while (rows.step())
    out.push_back(
        {rows.integer(0), rows.integer(1), rows.number(2), rows.number(3), rows.number(4)});
  return out;
}

std::vector<Error> RunStore::errors() const {
  Statement rows(*state_->database,
                 "SELECT code, what, why, next, node, rank, step, info FROM error ORDER BY id");
  std::vector<Error> out;
  while (rows.step()) {
    const std::span<const std::byte> blob = rows.blob(7);
    run::v1::ErrorInfo info;
    if (!blob.empty() && info.ParseFromArray(blob.data(), static_cast<int>(blob.size()))) {
      out.push_back(specs::fromInfo(info));
      continue;
    }
    Error error;
    error.code = codeFromName(rows.text(0)).value_or(Code::kInternal);
    error.what = rows.text(1);
    error.why = rows.text(2);
    error.next = rows.text(3);
    error.node = rows.text(4);
    error.rank = static_cast<int>(rows.integer(5));
    error.step = rows.integer(6);
    out.push_back(std::move(error));
  }
  return out;
}

std::vector<StragglerRow> RunStore::stragglers() const { return readStragglers(*state_->database); }
std::vector<RestartRow> RunStore::restarts() const { return readRestarts(*state_->database); }

std::vector<SpanEvents> RunStore::events(std::int64_t fromStep, std::int64_t toStep) const {
  Statement rows(
      *state_->database,
      "SELECT rank, step, packed, slow FROM event WHERE step BETWEEN ? AND ? ORDER BY step, rank");
  rows.bind(fromStep).bind(toStep);
  std::vector<SpanEvents> out;
  while (rows.step()) {
    const auto blob = rows.blob(2);
    out.push_back({static_cast<int>(rows.integer(0)), rows.integer(1),
                   std::string(reinterpret_cast<const char*>(blob.data()), blob.size()),
                   rows.integer(3) != 0});
  }
  return out;
}

std::vector<EventStep> RunStore::eventSteps() const {
  Statement rows(*state_->database,
                 "SELECT step, max(slow), count(*) FROM event GROUP BY step ORDER BY step");
  std::vector<EventStep> out;
  while (rows.step())
    out.push_back({rows.integer(0), rows.integer(1) != 0, static_cast<int>(rows.integer(2))});
  return out;
}

bool lacksFiles(const RunStore& store, const std::string& node) {
  const std::string text = store.about(kAboutArtifacts);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (text == kArtifactsWanted) return true;
  const auto missing = json.is_object() ? json.find("missing") : json.end();
  return missing != json.end() &&
         std::find(missing->begin(), missing->end(), node) != missing->end();
}

}  // namespace lockstep::app
