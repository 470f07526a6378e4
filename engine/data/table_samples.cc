// Rows of a table for display.
#include <algorithm>

#include "engine/data/content.h"
#include "engine/data/range.h"
#include "engine/data/samples.h"
#include "engine/data/table_rows.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kLongestRow = std::size_t{1} << 20;
constexpr std::int64_t kIndexEvery = std::int64_t{1} << 20;  // bytes between marks
constexpr std::size_t kLabelsKept = std::size_t{1} << 24;    // a byte each
constexpr int kOtherLabel = 255;

class TableSamples final : public SampleReader {
 public:
  TableSamples(TableFile file, FileInfo info, std::string sha256)
      : file_(std::move(file)), info_(info), sha256_(std::move(sha256)) {}

  // The first row tells the columns.
  Status begin() {
    RowSplitter first(file_, {}, kLongestRow, [&](const RowText& row) -> Result<bool> {
      LOCKSTEP_ASSIGN(rows_, TableRows::make(file_, row.text));
      return false;
    });
    const auto add = [&](std::string_view bytes) { return first.add(bytes); };
    LOCKSTEP_TRY(readBeginning(file_.path, add));
    if (!rows_) LOCKSTEP_TRY(first.finish());
    if (rows_) return {};
    FileFacts none;
    none.dimensions = {0};
    return checkTable(file_, none);
  }

  std::int64_t size() const override { return size_; }
  std::vector<std::string> files() const override { return {file_.path}; }
  Shape shape() const override { return {file_.numbers, file_.columns}; }
  const std::map<int, std::int64_t>& labels() const override { return counts_; }

  Status count(const Progress& progress) override {
    if (size_ >= 0) return {};
    std::vector<std::uint8_t> labels;
    std::vector<Mark> marks;
    std::int64_t rows = firstRow();
    LOCKSTEP_TRY(eachRow(progress, [&](const RowText& row) -> Result<bool> {
      if (rows++ < 0) return true;
      if (marks.empty() || row.offset - marks.back().offset >= kIndexEvery)
        marks.push_back({rows - 1, row.offset, row.line});
      if (labels.size() < kLabelsKept) labels.push_back(labelOf(row));
      return true;
    }));
    rows = std::max<std::int64_t>(rows, 0);
    LOCKSTEP_ASSIGN(info_, inspectFile(file_.path));  // it may have grown
    FileFacts facts;
    facts.dimensions = {rows};
    LOCKSTEP_TRY(checkTable(file_, facts));
    marks_ = std::move(marks);
    first_ = placeOf(file_.from, rows);
    const std::int64_t last = placeOf(file_.to, rows);
    size_ = last - first_;
    if (std::ssize(labels) == rows && file_.classes > 0)
      for (std::int64_t row = first_; row < last; ++row)
        if (const int label = labels[static_cast<std::size_t>(row)]; label != kOtherLabel)
          ++counts_[label];
    return {};
  }

  Result<std::vector<StoredSample>> read(std::span<const std::int64_t> wanted,
                                         const Progress& progress) override {
    if (size_ < 0 && file_.from > 0) LOCKSTEP_TRY(count(progress));
    const auto end =
        size_ < 0 ? wanted.end() : std::lower_bound(wanted.begin(), wanted.end(), size_);
    const auto indices = wanted.first(static_cast<std::size_t>(end - wanted.begin()));
    std::vector<StoredSample> out;
    if (indices.empty()) return out;
    if (size_ >= 0 && !info_.packed) {
      LOCKSTEP_TRY(readMarked(indices, progress, out));
      return out;
    }
    Wanted rows{*this, indices, out, firstRow()};
    LOCKSTEP_TRY(
        eachRow(progress, [&](const RowText& row) -> Result<bool> { return rows.take(row); }));
    return out;
  }

  Status check(const Progress& progress) override {
    LOCKSTEP_ASSIGN(const FileFacts facts, inspectTable(file_, nullptr, progress));
    LOCKSTEP_TRY(checkSha256(file_.path, sha256_, facts.sha256));
    return checkTable(file_, facts);
  }

