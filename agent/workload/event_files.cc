#include "agent/workload/event_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "engine/base/tf_record.h"
#include "engine/base/unique_fd.h"
#include "engine/base/utf8.h"
#include "lockstep/run/v1/tensorboard.pb.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using run::v1::Scalar;
using run::v1::TensorBoardTensor;

static_assert(std::endian::native == std::endian::little, "event files are little endian");

constexpr std::int64_t kHeader = kTfRecordHeader, kTrailer = kTfRecordTrailer;
constexpr std::uint64_t kMostData = std::uint64_t{64} << 20;
constexpr std::int64_t kReadAhead = 64 << 10;
constexpr std::size_t kMostTag = 1024;

template <typename T>
T numberAt(std::string_view bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

// IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
double halfOf(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double out = exponent == 0      ? std::ldexp(fraction, -24)
               : exponent != 0x1f ? std::ldexp(fraction + 1024, exponent - 25)
               : fraction == 0    ? HUGE_VAL
                                  : std::nan("");
  return (bits & 0x8000) != 0 ? -out : out;
}
double bfloat16Of(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The number in `content`, which holds it as a T, or else the only one in `values`.
template <typename T>
std::optional<double> only(
    const std::string& content, const auto& values,
    double (*toDouble)(T) = [](T value) { return static_cast<double>(value); }) {
  if (!content.empty())
    return content.size() == sizeof(T) ? std::optional(toDouble(numberAt<T>(content)))
                                       : std::nullopt;
  return values.size() == 1 ? std::optional(toDouble(static_cast<T>(values.Get(0)))) : std::nullopt;
}

// Nothing for a tensor of several elements, or of another type.
std::optional<double> numberOf(const TensorBoardTensor& tensor) {
  for (const auto& dim : tensor.tensor_shape().dim())
    if (dim.size() != 1) return {};
  const std::string& content = tensor.tensor_content();
  switch (tensor.dtype()) {  // DataType of types.proto
    case 1:
      return only<float>(content, tensor.float_val());
    case 2:
      return only<double>(content, tensor.double_val());
    case 3:
      return only<std::int32_t>(content, tensor.int_val());
    case 4:
      return only<std::uint8_t>(content, tensor.int_val());
    case 5:
      return only<std::int16_t>(content, tensor.int_val());
    case 6:
      return only<std::int8_t>(content, tensor.int_val());
    case 9:
      return only<std::int64_t>(content, tensor.int64_val());
    case 14:
      return only<std::uint16_t>(content, tensor.half_val(), bfloat16Of);
    case 17:
      return only<std::uint16_t>(content, tensor.int_val());
    case 19:
      return only<std::uint16_t>(content, tensor.half_val(), halfOf);
    case 22:
      return only<std::uint32_t>(content, tensor.uint32_val());
    case 23:
      return only<std::uint64_t>(content, tensor.uint64_val());
    default:
      return {};
  }
}

// Reads a file of which at least the first `size` bytes are there.
class Bytes {
 public:
  Bytes(int fd, std::int64_t size) : fd_(fd), size_(size) {}
  std::int64_t size() const { return size_; }

  // Returns the bytes, which are within the size; valid until the next call. Nothing if they cannot
  // be read: `errno` says why, and is 0 where the file became shorter.
  std::optional<std::string_view> at(std::int64_t offset, std::int64_t count) {
    if (offset < begin_ || offset + count > begin_ + static_cast<std::int64_t>(buffer_.size())) {
      begin_ = offset;
      buffer_.resize(
          static_cast<std::size_t>(std::min(std::max(count, kReadAhead), size_ - offset)));
      for (std::size_t done = 0; done < buffer_.size();) {
        const ssize_t got = ::pread(fd_, buffer_.data() + done, buffer_.size() - done,
                                    offset + static_cast<std::int64_t>(done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
          buffer_.clear();
          if (got == 0) errno = 0;
          return {};
        }
        done += static_cast<std::size_t>(got);
      }
    }
    return std::string_view(buffer_).substr(static_cast<std::size_t>(offset - begin_),
                                            static_cast<std::size_t>(count));
  }

 private:
  int fd_;
  std::int64_t size_, begin_ = 0;
  std::string buffer_;
};

struct File {
  std::string prefix;       // of its tags
  std::int64_t offset = 0;  // of the next record
  std::size_t taken = 0;    // values of that record which poll() has returned
  bool ended = false;       // not read any further
  bool reported = false;    // that it cannot be opened or read
};

}  // namespace

struct EventFiles::Impl {
  std::vector<std::string> folders;
  bool fromEnd = false;
  std::map<std::string, File> files;  // by path
  std::vector<Error> errors;

  void find(const std::string& given);
  void read(const std::string& path, File& file, std::size_t most, std::vector<Scalar>& out);
  bool readRecord(const std::string& path, File& file, Bytes& bytes, std::size_t most,
                  std::vector<Scalar>& out);
  bool addScalars(File& file, std::string_view data, std::size_t most, std::vector<Scalar>& out);

  // These return false: nothing more is read now.
  bool damaged(const std::string& path, File& file, Message why) {
    Error error = makeError(Code::kDataLoss, "the file {} is damaged", path);
    error.why = std::move(why);
    return end(file, std::move(error));
  }
  bool shorter(const std::string& path, File& file) {
    return end(file, makeError(Code::kDataLoss, "{} became shorter while it was read", path));
  }
  bool end(File& file, Error error) {
    file.ended = true;
    errors.push_back(std::move(error));
    return false;
  }
  bool unreadable(File& file, Error error) {
    if (!std::exchange(file.reported, true)) errors.push_back(std::move(error));
    return false;
  }
};

// Adds the files that are new. What cannot be listed is tried again at the next poll.
void EventFiles::Impl::find(const std::string& given) {
  std::error_code failed;
  const fs::path top = fs::canonical(given, failed);
  if (failed) return;
  std::vector<fs::path> left{top};
  while (!left.empty()) {
    const fs::path folder = std::move(left.back());
    left.pop_back();
    failed.clear();
    for (fs::directory_iterator entry(folder, failed), none; !failed && entry != none;
         entry.increment(failed)) {
      std::error_code unknown;
      if (entry->is_directory(unknown)) {
        if (!entry->is_symlink(unknown)) left.push_back(entry->path());
        continue;
      }
      if (entry->path().filename().native().find("tfevents") == std::string::npos ||
          !entry->is_regular_file(unknown))
        continue;
      const auto [file, isNew] = files.try_emplace(entry->path().native());
      if (!isNew) continue;
      if (folder != top)
        file->second.prefix = validUtf8(folder.lexically_relative(top).native()) + "/";
      if (fromEnd) {
        const auto size = entry->file_size(unknown);
        if (!unknown) file->second.offset = static_cast<std::int64_t>(size);
      }
    }
  }
}

void EventFiles::Impl::read(const std::string& path, File& file, std::size_t most,
                            std::vector<Scalar>& out) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    if (errno != ENOENT && errno != ENOTDIR)
      unreadable(file, systemError(errno, message("cannot open {}", path)));
    return;  // it may have been removed
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    unreadable(file, systemError(errno, message("cannot read {}", path)));
    return;
  }
  if (status.st_size < file.offset) {
    shorter(path, file);
    return;
  }
  Bytes bytes(fd.get(), status.st_size);
  while (out.size() < most && readRecord(path, file, bytes, most, out)) {
  }
}

