// make-data table: Parquet and TFRecord files to CSV.
#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/tables/table_files.h"

namespace lockstep::app::cli {

int makeTableCommand(const Globals&, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const std::string to = arguments.text("to", "");
  const auto made = [&]() -> Result<TableMade> {
    if (to.empty()) return invalidArgument("--to is missing; expected the CSV file to write");
    TableChoice choice;
    if (arguments.has("columns")) choice.columns = splitList(arguments.text("columns"));
    choice.python = arguments.text("python", choice.python);
    const Progress progress = [](std::int64_t, std::int64_t) { return !isInterrupted(); };
    return writeCsv(arguments.words(), choice, to, progress);
  }();
  if (!made.ok()) {
    report(made.error(), json);
    return exitCodeOf(made.error());
  }
  if (json) {
    JsonLine("table")
        .add("file", to)
        .add("rows", made->rows)
        .addRaw("columns", jsonTexts(made->columns))
        .print();
    return kSucceeded;
  }
  put(stdout, printable(fmt::format("{} rows in {}; columns: {}", made->rows, to,
                                    fmt::join(made->columns, ", "))) +
                  "\n");
  return kSucceeded;
}

}  // namespace lockstep::app::cli
