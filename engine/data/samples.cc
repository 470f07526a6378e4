#include "engine/data/samples.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "engine/data/content.h"
#include "engine/data/idx_header.h"
#include "engine/data/range.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kLargestSample = std::int64_t{16} << 20;  // bytes of an image or a text

Status checkSampleSize(const std::string& path, std::int64_t bytes) {
  if (bytes <= kLargestSample) return {};
  Error error = makeError(Code::kResourceExhausted, "the samples of {} are too large", path);
  error.why = message("one has {} bytes; at most {} MiB are shown", bytes, kLargestSample >> 20);
  return error;
}

std::span<const std::int64_t> below(std::span<const std::int64_t> indices, std::int64_t size) {
  const auto end = std::lower_bound(indices.begin(), indices.end(), size);
  return indices.first(static_cast<std::size_t>(end - indices.begin()));
}

// Progress of the second of two files, of `before` and `size` stored bytes.
Progress after(const Progress& progress, std::int64_t before) {
  if (!progress) return {};
  return [progress, before](std::int64_t done, std::int64_t total) {
    return progress(before + done, before + total);
  };
}

struct IdxPart {
  std::string path;
  FileInfo info;
  IdxHeader header;
};

// What the beginning of an IDX file tells; of a plain one its size too.
Result<IdxPart> beginIdx(const std::string& path) {
  IdxPart out{path, {}, {}};
  LOCKSTEP_ASSIGN(out.info, inspectFile(path));
  std::string head;
  LOCKSTEP_TRY(readBeginning(path, [&](std::string_view bytes) -> Result<bool> {
    head += bytes.substr(0, kLongestHeader - head.size());
    return head.size() < 4 ||
           head.size() < 4 + 4 * std::size_t{static_cast<unsigned char>(head[3])};
  }));
  const auto size = static_cast<std::uint64_t>(out.info.bytes);
  LOCKSTEP_ASSIGN(out.header, parseHeader(path, head, size, !out.info.packed));
  return out;
}

class IdxSamples final : public SampleReader {
 public:
  IdxSamples(IdxFiles files, IdxPart images, IdxPart labels, Shape sample, int classes)
      : files_(std::move(files)),
        images_(std::move(images)),
        labels_(std::move(labels)),
        sample_(std::move(sample)),
        classes_(classes) {}

  // The rules of checkIdx() that headers show.
  Status checkHeaders() const {
    FileFacts images, labels;
    images.dimensions = images_.header.dimensions;
    labels.dimensions = labels_.header.dimensions;
    LOCKSTEP_TRY(checkIdx(files_, images, labels, sample_, classes_));
    return checkSampleSize(files_.images, imageBytes());
  }
  std::int64_t size() const override { return images_.header.dimensions[0]; }
  std::vector<std::string> files() const override { return {files_.images, files_.labels}; }
  Shape shape() const override {
    const auto& of = images_.header.dimensions;
    return {of.begin() + 1, of.end()};
  }
  const std::map<int, std::int64_t>& labels() const override { return counts_; }

  Status count(const Progress& progress) override {
    if (counted_) return {};
    std::map<int, std::int64_t> counts;
    std::int64_t at = 0;
    const auto offset = static_cast<std::int64_t>(labels_.header.offset);
    const int labelBytes = labels_.header.elementBytes;
    std::string element;
    const auto take = [&](std::string_view bytes) -> Status {
      for (const char c : bytes) {
        if (at++ < offset) continue;
        element += c;
        if (std::ssize(element) < labelBytes) continue;
        const int label = idxLabel(element.data(), labelBytes, 0);
        element.clear();
        ++counts[label];
        if (label >= classes_) return wrongLabel((at - offset) / labelBytes - 1, label);
      }
      return {};
    };
    LOCKSTEP_TRY(readContent(files_.labels, false, take, progress).status());
    if (at - offset != size() * labelBytes)
      return dataLoss(files_.labels,
                      message("its header declares {} bytes of elements, {} follow",
                              size() * labelBytes, std::max<std::int64_t>(at - offset, 0)));
    counts_ = std::move(counts);
    counted_ = true;
    return {};
  }

