#include "app/history/run_table.h"

#include <algorithm>

#include "engine/specs/error_info.h"

namespace lockstep::app {
namespace {

using storage::Database;
using storage::Statement;

constexpr std::string_view kSchema = R"(
CREATE TABLE run(run TEXT PRIMARY KEY, name TEXT, notes TEXT, phase INTEGER, created INTEGER,
  started INTEGER, finished INTEGER, generation INTEGER, world INTEGER, strategy TEXT, comm TEXT,
  plan_hash TEXT, version TEXT, predicted_step REAL, measured_step REAL, steps INTEGER,
  epochs INTEGER, train_loss REAL, eval_loss REAL, eval_accuracy REAL, samples_per_second REAL,
  weights_sha256 TEXT, cluster TEXT, error TEXT, model_file TEXT, resumed_from TEXT);
CREATE INDEX run_created ON run(created);
CREATE TABLE document(run TEXT PRIMARY KEY, spec TEXT, resolved TEXT, cluster TEXT, plan TEXT,
  prediction TEXT, nodes TEXT);
)";
constexpr std::string_view kMetricSchema = R"(
ALTER TABLE run RENAME COLUMN eval_accuracy TO eval_metric;
ALTER TABLE run ADD COLUMN metric TEXT NOT NULL DEFAULT 'accuracy';
)";
// For LeftRun: also those that were given up.
constexpr std::string_view kDeletedSchema =
    "CREATE TABLE deleted(run TEXT PRIMARY KEY, nodes TEXT);";
constexpr std::string_view kUnreachableSchema =
    "ALTER TABLE run ADD COLUMN unreachable INTEGER NOT NULL DEFAULT 0;";
constexpr std::string_view kMessageSchema =
    "ALTER TABLE run ADD COLUMN error_message TEXT NOT NULL DEFAULT '';";
constexpr std::string_view kLostSchema =
    "ALTER TABLE run ADD COLUMN lost_seconds REAL NOT NULL DEFAULT 0;";
constexpr std::string_view kEnergySchema = R"(
ALTER TABLE run ADD COLUMN joules REAL NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN cost REAL NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN carbon REAL NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN currency TEXT NOT NULL DEFAULT '';
)";
constexpr std::string_view kPatchSchema =
    "ALTER TABLE document ADD COLUMN patch TEXT NOT NULL DEFAULT '';";
constexpr std::string_view kHeardSchema =
    "ALTER TABLE run ADD COLUMN heard INTEGER NOT NULL DEFAULT 0;";
constexpr std::string_view kTagSchema = R"(
CREATE TABLE tag(run TEXT NOT NULL, tag TEXT NOT NULL COLLATE NOCASE, PRIMARY KEY(run, tag))
  WITHOUT ROWID;
CREATE TABLE filter(name TEXT PRIMARY KEY COLLATE NOCASE, text TEXT NOT NULL);
)";

}  // namespace

std::vector<std::string_view> historySchemas() {
  return {kSchema,     kMetricSchema, kDeletedSchema, kUnreachableSchema, kMessageSchema,
          kLostSchema, kTagSchema,    kEnergySchema,  kPatchSchema,       kHeardSchema};
}

RunRow readRow(const Statement& row) {
  RunRow out;
  int column = 0;
  const auto text = [&] { return row.text(column++); };
  const auto integer = [&] { return row.integer(column++); };
  const auto number = [&] { return row.number(column++); };
  out.run = text();
  out.name = text();
  out.notes = text();
  out.phase = static_cast<RunState>(std::clamp<std::int64_t>(integer(), 0, run::v1::RunState_MAX));
  out.createdNs = integer();
  out.startedNs = integer();
  out.finishedNs = integer();
  out.generation = static_cast<int>(integer());
  out.world = static_cast<int>(integer());
  out.strategy = text();
  out.comm = text();
  out.planHash = text();
  out.version = text();
  out.predictedStepSeconds = number();
  out.measuredStepSeconds = number();
  out.figures.steps = integer();
  out.figures.epochs = integer();
  out.figures.trainLoss = number();
  // as earlier versions wrote what is not known
  if (out.figures.trainLoss == 0 && out.phase != RunState::SUCCEEDED)
    out.figures.trainLoss = RunFigures().trainLoss;
  out.figures.evalLoss = number();
  out.figures.evalMetric = number();
  out.figures.metric = text();
  out.figures.samplesPerSecond = number();
  out.figures.weightsSha256 = text();
  out.clusterName = text();
  out.error = text();
  if (const std::string json = text(); !json.empty()) out.error = specs::messageFromJson(json);
  out.modelFile = text();
  out.resumedFrom = text();
  out.unreachableNs = integer();
  out.figures.lostSeconds = number();
  out.figures.joules = number();
  out.figures.cost = number();
  out.figures.carbonGrams = number();
  out.figures.currency = text();
  out.heardNs = integer();
  const std::string tags = text();
  for (std::size_t at = 0; at < tags.size();) {
    const std::size_t end = std::min(tags.find('\n', at), tags.size());
    out.tags.push_back(tags.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

namespace {
// Of a row that is there: all columns but the notes, which a person may have changed meanwhile.
std::string updates() {
  std::string out;
  std::string_view rest = kRunColumns;
  while (!rest.empty()) {
    const std::string_view column = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), column.size() + 1));
    if (column == "run" || column == "notes") continue;
    out += fmt::format("{}{}=excluded.{}", out.empty() ? "" : ",", column, column);
  }
  return out;
}
}  // namespace

