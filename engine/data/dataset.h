// Datasets: samples by index, their order over epochs, and the loading of batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/progress.h"
#include "engine/base/status.h"

namespace lockstep::data {

struct Field {
  std::string name;  // "x", "label"
  DType dtype;
  Shape shape;  // per sample: 28x28x1; empty for a scalar
  std::int64_t bytes() const {
    return elementCount(shape) * static_cast<std::int64_t>(sizeOf(dtype));
  }
};

// Threads: reading is const and may happen on several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  // Writes the field of sample `index` to `out` (Field::bytes() bytes).
  virtual void read(std::int64_t index, std::size_t field, std::byte* out) const = 0;
  // The first error of a read(), whose output is then zeros: of data that is read where it lies.
  virtual Status problem() const { return {}; }
  // The most samples whose order is a table: SampleOrder::kTableSamples, or fewer where opening
  // takes no time that grows with the size.
  virtual std::int64_t tableSamples() const;
};

// Files may be compressed by gzip or zstd. IDX files of this node: images u8[N×H×W] or, with C
// channels, u8[N×H×W×C], and labels u8[N] or i32[N].
struct IdxFiles {
  std::string images;
  std::string labels;        // "": there are none, and no field "label"
  std::string imagesSha256;  // "": not checked
  std::string labelsSha256;
  // path in DecodedFolder, if cached: mapped instead of reading the file
  std::string decodedImages{};
  std::string decodedLabels{};
};
// Fields "x" u8[H×W×C] and "label" i32[]. Errors name the file: kNotFound; kDataLoss (truncated or
// corrupt compression, wrong magic, images given as labels, unequal counts, label ≥ classes with
// its record); kFailedPrecondition for a hash mismatch, with both hashes.
Result<std::unique_ptr<Dataset>> openIdx(const IdxFiles& files, int classes);

// Facts about a data file, found by reading it once.
struct FileFacts {
  std::string sha256;
  // of text: the number of bytes; of a table: its rows and the bytes per row
  Shape dimensions;
  int highest = 0;             // one-dimensional files (labels): the largest element
  std::int64_t highestAt = 0;  // and its first position
};
class DecodedFolder;  // decoded.h
// Errors: as openIdx() for one file; kCancelled. Decoded elements are cached in `keep` if not null.
// `progress` counts the bytes of the file as stored; so do those of the other kinds.
Result<FileFacts> inspectIdx(const std::string& path, DecodedFolder* keep = nullptr,
                             const Progress& progress = {});
// Returns ok if the two files form a data set as openIdx() requires; else kInvalidArgument. A
// non-empty `sample` is the shape that the model takes. Hashes are not checked.
Status checkIdx(const IdxFiles& files, const FileFacts& images, const FileFacts& labels,
                const Shape& sample, int classes);

// A range of a text, given by fractions of its bytes; each byte is a token. Sample i consists
// of the `tokens` tokens from i·tokens on. Fields "x" i32[tokens] and "label" i32[tokens], the
// token following each. Errors name the file: kNotFound; kInvalidArgument if the range holds no
// sample.
struct TextFile {
  std::string path;
  std::int64_t tokens = 0;
  double from = 0, to = 1;
};
Result<std::unique_ptr<Dataset>> openText(const TextFile& file);
Result<FileFacts> inspectText(const std::string& path, const Progress& progress = {});
Status checkText(const TextFile& file, const FileFacts& facts);

// A range of tokenised text, given by fractions of its tokens. Sample i consists of the `tokens`
// tokens from i·tokens on, across the ends of files; fields as of a text. The samples are read
// where they lie, so that opening takes no longer for large files. A file is one of
//   *.npy             a one-dimensional array of integers (numpy.lib.format, versions 1 to 3)
//   llm.c's .bin      a header of 256 32-bit numbers (https://github.com/karpathy/llm.c, dev/data)
//   any other         little-endian numbers without a header, as nanoGPT writes them
// Errors name the file: kNotFound, also where no file has such a name; kDataLoss for a header that
// does not fit; kInvalidArgument if the range holds no sample. problem() tells kDataLoss of a
// token that is not below `vocabulary`, and of files that have become shorter.
struct TokenFiles {
  std::string path;  // the file's name may have * and ?, as in glob(7): many files, by their names
  std::int64_t tokens = 0;
  std::int64_t vocabulary = 0;
  int bytesPerToken = 0;  // of files without a header: 2 or 4; 0: 2 if the vocabulary fits
  double from = 0, to = 1;
};
Result<std::unique_ptr<Dataset>> openTokens(const TokenFiles& files);
// Returns the number of tokens, and as SHA-256 that of the files' sizes and of samples of their
// content, which are few: it tells different files apart, not every changed token.
Result<FileFacts> inspectTokens(const TokenFiles& files);
Status checkTokens(const TokenFiles& files, const FileFacts& facts);

