// DataPreview: samples of the data that a spec names, read from the files of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/progress.h"
#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class RunSpec;
}

namespace lockstep::app {

struct DataSample {
  std::int64_t index = 0;          // in the data set
  std::string label;               // as written; a text has none
  std::string pixels;              // of an image, a byte a channel, row by row; empty: no image
  std::vector<std::string> cells;  // of a table's row: numbers, then categories, as written
  std::string text;  // of a text: any bytes; of tokens: numbers with spaces between them
  std::optional<Error> problem;  // of a malformed row, or a label or token out of range
};

enum class DataKind : std::uint8_t { kImages, kRows, kText, kTokens };

// Threads: one at a time.
class DataPreview {
 public:
  // Opens the training data, or what the run evaluates on. `spec` is that of completeDataSpec().
  // Reads little. Errors: of the file that is missing or damaged; kInvalidArgument.
  static Result<std::unique_ptr<DataPreview>> open(const spec::v1::RunSpec& spec, bool evaluate);
  ~DataPreview();

  DataKind kind() const;
  struct File {
    std::string path;
    std::int64_t bytes = 0;  // as stored
  };
  const std::vector<File>& files() const;
  std::int64_t bytes() const;  // of all files, as stored
  // Returns height and width of images, and channels where the file has them; the number of tokens
  // of a text; or numbers and categories of a row.
  std::vector<std::int64_t> shape() const;
  // Returns the names of a row's numbers and categories in CSV; empty: they have none.
  const std::vector<std::string>& columns() const;
  // Returns the number of samples; -1 if it is known only after count().
  std::int64_t size() const;
  // Labels and the number of samples of each, after count(); empty if they are not counted.
  std::vector<std::pair<int, std::int64_t>> labels() const;

  // Reads what has to be read to know the number of samples. Errors: of the files; kCancelled.
  Status count(const Progress& progress = {});
  // Reads `count` samples from `first` on; fewer at the end.
  Result<std::vector<DataSample>> read(std::int64_t first, std::int64_t count,
                                       const Progress& progress = {});
  // Reads `count` different samples, or all if there are fewer, in ascending order. Counts them
  // first. A function of `seed`.
  Result<std::vector<DataSample>> readRandom(std::int64_t count, std::uint64_t seed,
                                             const Progress& progress = {});
  // Reads all files to their end and checks them as a run does, with the hashes in the spec.
  Status check(const Progress& progress = {});

 private:
  struct State;
  explicit DataPreview(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Bytes as text of one line: control characters and what is not UTF-8 become "·", ends of lines
// "↵".
std::string oneLine(std::string_view bytes);

}  // namespace lockstep::app
