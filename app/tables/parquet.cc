#include <chrono>
#include <nlohmann/json.hpp>

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

Error wrong(const json& said) {
  Error error = said.value("column", false)
                    ? invalidArgument("data file {}", said.value("file", ""))
                    : makeError(Code::kDataLoss, "data file {}", said.value("file", ""));
  error.why = said.value("error", "");
  error.next = said.value("column", false) ? "name the columns to take: --columns a,b"
                                           : "make the file again";
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
  const json said = json::parse(process->output, nullptr, false);
  if (process->exitStatus != 0 || !said.is_object()) return failed(choice.python, *process);
  if (said.contains("missing")) return noPython(choice.python, said.value("missing", ""));
  if (said.contains("error")) return wrong(said);
  TableMade out;
  out.rows = said.value("rows", std::int64_t{0});
  out.columns = said.value("columns", std::vector<std::string>());
  return out;
}

}  // namespace lockstep::app
