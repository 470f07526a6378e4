#include "engine/data/table_rows.h"

#include <csv.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <new>

#include "engine/base/hash.h"
#include "engine/base/random.h"
#include "engine/data/content.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kShownCell = 40, kShownColumns = 20;

// A tab if the first row has one, else a comma; in CSV a semicolon if it has no comma.
char separatorOf(const TableFile& file, std::string_view first) {
  std::string unquoted;
  bool isQuoted = false;
  for (const char c : first) {
    if (file.csv && c == '"') isQuoted = !isQuoted;
    if (!isQuoted) unquoted += c;
  }
  const auto has = [&](char c) { return unquoted.find(c) != std::string::npos; };
  if (file.csv && file.csv->separator != '\0') return file.csv->separator;
  if (has('\t')) return '\t';
  return file.csv && !has(',') && has(';') ? ';' : ',';
}

bool parseNumber(std::string_view text, double& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end && std::isfinite(value) &&
         std::isfinite(static_cast<float>(value));
}

std::string shown(std::string_view text) {
  std::string out(text.substr(0, kShownCell));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  return out;
}

template <typename T>
void append(std::string& row, T value) {
  static_assert(sizeof value == 4);
  const std::size_t at = row.size();
  row.resize(at + sizeof value);
  std::memcpy(row.data() + at, &value, sizeof value);
}

std::string listOf(const std::vector<std::string_view>& names) {
  std::vector<std::string> some;
  for (const std::string_view name : names)
    if (some.size() < kShownColumns) some.push_back(shown(name));
  return fmt::format("{}{}", fmt::join(some, ", "), names.size() > some.size() ? ", …" : "");
}

}  // namespace

Status checkTableShape(const TableFile& file) {
  if (file.csv && (std::ssize(file.csv->numbers) != file.numbers ||
                   std::ssize(file.csv->categories) != file.columns))
    return invalidArgument("a table of {} numbers and {} categories names {} and {} columns",
                           file.numbers, file.columns, file.csv->numbers.size(),
                           file.csv->categories.size());
  if (file.numbers >= 1 && file.columns >= 0 && (file.columns == 0 || file.categories >= 1))
    return {};
  return invalidArgument(
      "a table of {} numbers and {} columns of {} categories has nothing to read", file.numbers,
      file.columns, file.categories);
}

RowSplitter::RowSplitter(const TableFile& file, const RowText& begin, std::size_t longest,
                         Take take)
    : path_(file.path),
      csv_(file.csv.has_value()),
      longest_(longest),
      take_(std::move(take)),
      offset_(begin.offset),
      line_(begin.line) {}

// Returns the place of the '\n' that ends the row which `bytes` continue; npos if there is none.
std::size_t RowSplitter::endOf(std::string_view bytes) {
  for (std::size_t from = 0;;) {
    const std::size_t end = bytes.find('\n', from);
    if (!csv_) return end;
    const std::size_t to = std::min(end, bytes.size());
    const auto quotes = std::count(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(to), '"');
    quoted_ = quoted_ != (quotes % 2 != 0);
    if (end == std::string_view::npos || !quoted_) return end;
    from = end + 1;
  }
}

Result<bool> RowSplitter::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = endOf(bytes);
    const std::string_view part = bytes.substr(0, end);
    if (rest_.size() + part.size() > longest_) return tooLong();
    if (end == std::string_view::npos) {
      rest_ += part;
      return true;
    }
    bool more = false;
    if (rest_.empty()) {
      LOCKSTEP_ASSIGN(more, emit(part));
    } else {
      rest_ += part;
      LOCKSTEP_ASSIGN(more, emit(rest_));
      rest_.clear();
    }
    if (!more) return false;
    bytes.remove_prefix(end + 1);
  }
  return true;
}

Status RowSplitter::finish() {
  const std::string last = std::move(rest_);
  rest_.clear();
  return last.empty() ? Status() : emit(last).status();
}

Result<bool> RowSplitter::emit(std::string_view row) {
  RowText out{offset_, line_, row};
  offset_ += std::ssize(row) + 1;
  line_ += 1 + (csv_ ? std::count(row.begin(), row.end(), '\n') : 0);
  if (out.text.ends_with('\r')) out.text.remove_suffix(1);
  if (out.offset == 0) {
    if (out.text.starts_with("\xff\xfe") || out.text.starts_with("\xfe\xff")) {
      Error error = dataLoss(path_, "it is UTF-16");
      error.next = "save it as UTF-8";
      return error;
    }
    if (out.text.starts_with("\xef\xbb\xbf")) out.text.remove_prefix(3);  // of UTF-8
  }
  if (csv_ && out.text.find_first_not_of(" \r") == std::string_view::npos) return true;
  return take_(out);
}

