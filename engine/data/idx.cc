// IDX, the format of MNIST: two zero bytes, element type, number of dimensions, the dimensions as
// big-endian 32-bit numbers, the elements (Y. LeCun, C. Cortes, C. Burges, "The MNIST database").
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/data/content.h"
#include "engine/data/dataset.h"
#include "engine/data/decoded.h"
#include "engine/data/idx_header.h"

namespace lockstep::data {

Result<IdxHeader> parseHeader(const std::string& path, std::string_view head, std::uint64_t size,
                              bool whole) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(head[i]); };
  constexpr unsigned char kUnsignedByte = 0x08;
  if (head.size() < 4) return dataLoss(path, "it is too short for an IDX header");
  if (at(0) != 0 || at(1) != 0 || at(2) != kUnsignedByte || at(3) == 0)
    return dataLoss(path,
                    message("it is neither an IDX file of bytes nor gzip of one: it begins with "
                            "{:02x}{:02x}{:02x}{:02x}, expected 0000{:02x} and the number of "
                            "dimensions",
                            at(0), at(1), at(2), at(3), kUnsignedByte));
  const std::size_t rank = at(3);
  IdxHeader header;
  header.offset = 4 + 4 * rank;
  if (head.size() < header.offset) return dataLoss(path, "it is too short for an IDX header");
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t i = 4 + 4 * d;
    const std::uint64_t extent = std::uint64_t{at(i)} << 24 | std::uint64_t{at(i + 1)} << 16 |
                                 std::uint64_t{at(i + 2)} << 8 | at(i + 3);
    if (extent == 0) return dataLoss(path, message("dimension {} is 0", d));
    if (elements > kLargestContent / extent)
      return dataLoss(path, "its header declares more elements than a file can hold");
    elements *= extent;
    header.dimensions.push_back(static_cast<std::int64_t>(extent));
  }
  if (whole && size - header.offset != elements)
    return dataLoss(path, message("its header declares {} bytes of elements, {} follow", elements,
                                  size - header.offset));
  return header;
}

namespace {

struct IdxArray {
  FileFacts facts;
  Bytes bytes;             // contains the elements
  std::size_t offset = 0;  // offset of the first element
  std::string_view elements() const {
    return bytes.view().substr(offset, static_cast<std::size_t>(elementCount(facts.dimensions)));
  }
};

// Rejects early what cannot be an IDX file, from its first bytes (`size` known so far), so that the
// rest is not read.
Status checkBegin(const std::string& path, std::string_view head, std::uint64_t size) {
  if (head.size() < kLongestHeader) return {};
  LOCKSTEP_ASSIGN(const IdxHeader header, parseHeader(path, head, 0, false));
  const auto elements = static_cast<std::uint64_t>(elementCount(header.dimensions));
  if (size - header.offset <= elements) return {};
  return dataLoss(path, message("its header declares {} bytes of elements, more follow", elements));
}

// Returns the size that the header implies, which may be wrong, but no more than the file can hold;
// 0 if there is no valid header.
std::size_t likelySize(const std::string& path, std::string_view head) {
  constexpr std::uint64_t kHighestRatio = 1032;  // of deflate
  std::error_code failed;
  const std::uint64_t stored = std::filesystem::file_size(path, failed);
  const std::size_t most =
      failed ? 0
             : std::min(std::uint64_t{1} << 30, std::min(stored, kLargestContent) * kHighestRatio);
  const auto header = parseHeader(path, head, 0, false);
  return header.ok()
             ? std::min(most,
                        header->offset + static_cast<std::size_t>(elementCount(header->dimensions)))
             : 0;
}

// Updates the largest byte and its first position.
void findHighest(std::string_view bytes, std::int64_t place, FileFacts& facts) {
  const auto less = [](char a, char b) {
    return static_cast<unsigned char>(a) < static_cast<unsigned char>(b);
  };
  const auto found = std::max_element(bytes.begin(), bytes.end(), less);
  if (found == bytes.end()) return;
  const int value = static_cast<unsigned char>(*found);
  if (value <= facts.highest) return;
  facts.highest = value;
  facts.highestAt = place + (found - bytes.begin());
}

Result<IdxArray> readIdx(const std::string& path, const std::string& sha256) {
  IdxArray array;
  std::string bytes;
  const auto keep = [&](std::string_view piece) -> Status {
    if (bytes.empty()) bytes.reserve(likelySize(path, piece));
    bytes += piece;
    return checkBegin(path, bytes, bytes.size());
  };
  LOCKSTEP_ASSIGN(const std::string actual,
                  withMemoryFor(message("the data file {}", path), 0,
                                [&] { return readContent(path, !sha256.empty(), keep); }));
  LOCKSTEP_TRY(checkSha256(path, sha256, actual));
  LOCKSTEP_ASSIGN(IdxHeader header, parseHeader(path, bytes, bytes.size()));
  array.facts.dimensions = std::move(header.dimensions);
  array.bytes = Bytes(std::move(bytes));
  array.offset = header.offset;
  if (array.facts.dimensions.size() == 1) findHighest(array.elements(), 0, array.facts);
  return array;
}

// Returns the elements from the cache, or else from the file.
Result<IdxArray> openArray(const std::string& path, const std::string& sha256,
                           const std::string& decoded) {
  if (decoded.empty()) return readIdx(path, sha256);
  auto opened = openDecoded(decoded, idxDecoding());
  if (opened.ok() && (sha256.empty() || sha256 == opened->facts.sha256))
    return IdxArray{std::move(opened->facts), std::move(opened->bytes)};
  logInfo("the data file is read anew: {}",
          opened.ok() ? decoded + " is of another" : opened.error().text());
  return readIdx(path, sha256);
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxArray images, IdxArray labels)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        fields_{{"x", DType::kU8, {images_.facts.dimensions[1], images_.facts.dimensions[2], 1}}},
        pixels_(static_cast<std::size_t>(fields_[0].bytes())),
        image_(images_.elements().data()) {
    if (labels_.facts.dimensions.empty()) return;
    fields_.push_back({"label", DType::kI32, {}});
    label_ = labels_.elements().data();
  }

