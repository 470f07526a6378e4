// The tables of history.db, and the rows of its runs.
#pragma once

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
    "unreachable,lost_seconds";
RunRow readRow(const storage::Statement& row);  // of kRunColumns
// `verb` is "INSERT" or "INSERT OR REPLACE".
Status writeRow(storage::Database& database, std::string_view verb, const RunRow& row);
Status writeDocuments(storage::Database& database, const std::string& run,
                      const RunDocuments& documents);

// A row of table "run" or "document" as a JSON object by column; "" if there is none. What a newer
// version wrote is read as far as this one has its columns.
std::string rowAsJson(storage::Database& database, std::string_view table, const std::string& run);
Status addRowFromJson(storage::Database& database, std::string_view table, const std::string& json);

}  // namespace lockstep::app