Error RowSplitter::tooLong() const {
  Error error = dataLoss(
      path_, quoted_
                 ? message("line {}: its quotes are not closed within {} bytes", line_, longest_)
                 : message("line {} is longer than {} bytes", line_, longest_));
  error.next = quoted_ ? "correct the line" : "give a table: a row a line";
  return error;
}

// Splits rows of CSV by libcsv. Spaces around a field without quotes are not part of it.
class TableRows::CsvCells {
 public:
  explicit CsvCells(char separator) : separator_(separator) { begin(); }
  ~CsvCells() { csv_free(&parser_); }
  CsvCells(const CsvCells&) = delete;
  CsvCells& operator=(const CsvCells&) = delete;

  // Returns false if quotes are misplaced.
  bool split(std::string_view row, std::vector<std::string_view>& cells) {
    text_.clear();
    ends_.clear();
    rows_ = 0;
    const auto add = [](void* bytes, std::size_t size, void* self) {
      static_cast<CsvCells*>(self)->add(static_cast<const char*>(bytes), size);
    };
    const auto end = [](int, void* self) { ++static_cast<CsvCells*>(self)->rows_; };
    const bool good = csv_parse(&parser_, row.data(), row.size(), add, end, this) == row.size() &&
                      csv_fini(&parser_, add, end, this) == 0;
    if (!good) {
      if (csv_error(&parser_) == CSV_ENOMEM) throw std::bad_alloc();
      csv_free(&parser_);
      begin();
    }
    cells.clear();
    std::size_t from = 0;
    for (const std::size_t to : ends_) {
      cells.push_back(std::string_view(text_).substr(from, to - from));
      from = to;
    }
    return good;
  }
  int rows() const { return rows_; }

 private:
  void begin() {
    csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI);
    csv_set_delim(&parser_, static_cast<unsigned char>(separator_));
    csv_set_blk_size(&parser_, 1 << 12);
  }
  void add(const char* bytes, std::size_t size) {
    if (size > 0) text_.append(bytes, size);
    ends_.push_back(text_.size());
  }

  const char separator_;
  csv_parser parser_{};
  std::string text_;               // of all cells
  std::vector<std::size_t> ends_;  // of each, in text_
  int rows_ = 0;
};

TableRows::TableRows(const TableFile& file, std::string_view first)
    : file_(file), separator_(separatorOf(file, first)) {
  if (!file.csv) return;
  csv_ = std::make_unique<CsvCells>(separator_);
  for (const std::string& name : file.csv->classes)
    classes_.emplace(name, static_cast<int>(classes_.size()));
}
TableRows::~TableRows() = default;
TableRows::TableRows(TableRows&&) noexcept = default;
TableRows& TableRows::operator=(TableRows&&) noexcept = default;

Result<TableRows> TableRows::make(const TableFile& file, std::string_view first) {
  TableRows out(file, first);
  if (!out.csv_) return out;
  if (!out.csv_->split(first, out.all_))
    return out.wrong("its first row has quotes that are not closed, or within other text");
  if (out.csv_->rows() > 1)
    return out.wrong("its first row has a carriage return without a line feed");
  LOCKSTEP_TRY(out.takeHeader());
  return out;
}

bool TableRows::hasHeader() const { return file_.csv && file_.csv->header; }

Status TableRows::takeHeader() {
  const CsvColumns& csv = *file_.csv;
  width_ = all_.size();
  std::vector<std::string> wanted{csv.label};
  wanted.insert(wanted.end(), csv.numbers.begin(), csv.numbers.end());
  wanted.insert(wanted.end(), csv.categories.begin(), csv.categories.end());
  for (const std::string& name : wanted) {
    LOCKSTEP_ASSIGN(const std::size_t place, placeOf(name));
    places_.push_back(place);
  }
  return {};
}

Result<std::size_t> TableRows::placeOf(const std::string& column) const {
  Error error = invalidArgument("data file {}", file_.path);
  if (!file_.csv->header) {
    std::size_t number = 0;
    const char* const end = column.data() + column.size();
    const auto [at, failed] = std::from_chars(column.data(), end, number);
    if (failed == std::errc() && at == end && number >= 1 && number <= width_) return number - 1;
    error.why = message("it has {} columns, and none is \"{}\"", width_, shown(column));
    error.next = "without a header, columns in data.csv are numbers from 1";
    return error;
  }
  const auto found = std::find(all_.begin(), all_.end(), column);
  if (found != all_.end() && std::find(found + 1, all_.end(), column) == all_.end())
    return static_cast<std::size_t>(found - all_.begin());
  error.why =
      found == all_.end()
          ? message("its header has no column \"{}\"; it has {}", shown(column), listOf(all_))
          : message("its header has the column \"{}\" twice", shown(column));
  error.next = "correct data.csv, or the header";
  return error;
}

