#include "app/runs/data_preview.h"

#include <algorithm>
#include <set>

#include "engine/base/random.h"
#include "engine/base/utf8.h"
#include "engine/data/content.h"
#include "engine/data/samples.h"
#include "engine/specs/data_files.h"
#include "engine/specs/data_url.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

struct DataPreview::State {
  DataKind kind{};
  std::unique_ptr<data::SampleReader> reader;
  std::vector<File> files;
  std::vector<std::string> columns;
};

namespace {

using spec::v1::DataFiles;
using spec::v1::RunSpec;

Result<std::unique_ptr<data::SampleReader>> readerOf(const RunSpec& spec, bool train,
                                                     DataKind kind) {
  const DataFiles& files = train ? spec.data().train() : spec.data().evaluate();
  for (const std::string& path :
       {files.text(), files.tokens(), files.table(), files.images(), files.labels()})
    LOCKSTEP_TRY(specs::checkIsPath(path));
  switch (kind) {
    case DataKind::kText:
      return data::readTextSamples(specs::textFile(spec, train, files.text()), files.text_sha256());
    case DataKind::kTokens:
      return data::readTokenSamples(specs::tokenFiles(spec, train, files.tokens()));
    case DataKind::kRows:
      return data::readTableSamples(specs::tableFile(spec, train, files.table()),
                                    files.table_sha256());
    case DataKind::kImages:
      break;
  }
  const auto& shape = spec.model().input().shape();
  const int classes = spec.model().classes();
  return data::readIdxSamples(
      {files.images(), files.labels(), files.images_sha256(), files.labels_sha256()},
      {shape.begin(), shape.end()}, classes > 0 ? classes : 256);
}

DataSample sampleOf(DataKind kind, data::StoredSample&& stored) {
  DataSample out;
  out.index = stored.index;
  out.label = std::move(stored.label);
  out.cells = std::move(stored.cells);
  out.problem = std::move(stored.problem);
  (kind == DataKind::kImages ? out.pixels : out.text) = std::move(stored.bytes);
  return out;
}

Result<std::vector<DataSample>> samplesOf(DataKind kind, data::SampleReader& reader,
                                          std::span<const std::int64_t> indices,
                                          const Progress& progress) {
  LOCKSTEP_ASSIGN(auto stored, reader.read(indices, progress));
  std::vector<DataSample> out;
  for (data::StoredSample& one : stored) out.push_back(sampleOf(kind, std::move(one)));
  return out;
}

}  // namespace

DataPreview::DataPreview(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataPreview::~DataPreview() = default;

Result<std::unique_ptr<DataPreview>> DataPreview::open(const RunSpec& spec, bool evaluate) {
  auto state = std::make_unique<State>();
  const std::string& format = spec.data().format();
  state->kind = format == "text"     ? DataKind::kText
                : format == "tokens" ? DataKind::kTokens
                : format == "table"  ? DataKind::kRows
                                     : DataKind::kImages;
  LOCKSTEP_ASSIGN(state->reader, readerOf(spec, !evaluate, state->kind));
  for (const std::string& path : state->reader->files()) {
    LOCKSTEP_ASSIGN(const data::FileInfo info, data::inspectFile(path));
    state->files.push_back({path, info.bytes});
  }
  const auto& csv = spec.data().csv();
  state->columns = {csv.numbers().begin(), csv.numbers().end()};
  state->columns.insert(state->columns.end(), csv.categories().begin(), csv.categories().end());
  return std::unique_ptr<DataPreview>(new DataPreview(std::move(state)));
}

DataKind DataPreview::kind() const { return state_->kind; }
const std::vector<DataPreview::File>& DataPreview::files() const { return state_->files; }
std::int64_t DataPreview::bytes() const {
  std::int64_t sum = 0;
  for (const File& file : state_->files) sum += file.bytes;
  return sum;
}
std::vector<std::int64_t> DataPreview::shape() const { return state_->reader->shape(); }
const std::vector<std::string>& DataPreview::columns() const { return state_->columns; }
std::int64_t DataPreview::size() const { return state_->reader->size(); }
std::vector<std::pair<int, std::int64_t>> DataPreview::labels() const {
  return {state_->reader->labels().begin(), state_->reader->labels().end()};
}

Status DataPreview::count(const Progress& progress) { return state_->reader->count(progress); }

Result<std::vector<DataSample>> DataPreview::read(std::int64_t first, std::int64_t count,
                                                  const Progress& progress) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(first + i);
  return samplesOf(state_->kind, *state_->reader, indices, progress);
}

Result<std::vector<DataSample>> DataPreview::readRandom(std::int64_t count, std::uint64_t seed,
                                                        const Progress& progress) {
  LOCKSTEP_TRY(state_->reader->count(progress));
  const std::int64_t size = state_->reader->size();
  if (count >= size) return read(0, size, progress);
  // Floyd's sample of `count` out of `size` (Bentley, "Programming pearls", 1987).
  std::set<std::int64_t> chosen;
  for (std::int64_t last = size - count; last < size; ++last) {
    const auto drawn = static_cast<std::int64_t>(
        randomUniform(seed, static_cast<std::uint64_t>(last)) * static_cast<double>(last + 1));
    if (!chosen.insert(std::min(drawn, last)).second) chosen.insert(last);
  }
  const std::vector<std::int64_t> indices(chosen.begin(), chosen.end());
  return samplesOf(state_->kind, *state_->reader, indices, progress);
}

Status DataPreview::check(const Progress& progress) { return state_->reader->check(progress); }

std::string oneLine(std::string_view bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const std::string_view letter = bytes.substr(i, size);
    if (lead == '\n') {
      out += "↵";
    } else if (lead >= 0x20 && lead != 0x7f && letter.size() == size &&
               firstNotUtf8(letter) == std::string_view::npos) {
      out += letter;
    } else {
      out += "·";
      ++i;
      continue;
    }
    i += size;
  }
  return out;
}

}  // namespace lockstep::app
