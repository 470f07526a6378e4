// Rows of tables: where they begin and end, their cells, and what a run reads of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace lockstep::data {

// Errors: kInvalidArgument if the table has no numbers, or columns without categories, or other
// columns than are named.
Status checkTableShape(const TableFile& file);

// A row as it stands in its file, without the end of its line.
struct RowText {
  std::int64_t offset = 0, line = 1;  // where it begins: bytes of the content, lines from 1
  std::string_view text;
};

// Finds the rows of a table as its bytes come in. A row is a line; in CSV it goes on where a line
// ends within quotes, and lines without anything are no rows.
class RowSplitter {
 public:
  // Receives each row; returns whether it wants more.
  using Take = std::function<Result<bool>(const RowText& row)>;
  // The bytes begin at `begin`. Rows of more than `longest` bytes that come in pieces are an error.
  RowSplitter(const TableFile& file, const RowText& begin, std::size_t longest, Take take);

  // Returns whether `take` wants more. Errors: those of `take`; kDataLoss, also for UTF-16.
  Result<bool> add(std::string_view bytes);
  // The last row may lack the end of its line.
  Status finish();

 private:
  Result<bool> emit(std::string_view row);
  std::size_t endOf(std::string_view bytes);
  Error tooLong() const;

  const std::string& path_;
  const bool csv_;
  const std::size_t longest_;
  const Take take_;
  std::int64_t offset_, line_;
  bool quoted_ = false;  // within quotes at the end of rest_
  std::string rest_;     // the beginning of a row
};

// Reads the rows of one file.
class TableRows {
 public:
  // `first`: its first row. Errors: kInvalidArgument if a header lacks a column, or has it twice.
  static Result<TableRows> make(const TableFile& file, std::string_view first);
  ~TableRows();
  TableRows(TableRows&&) noexcept;
  TableRows& operator=(TableRows&&) noexcept;

  bool hasHeader() const;
  // Splits a row into its label, numbers and categories, valid until the next call. `problem`:
  // kDataLoss of a malformed row, which has fewer cells, or one more.
  struct Cells {
    std::vector<std::string_view> cells;
    Status problem;
  };
  const Cells& split(const RowText& row);
  // Appends to `out` what a run reads of the row: label, numbers and categories, four bytes each.
  // Errors: kDataLoss with the line and the column.
  Status read(const RowText& row, std::string& out);
  // Returns the class of a row; nothing if it has none.
  std::optional<int> classOf(const RowText& row);

 private:
  class CsvCells;
  TableRows(const TableFile& file, std::string_view first);
  Status takeHeader();
  Result<std::size_t> placeOf(const std::string& column) const;
  void splitPlain(const RowText& row);
  void splitCsv(const RowText& row);
  bool parseLabel(std::string_view text, double& label) const;
  Error wrongLabel(const RowText& row, std::string_view text) const;
  std::string nameOf(std::size_t cell) const;
  Error wrong(Message why) const;

  TableFile file_;
  char separator_;
  std::unique_ptr<CsvCells> csv_;    // null: plain
  std::vector<std::size_t> places_;  // of CSV: of the cells among the file's columns
  std::size_t width_ = 0;            // of CSV: columns of the file
  std::map<std::string, int, std::less<>> classes_;
  std::vector<std::string_view> all_;
  Cells cells_;
};

}  // namespace lockstep::data
