#include "app/tables/table_files.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "engine/base/file.h"
#include "engine/base/tf_record.h"
#include "engine/data/content.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

enum class Format { kParquet, kTfRecord };

Result<Format> formatOf(const std::string& path) {
  std::string head;
  LOCKSTEP_TRY(data::readBeginning(path, [&](std::string_view bytes) -> Result<bool> {
    head += bytes.substr(0, kTfRecordHeader - head.size());
    return head.size() < kTfRecordHeader;
  }));
  if (head.starts_with("PAR1")) return Format::kParquet;
  if (isTfRecord(head)) return Format::kTfRecord;
  Error error = data::dataLoss(path, "it is neither Parquet nor TFRecord");
  error.next = "give files of one of these formats; CSV is read as it is, with data.csv";
  return error;
}

Result<Format> formatOf(const std::vector<std::string>& files) {
  if (files.empty()) return invalidArgument("there is no file to read");
  LOCKSTEP_ASSIGN(const Format format, formatOf(files[0]));
  for (const std::string& file : files) {
    LOCKSTEP_ASSIGN(const Format other, formatOf(file));
    if (other != format)
      return invalidArgument("{} and {} are of different formats", files[0], file);
  }
  return format;
}

// A file beside `to` that takes its place when it is whole.
class PartFile {
 public:
  explicit PartFile(const std::string& to)
      : to_(to), path_(fmt::format("{}.part-{}", to, getpid())) {}
  ~PartFile() { ::unlink(path_.c_str()); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  const std::string& path() const { return path_; }
  Status keep() const {
    std::error_code failed;
    fs::rename(path_, to_, failed);
    return failed ? systemError(failed.value(), message("cannot write {}", to_)) : Status();
  }

 private:
  const std::string to_, path_;
};

}  // namespace

Result<TableMade> writeCsv(const std::vector<std::string>& files, const TableChoice& choice,
                           const std::string& to, const Progress& progress) {
  for (const std::string& file : files)
    if (std::error_code none; fs::equivalent(file, to, none))
      return invalidArgument("{} would be replaced by the table made of it", file);
  LOCKSTEP_ASSIGN(const Format format, formatOf(files));
  if (format == Format::kParquet) {
    const PartFile part(to);
    LOCKSTEP_ASSIGN(TableMade made, parquetToCsv(files, choice, part.path()));
    LOCKSTEP_TRY(part.keep());
    return made;
  }
  TableMade made;
  LOCKSTEP_TRY(writeFileAtomically(to, [&](const Append& append) -> Status {
    LOCKSTEP_ASSIGN(made, tfExamplesToCsv(files, choice, append, progress));
    return {};
  }));
  return made;
}

}  // namespace lockstep::app