  Result<std::vector<StoredSample>> read(std::span<const std::int64_t> wanted,
                                         const Progress& progress) override {
    const auto indices = below(wanted, size());
    const auto piecesOf = [&](const IdxPart& part, std::int64_t bytes) {
      std::vector<Piece> out;
      for (const std::int64_t index : indices)
        out.push_back({static_cast<std::int64_t>(part.header.offset) + index * bytes, bytes});
      return out;
    };
    const int labelBytes = labels_.header.elementBytes;
    LOCKSTEP_ASSIGN(const auto labels, readPieces(files_.labels, piecesOf(labels_, labelBytes)));
    LOCKSTEP_ASSIGN(auto images,
                    readPieces(files_.images, piecesOf(images_, imageBytes()), progress));
    std::vector<StoredSample> out;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      StoredSample sample;
      sample.index = indices[i];
      sample.bytes = std::move(images[i]);
      const int label = idxLabel(labels[i].data(), labelBytes, 0);
      sample.label = std::to_string(label);
      if (label >= classes_) sample.problem = wrongLabel(indices[i], label);
      out.push_back(std::move(sample));
    }
    return out;
  }

  Status check(const Progress& progress) override {
    LOCKSTEP_ASSIGN(const FileFacts labels, inspectIdx(files_.labels, nullptr, progress));
    LOCKSTEP_TRY(checkSha256(files_.labels, files_.labelsSha256, labels.sha256));
    LOCKSTEP_ASSIGN(const FileFacts images,
                    inspectIdx(files_.images, nullptr, after(progress, labels_.info.bytes)));
    LOCKSTEP_TRY(checkSha256(files_.images, files_.imagesSha256, images.sha256));
    return checkIdx(files_, images, labels, sample_, classes_);
  }

 private:
  std::int64_t imageBytes() const { return elementCount(shape()); }
  Error wrongLabel(std::int64_t record, int label) const {
    FileFacts images, labels;
    images.dimensions = images_.header.dimensions;
    labels.dimensions = labels_.header.dimensions;
    labels.highest = label;
    labels.highestAt = record;
    return checkIdx(files_, images, labels, sample_, classes_).error();
  }

  const IdxFiles files_;
  const IdxPart images_, labels_;
  const Shape sample_;
  const int classes_;
  bool counted_ = false;
  std::map<int, std::int64_t> counts_;
};

class TextSamples final : public SampleReader {
 public:
  TextSamples(TextFile file, FileInfo info, std::string sha256)
      : file_(std::move(file)), info_(info), sha256_(std::move(sha256)) {}

  // The number of bytes is that of the file if it is plain.
  Status begin() { return info_.packed ? Status() : take(info_.bytes); }
  std::int64_t size() const override { return size_; }
  std::vector<std::string> files() const override { return {file_.path}; }
  Shape shape() const override { return {file_.tokens}; }
  const std::map<int, std::int64_t>& labels() const override { return none_; }

  Status count(const Progress& progress) override {
    if (size_ >= 0) return {};
    std::int64_t bytes = 0;
    const auto add = [&](std::string_view piece) -> Status {
      bytes += std::ssize(piece);
      return {};
    };
    LOCKSTEP_TRY(readContent(file_.path, false, add, progress).status());
    return take(bytes);
  }

  Result<std::vector<StoredSample>> read(std::span<const std::int64_t> wanted,
                                         const Progress& progress) override {
    // Where the part begins depends on the number of bytes, unless it is the beginning.
    if (size_ < 0) LOCKSTEP_TRY(count(progress));
    const auto indices = below(wanted, size_);
    std::vector<Piece> pieces;
    for (const std::int64_t index : indices)
      pieces.push_back({first_ + index * file_.tokens, file_.tokens});
    LOCKSTEP_ASSIGN(auto texts, readPieces(file_.path, pieces, progress));
    std::vector<StoredSample> out;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      StoredSample sample;
      sample.index = indices[i];
      sample.bytes = std::move(texts[i]);
      out.push_back(std::move(sample));
    }
    return out;
  }

  Status check(const Progress& progress) override {
    LOCKSTEP_ASSIGN(const FileFacts facts, inspectText(file_.path, progress));
    LOCKSTEP_TRY(checkSha256(file_.path, sha256_, facts.sha256));
    return checkText(file_, facts);
  }

 private:
  Status take(std::int64_t bytes) {
    FileFacts facts;
    facts.dimensions = {bytes};
    LOCKSTEP_TRY(checkText(file_, facts));
    first_ = placeOf(file_.from, bytes);
    size_ = (placeOf(file_.to, bytes) - first_ - 1) / file_.tokens;
    return {};
  }

  const TextFile file_;
  const FileInfo info_;
  const std::string sha256_;
  const std::map<int, std::int64_t> none_;
  std::int64_t size_ = -1, first_ = 0;
};

}  // namespace

Result<std::unique_ptr<SampleReader>> readIdxSamples(const IdxFiles& files, const Shape& sample,
                                                     int classes) {
  LOCKSTEP_ASSIGN(IdxPart images, beginIdx(files.images));
  LOCKSTEP_ASSIGN(IdxPart labels, beginIdx(files.labels));
  auto out =
      std::make_unique<IdxSamples>(files, std::move(images), std::move(labels), sample, classes);
  LOCKSTEP_TRY(out->checkHeaders());
  return std::unique_ptr<SampleReader>(std::move(out));
}

Result<std::unique_ptr<SampleReader>> readTextSamples(const TextFile& file,
                                                      const std::string& sha256) {
  LOCKSTEP_TRY(checkSampleSize(file.path, file.tokens));
  if (file.tokens < 1)
    return invalidArgument("a sample of {} tokens has nothing to read", file.tokens);
  LOCKSTEP_ASSIGN(const FileInfo info, inspectFile(file.path));
  auto out = std::make_unique<TextSamples>(file, info, sha256);
  LOCKSTEP_TRY(out->begin());
  return std::unique_ptr<SampleReader>(std::move(out));
}

}  // namespace lockstep::data
