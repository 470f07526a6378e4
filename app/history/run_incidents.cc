#include "app/history/run_incidents.h"

#include <cmath>
#include <span>
#include <string>

#include "engine/specs/error_info.h"

namespace lockstep::app {

using storage::Database;
using storage::Statement;

namespace {
// SQLite keeps NaN as NULL, which the tables refuse.
double finite(double value) { return std::isfinite(value) ? value : 0; }
}  // namespace

const std::string_view kIncidentSchema = R"(
CREATE TABLE straggler(id INTEGER PRIMARY KEY, wall INTEGER NOT NULL, ended INTEGER NOT NULL,
  rank INTEGER NOT NULL, node TEXT NOT NULL, to_node TEXT NOT NULL, since INTEGER NOT NULL,
  until INTEGER NOT NULL, factor REAL NOT NULL, phase TEXT NOT NULL, cause TEXT NOT NULL,
  halted INTEGER NOT NULL, lost REAL NOT NULL, text TEXT NOT NULL);
INSERT INTO straggler SELECT NULL, wall, 0, rank, node, '', 0, 0, 0, '', '', 0, 0,
  substr(text, 12) FROM log WHERE substr(text, 1, 11)='straggler: ' ORDER BY id;
CREATE TABLE restart(generation INTEGER PRIMARY KEY, wall INTEGER NOT NULL, ended INTEGER NOT NULL,
  cause BLOB, lost_steps INTEGER NOT NULL, seconds REAL NOT NULL);
)";

Status addStraggler(Database& database, const StragglerRow& row) {
  // The first time it was noticed, and its first step, stay.
  Statement open(
      database,
      "SELECT id, wall, since FROM straggler WHERE id=(SELECT max(id) FROM straggler) AND "
      "ended=0 AND since>0 AND rank=?1 AND (?1>=0 OR node=?2) AND to_node=?3");
  open.bind(row.rank).bind(std::string_view(row.node)).bind(std::string_view(row.to));
  const bool found = open.step();
  LOCKSTEP_TRY(open.status());
  // One at a time is slow: what a recorder that was killed left open is over.
  if (!found) LOCKSTEP_TRY(endStragglers(database, row.wallNs));
  Statement write(database,
                  fmt::format("INSERT OR REPLACE INTO straggler VALUES({},?,?,?,?,?,?,?,?,"
                              "?,?,?,?,?)",
                              found ? std::to_string(open.integer(0)) : "NULL"));
  return write.bind(found ? open.integer(1) : row.wallNs)
      .bind(row.endNs)
      .bind(row.rank)
      .bind(std::string_view(row.node))
      .bind(std::string_view(row.to))
      .bind(found ? open.integer(2) : row.sinceStep)
      .bind(row.untilStep)
      .bind(finite(row.factor))
      .bind(std::string_view(row.phase))
      .bind(std::string_view(row.cause))
      .bind(row.halted ? 1 : 0)
      .bind(finite(row.lostSeconds))
      .bind(std::string_view(row.text))
      .run();
}

Status endStragglers(Database& database, std::int64_t wallNs) {
  return Statement(database, "UPDATE straggler SET ended=? WHERE ended=0 AND since>0")
      .bind(wallNs)
      .run();
}

std::vector<StragglerRow> readStragglers(Database& database) {
  Statement rows(database,
                 "SELECT wall, ended, rank, node, to_node, since, until, factor, phase, cause, "
                 "halted, lost, text FROM straggler ORDER BY id");
  std::vector<StragglerRow> out;
  while (rows.step()) {
    StragglerRow row;
    row.wallNs = rows.integer(0);
    row.endNs = rows.integer(1);
    row.rank = static_cast<int>(rows.integer(2));
    row.node = rows.text(3);
    row.to = rows.text(4);
    row.sinceStep = rows.integer(5);
    row.untilStep = rows.integer(6);
    row.factor = rows.number(7);
    row.phase = rows.text(8);
    row.cause = rows.text(9);
    row.halted = rows.integer(10) != 0;
    row.lostSeconds = rows.number(11);
    row.text = rows.text(12);
    out.push_back(std::move(row));
  }
  return out;
}

Status addRestart(Database& database, const RestartRow& row) {
  Statement write(
      database,
      "INSERT INTO restart VALUES(?,?,?,nullif(?,x''),?,?) ON CONFLICT(generation) DO UPDATE SET "
      "wall=CASE wall WHEN 0 THEN excluded.wall ELSE wall END, ended=max(ended, excluded.ended), "
      "cause=coalesce(cause, excluded.cause), lost_steps=max(lost_steps, excluded.lost_steps), "
      "seconds=max(seconds, excluded.seconds)");
  const std::string cause = row.cause ? specs::toInfo(*row.cause).SerializeAsString() : "";
  return write.bind(row.generation)
      .bind(row.wallNs)
      .bind(row.endNs)
      .bindBlob(std::as_bytes(std::span(cause)))
      .bind(row.lostSteps)
      .bind(finite(row.seconds))
      .run();
}

std::vector<RestartRow> readRestarts(Database& database) {
  Statement rows(database,
                 "SELECT generation, wall, ended, cause, lost_steps, seconds FROM restart "
                 "ORDER BY generation");
  std::vector<RestartRow> out;
  while (rows.step()) {
    RestartRow row;
    row.generation = static_cast<int>(rows.integer(0));
    row.wallNs = rows.integer(1);
    row.endNs = rows.integer(2);
    const auto blob = rows.blob(3);
    run::v1::ErrorInfo info;
    if (!blob.empty() && info.ParseFromArray(blob.data(), static_cast<int>(blob.size())))
      row.cause = specs::fromInfo(info);
    row.lostSteps = rows.integer(4);
    row.seconds = rows.number(5);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace lockstep::app
