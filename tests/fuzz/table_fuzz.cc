// Tables: numbers of what is accepted are finite, categories and labels within their ranges.
#include "engine/data/click_log.h"
#include "tests/fuzz/check_table.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const std::string path = scratchFolder() + "/clicks";
  data::ClickLog log;
  log.rows = 3;
  LOCKSTEP_CHECK(data::writeClickLog(log, path).ok());
  const std::string small = "1\t0.5\t-3\tred\tsmall\n0\t\t1e3\t\tlarge\n1\t-0\t2\tblue\t\n";
  return {small, "0,1,2,a,b\r\n1,,,,\r\n", gzipOf(small), zstdOf(small), fileBytes(path)};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string path = fuzz::scratchFile("table", fuzz::textOf(bytes, size));
  (void)data::inspectTable({path, data::kClickLogNumbers, data::kClickLogColumns, 1000, 2});
  (void)data::inspectTable({path, 2, 2, 50, 0});
  fuzz::checkTable({path, 2, 2, 50, 2});
  return 0;
}