 private:
  struct Mark {
    std::int64_t row = 0, offset = 0, line = 0;
  };

  // Takes the rows from row `row` on, and keeps those that are wanted.
  struct Wanted {
    TableSamples& table;
    std::span<const std::int64_t> indices;
    std::vector<StoredSample>& out;
    std::int64_t row;
    bool take(const RowText& text) {
      if (out.size() < indices.size() && row == table.first_ + indices[out.size()])
        out.push_back(table.sampleOf(indices[out.size()], text));
      ++row;
      return out.size() < indices.size();
    }
  };

  // The number of the file's first row: a header is before row 0.
  std::int64_t firstRow() const { return rows_->hasHeader() ? -1 : 0; }

  // Reads from the beginning of the file, until `take` returns false.
  Status eachRow(const Progress& progress, const RowSplitter::Take& take) {
    bool more = true;
    RowSplitter splitter(file_, {}, kLongestRow, take);
    const auto add = [&](std::string_view bytes) -> Result<bool> {
      LOCKSTEP_ASSIGN(more, splitter.add(bytes));
      return more;
    };
    LOCKSTEP_TRY(readBeginning(file_.path, add, progress));
    return more ? splitter.finish() : Status();
  }

  // Reads a plain file from the mark before each wanted row.
  Status readMarked(std::span<const std::int64_t> indices, const Progress& progress,
                    std::vector<StoredSample>& out) {
    while (out.size() < indices.size()) {
      const std::int64_t row = first_ + indices[out.size()];
      const auto next =
          std::upper_bound(marks_.begin(), marks_.end(), row,
                           [](std::int64_t wanted, const Mark& mark) { return wanted < mark.row; });
      const Mark from = *(next - 1);
      const std::int64_t end =
          next == marks_.end() ? std::max(info_.bytes, from.offset) : next->offset;
      const Piece piece{from.offset, end - from.offset};
      LOCKSTEP_ASSIGN(const auto bytes, readPieces(file_.path, {&piece, 1}));
      Wanted rows{*this, indices, out, from.row};
      RowSplitter splitter(file_, {from.offset, from.line, {}}, kLongestRow,
                           [&](const RowText& text) -> Result<bool> { return rows.take(text); });
      const std::size_t before = out.size();
      LOCKSTEP_ASSIGN(const bool more, splitter.add(bytes[0]));
      if (more) LOCKSTEP_TRY(splitter.finish());
      if (out.size() == before) return dataLoss(file_.path, "it has changed while it was read");
      LOCKSTEP_TRY(report(progress, std::ssize(out), std::ssize(indices)));
    }
    return {};
  }

  StoredSample sampleOf(std::int64_t index, const RowText& row) {
    StoredSample sample;
    sample.index = index;
    std::string unused;
    if (const Status read = rows_->read(row, unused); !read.ok()) sample.problem = read.error();
    for (const std::string_view cell : rows_->split(row).cells) sample.cells.emplace_back(cell);
    if (sample.cells.empty()) return sample;
    sample.label = std::move(sample.cells.front());
    sample.cells.erase(sample.cells.begin());
    return sample;
  }

  // A label below 255; kOtherLabel for anything else.
  std::uint8_t labelOf(const RowText& row) {
    const std::optional<int> label = rows_->classOf(row);
    return static_cast<std::uint8_t>(label && *label < kOtherLabel ? *label : kOtherLabel);
  }

  const TableFile file_;
  FileInfo info_;
  const std::string sha256_;
  std::optional<TableRows> rows_;
  std::vector<Mark> marks_;
  std::map<int, std::int64_t> counts_;
  std::int64_t size_ = -1, first_ = 0;
};

}  // namespace

Result<std::unique_ptr<SampleReader>> readTableSamples(const TableFile& file,
                                                       const std::string& sha256) {
  LOCKSTEP_TRY(checkTableShape(file));
  LOCKSTEP_ASSIGN(const FileInfo info, inspectFile(file.path));
  auto out = std::make_unique<TableSamples>(file, info, sha256);
  LOCKSTEP_TRY(out->begin());
  return std::unique_ptr<SampleReader>(std::move(out));
}

}  // namespace lockstep::data
