// IDX, the format of MNIST: two zero bytes, element type, number of dimensions, the dimensions as
// big-endian 32-bit numbers, the elements (Y. LeCun, C. Cortes, C. Burges, "The MNIST database").
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/data/content.h"
#include "engine/data/dataset.h"
#include "engine/data/decoded.h"
#include "engine/data/idx_header.h"

namespace lockstep::data {
namespace {

constexpr unsigned char kUnsignedByte = 0x08, kInt32 = 0x0c;  // types of elements

}  // namespace

Result<IdxHeader> parseHeader(const std::string& path, std::string_view head, std::uint64_t size,
                              bool whole) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(head[i]); };
  if (head.size() < 4) return dataLoss(path, "it is too short for an IDX header");
  const std::size_t rank = at(3);
  // Images with numbers of 4 bytes would be read as four times as many.
  if (at(0) != 0 || at(1) != 0 || rank == 0 ||
      !(at(2) == kUnsignedByte || (at(2) == kInt32 && rank == 1)))
    return dataLoss(
        path, message("it is neither an IDX file of bytes nor gzip or zstd of one: it begins with "
                      "{:02x}{:02x}{:02x}{:02x}, expected 0000{:02x} and the number of "
                      "dimensions, or 00000c01 of labels",
                      at(0), at(1), at(2), at(3), kUnsignedByte));
  IdxHeader header;
  header.elementBytes = at(2) == kInt32 ? 4 : 1;
  header.offset = 4 + 4 * rank;
  if (head.size() < header.offset) return dataLoss(path, "it is too short for an IDX header");
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t i = 4 + 4 * d;
    const std::uint64_t extent = std::uint64_t{at(i)} << 24 | std::uint64_t{at(i + 1)} << 16 |
                                 std::uint64_t{at(i + 2)} << 8 | at(i + 3);
    if (extent == 0) return dataLoss(path, message("dimension {} is 0", d));
    if (elements > kLargestContent / extent / static_cast<unsigned>(header.elementBytes)) {
      Error error = dataLoss(
          path, message("its header declares more than {} GiB of elements", kLargestContent >> 30));
      error.next = "split it or, if it is smaller, fetch it again";
      return error;
    }
    elements *= extent;
    header.dimensions.push_back(static_cast<std::int64_t>(extent));
  }
  if (whole && size - header.offset != header.bytes())
    return dataLoss(path, message("its header declares {} bytes of elements, {} follow",
                                  header.bytes(), size - header.offset));
  return header;
}

std::string idxHeader(const std::vector<std::int64_t>& dimensions, int elementBytes) {
  std::string out{'\0', '\0', static_cast<char>(elementBytes == 4 ? kInt32 : kUnsignedByte),
                  static_cast<char>(dimensions.size())};
  for (const std::int64_t extent : dimensions)
    for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(extent >> shift & 0xff);
  return out;
}

int idxLabel(const char* labels, int elementBytes, std::int64_t i) {
  std::uint32_t out = 0;
  for (int byte = 0; byte < elementBytes; ++byte)
    out = out << 8 | static_cast<unsigned char>(labels[i * elementBytes + byte]);
  return static_cast<int>(
      std::min<std::uint32_t>(out, static_cast<std::uint32_t>(std::numeric_limits<int>::max())));
}

namespace {

struct IdxArray {
  FileFacts facts;
  Bytes bytes;             // contains the elements
  std::size_t offset = 0;  // offset of the first element
  int elementBytes = 1;
  const char* elements() const { return bytes.view().data() + offset; }
};

// Rejects early what cannot be an IDX file, from its first bytes (`size` known so far), so that the
// rest is not read.
Status checkBegin(const std::string& path, std::string_view head, std::uint64_t size) {
  if (head.size() < kLongestHeader) return {};
  LOCKSTEP_ASSIGN(const IdxHeader header, parseHeader(path, head, 0, false));
  if (size - header.offset <= header.bytes()) return {};
  return dataLoss(path,
                  message("its header declares {} bytes of elements, more follow", header.bytes()));
}

// Returns the size that the header implies, which may be wrong, but no more than the file can hold;
// 0 if there is no valid header.
std::size_t likelySize(const std::string& path, std::string_view head) {
  constexpr std::uint64_t kHighestRatio = 1032;  // of deflate; beyond, it grows
  std::error_code failed;
  const std::uint64_t stored = std::filesystem::file_size(path, failed);
  const std::size_t most =
      failed ? 0
             : std::min(std::uint64_t{1} << 30, std::min(stored, kLargestContent) * kHighestRatio);
  const auto header = parseHeader(path, head, 0, false);
  return header.ok() ? std::min(most, header->offset + static_cast<std::size_t>(header->bytes()))
                     : 0;
}

// Finds the highest of labels that come in pieces, and its first position.
class HighestLabel {
 public:
  void add(std::string_view bytes, int elementBytes) {
    const auto whole = static_cast<std::size_t>(elementBytes);
    while (!begun_.empty() && !bytes.empty()) {
      begun_ += bytes[0];
      bytes.remove_prefix(1);
      if (begun_.size() < whole) continue;
      take(idxLabel(begun_.data(), elementBytes, 0));
      begun_.clear();
    }
    const auto count = static_cast<std::int64_t>(bytes.size() / whole);
    for (std::int64_t i = 0; i < count; ++i) take(idxLabel(bytes.data(), elementBytes, i));
    begun_ += bytes.substr(static_cast<std::size_t>(count) * whole);
  }
  void tell(FileFacts& facts) const {
    facts.highest = highest_;
    facts.highestAt = highestAt_;
  }

