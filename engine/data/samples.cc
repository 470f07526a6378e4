#include "engine/data/samples.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <string_view>

#include "engine/data/content.h"
#include "engine/data/idx_header.h"
#include "engine/data/range.h"
#include "engine/data/table_rows.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kLargestSample = std::int64_t{16} << 20;  // bytes of an image or a text
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::int64_t kIndexEvery = std::int64_t{1} << 20;  // bytes of a table between marks
constexpr std::size_t kLabelsKept = std::size_t{1} << 24;    // labels of a table, a byte each
constexpr int kOtherLabel = 255;

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
  LOCKSTEP_ASSIGN(out.header, parseHeader(path, head, size, !out.info.gzip));
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
  Status begin() { return info_.gzip ? Status() : take(info_.bytes); }
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

// Finds the lines of a table as its bytes come in.
class LineSplitter {
 public:
  // Receives each line, without its end; returns whether it wants more.
  using Line = std::function<bool(std::int64_t offset, std::string_view line)>;
  LineSplitter(const std::string& path, std::int64_t offset, Line line)
      : path_(path), at_(offset), line_(std::move(line)) {}

  Result<bool> add(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      if (rest_.size() + part.size() > kLongestLine) return tooLong();
      if (end == std::string_view::npos) {
        rest_ += part;
        return true;
      }
      bool more = false;
      if (rest_.empty()) {
        more = emit(part);
      } else {
        rest_ += part;
        more = emit(rest_);
        rest_.clear();
      }
      if (!more) return false;
      bytes.remove_prefix(end + 1);
    }
    return true;
  }
  // The last line may lack its end.
  void finish() {
    if (!rest_.empty()) emit(rest_);
    rest_.clear();
  }

 private:
  bool emit(std::string_view line) {
    const std::int64_t offset = at_;
    at_ += std::ssize(line) + 1;
    ++lines_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line_(offset, line);
  }
  Error tooLong() const {
    Error error =
        dataLoss(path_, message("line {} is longer than {} bytes", lines_ + 1, kLongestLine));
    error.next = "give a table: a row a line";
    return error;
  }

  const std::string& path_;
  std::int64_t at_, lines_ = 0;
  Line line_;
  std::string rest_;
};

class TableSamples final : public SampleReader {
 public:
  TableSamples(TableFile file, FileInfo info, std::string sha256)
      : file_(std::move(file)), info_(info), sha256_(std::move(sha256)) {}

  std::int64_t size() const override { return size_; }
  std::vector<std::string> files() const override { return {file_.path}; }
  Shape shape() const override { return {file_.numbers, file_.columns}; }
  const std::map<int, std::int64_t>& labels() const override { return counts_; }

  Status count(const Progress& progress) override {
    if (size_ >= 0) return {};
    std::vector<std::uint8_t> labels;
    std::vector<Mark> marks;
    std::int64_t rows = 0;
    LineSplitter lines(file_.path, 0, [&](std::int64_t offset, std::string_view line) {
      if (rows == 0) separator_ = tableSeparator(line);
      if (marks.empty() || offset - marks.back().offset >= kIndexEvery)
        marks.push_back({rows, offset});
      if (labels.size() < kLabelsKept) labels.push_back(labelOf(line));
      ++rows;
      return true;
    });
    LOCKSTEP_TRY(readBeginning(
        file_.path, [&](std::string_view bytes) { return lines.add(bytes); }, progress));
    lines.finish();
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
    const auto indices = size_ < 0 ? wanted : below(wanted, size_);
    std::vector<StoredSample> out;
    if (size_ >= 0 && !info_.gzip) {
      LOCKSTEP_TRY(readMarked(indices, progress, out));
    } else {
      Wanted rows{*this, indices, out, 0};
      LineSplitter lines(file_.path, 0,
                         [&](std::int64_t, std::string_view line) { return rows.take(line); });
      if (!indices.empty())
        LOCKSTEP_TRY(readBeginning(
            file_.path, [&](std::string_view bytes) { return lines.add(bytes); }, progress));
      if (out.size() < indices.size()) lines.finish();
    }
    return out;
  }

