#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/ssh/run_process.h"
#include "app/tables/parquet_script.h"
#include "app/tables/table_files.h"

namespace lockstep::app {
namespace {

using nlohmann::json;

constexpr std::chrono::hours kLongest{24};

// The last line of what a program said of its end.
std::string lastLine(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return {};
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

Error noPython(const std::string& python, Message why) {
  Error error = makeError(Code::kFailedPrecondition, "Parquet is read by pyarrow");
  error.why = std::move(why);
  error.next = message(
      "pip install pyarrow in a virtual environment, and name its Python: --python "
      "venv/bin/python; now it is {}",
      python);
  return error;
}

Error failed(const std::string& python, const ProcessResult& process) {
  Error error =
      makeError(Code::kUnavailable, "{} ended with exit code {}", python, process.exitStatus);
  error.why = lastLine(process.errorOutput);
  return error;
}

// Returns the member; "" if it is no text.
std::string textOf(const json& said, const char* name) {
  const auto member = said.find(name);
  return member != said.end() && member->is_string() ? member->get<std::string>() : "";
}

Error wrong(const json& said) {
  const bool isColumn = said.contains("column") && said["column"] == true;
  Error error = isColumn ? invalidArgument("data file {}", textOf(said, "file"))
                         : makeError(Code::kDataLoss, "data file {}", textOf(said, "file"));
  error.why = textOf(said, "error");
  error.next = isColumn ? "name the columns to take: --columns a,b" : "make the file again";
  return error;
}

}  // namespace

Result<TableMade> parquetToCsv(const std::vector<std::string>& files, const TableChoice& choice,
                               const std::string& to) {
  std::vector<std::string> command{
      choice.python, "-c", kParquetScript, to,
      json(choice.columns).dump(-1, ' ', true, json::error_handler_t::replace)};
  command.insert(command.end(), files.begin(), files.end());
  const auto process = runProcess(command, kLongest);
  if (!process.ok()) {
    if (process.error().code != Code::kNotFound) return process.error();
    return noPython(choice.python, message("there is no program {}", choice.python));
  }
  if (process->exitStatus == 0)
    if (auto made = parquetAnswer(process->output, choice.python)) return std::move(*made);
  return failed(choice.python, *process);
}

std::optional<Result<TableMade>> parquetAnswer(const std::string& printed,
                                               const std::string& python) {
  const json said = json::parse(printed, nullptr, false);
  if (!said.is_object()) return std::nullopt;
  if (said.contains("missing")) return noPython(python, textOf(said, "missing"));
  if (said.contains("error")) return wrong(said);
  const auto rows = said.find("rows"), columns = said.find("columns");
  if (rows == said.end() || !rows->is_number_integer() || columns == said.end() ||
      !columns->is_array())
    return std::nullopt;
  TableMade out;
  out.rows = rows->get<std::int64_t>();
  if (out.rows < 0) return std::nullopt;
  for (const json& column : *columns) {
    if (!column.is_string()) return std::nullopt;
    out.columns.push_back(column.get<std::string>());
  }
  return out;
}

}  // namespace lockstep::app