Status writeRow(Database& database, RowWrite write, const RunRow& row) {
  const std::string sql = fmt::format(
      "INSERT INTO run({}) "
      "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?){}{}",
      kRunColumns, write == RowWrite::kUpdate ? " ON CONFLICT(run) DO UPDATE SET " : "",
      write == RowWrite::kUpdate ? updates() : "");
  const auto text = [](const std::string& s) { return std::string_view(s); };
  return Statement(database, sql)
      .bind(text(row.run))
      .bind(text(row.name))
      .bind(text(row.notes))
      .bind(static_cast<int>(row.phase))
      .bind(row.createdNs)
      .bind(row.startedNs)
      .bind(row.finishedNs)
      .bind(row.generation)
      .bind(row.world)
      .bind(text(row.strategy))
      .bind(text(row.comm))
      .bind(text(row.planHash))
      .bind(text(row.version))
      .bind(row.predictedStepSeconds)
      .bind(row.measuredStepSeconds)
      .bind(row.figures.steps)
      .bind(row.figures.epochs)
      .bind(row.figures.trainLoss)
      .bind(row.figures.evalLoss)
      .bind(row.figures.evalMetric)
      .bind(text(row.figures.metric))
      .bind(row.figures.samplesPerSecond)
      .bind(text(row.figures.weightsSha256))
      .bind(text(row.clusterName))
      .bind(text(row.error))
      .bind(text(row.error.arguments().empty() ? "" : specs::toJson(row.error)))
      .bind(text(row.modelFile))
      .bind(text(row.resumedFrom))
      .bind(row.unreachableNs)
      .bind(row.figures.lostSeconds)
      .bind(row.figures.joules)
      .bind(row.figures.cost)
      .bind(row.figures.carbonGrams)
      .bind(text(row.figures.currency))
      .bind(row.heardNs)
      .run();
}

Status writeDocuments(Database& database, const std::string& run, const RunDocuments& documents) {
  return Statement(database, "INSERT OR REPLACE INTO document VALUES(?,?,?,?,?,?,?,?)")
      .bind(std::string_view(run))
      .bind(std::string_view(documents.specYaml))
      .bind(std::string_view(documents.specResolved))
      .bind(std::string_view(documents.clusterYaml))
      .bind(std::string_view(documents.plan))
      .bind(std::string_view(documents.prediction))
      .bind(std::string_view(documents.nodes))
      .bind(std::string_view(documents.codePatch))
      .run();
}

namespace {
std::vector<std::string> columnsOf(Database& database, std::string_view table,
                                   const std::string& json) {
  Statement rows(database,
                 "SELECT name FROM pragma_table_info(?1) WHERE ?2='' OR name IN "
                 "(SELECT key FROM json_each(?2))");
  rows.bind(table).bind(std::string_view(json));
  std::vector<std::string> out;
  while (rows.step()) out.push_back(rows.text(0));
  return out;
}
}  // namespace

std::string rowAsJson(Database& database, std::string_view table, const std::string& run) {
  // JSON has no infinity, as a diverged loss is; the column takes the text for the number.
  std::string pairs;
  for (const std::string& column : columnsOf(database, table, ""))
    pairs += fmt::format(
        "{0}'{1}',CASE WHEN typeof({1})<>'real' OR abs({1})<9e999 THEN {1} "
        "WHEN {1}>0 THEN '9e999' ELSE '-9e999' END",
        pairs.empty() ? "" : ",", column);
  Statement row(database, fmt::format("SELECT json_object({}) FROM {} WHERE run=?", pairs, table));
  return row.bind(std::string_view(run)).step() ? row.text(0) : std::string();
}

Status addRowFromJson(Database& database, std::string_view table, const std::string& json) {
  Statement valid(database, "SELECT json_valid(?)");
  if (!valid.bind(std::string_view(json)).step() || valid.integer(0) == 0)
    return makeError(Code::kDataLoss, "the run's metadata in its history file is not valid JSON");
  std::string columns, values;
  for (const std::string& column : columnsOf(database, table, json)) {
    columns += (columns.empty() ? "" : ",") + column;
    values += fmt::format("{}json_extract(?1,'$.{}')", values.empty() ? "" : ",", column);
  }
  return Statement(database, fmt::format("INSERT INTO {}({}) SELECT {}", table, columns, values))
      .bind(std::string_view(json))
      .run();
}

}  // namespace lockstep::app
