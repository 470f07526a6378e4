// CSV: what a run accepts is shown without a problem, and numbers, categories and labels are within
// their ranges.
#include "tests/fuzz/check_table.h"
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

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string path = fuzz::scratchFile("csv", fuzz::textOf(bytes, size));
  for (const bool header : {true, false}) fuzz::checkTable(fuzz::table(path, header));
  return 0;
}
