// Tables: CSV, or text in the format of Criteo's click logs.
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/data/content.h"
#include "engine/data/dataset.h"
#include "engine/data/decoded.h"
#include "engine/data/range.h"
#include "engine/data/table_rows.h"

namespace lockstep::data {
namespace {

// A row is the label, the numbers and the categories, four bytes each, contiguous in memory.
std::int64_t rowBytes(const TableFile& file) { return 4 * (1 + file.numbers + file.columns); }

class Table final : public Dataset {
 public:
  // The rows are those of `bytes` from `first` on.
  Table(const TableFile& file, Bytes bytes, std::int64_t first, std::int64_t rows)
      : bytes_(std::move(bytes)),
        row_(rowBytes(file)),
        rows_(rows),
        isClass_(file.classes > 0),
        first_(bytes_.view().data() + first * row_) {
    fields_.push_back({"x", DType::kF32, {file.numbers}});
    if (file.columns > 0) fields_.push_back({"categories", DType::kI32, {file.columns}});
    fields_.push_back(
        {"label", isClass_ ? DType::kI32 : DType::kF32, isClass_ ? Shape{} : Shape{1}});
  }
  std::int64_t size() const override { return rows_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const char* const row = first_ + index * row_;
    if (field + 1 < fields_.size()) {
      const std::int64_t before = field == 0 ? 0 : fields_[0].bytes();
      std::memcpy(out, row + 4 + before, static_cast<std::size_t>(fields_[field].bytes()));
    } else if (isClass_) {
      float label = 0;
      std::memcpy(&label, row, sizeof label);
      const auto number = static_cast<std::int32_t>(label);
      std::memcpy(out, &number, sizeof number);
    } else {
      std::memcpy(out, row, sizeof(float));
    }
  }

 private:
  Bytes bytes_;
  std::int64_t row_, rows_;
  bool isClass_;
  const char* first_;
  std::vector<Field> fields_;
};

Result<Content> contentOf(const TableFile& file, bool hashed, const Progress& progress = {}) {
  LOCKSTEP_TRY(checkTableShape(file));
  return readWholeContent(file.path, hashed, progress);
}

// Calls `take` with the rows of a whole text, without the header, until it returns false or an
// error; `rows` reads them.
using TakeRow = std::function<Result<bool>(TableRows& rows, const RowText& row)>;
Status eachRow(const TableFile& file, std::string_view bytes, const TakeRow& take) {
  constexpr std::size_t kLongestCsv = std::size_t{16} << 20;
  std::optional<TableRows> rows;
  const auto next = [&](const RowText& row) -> Result<bool> {
    if (!rows) {
      LOCKSTEP_ASSIGN(rows, TableRows::make(file, row.text));
      if (rows->hasHeader()) return true;
    }
    return take(*rows, row);
  };
  const std::size_t longest = file.csv ? kLongestCsv : bytes.size();
  RowSplitter splitter(file, {}, longest, next);
  LOCKSTEP_ASSIGN(const bool more, splitter.add(bytes));
  return more ? splitter.finish() : Status();
}

Result<std::int64_t> rowsOf(const TableFile& file, std::string_view bytes) {
  std::int64_t count = 0;
  LOCKSTEP_TRY(eachRow(file, bytes, [&](TableRows&, const RowText&) -> Result<bool> {
    ++count;
    return true;
  }));
  return count;
}

}  // namespace

Result<FileFacts> inspectTable(const TableFile& file, DecodedFolder* keep,
                               const Progress& progress) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  // Half of the file's bytes are counted as they are read, half as their rows are decoded.
  std::int64_t stored = 0;
  const auto reading = [&](std::int64_t done, std::int64_t total) {
    stored = total;
    return !progress || progress(done / 2, total);
  };
  LOCKSTEP_ASSIGN(const Content content, contentOf(file, true, reading));
  const auto size = std::max<std::int64_t>(std::ssize(content.bytes), 1);
  DecodedFolder::Writer writer(keep, tableDecoding(file));
  LOCKSTEP_ASSIGN(const std::int64_t expected, rowsOf(file, content.bytes));
  writer.expect(expected * rowBytes(file));
  FileFacts facts;
  std::int64_t count = 0;
  std::string decoded;
  const auto decode = [&](TableRows& rows, const RowText& row) -> Result<bool> {
    LOCKSTEP_TRY(rows.read(row, decoded));
    ++count;
    if (decoded.size() < kPiece) return true;
    writer.add(decoded);
    decoded.clear();
    const double share = static_cast<double>(row.offset) / static_cast<double>(size);
    LOCKSTEP_TRY(report(
        progress, stored / 2 + static_cast<std::int64_t>(share * static_cast<double>(stored / 2)),
        stored));
    return true;
  };
  LOCKSTEP_TRY(eachRow(file, content.bytes, decode));
  writer.add(decoded);
  facts.sha256 = content.sha256;
  facts.dimensions = {count, rowBytes(file)};
  writer.keep(facts);
  return facts;
}

Status checkTable(const TableFile& file, const FileFacts& facts) {
  const std::int64_t rows = facts.dimensions.empty() ? 0 : facts.dimensions[0];
  if (placeOf(file.to, rows) > placeOf(file.from, rows)) return {};
  Error error = invalidArgument("the table {} is too short", file.path);
  error.why = message("it has {} rows, none of them from {} to {} of it", rows, file.from, file.to);
  error.next = "give a longer table, or more of it";
  return error;
}

Result<std::unique_ptr<Dataset>> openTable(const TableFile& file) {
  LOCKSTEP_TRY(checkTableShape(file));
  if (!file.decoded.empty()) {
    auto opened = openDecoded(file.decoded, tableDecoding(file));
    if (opened.ok() && opened->facts.dimensions.size() == 2 &&
        opened->facts.dimensions[1] == rowBytes(file)) {
      LOCKSTEP_TRY(checkTable(file, opened->facts));
      const std::int64_t rows = opened->facts.dimensions[0], first = placeOf(file.from, rows);
      return std::unique_ptr<Dataset>(std::make_unique<Table>(file, std::move(opened->bytes), first,
                                                              placeOf(file.to, rows) - first));
    }
    logInfo("the data file is read anew: {}",
            opened.ok() ? file.decoded + " is of another" : opened.error().text());
  }
  LOCKSTEP_ASSIGN(const Content content, contentOf(file, false));
  FileFacts facts;
  LOCKSTEP_ASSIGN(const std::int64_t all, rowsOf(file, content.bytes));
  facts.dimensions = {all};
  LOCKSTEP_TRY(checkTable(file, facts));
  const std::int64_t first = placeOf(file.from, all), last = placeOf(file.to, all);
  std::string decoded;
  const std::int64_t size = (last - first) * rowBytes(file);
  LOCKSTEP_TRY(withMemoryFor(message("the rows of {}", file.path), size, [&]() -> Status {
    decoded.reserve(static_cast<std::size_t>(size));
    std::int64_t at = 0;
    return eachRow(file, content.bytes, [&](TableRows& rows, const RowText& row) -> Result<bool> {
      if (at >= first) LOCKSTEP_TRY(rows.read(row, decoded));
      return ++at < last;
    });
  }));
  const std::int64_t count = std::ssize(decoded) / rowBytes(file);
  return std::unique_ptr<Dataset>(
      std::make_unique<Table>(file, Bytes(std::move(decoded)), 0, count));
}

}  // namespace lockstep::data