// The columns of a CSV file (RFC 4180), by their names in its first row, or without such a header
// by their numbers from 1. Spaces around a cell without quotes are not part of it; lines with
// nothing in them are left out.
struct CsvColumns {
  std::string label;
  std::vector<std::string> numbers, categories;
  std::vector<std::string> classes;  // texts of the label by class; empty: it is a number
  char separator = '\0';             // '\0': a tab, a comma or a semicolon, as the first row has
  bool header = true;
  bool logarithm = true;  // of numbers, as in other tables; false: as they are
};

// A range of a table, given by fractions of its rows: CSV where its columns are named, else in the
// format of Criteo's click logs: one row per line with a label, `numbers` numbers and `columns`
// categories separated by tabs or commas, without quotes or header. A number x becomes
// sign(x)·log(1 + |x|), a missing one 0. A category of column c is any text, including the empty
// one, and becomes c·categories + its hash below `categories`. Fields "x" f32[numbers],
// "categories" i32[columns] if there are any, and "label" i32[] below `classes` or, with classes 0,
// f32[1]. Errors name the file: kNotFound; kDataLoss with the line of a malformed row, of a number
// that is not finite or of a label out of range; kInvalidArgument if the range holds no row, or a
// header lacks a column.
struct TableFile {
  std::string path;
  std::int64_t numbers = 0, columns = 0, categories = 0;
  int classes = 0;
  double from = 0, to = 1;
  std::string decoded{};  // see IdxFiles
  std::optional<CsvColumns> csv{};
};
Result<std::unique_ptr<Dataset>> openTable(const TableFile& file);
// Inspects the whole file, regardless of the range.
Result<FileFacts> inspectTable(const TableFile& file, DecodedFolder* keep = nullptr,
                               const Progress& progress = {});
Status checkTable(const TableFile& file, const FileFacts& facts);

// The sample order of an epoch: position → sample, a permutation π(seed, epoch) that is independent
// of the world size; the identity without shuffle. Up to `tableSamples` samples it is a table of 4
// bytes each; beyond, it is computed per position without memory.
class SampleOrder {
 public:
  static constexpr std::int64_t kTableSamples = std::int64_t{1} << 26;
  // Throws std::bad_alloc without memory for the table.
  SampleOrder(std::int64_t size, std::uint64_t seed, bool shuffle,
              std::int64_t tableSamples = kTableSamples);
  void begin(std::int64_t epoch);  // call before at(); allocates nothing
  std::int64_t at(std::int64_t position) const;

 private:
  std::int64_t size_;
  std::uint64_t seed_, key_ = 0;
  bool shuffle_;
  int halfBits_ = 0;
  std::vector<std::uint32_t> table_;
};

// Position of step k: slice k mod stepsPerEpoch of its epoch's order; the last slice of an epoch
// may be short.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t first = 0;  // position in the epoch's order
  std::int64_t count = 0;  // real samples in the global batch
};
std::int64_t stepsPerEpoch(std::int64_t size, std::int64_t globalBatch);
BatchPosition batchPosition(std::int64_t size, std::int64_t globalBatch, std::int64_t step);

// A rank's share of one step, over all its micro-batches, prefetched.
struct Batch {
  std::int64_t step = 0;
  BatchPosition position;
  std::vector<std::vector<std::byte>> fields;  // in Dataset::fields() order, `share` samples each
  std::vector<float> weights;                  // 1 for a sample, 0 for padding
  // That the loader waited for the files of the samples: neither computed nor waited for a core.
  double readingSeconds = 0;
};

// Data augmentation of images as a function of (seed, epoch, sample) alone, so that whichever rank
// loads a sample produces the same picture.
struct Augment {
  std::int64_t crop = 0;  // random translation by up to this many pixels each way, zero-padded
  bool flip = false;      // random horizontal flip with probability ½
  bool any() const { return crop > 0 || flip; }
};
// Writes the augmented `image` of height × width pixels of `pixelBytes` to `out`.
struct ImageSize {
  std::int64_t height = 0, width = 0, pixelBytes = 0;
};
void augmentImage(const Augment& augment, const ImageSize& size, std::uint64_t seed,
                  std::int64_t epoch, std::int64_t sample, const std::byte* image, std::byte* out);

// Prefetches a rank's batches on its own thread, `depth` batches ahead. The share is samples
// [begin, end) of each micro-batch of a global slice, micro-batch after micro-batch; those beyond
// the slice's count are padding: sample 0 with weight 0.
class Loader {
 public:
  struct Options {
    std::int64_t globalBatch = 0;
    std::int64_t begin = 0, end = 0;
    std::uint64_t seed = 0;
    bool shuffle = true;
    std::int64_t firstStep = 0;
    std::int64_t lastStep = 0;  // exclusive
    int depth = 7;
    std::int64_t microBatches = 1;  // per global batch, of equal size
    Augment augment;                // applied to fields of shape height × width × channels
  };
  // Throws std::bad_alloc without memory for its batches; make() returns that as an error with
  // their size.
  Loader(const Dataset& dataset, const Options& options);
  static Result<std::unique_ptr<Loader>> make(const Dataset& dataset, const Options& options);
  ~Loader();  // joins the thread
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Waits until the prefetch queue is full or all batches are loaded.
  void awaitFull();
  // Returns the next batch, null after lastStep. Valid until the next call; allocates nothing.
  const Batch* next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