// Returns whether the record was read to its end, so that the next one may be.
bool EventFiles::Impl::readRecord(const std::string& path, File& file, Bytes& bytes,
                                  std::size_t most, std::vector<Scalar>& out) {
  const auto unread = [&] {
    return errno == 0 ? shorter(path, file)
                      : unreadable(file, systemError(errno, message("cannot read {}", path)));
  };
  const std::int64_t left = bytes.size() - file.offset;
  if (left < kHeader) return false;
  const auto header = bytes.at(file.offset, kHeader);
  if (!header) return unread();
  const auto length = numberAt<std::uint64_t>(*header);
  if (numberAt<std::uint32_t>(header->substr(8)) != maskedCrc32c(header->substr(0, 8)) ||
      length > kMostData)
    return damaged(path, file, message("no record begins at byte {}", file.offset));
  const std::int64_t whole = kHeader + static_cast<std::int64_t>(length) + kTrailer;
  if (left < whole) return false;
  const auto record = bytes.at(file.offset, whole);
  if (!record) return unread();
  const std::string_view data = record->substr(kHeader, length);
  if (numberAt<std::uint32_t>(record->substr(kHeader + length)) != maskedCrc32c(data))
    return damaged(path, file, message("the record at byte {} has a wrong checksum", file.offset));
  if (!addScalars(file, data, most, out))
    return damaged(path, file, message("the record at byte {} is not an event", file.offset));
  if (file.taken > 0) return false;  // there are more values than `most`
  file.offset += whole;
  return true;
}

// Adds values of an event from file.taken on; taken is 0 afterwards if that were all. Returns
// whether it is an event; values before the wrong part of one that is not are added.
bool EventFiles::Impl::addScalars(File& file, std::string_view data, std::size_t most,
                                  std::vector<Scalar>& out) {
  run::v1::TensorBoardEvent event;
  if (!event.ParseFromArray(data.data(), static_cast<int>(data.size()))) return false;
  const auto& values = event.summary().value();
  run::v1::TensorBoardValue value;
  for (std::size_t i = file.taken; i < static_cast<std::size_t>(values.size()); ++i) {
    if (out.size() >= most) {
      file.taken = i;
      return true;
    }
    if (!value.ParseFromString(values.Get(static_cast<int>(i)))) return false;
    if (value.tag().empty() || value.tag().size() > kMostTag) continue;
    std::optional<double> number;
    if (value.has_simple_value())
      number = value.simple_value();
    else if (value.has_tensor())
      number = numberOf(value.tensor());
    if (!number) continue;
    Scalar& scalar = out.emplace_back();
    scalar.set_tag(file.prefix + validUtf8(value.tag()));
    scalar.set_step(std::max<std::int64_t>(event.step(), 0));
    scalar.set_value(*number);
  }
  file.taken = 0;
  return true;
}

EventFiles::EventFiles(std::vector<std::string> folders, bool fromEnd)
    : impl_(std::make_unique<Impl>()) {
  impl_->folders = std::move(folders);
  impl_->fromEnd = fromEnd;
}
EventFiles::~EventFiles() = default;

std::vector<Scalar> EventFiles::poll(std::size_t most) {
  for (const std::string& folder : impl_->folders) impl_->find(folder);
  impl_->fromEnd = false;  // files that appear from now on are the program's
  std::vector<Scalar> out;
  for (auto& [path, file] : impl_->files)
    if (!file.ended) impl_->read(path, file, most, out);
  return out;
}

std::vector<Error> EventFiles::takeErrors() { return std::exchange(impl_->errors, {}); }

}  // namespace lockstep::agent
