// The tables of history.db: their schema, and the rows of `run` as RunRow.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "app/history/run_row.h"
#include "app/history/sqlite.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Makes or migrates the tables: run and document, with a row per run each, and deleted, for
// LeftRun. Errors as Database::open().
Result<std::unique_ptr<Database>> openHistoryDatabase(const std::string& path);

// In the order readRow() and writeRow() expect.
inline constexpr std::string_view kRunColumns =
    "run,name,notes,phase,created,started,finished,generation,world,strategy,comm,plan_hash,"
    "version,"
    "predicted_step,measured_step,steps,epochs,train_loss,eval_loss,eval_metric,metric,"
    "samples_per_second,weights_sha256,cluster,error,error_message,model_file,resumed_from,"
    "unreachable";
RunRow readRow(const Statement& row);
// `verb`: "INSERT" or "INSERT OR REPLACE".
Status writeRow(Database& database, std::string_view verb, const RunRow& row);

}  // namespace lockstep::app
