// tf.train.Example records to CSV. Columns are the features that any record has, by name.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "app/tables/table_files.h"
#include "engine/base/tf_record.h"
#include "engine/base/utf8.h"
#include "engine/data/content.h"
#include "lockstep/data/v1/tf_example.pb.h"

namespace lockstep::app {
namespace {

using lockstep::data::v1::TfExample;
using lockstep::data::v1::TfFeature;

constexpr std::uint64_t kLongestRecord = std::uint64_t{256} << 20;
constexpr std::int64_t kMostColumns = 1'000'000;

template <typename T>
T numberAt(std::string_view bytes, std::size_t at) {
  T out{};
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

Error corrupt(const std::string& path, std::int64_t record, Message why) {
  return data::dataLoss(path, message("record {}: {}", record, why));
}

// Finds the records of a file as its bytes come in.
class RecordReader {
 public:
  using Take = std::function<Status(std::string_view record, std::int64_t number)>;
  RecordReader(const std::string& path, const Take& take) : path_(path), take_(take) {}

  Status add(std::string_view bytes) {
    rest_ += bytes;
    std::size_t at = 0;
    for (;;) {
      const std::string_view left = std::string_view(rest_).substr(at);
      if (left.size() < kTfRecordHeader) break;
      if (!isTfRecord(left)) return corrupt(path_, count_, "its length does not fit its checksum");
      const auto length = numberAt<std::uint64_t>(left, 0);
      if (length > kLongestRecord)
        return corrupt(path_, count_, message("it is longer than {} MiB", kLongestRecord >> 20));
      const std::size_t whole = kTfRecordHeader + length + kTfRecordTrailer;
      if (left.size() < whole) break;
      const std::string_view record = left.substr(kTfRecordHeader, length);
      if (maskedCrc32c(record) != numberAt<std::uint32_t>(left, kTfRecordHeader + length))
        return corrupt(path_, count_, "its content does not fit its checksum");
      LOCKSTEP_TRY(take_(record, count_++));
      at += whole;
    }
    rest_.erase(0, at);
    return {};
  }
  Status finish() const {
    return rest_.empty() ? Status() : corrupt(path_, count_, "the file ends within it");
  }

 private:
  const std::string& path_;
  const Take& take_;
  std::string rest_;
  std::int64_t count_ = 0;
};

// Calls `take` with each example of the files.
using TakeExample =
    std::function<Status(const TfExample&, const std::string& path, std::int64_t record)>;
Status eachExample(const std::vector<std::string>& files, const Progress& progress,
                   const TakeExample& take) {
  TfExample example;
  for (const std::string& path : files) {
    const RecordReader::Take parse = [&](std::string_view record, std::int64_t number) -> Status {
      const google::protobuf::LogSilencer silent;
      if (!example.ParseFromArray(record.data(), static_cast<int>(record.size())))
        return corrupt(path, number, "it is not a tf.train.Example");
      return take(example, path, number);
    };
    RecordReader reader(path, parse);
    const auto add = [&](std::string_view bytes) { return reader.add(bytes); };
    LOCKSTEP_TRY(data::readContent(path, false, add, progress).status());
    LOCKSTEP_TRY(reader.finish());
  }
  return {};
}

int lengthOf(const TfFeature& feature) {
  return feature.has_bytes_list()   ? feature.bytes_list().value_size()
         : feature.has_float_list() ? feature.float_list().value_size()
         : feature.has_int64_list() ? feature.int64_list().value_size()
                                    : 0;
}

std::string textCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n\t ") == std::string::npos && !text.empty()) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

std::string cell(const TfFeature& feature, int i) {
  if (feature.has_int64_list()) return fmt::format("{}", feature.int64_list().value(i));
  if (feature.has_bytes_list()) return textCell(feature.bytes_list().value(i));
  const float value = feature.float_list().value(i);
  return std::isnan(value) ? std::string() : fmt::format("{}", value);
}

// The columns: what all records have of a feature.
class Features {
 public:
  explicit Features(std::vector<std::string> wanted) : wanted_(std::move(wanted)) {}

  Status add(const TfExample& example, const std::string& path, std::int64_t record) {
    for (const auto& [name, feature] : example.features().feature()) {
      const int length = lengthOf(feature);
      if (length == 0 || (!wanted_.empty() && std::ranges::find(wanted_, name) == wanted_.end()))
        continue;
      const auto [known, fresh] = lengths_.emplace(name, length);
      if (known->second != length)
        return wrong(path, message("record {}: feature \"{}\" has {} values, and {} before", record,
                                   validUtf8(name), length, known->second));
      for (const std::string& text : feature.bytes_list().value())
        if (firstNotUtf8(text) != std::string_view::npos)
          return wrong(path,
                       message("record {}: feature \"{}\" is not a text", record, validUtf8(name)));
    }
    return {};
  }

  // Puts the columns in order.
  Status finish(const std::string& path) {
    std::vector<std::string> all;
    for (const auto& [name, length] : lengths_) all.push_back(validUtf8(name));
    for (const std::string& name : wanted_)
      if (!lengths_.contains(name))
        return wrong(path, message("no record has a feature \"{}\"", validUtf8(name)));
    if (lengths_.empty()) return wrong(path, "no record has a feature");
    std::int64_t columns = 0;
    for (const auto& [name, length] : lengths_) columns += length;
    if (columns > kMostColumns)
      return wrong(path, message("its features have {} values, each of which would be a column; at "
                                 "most {} are written",
                                 columns, kMostColumns));
    if (wanted_.empty()) wanted_ = std::move(all);
    return {};
  }

  std::vector<std::string> columns() const {
    std::vector<std::string> out;
    for (const std::string& name : wanted_) {
      const int length = lengths_.at(name);
      for (int i = 0; i < length; ++i)
        out.push_back(length == 1 ? name : fmt::format("{}.{}", name, i));
    }
    return out;
  }

  void addRow(const TfExample& example, std::string& out) const {
    const auto& features = example.features().feature();
    bool first = true;
    for (const std::string& name : wanted_) {
      const auto found = features.find(name);
      const bool there = found != features.end() && lengthOf(found->second) > 0;
      for (int i = 0; i < lengths_.at(name); ++i) {
        if (!std::exchange(first, false)) out += ',';
        if (there) out += cell(found->second, i);
      }
    }
    out += '\n';
  }

 private:
  static Error wrong(const std::string& path, Message why) {
    Error error = invalidArgument("data file {}", path);
    error.why = std::move(why);
    error.next = "name the columns to take: --columns a,b";
    return error;
  }

  std::vector<std::string> wanted_;
  std::map<std::string, int> lengths_;  // values by name
};

}  // namespace

bool isTfRecord(std::string_view head) {
  return head.size() >= kTfRecordHeader && maskedCrc32c(head.substr(0, sizeof(std::uint64_t))) ==
                                               numberAt<std::uint32_t>(head, sizeof(std::uint64_t));
}

Result<TableMade> tfExamplesToCsv(const std::vector<std::string>& files, const TableChoice& choice,
                                  const AppendText& append, const Progress& progress) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  Features features(choice.columns);
  LOCKSTEP_TRY(eachExample(
      files, progress, [&](const TfExample& example, const std::string& path, std::int64_t record) {
        return features.add(example, path, record);
      }));
  LOCKSTEP_TRY(features.finish(files.back()));
  TableMade out;
  out.columns = features.columns();
  std::string text;
  for (const std::string& column : out.columns)
    text += (text.empty() ? "" : ",") + textCell(column);
  text += '\n';
  LOCKSTEP_TRY(eachExample(
      files, progress, [&](const TfExample& example, const std::string&, std::int64_t) -> Status {
        features.addRow(example, text);
        ++out.rows;
        if (text.size() < kPiece) return {};
        LOCKSTEP_TRY(append(text));
        text.clear();
        return {};
      }));
  LOCKSTEP_TRY(append(text));
  return out;
}

}  // namespace lockstep::app
