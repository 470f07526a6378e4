// Tables in files of other programs, written as CSV with a header, which data.csv reads:
//   Parquet     by pyarrow, in a Python of this machine
//   TFRecord    of tf.train.Example, plain, gzip or zstd
// Lists of one length become columns NAME.0, NAME.1, …; a missing value and NaN an empty cell.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/progress.h"
#include "engine/base/status.h"

namespace lockstep::app {

struct TableChoice {
  std::vector<std::string> columns;  // in this order; empty: all
  std::string python = "python3";    // that has pyarrow
};
struct TableMade {
  std::int64_t rows = 0;
  std::vector<std::string> columns;
};
// Writes the rows of files of one format to `to`, which is replaced when all is well. Errors name
// the file: kNotFound; kInvalidArgument for a column that is not there or has no form in CSV;
// kDataLoss; kFailedPrecondition without Python or pyarrow; kCancelled. `progress` counts the bytes
// of TFRecord files, each of which is read twice.
Result<TableMade> writeCsv(const std::vector<std::string>& files, const TableChoice& choice,
                           const std::string& to, const Progress& progress = {});

// The two formats; `to` is written in place.
Result<TableMade> parquetToCsv(const std::vector<std::string>& files, const TableChoice& choice,
                               const std::string& to);
using AppendText = std::function<Status(std::string_view text)>;
Result<TableMade> tfExamplesToCsv(const std::vector<std::string>& files, const TableChoice& choice,
                                  const AppendText& append, const Progress& progress);
// What the program that reads Parquet has printed; nullopt if that is no answer.
std::optional<Result<TableMade>> parquetAnswer(const std::string& printed,
                                               const std::string& python);
// `head`: the first bytes of a file, unpacked, kTfRecordHeader of them or all.
bool isTfRecord(std::string_view head);

}  // namespace lockstep::app
