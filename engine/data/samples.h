// Single samples of the files of a data set, for display: files are read where the samples are, and
// none is held in memory as a whole.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/progress.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace lockstep::data {

// A sample as it stands in its file.
struct StoredSample {
  std::int64_t index = 0;  // in the data set
  // The pixels of an image row by row, of a pixel its channels, the bytes of a text, the cells of a
  // table's row, or tokens as decimal numbers with spaces between them.
  std::string bytes;
  std::vector<std::string> cells;  // of a table: numbers, then categories
  std::string label;               // as written; a text has none
  std::optional<Error> problem;    // of a malformed row of a table, or a token out of range
};

// Threads: one at a time.
class SampleReader {
 public:
  virtual ~SampleReader() = default;
  virtual std::vector<std::string> files() const = 0;  // paths
  // Returns the number of samples; -1 if it is known only after count().
  virtual std::int64_t size() const = 0;
  // Returns the shape of a sample: height and width, and channels where the file has them; tokens;
  // or numbers and categories.
  virtual Shape shape() const = 0;
  // Reads what has to be read to know the number of samples and of those of each label. Idempotent.
  // Errors: as the set's open function; kCancelled.
  virtual Status count(const Progress& progress) = 0;
  // Returns the number of samples by label, after count(); empty if there are no labels, or too
  // many to be counted in passing.
  virtual const std::map<int, std::int64_t>& labels() const = 0;
  // Reads samples by ascending index; those beyond the end are left out. Errors: as count().
  virtual Result<std::vector<StoredSample>> read(std::span<const std::int64_t> indices,
                                                 const Progress& progress = {}) = 0;
  // Reads all files to their end and checks them as a run does, with their SHA-256. Errors: as
  // count(); kFailedPrecondition for a hash mismatch.
  virtual Status check(const Progress& progress) = 0;
};

// Each finds what can be found in the beginnings of the files. Errors: as openIdx(), openText(),
// openTable() and openTokens(). Hashes are those expected; "": any. `sample` as for checkIdx().
Result<std::unique_ptr<SampleReader>> readIdxSamples(const IdxFiles& files, const Shape& sample,
                                                     int classes);
Result<std::unique_ptr<SampleReader>> readTextSamples(const TextFile& file,
                                                      const std::string& sha256 = {});
Result<std::unique_ptr<SampleReader>> readTableSamples(const TableFile& file,
                                                       const std::string& sha256 = {});
Result<std::unique_ptr<SampleReader>> readTokenSamples(const TokenFiles& files);

}  // namespace lockstep::data
