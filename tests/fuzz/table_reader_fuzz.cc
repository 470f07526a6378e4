// libFuzzer on tables: arbitrary bytes never crash the reader, and what it accepts has finite
// numbers and categories and labels within their ranges.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "engine/data/dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / "table_reader_fuzz.tsv").string();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  const auto table = lockstep::data::openTable({path, 2, 2, 50, 2});
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
