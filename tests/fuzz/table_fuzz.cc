// Tables: numbers of what is accepted are finite, categories and labels within their ranges.
#include <cmath>

#include "engine/data/click_log.h"
#include "engine/data/dataset.h"
#include "engine/data/samples.h"
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

// Row by row: what a run reads is shown without a problem.
static void show(const data::TableFile& file, std::int64_t rows) {
  const auto reader = data::readTableSamples(file);
  if (!reader.ok()) {
    LOCKSTEP_CHECK(rows < 0, "{}", reader.error().text());
    return;
  }
  const std::int64_t some[] = {0, 1, 2, 5};
  (void)(*reader)->read(some);
  const bool counted = (*reader)->count({}).ok();
  const auto samples = (*reader)->read(some);
  if (rows < 0) return;
  LOCKSTEP_CHECK(counted && (*reader)->size() == rows && samples.ok());
  for (const data::StoredSample& sample : *samples)
    LOCKSTEP_CHECK(!sample.problem, "{}", sample.problem->text());
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string path = fuzz::scratchFile("table", fuzz::textOf(bytes, size));
  (void)data::inspectTable({path, data::kClickLogNumbers, data::kClickLogColumns, 1000, 2});
  (void)data::inspectTable({path, 2, 2, 50, 0});
  const auto table = data::openTable({path, 2, 2, 50, 2});
  fuzz::show({path, 2, 2, 50, 2}, table.ok() ? (*table)->size() : -1);
  if (!table.ok()) return 0;
  for (std::int64_t row = 0; row < (*table)->size(); ++row) {
    float x[2];
    std::int32_t ids[2], label = -1;
    (*table)->read(row, 0, reinterpret_cast<std::byte*>(x));
    (*table)->read(row, 1, reinterpret_cast<std::byte*>(ids));
    (*table)->read(row, 2, reinterpret_cast<std::byte*>(&label));
    LOCKSTEP_CHECK(std::isfinite(x[0]) && std::isfinite(x[1]) && label >= 0 && label < 2 &&
                   ids[0] >= 0 && ids[0] < 50 && ids[1] >= 50 && ids[1] < 100);
  }
  return 0;
}
