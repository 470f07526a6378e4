// What the Python program that reads Parquet prints at its end: it may be any Python, and print
// anything.
#include "app/tables/table_files.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  return {R"({"rows": 120, "columns": ["age", "label"]})",
          R"({"missing": "No module named 'pyarrow'"})",
          R"({"error": "there is no column x", "column": true, "file": "a.parquet"})",
          R"({"rows": "many", "columns": 3, "error": 4, "missing": []})"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const auto answer = app::parquetAnswer(std::string(fuzz::textOf(bytes, size)), "python3");
  if (!answer) return 0;
  LOCKSTEP_CHECK(answer->ok() ? (*answer)->rows >= 0 : !answer->error().text().empty());
  return 0;
}
