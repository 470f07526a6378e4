// Records of tf.train.Example: what is accepted becomes CSV of as many rows, each with all columns.
#include "app/tables/table_files.h"
#include "engine/base/tf_record.h"
#include "engine/data/samples.h"
#include "lockstep/data/v1/tf_example.pb.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  std::string out;
  for (int i = 0; i < 3; ++i) {
    lockstep::data::v1::TfExample example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["y"].mutable_int64_list()->add_value(i);
    features["a"].mutable_float_list()->add_value(0.5f);
    features["a"].mutable_float_list()->add_value(-1);
    if (i != 1) features["text"].mutable_bytes_list()->add_value("red, \"green\"\n");
    out += tfRecord(example.SerializeAsString());
  }
  return {out, gzipOf(out), zstdOf(out), tfRecord("")};
}

// As the checksums of mutated records are wrong, the input is also taken as records in itself.
static std::string recordsOf(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto size = static_cast<unsigned char>(bytes[at]);
    out += tfRecord(bytes.substr(at + 1, size));
    at += 1 + std::size_t{size};
  }
  return out;
}

static void read(const std::string& path) {
  std::string csv;
  const auto append = [&](std::string_view text) -> Status {
    csv += text;
    return {};
  };
  const auto made = app::tfExamplesToCsv({path}, {}, append, {});
  if (!made.ok() || made->columns.size() < 2) return;
  data::TableFile file{scratchFile("made", csv), 1, 0, 0, 2};
  file.csv = data::CsvColumns{made->columns[0], {made->columns[1]}, {}, {}};
  const auto reader = data::readTableSamples(file);
  if (!reader.ok() || made->rows == 0) return;  // two columns of one name
  LOCKSTEP_CHECK((*reader)->count({}).ok() && (*reader)->size() == made->rows);
  const std::int64_t some[] = {0, 1, 2};
  const auto samples = (*reader)->read(some);
  LOCKSTEP_CHECK(samples.ok());
  for (const data::StoredSample& sample : *samples)
    LOCKSTEP_CHECK(
        !sample.problem || sample.problem->text().find("first row has") == std::string::npos, "{}",
        sample.problem->text());
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  fuzz::read(fuzz::scratchFile("records", fuzz::textOf(bytes, size)));
  fuzz::read(fuzz::scratchFile("records", fuzz::recordsOf(fuzz::textOf(bytes, size))));
  return 0;
}
