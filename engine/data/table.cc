// Text tables in the format of Criteo's click logs: one row per line with a label, numbers and
// categories, all but the label possibly empty, separated by tabs or commas.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/random.h"
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

template <typename T>
void append(std::string& row, T value) {
  static_assert(sizeof value == 4);
  const std::size_t at = row.size();
  row.resize(at + sizeof value);
  std::memcpy(row.data() + at, &value, sizeof value);
}

// Parses row by row; errors name the line.
class Reader {
 public:
  // `separator` is that of the file, tableSeparator(); line `before` + 1 is the first of `bytes`.
  Reader(const TableFile& file, std::string_view bytes, char separator, std::int64_t before = 0)
      : file_(file), rest_(bytes), separator_(separator), number_(before) {}

  // Advances to the next line; false at the end. The last line may lack a line end.
  bool next() {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    ++number_;
    return true;
  }

  // Parses the line and appends it to `rows`.
  Status read(std::string& rows) {
    const auto wanted = 1 + file_.numbers + file_.columns;
    const std::int64_t found = 1 + std::count(line_.begin(), line_.end(), separator_);
    if (found != wanted)
      return wrong(
          message("line {}: it has {} columns, expected {}: a label, {} numbers and {} "
                  "categories, between {}",
                  number_, found, wanted, file_.numbers, file_.columns,
                  separator_ == '\t' ? message("tabs") : message("commas")));
    LOCKSTEP_TRY(readLabel(rows));
    for (std::int64_t i = 0; i < file_.numbers; ++i) {
      const std::string_view text = cell();
      double value = 0;
      if (!text.empty() && !parse(text, value))
        return wrong(message("line {}: column {} is \"{}\", expected a finite number or nothing",
                             number_, column_, shown(text)));
      append(rows, static_cast<float>(std::copysign(std::log1p(std::abs(value)), value)));
    }
    for (std::int64_t i = 0; i < file_.columns; ++i) {
      const std::uint64_t bits = randomKey(static_cast<std::uint64_t>(i), stableHash(cell()));
      append(rows,
             static_cast<std::int32_t>(
                 i * file_.categories +
                 static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(file_.categories))));
    }
    return {};
  }

 private:
  Status readLabel(std::string& rows) {
    cells_ = line_;
    column_ = 0;
    const std::string_view text = cell();
    double label = 0;
    const bool parsed = parse(text, label);
    if (file_.classes > 0 &&
        (!parsed || label < 0 || label >= file_.classes || label != std::floor(label)))
      return wrong(message("line {}: the label is \"{}\", expected {} to {}", number_, shown(text),
                           0, file_.classes - 1));
    if (!parsed)
      return wrong(
          message("line {}: the label is \"{}\", expected a finite number", number_, shown(text)));
    append(rows, static_cast<float>(label));
    return {};
  }
  std::string_view cell() {
    const std::size_t end = cells_.find(separator_);
    const std::string_view out = cells_.substr(0, end);
    cells_ = end == std::string_view::npos ? std::string_view() : cells_.substr(end + 1);
    ++column_;
    return out;
  }
  static bool parse(std::string_view text, double& value) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && at == end && std::isfinite(value) &&
           std::isfinite(static_cast<float>(value));
  }
  static std::string shown(std::string_view text) {
    std::string out(text.substr(0, 40));
    for (char& c : out)
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
    return out;
  }
  Error wrong(Message why) const {
    Error error = makeError(Code::kDataLoss, "data file {}", file_.path);
    error.why = std::move(why);
    error.next = "correct the line, or model.input";
    return error;
  }

  const TableFile& file_;
  std::string_view rest_, line_, cells_;
  char separator_;
  std::int64_t number_, column_ = 0;
};

Result<Content> contentOf(const TableFile& file, bool hashed, const Progress& progress = {}) {
  LOCKSTEP_TRY(checkTableShape(file));
  return readWholeContent(file.path, hashed, progress);
}

std::int64_t rowsOf(std::string_view bytes) {
  return std::count(bytes.begin(), bytes.end(), '\n') +
         (!bytes.empty() && bytes.back() != '\n' ? 1 : 0);
}

}  // namespace

Status checkTableShape(const TableFile& file) {
  if (file.numbers >= 1 && file.columns >= 0 && (file.columns == 0 || file.categories >= 1))
    return {};
  return invalidArgument(
      "a table of {} numbers and {} columns of {} categories has nothing to read", file.numbers,
      file.columns, file.categories);
}

char tableSeparator(std::string_view bytes) {
  const bool tabs = bytes.substr(0, bytes.find('\n')).find('\t') != std::string_view::npos;
  return tabs ? '\t' : ',';
}

Status checkTableRow(const TableFile& file, std::string_view line, char separator,
                     std::int64_t number) {
  const std::string whole = std::string(line) + '\n';
  Reader reader(file, whole, separator, number - 1);
  std::string row;
  reader.next();
  return reader.read(row);
}

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
  const std::string& bytes = content.bytes;
  const auto decoding = [&](std::int64_t row, std::int64_t of) {
    return report(progress, stored / 2 + stored / 2 * row / std::max<std::int64_t>(of, 1), stored);
  };
  DecodedFolder::Writer writer(keep, tableDecoding(file));
  const std::int64_t expected = rowsOf(bytes);
  writer.expect(expected * rowBytes(file));
  Reader reader(file, bytes, tableSeparator(bytes));
  FileFacts facts;
  std::int64_t count = 0;
  std::string rows;
  for (; reader.next(); ++count) {
    LOCKSTEP_TRY(reader.read(rows));
    if (rows.size() < kPiece) continue;
    writer.add(rows);
    rows.clear();
    LOCKSTEP_TRY(decoding(count, expected));
  }
  writer.add(rows);
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
  const std::string& bytes = content.bytes;
  FileFacts facts;
  facts.dimensions = {rowsOf(bytes)};
  LOCKSTEP_TRY(checkTable(file, facts));
  const std::int64_t first = placeOf(file.from, facts.dimensions[0]);
  const std::int64_t last = placeOf(file.to, facts.dimensions[0]);
  std::string rows;
  const std::int64_t size = (last - first) * rowBytes(file);
  LOCKSTEP_TRY(withMemoryFor(message("the rows of {}", file.path), size, [&]() -> Status {
    rows.reserve(static_cast<std::size_t>(size));
    Reader reader(file, bytes, tableSeparator(bytes));
    for (std::int64_t row = 0; row < last && reader.next(); ++row)
      if (row >= first) LOCKSTEP_TRY(reader.read(rows));
    return {};
  }));
  const std::int64_t count = std::ssize(rows) / rowBytes(file);
  return std::unique_ptr<Dataset>(std::make_unique<Table>(file, Bytes(std::move(rows)), 0, count));
}

}  // namespace lockstep::data