 private:
  void take(int label) {
    if (label > highest_) {
      highest_ = label;
      highestAt_ = count_;
    }
    ++count_;
  }

  std::string begun_;  // the beginning of a label
  std::int64_t count_ = 0, highestAt_ = 0;
  int highest_ = 0;
};

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
  array.elementBytes = header.elementBytes;
  if (array.facts.dimensions.size() == 1) {
    HighestLabel highest;
    highest.add(array.bytes.view().substr(header.offset), header.elementBytes);
    highest.tell(array.facts);
  }
  return array;
}

// Returns the elements from the cache, or else from the file.
Result<IdxArray> openArray(const std::string& path, const std::string& sha256,
                           const std::string& decoded) {
  if (decoded.empty()) return readIdx(path, sha256);
  auto opened = openDecoded(decoded, idxDecoding());
  if (opened.ok() && (sha256.empty() || sha256 == opened->facts.sha256)) {
    const std::int64_t count = elementCount(opened->facts.dimensions);
    return IdxArray{std::move(opened->facts), std::move(opened->bytes), 0,
                    static_cast<int>(opened->size / count)};
  }
  logInfo("the data file is read anew: {}",
          opened.ok() ? decoded + " is of another" : opened.error().text());
  return readIdx(path, sha256);
}

// Height, width and channels.
Shape imageShape(const FileFacts& images) {
  const auto& of = images.dimensions;
  return {of[1], of[2], of.size() == 4 ? of[3] : 1};
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxArray images, IdxArray labels)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        fields_{{"x", DType::kU8, imageShape(images_.facts)}},
        pixels_(static_cast<std::size_t>(fields_[0].bytes())),
        image_(images_.elements()) {
    if (labels_.facts.dimensions.empty()) return;
    fields_.push_back({"label", DType::kI32, {}});
    label_ = labels_.elements();
  }

  std::int64_t size() const override { return images_.facts.dimensions[0]; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size() && field < fields_.size(), "sample {} field {}",
                   index, field);
    if (field == 0) {
      std::memcpy(out, image_ + static_cast<std::size_t>(index) * pixels_, pixels_);
    } else {
      const std::int32_t label = idxLabel(label_, labels_.elementBytes, index);
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
  FileFacts facts;
  HighestLabel highest;
  DecodedFolder::Writer writer(keep, idxDecoding());
  std::string head;
  std::uint64_t size = 0;
  std::optional<IdxHeader> begun;  // a valid one, whose elements are being written
  const auto sink = [&](std::string_view piece) -> Status {
    head += piece.substr(0, kLongestHeader - head.size());
    if (head.size() > 3) {
      const std::uint64_t offset = 4 + 4 * std::uint64_t{static_cast<unsigned char>(head[3])};
      if (size < offset && size + piece.size() >= offset)
        if (auto header = parseHeader(path, head, 0, false); header.ok()) {
          writer.expect(static_cast<std::int64_t>(header->bytes()));
          begun = std::move(*header);
        }
      if (begun && size + piece.size() > offset) {
        const std::string_view elements = piece.substr(offset > size ? offset - size : 0);
        writer.add(elements);
        if (begun->dimensions.size() == 1) highest.add(elements, begun->elementBytes);
      }
    }
    size += piece.size();
    return checkBegin(path, head, size);
  };
  LOCKSTEP_ASSIGN(facts.sha256, readContent(path, true, sink, progress));
  LOCKSTEP_ASSIGN(IdxHeader header, parseHeader(path, head, size));
  facts.dimensions = std::move(header.dimensions);
  highest.tell(facts);
  writer.keep(facts);
  return facts;
}

Status checkIdx(const IdxFiles& files, const FileFacts& images, const FileFacts& labels,
                const Shape& sample, int classes) {
  const bool labelled = !files.labels.empty();
  const auto dimensions = [](const std::string& path, const Message& given, const FileFacts& facts,
                             std::size_t least, std::size_t most) -> Status {
    const std::size_t rank = facts.dimensions.size();
    if (least <= rank && rank <= most) return {};
    Error error = makeError(Code::kDataLoss, "data file {}", path);
    error.why = message("it holds {} elements and is used as {}, which have {} dimension(s)",
                        shapeText(facts.dimensions), given, least);
    error.next = "check that images and labels are not swapped";
    return error;
  };
  LOCKSTEP_TRY(dimensions(files.images, "images", images, 3, 4));
  if (labelled) LOCKSTEP_TRY(dimensions(files.labels, "labels", labels, 1, 1));
  if (labelled && images.dimensions[0] != labels.dimensions[0])
    return dataLoss(files.labels, message("{} labels for the {} images of {}", labels.dimensions[0],
                                          images.dimensions[0], files.images));
  const Shape held = imageShape(images);
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
