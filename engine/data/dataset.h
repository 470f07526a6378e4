// Datasets: samples by index, and which sample is at which place of which step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace lockstep::data {

struct Field {
  std::string name;  // "x", "label"
  DType dtype;
  Shape shape;  // of one sample: 28x28x1; empty for a scalar
  std::int64_t bytes() const {
    return elementCount(shape) * static_cast<std::int64_t>(sizeOf(dtype));
  }
};

// Threads: reading is const and may happen on several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  // Writes sample `index`'s field to `out` (Field::bytes() bytes).
  virtual void read(std::int64_t index, std::size_t field, std::byte* out) const = 0;
};

// Files are plain or gzip, of every kind. IDX, on this node: images u8[N×H×W] and labels u8[N].
struct IdxFiles {
  std::string images;
  std::string labels;
  std::string imagesSha256;  // "" is not checked
  std::string labelsSha256;
  // of DecodedFolder, where it is here: mapped in place of reading the file
  std::string decodedImages{};
  std::string decodedLabels{};
};
// Fields "x" u8[H×W×1] and "label" i32[]. Errors name the file: kNotFound, kDataLoss (truncated or
// corrupt gzip, wrong magic, images given as labels, counts that differ, label ≥ classes with its
// record), and kFailedPrecondition for a wrong hash with both hashes.
Result<std::unique_ptr<Dataset>> openIdx(const IdxFiles& files, int classes);

// What a data file is, without keeping it: found by reading all of it once.
struct FileFacts {
  std::string sha256;
  // of text the number of bytes, of a table its rows and the bytes of one
  Shape dimensions;
  int highest = 0;             // of one dimension (labels): the greatest element,
  std::int64_t highestAt = 0;  // and its first place
};
class DecodedFolder;  // decoded.h
// Errors as openIdx has them for one file. What it decodes is put into `keep` where there is one.
Result<FileFacts> inspectIdx(const std::string& path, DecodedFolder* keep = nullptr);
// Whether two files are a data set, as openIdx would say, and one of a model that takes `sample`
// (empty: any) else: kInvalidArgument. Hashes are not looked at.
Status checkIdx(const IdxFiles& files, const FileFacts& images, const FileFacts& labels,
                const Shape& sample, int classes);

// A part of a plain text, from a fraction of its bytes to another; every byte is a token. Sample i
// is `tokens` of them from the i·tokens-th on. Fields "x" i32[tokens] and "label" i32[tokens], the
// token after each. Errors name the file: kNotFound, kInvalidArgument where not one sample is in
// the part.
struct TextFile {
  std::string path;
  std::int64_t tokens = 0;
  double from = 0, to = 1;
};
Result<std::unique_ptr<Dataset>> openText(const TextFile& file);
Result<FileFacts> inspectText(const std::string& path);
Status checkText(const TextFile& file, const FileFacts& facts);

// A part of a table, from a fraction of its rows to another, as Criteo's click logs are: a row a
// line, a label, `numbers` numbers and `columns` categories between tabs or commas, no quotes and
// no heading. A number x becomes sign(x)·log(1 + |x|), a missing one 0. A category of column c is
// any text, the empty one too, and becomes c·categories + a hash of it below `categories`. Fields
// "x" f32[numbers], "categories" i32[columns] where there are any, and "label" i32[] below
// `classes` or, where classes is 0, f32[1]. Errors name the file: kNotFound, kDataLoss with the
// line of a row that is none, a number that is not finite or a label out of range, kInvalidArgument
// where not one row is in the part.
struct TableFile {
  std::string path;
  std::int64_t numbers = 0, columns = 0, categories = 0;
  int classes = 0;
  double from = 0, to = 1;
  std::string decoded{};  // as of IdxFiles
};
Result<std::unique_ptr<Dataset>> openTable(const TableFile& file);
// All of it, whatever the part.
Result<FileFacts> inspectTable(const TableFile& file, DecodedFolder* keep = nullptr);
Status checkTable(const TableFile& file, const FileFacts& facts);

// The order of an epoch: position → sample, a permutation π(seed, epoch) that is the same whatever
// the world size; the identity where shuffle is false. Of up to kTableSamples samples it is a table
// of 4 bytes each, of more it is computed for each position and takes no memory.
class SampleOrder {
 public:
  static constexpr std::int64_t kTableSamples = std::int64_t{1} << 26;
  // Throws std::bad_alloc where there is no memory for the table.
  SampleOrder(std::int64_t size, std::uint64_t seed, bool shuffle,
              std::int64_t tableSamples = kTableSamples);
  void begin(std::int64_t epoch);  // before at(); allocates nothing
  std::int64_t at(std::int64_t position) const;

 private:
  std::int64_t size_;
  std::uint64_t seed_, key_ = 0;
  bool shuffle_;
  int halfBits_ = 0;
  std::vector<std::uint32_t> table_;
};

// Where step k of a run lies: step k's batch is slice k mod stepsPerEpoch of its epoch's order; the
// last slice of an epoch may be short.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t first = 0;  // position in the epoch's order
  std::int64_t count = 0;  // real samples in the global batch
};
std::int64_t stepsPerEpoch(std::int64_t size, std::int64_t globalBatch);
BatchPosition batchPosition(std::int64_t size, std::int64_t globalBatch, std::int64_t step);

// One rank's share of one step, of all its micro-batches, filled ahead of time.
struct Batch {
  std::int64_t step = 0;
  BatchPosition position;
  std::vector<std::vector<std::byte>> fields;  // in Dataset::fields() order, `share` samples each
  std::vector<float> weights;                  // 1 for a sample, 0 for padding
};

// How images are varied from epoch to epoch, by (seed, epoch, sample) alone: whoever loads a sample
// makes the same picture of it.
struct Augment {
  std::int64_t crop = 0;  // moved by up to so many pixels each way, zeros where nothing is left
  bool flip = false;      // one in two is mirrored left to right
  bool any() const { return crop > 0 || flip; }
};
// `image` of height × width pixels of `pixelBytes` into `out`.
struct ImageSize {
  std::int64_t height = 0, width = 0, pixelBytes = 0;
};
void augmentImage(const Augment& augment, const ImageSize& size, std::uint64_t seed,
                  std::int64_t epoch, std::int64_t sample, const std::byte* image, std::byte* out);

// Prefetches a rank's batches on a thread of its own, `depth` ahead. The share is samples
// [begin, end) of each micro-batch of a global slice, one micro-batch after another; those past the
// slice's count are padding: sample 0, weight 0.
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
    std::int64_t microBatches = 1;  // equal parts of the global batch
    Augment augment;                // of fields that are images, height x width x channels
  };
  // Throws std::bad_alloc where there is no memory for its batches; make() returns that as an error
  // with their bytes.
  Loader(const Dataset& dataset, const Options& options);
  static Result<std::unique_ptr<Loader>> make(const Dataset& dataset, const Options& options);
  ~Loader();  // ends the thread
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Until as many batches are filled as there is room for, or all.
  void awaitFull();
  // The next batch in order, null after lastStep. Valid until the next call; allocates nothing.
  const Batch* next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