  std::int64_t size() const override { return images_.facts.dimensions[0]; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size() && field < fields_.size(), "sample {} field {}",
                   index, field);
    if (field == 0) {
      std::memcpy(out, image_ + static_cast<std::size_t>(index) * pixels_, pixels_);
    } else {
      const std::int32_t label = static_cast<unsigned char>(label_[index]);
      std::memcpy(out, &label, sizeof label);
    }
  }

 private:
  IdxArray images_;
  IdxArray labels_;
  std::vector<Field> fields_;
  std::size_t pixels_;
  const char *image_, *label_ = nullptr;  // the first elements
};

}  // namespace

Result<FileFacts> inspectIdx(const std::string& path, DecodedFolder* keep,
                             const Progress& progress) {
  FileFacts facts, later;  // of the elements in `head`, and of the rest
  DecodedFolder::Writer writer(keep, idxDecoding());
  std::string head;
  std::uint64_t size = 0;
  bool begun = false;  // whether elements of a valid header are being written
  const auto sink = [&](std::string_view piece) -> Status {
    const std::size_t part = std::min(piece.size(), kLongestHeader - head.size());
    head += piece.substr(0, part);
    const bool labels = head.size() > 3 && head[3] == 1;
    if (labels) findHighest(piece.substr(part), static_cast<std::int64_t>(size + part) - 8, later);
    if (head.size() > 3) {
      const std::uint64_t offset = 4 + 4 * std::uint64_t{static_cast<unsigned char>(head[3])};
      if (size < offset && size + piece.size() >= offset)
        if (const auto header = parseHeader(path, head, 0, false); header.ok()) {
          writer.expect(elementCount(header->dimensions));
          begun = true;
        }
      if (begun && size + piece.size() > offset)
        writer.add(piece.substr(offset > size ? offset - size : 0));
    }
    size += piece.size();
    return checkBegin(path, head, size);
  };
  LOCKSTEP_ASSIGN(facts.sha256, readContent(path, true, sink, progress));
  LOCKSTEP_ASSIGN(IdxHeader header, parseHeader(path, head, size));
  facts.dimensions = std::move(header.dimensions);
  if (facts.dimensions.size() == 1) {
    findHighest(std::string_view(head).substr(header.offset), 0, facts);
    if (later.highest > facts.highest) {
      facts.highest = later.highest;
      facts.highestAt = later.highestAt;
    }
  }
  writer.keep(facts);
  return facts;
}

Status checkIdx(const IdxFiles& files, const FileFacts& images, const FileFacts& labels,
                const Shape& sample, int classes) {
  const bool labelled = !files.labels.empty();
  const auto dimensions = [](const std::string& path, const Message& given, const FileFacts& facts,
                             std::size_t rank) -> Status {
    if (facts.dimensions.size() == rank) return {};
    Error error = makeError(Code::kDataLoss, "data file {}", path);
    error.why = message("it holds {} bytes and is used as {}, which have {} dimension(s)",
                        shapeText(facts.dimensions), given, rank);
    error.next = "check that images and labels are not swapped";
    return error;
  };
  LOCKSTEP_TRY(dimensions(files.images, "images", images, 3));
  if (labelled) LOCKSTEP_TRY(dimensions(files.labels, "labels", labels, 1));
  if (labelled && images.dimensions[0] != labels.dimensions[0])
    return dataLoss(files.labels, message("{} labels for the {} images of {}", labels.dimensions[0],
                                          images.dimensions[0], files.images));
  const Shape held = {images.dimensions[1], images.dimensions[2], 1};
  // A model without image input takes the pixels flattened.
  const bool fits = sample.size() == held.size()
                        ? sample == held
                        : sample.empty() || elementCount(sample) == elementCount(held);
  if (!fits) {
    Error error = invalidArgument("data file {}", files.images);
    error.why =
        message("its images are {}; the model takes {}", shapeText(held), shapeText(sample));
    error.next = "give images of that shape, or make it model.input.shape";
    return error;
  }
  if (labelled && labels.highest >= classes) {
    Error error = dataLoss(files.labels, message("record {} has label {}; expected 0 to {}",
                                                 labels.highestAt, labels.highest, classes - 1));
    error.next = "give the labels of these images, or correct model.classes";
    return error;
  }
  return {};
}

Result<std::unique_ptr<Dataset>> openIdx(const IdxFiles& files, int classes) {
  LOCKSTEP_ASSIGN(IdxArray images,
                  openArray(files.images, files.imagesSha256, files.decodedImages));
  IdxArray labels;
  if (!files.labels.empty()) {
    LOCKSTEP_ASSIGN(labels, openArray(files.labels, files.labelsSha256, files.decodedLabels));
  }
  LOCKSTEP_TRY(checkIdx(files, images.facts, labels.facts, {}, classes));
  return std::unique_ptr<Dataset>(new IdxDataset(std::move(images), std::move(labels)));
}

}  // namespace lockstep::data