const TableRows::Cells& TableRows::split(const RowText& row) {
  cells_.cells.clear();
  cells_.problem = {};
  if (csv_)
    splitCsv(row);
  else
    splitPlain(row);
  return cells_;
}

void TableRows::splitPlain(const RowText& row) {
  const auto wanted = static_cast<std::size_t>(1 + file_.numbers + file_.columns);
  const auto found =
      static_cast<std::size_t>(1 + std::count(row.text.begin(), row.text.end(), separator_));
  for (std::string_view rest = row.text; cells_.cells.size() <= wanted;) {  // one more at most
    const std::size_t end = rest.find(separator_);
    cells_.cells.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (found == wanted) return;
  cells_.problem =
      wrong(message("line {}: it has {} columns, expected {}: a label, {} numbers and {} "
                    "categories, between {}",
                    row.line, found, wanted, file_.numbers, file_.columns,
                    separator_ == '\t' ? message("tabs") : message("commas")));
}

void TableRows::splitCsv(const RowText& row) {
  const bool good = csv_->split(row.text, all_);
  for (const std::size_t place : places_)
    cells_.cells.push_back(place < all_.size() ? all_[place] : std::string_view());
  if (!good)
    cells_.problem = wrong(
        message("line {}: it has quotes that are not closed, or within other text", row.line));
  else if (csv_->rows() > 1)
    cells_.problem =
        wrong(message("line {}: it has a carriage return without a line feed", row.line));
  else if (all_.size() != width_)
    cells_.problem = wrong(
        message("line {}: it has {} columns, the first row has {}", row.line, all_.size(), width_));
}

Status TableRows::read(const RowText& row, std::string& out) {
  LOCKSTEP_TRY(split(row).problem);
  const auto& cells = cells_.cells;
  double label = 0;
  if (!parseLabel(cells[0], label)) return wrongLabel(row, cells[0]);
  append(out, static_cast<float>(label));
  const auto numbers = static_cast<std::size_t>(file_.numbers);
  const bool logarithm = !file_.csv || file_.csv->logarithm;
  for (std::size_t i = 1; i <= numbers; ++i) {
    double value = 0;
    if (!cells[i].empty() && !parseNumber(cells[i], value))
      return wrong(message("line {}: column {} is \"{}\", expected a finite number or nothing",
                           row.line, nameOf(i), shown(cells[i])));
    if (logarithm) value = std::copysign(std::log1p(std::abs(value)), value);
    append(out, static_cast<float>(value));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(file_.columns); ++i) {
    const std::uint64_t bits = randomKey(i, stableHash(cells[1 + numbers + i])),
                        category = bits % static_cast<std::uint64_t>(file_.categories);
    append(out, static_cast<std::int32_t>(static_cast<std::int64_t>(i) * file_.categories +
                                          static_cast<std::int64_t>(category)));
  }
  return {};
}

std::optional<int> TableRows::classOf(const RowText& row) {
  if (file_.classes <= 0) return std::nullopt;
  double label = 0;
  if (csv_ ? !split(row).problem.ok() || !parseLabel(cells_.cells[0], label)
           : !parseLabel(row.text.substr(0, row.text.find(separator_)), label))
    return std::nullopt;
  return static_cast<int>(label);
}

bool TableRows::parseLabel(std::string_view text, double& label) const {
  if (!classes_.empty()) {
    const auto found = classes_.find(text);
    if (found != classes_.end()) label = found->second;
    return found != classes_.end();
  }
  return parseNumber(text, label) && (file_.classes <= 0 || (label >= 0 && label < file_.classes &&
                                                             label == std::floor(label)));
}

Error TableRows::wrongLabel(const RowText& row, std::string_view text) const {
  if (!classes_.empty())
    return wrong(message("line {}: the label is \"{}\", expected one of {}", row.line, shown(text),
                         listOf({file_.csv->classes.begin(), file_.csv->classes.end()})));
  if (file_.classes > 0)
    return wrong(message("line {}: the label is \"{}\", expected {} to {}", row.line, shown(text),
                         0, file_.classes - 1));
  return wrong(
      message("line {}: the label is \"{}\", expected a finite number", row.line, shown(text)));
}

// As the spec names it; in plain tables its number.
std::string TableRows::nameOf(std::size_t cell) const {
  return file_.csv ? shown(file_.csv->numbers[cell - 1]) : fmt::format("{}", cell + 1);
}

Error TableRows::wrong(Message why) const {
  Error error = makeError(Code::kDataLoss, "data file {}", file_.path);
  error.why = std::move(why);
  error.next = file_.csv ? "correct the line, or data.csv" : "correct the line, or model.input";
  return error;
}

}  // namespace lockstep::data
