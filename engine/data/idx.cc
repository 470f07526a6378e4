// IDX, the format of MNIST: 0, 0, element type, number of dimensions, the dimensions as big-endian
// 32-bit numbers, the elements (Y. LeCun, C. Cortes, C. Burges, "The MNIST database").
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/data/dataset.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kLimit = std::size_t{4} << 30;  // bytes of a file, compressed or not
constexpr unsigned char kUnsignedByte = 0x08;

struct IdxArray {
  std::vector<std::int64_t> dimensions;
  std::string bytes;        // header included
  std::size_t offset = 0;   // of the first element
  const unsigned char* elements() const {
    return reinterpret_cast<const unsigned char*>(bytes.data()) + offset;
  }
};

Error dataLoss(const std::string& path, std::string why) {
  Error error = makeError(Code::kDataLoss, "data file {}", path);
  error.why = std::move(why);
  error.next = "fetch the file again";
  return error;
}

struct Inflater {
  z_stream stream{};
  bool ready = inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK;
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
};

// All members of a gzip file, one after the other.
Result<std::string> gunzip(const std::string& path, const std::string& packed) {
  Inflater inflater;
  if (!inflater.ready) return makeError(Code::kResourceExhausted, "unpacking {}", path);
  z_stream& stream = inflater.stream;
  std::string out;
  std::vector<char> piece(std::size_t{1} << 18);
  std::size_t given = 0;
  for (;;) {
    if (stream.avail_in == 0) {
      const std::size_t part = std::min<std::size_t>(packed.size() - given, std::size_t{1} << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + given));
      stream.avail_in = static_cast<uInt>(part);
      given += part;
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    out.append(piece.data(), piece.size() - stream.avail_out);
    if (out.size() > kLimit)
      return makeError(Code::kResourceExhausted, "{} unpacks to more than {} bytes", path, kLimit);
    const bool exhausted = stream.avail_in == 0 && given == packed.size();
    if (code == Z_STREAM_END) {
      if (exhausted) return out;
      inflateReset(&stream);
    } else if (code == Z_BUF_ERROR || (code == Z_OK && exhausted && stream.avail_out != 0)) {
      return dataLoss(path, "the gzip stream is truncated");
    } else if (code != Z_OK) {
      return dataLoss(path, fmt::format("the gzip stream is corrupt ({})",
                                        stream.msg != nullptr ? stream.msg : "no reason given"));
    }
  }
}

Result<IdxArray> parseIdx(const std::string& path, std::string bytes, std::size_t rank) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (bytes.size() < 4) return dataLoss(path, "it is too short for an IDX header");
  if (at(0) != 0 || at(1) != 0 || at(2) != kUnsignedByte || at(3) != rank)
    return dataLoss(path, fmt::format("magic {:02x}{:02x}{:02x}{:02x}; expected 0000{:02x}{:02x}, an "
                                      "IDX file of bytes with {} dimension(s)",
                                      at(0), at(1), at(2), at(3), kUnsignedByte, rank, rank));
  IdxArray array;
  array.offset = 4 + 4 * rank;
  if (bytes.size() < array.offset) return dataLoss(path, "it is too short for an IDX header");
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t i = 4 + 4 * d;
    const std::uint64_t extent = std::uint64_t{at(i)} << 24 | std::uint64_t{at(i + 1)} << 16 |
                                 std::uint64_t{at(i + 2)} << 8 | at(i + 3);
    if (extent == 0) return dataLoss(path, fmt::format("dimension {} is 0", d));
    if (elements > kLimit / extent)
      return dataLoss(path, "its header promises more elements than a file can hold");
    elements *= extent;
    array.dimensions.push_back(static_cast<std::int64_t>(extent));
  }
  if (bytes.size() - array.offset != elements)
    return dataLoss(path, fmt::format("its header promises {} bytes of elements, {} follow", elements,
                                      bytes.size() - array.offset));
  array.bytes = std::move(bytes);
  return array;
}

Result<IdxArray> readIdx(const std::string& path, const std::string& sha256, std::size_t rank) {
  LOCKSTEP_ASSIGN(std::string bytes, readFile(path, kLimit));
  if (!sha256.empty()) {
    std::string expected = sha256;
    std::transform(expected.begin(), expected.end(), expected.begin(), [](char c) {
      return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (const std::string actual = sha256Hex(bytes); actual != expected) {
      Error error = makeError(Code::kFailedPrecondition, "data file {}", path);
      error.why = fmt::format("its sha256 is {}; expected {}", actual, expected);
      error.next = "put the right file there, or mend the hash in the spec";
      return error;
    }
  }
  if (bytes.starts_with("\x1f\x8b")) {
    LOCKSTEP_ASSIGN(bytes, gunzip(path, bytes));
  }
  return parseIdx(path, std::move(bytes), rank);
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxArray images, IdxArray labels)
      : images_(std::move(images)), labels_(std::move(labels)),
        fields_{{"x", DType::kU8, {images_.dimensions[1], images_.dimensions[2], 1}},
                {"label", DType::kI32, {}}},
        pixels_(static_cast<std::size_t>(fields_[0].bytes())) {}

  std::int64_t size() const override { return images_.dimensions[0]; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size() && field < 2, "sample {} field {}", index, field);
    if (field == 0) {
      std::memcpy(out, images_.elements() + static_cast<std::size_t>(index) * pixels_, pixels_);
    } else {
      const std::int32_t label = labels_.elements()[index];
      std::memcpy(out, &label, sizeof label);
    }
  }

 private:
  IdxArray images_;
  IdxArray labels_;
  std::vector<Field> fields_;
  std::size_t pixels_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> openIdx(const IdxFiles& files, int classes) {
  LOCKSTEP_ASSIGN(IdxArray images, readIdx(files.images, files.imagesSha256, 3));
  LOCKSTEP_ASSIGN(IdxArray labels, readIdx(files.labels, files.labelsSha256, 1));
  if (images.dimensions[0] != labels.dimensions[0])
    return dataLoss(files.labels, fmt::format("{} labels for the {} images of {}", labels.dimensions[0],
                                              images.dimensions[0], files.images));
  const unsigned char* label = labels.elements();
  for (std::int64_t i = 0; i < labels.dimensions[0]; ++i)
    if (label[i] >= classes)
      return dataLoss(files.labels, fmt::format("record {} has label {}; expected 0 to {}", i, label[i],
                                                classes - 1));
  return std::unique_ptr<Dataset>(new IdxDataset(std::move(images), std::move(labels)));
}

}  // namespace lockstep::data
