// CSV: what a run accepts is shown without a problem, and numbers, categories and labels are within
// their ranges.
#include <cmath>

#include "engine/data/dataset.h"
#include "engine/data/samples.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const std::string small = "y,a,b,c,d\n1,2,3,red,\"x\"\"y\"\r\n\n0,,1e3,\"re\nd\",\n";
  return {small, "\xef\xbb\xbf\"d\";\"c\";\"b\";a;y;z\r\nx;;-0;2.5; 1 ;\n", gzipOf(small),
          zstdOf(small), "1\t2\t3\tred\tblue\n0\t\t\t\t\n"};
}

static data::TableFile table(const std::string& path, bool header) {
  data::TableFile out{path, 2, 2, 50, 2};
  out.csv = header ? data::CsvColumns{"y", {"a", "b"}, {"c", "d"}, {}}
                   : data::CsvColumns{"1", {"2", "3"}, {"5", "4"}, {"0", "1"}};
  out.csv->header = header;
  return out;
}

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
    LOCKSTEP_CHECK(!sample.problem && sample.cells.size() == 4, "{}",
                   sample.problem ? sample.problem->text() : "cells");
}

static void read(const data::TableFile& file) {
  const auto facts = data::inspectTable(file);
  const auto set = data::openTable(file);
  LOCKSTEP_CHECK(!set.ok() || (facts.ok() && facts->dimensions[0] == (*set)->size()));
  show(file, set.ok() ? (*set)->size() : -1);
  for (std::int64_t row = 0; set.ok() && row < (*set)->size(); ++row) {
    float x[2];
    std::int32_t ids[2], label = -1;
    (*set)->read(row, 0, reinterpret_cast<std::byte*>(x));
    (*set)->read(row, 1, reinterpret_cast<std::byte*>(ids));
    (*set)->read(row, 2, reinterpret_cast<std::byte*>(&label));
    LOCKSTEP_CHECK(std::isfinite(x[0]) && std::isfinite(x[1]) && label >= 0 && label < 2 &&
                   ids[0] >= 0 && ids[0] < 50 && ids[1] >= 50 && ids[1] < 100);
  }
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string path = fuzz::scratchFile("csv", fuzz::textOf(bytes, size));
  for (const bool header : {true, false}) fuzz::read(fuzz::table(path, header));
  return 0;
}