  Status check(const Progress& progress) override {
    LOCKSTEP_ASSIGN(const FileFacts facts, inspectTable(file_, nullptr, progress));
    LOCKSTEP_TRY(checkSha256(file_.path, sha256_, facts.sha256));
    return checkTable(file_, facts);
  }

 private:
  struct Mark {
    std::int64_t row = 0, offset = 0;
  };

  // Takes the lines from row `row` on, and keeps those that are wanted.
  struct Wanted {
    TableSamples& table;
    std::span<const std::int64_t> indices;
    std::vector<StoredSample>& out;
    std::int64_t row;
    bool take(std::string_view line) {
      if (row == 0) table.separator_ = tableSeparator(line);
      if (out.size() < indices.size() && row == table.first_ + indices[out.size()])
        out.push_back(table.sampleOf(indices[out.size()], line));
      ++row;
      return out.size() < indices.size();
    }
  };

  // Reads a plain file from the mark before each wanted row.
  Status readMarked(std::span<const std::int64_t> indices, const Progress& progress,
                    std::vector<StoredSample>& out) {
    while (out.size() < indices.size()) {
      const std::int64_t row = first_ + indices[out.size()];
      const auto next =
          std::upper_bound(marks_.begin(), marks_.end(), row,
                           [](std::int64_t wanted, const Mark& mark) { return wanted < mark.row; });
      const Mark from = *(next - 1);
      const std::int64_t end = next == marks_.end() ? info_.bytes : next->offset;
      const Piece piece{from.offset, end - from.offset};
      LOCKSTEP_ASSIGN(const auto bytes, readPieces(file_.path, {&piece, 1}));
      Wanted rows{*this, indices, out, from.row};
      LineSplitter lines(file_.path, from.offset,
                         [&](std::int64_t, std::string_view line) { return rows.take(line); });
      const std::size_t before = out.size();
      LOCKSTEP_ASSIGN(const bool more, lines.add(bytes[0]));
      if (more) lines.finish();
      if (out.size() == before) return dataLoss(file_.path, "it has changed while it was read");
      LOCKSTEP_TRY(report(progress, std::ssize(out), std::ssize(indices)));
    }
    return {};
  }

  StoredSample sampleOf(std::int64_t index, std::string_view line) const {
    StoredSample sample;
    sample.index = index;
    const Status row = checkTableRow(file_, line, separator_, first_ + index + 1);
    if (!row.ok()) sample.problem = row.error();
    const auto most = static_cast<std::size_t>(1 + file_.numbers + file_.columns);
    for (std::size_t cell = 0; cell <= most; ++cell) {  // one more, of a row with too many
      const std::size_t end = line.find(separator_);
      (cell == 0 ? sample.label : sample.cells.emplace_back()) = line.substr(0, end);
      if (end == std::string_view::npos) break;
      line.remove_prefix(end + 1);
    }
    return sample;
  }

  // A label below 255; kOtherLabel for anything else.
  static std::uint8_t labelOf(std::string_view line) {
    const std::string_view text = line.substr(0, line.find_first_of("\t,"));
    int label = 0;
    const auto [at, wrong] = std::from_chars(text.data(), text.data() + text.size(), label);
    const bool whole = wrong == std::errc() && at == text.data() + text.size();
    return static_cast<std::uint8_t>(whole && label >= 0 && label < kOtherLabel ? label
                                                                                : kOtherLabel);
  }

  const TableFile file_;
  const FileInfo info_;
  const std::string sha256_;
  char separator_ = '\t';
  std::vector<Mark> marks_;
  std::map<int, std::int64_t> counts_;
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

Result<std::unique_ptr<SampleReader>> readTableSamples(const TableFile& file,
                                                       const std::string& sha256) {
  LOCKSTEP_TRY(checkTableShape(file));
  LOCKSTEP_ASSIGN(const FileInfo info, inspectFile(file.path));
  if (info.bytes == 0) {
    FileFacts none;
    none.dimensions = {0};
    LOCKSTEP_TRY(checkTable(file, none));
  }
  return std::unique_ptr<SampleReader>(std::make_unique<TableSamples>(file, info, sha256));
}

}  // namespace lockstep::data
