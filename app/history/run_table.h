// The tables of history.db, and the rows of its runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/history/run_row.h"
#include "engine/storage/database.h"

namespace lockstep::app {

// Version n of the database is made by the first n of them.
std::vector<std::string_view> historySchemas();

inline constexpr std::string_view kRunColumns =
    "run,name,notes,phase,created,started,finished,generation,world,strategy,comm,plan_hash,"
    "version,"
    "predicted_step,measured_step,steps,epochs,train_loss,eval_loss,eval_metric,metric,"
    "samples_per_second,weights_sha256,cluster,error,error_message,model_file,resumed_from,"
    "unreachable,lost_seconds,joules,cost,carbon,currency,heard";
// The run's tags, a line each, in the order of the table's key.
inline constexpr std::string_view kTagColumn =
    "(SELECT group_concat(tag, char(10)) FROM tag WHERE tag.run=run.run)";
RunRow readRow(const storage::Statement& row);  // of kRunColumns and kTagColumn
// kAdd fails if the row is there; kUpdate leaves its notes as they are. Neither writes tags.
enum class RowWrite : std::uint8_t { kAdd, kUpdate };
Status writeRow(storage::Database& database, RowWrite write, const RunRow& row);
Status writeDocuments(storage::Database& database, const std::string& run,
                      const RunDocuments& documents);

// Converts a row of table "run" or "document" to and from a JSON object by column; "": no row.
// Columns of newer versions are ignored.
std::string rowAsJson(storage::Database& database, std::string_view table, const std::string& run);
Status addRowFromJson(storage::Database& database, std::string_view table, const std::string& json);

}  // namespace lockstep::app
