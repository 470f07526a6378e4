#include "engine/data/content.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "engine/base/hash.h"
#include "engine/base/memory.h"
#include "engine/base/unique_fd.h"

namespace lockstep::data {
namespace {

// Decompresses a file piece by piece: plain, or all members of gzip.
class Unpacker {
 public:
  // `largest`: of the pieces that the sink receives.
  Unpacker(const std::string& path, const Sink& sink, std::size_t largest)
      : path_(path), sink_(sink), largest_(largest) {}
  ~Unpacker() {
    if (gzip_) inflateEnd(&stream_);
  }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  // Adds the next bytes of the file; the first ones determine the format.
  Status add(std::string_view packed) {
    if (!begun_) {
      begun_ = true;
      gzip_ = packed.starts_with("\x1f\x8b");
      if (gzip_ && inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) {
        gzip_ = false;
        return makeError(Code::kResourceExhausted, "unpacking {}", path_);
      }
      if (gzip_) piece_.resize(largest_);
    }
    if (!gzip_) return take(packed);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    for (;;) {
      if (ended_) {
        if (stream_.avail_in == 0) return {};
        inflateReset(&stream_);
        ended_ = false;
      }
      stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
      stream_.avail_out = static_cast<uInt>(piece_.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      LOCKSTEP_TRY(take(std::string_view(piece_).substr(0, piece_.size() - stream_.avail_out)));
      ended_ = code == Z_STREAM_END;
      if (ended_) continue;
      if (code == Z_BUF_ERROR || (code == Z_OK && stream_.avail_in == 0 && stream_.avail_out != 0))
        return {};  // needs more input
      if (code != Z_OK)
        return dataLoss(path_, message("the gzip stream is corrupt ({})",
                                       stream_.msg != nullptr ? stream_.msg : "no reason given"));
    }
  }
  Status end() const {
    if (gzip_ && !ended_) return dataLoss(path_, "the gzip stream is truncated");
    return {};
  }

 private:
  Status take(std::string_view bytes) {
    size_ += bytes.size();
    if (size_ > kLargestContent) {
      Error error = makeError(Code::kResourceExhausted, "the data file {} is too large", path_);
      error.why = gzip_ ? message("it unpacks to more than {} GiB", kLargestContent >> 30)
                        : message("it holds more than {} GiB", kLargestContent >> 30);
      error.next = "split it";
      return error;
    }
    return sink_(bytes);
  }
  const std::string& path_;
  const Sink& sink_;
  const std::size_t largest_;
  std::string piece_;  // of what gzip unpacks to
  z_stream stream_{};
  std::size_t size_ = 0;
  bool begun_ = false, gzip_ = false;
  bool ended_ = false;  // a member has ended and no other has begun
};

// How much of a file of that size is read at once: a small one needs no large buffer.
std::size_t pieceOf(std::int64_t bytes) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(bytes, 1 << 12, 1 << 18));
}

Message isOfKind(mode_t mode) {
  return S_ISFIFO(mode)   ? message("it is a FIFO")
         : S_ISSOCK(mode) ? message("it is a socket")
         : S_ISDIR(mode)  ? message("it is a folder")
                          : message("it is a device");
}

}  // namespace

Error dataLoss(const std::string& path, Message why) {
  Error error = makeError(Code::kDataLoss, "data file {}", path);
  error.why = std::move(why);
  error.next = "fetch the file again";
  return error;
}

Status checkSha256(const std::string& path, std::string expected, const std::string& actual) {
  std::transform(expected.begin(), expected.end(), expected.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (expected.empty() || expected == actual) return {};
  Error error = makeError(Code::kFailedPrecondition, "data file {}", path);
  error.why = message("its sha256 is {}; expected {}", actual, expected);
  error.next = "put the right file there, or correct the hash in the spec";
  return error;
}

Result<OpenFile> openRegular(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    Error error = systemError(errno, message("cannot open the data file {}", path));
    error.next = "correct the path, or put the file there";
    return error;
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    Error error =
        makeError(Code::kFailedPrecondition, "the data file {} is not a regular file", path);
    error.why = isOfKind(info.st_mode);
    error.next = "write its output to a file, and name that file in the run";
    return error;
  }
  return OpenFile{std::move(file), info.st_size};
}

Result<std::string> readAt(const std::string& path, int fd, std::int64_t offset, std::size_t size) {
  std::string out(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, out.data() + done, size - done,
                                static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, message("cannot read the data file {}", path));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  out.resize(done);
  return out;
}

namespace {

Error endsEarly(const std::string& path, std::int64_t end, std::int64_t wanted) {
  return dataLoss(path, message("it ends after {} bytes, and a sample ends at {}", end, wanted));
}

}  // namespace

Result<std::string> readContent(const std::string& path, bool hashed, const Sink& sink,
                                const Progress& progress) {
  LOCKSTEP_ASSIGN(const OpenFile file, openRegular(path));
  std::string piece(pieceOf(file.bytes), '\0');
  Unpacker unpacker(path, sink, piece.size());
  Sha256 hash;
  for (std::int64_t done = 0;;) {
    const ssize_t count = read(file.fd.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, message("cannot read the data file {}", path));
    if (count == 0) break;
    const auto bytes = std::string_view(piece).substr(0, static_cast<std::size_t>(count));
    if (hashed) hash.update(bytes);
    LOCKSTEP_TRY(unpacker.add(bytes));
    LOCKSTEP_TRY(report(progress, done += count, file.bytes));
  }
  LOCKSTEP_TRY(unpacker.end());
  return hashed ? hash.hex() : std::string();
}

Status readBeginning(const std::string& path, const Take& take, const Progress& progress) {
  bool enough = false;
  const auto sink = [&](std::string_view bytes) -> Status {
    LOCKSTEP_ASSIGN(const bool more, take(bytes));
    if (more) return {};
    enough = true;
    return Error();  // ends the reading
  };
  const Status status = readContent(path, false, sink, progress).status();
  return enough ? Status() : status;
}

Result<FileInfo> inspectFile(const std::string& path) {
  LOCKSTEP_ASSIGN(const OpenFile file, openRegular(path));
  LOCKSTEP_ASSIGN(const std::string head, readAt(path, file.fd.get(), 0, 2));
  return FileInfo{file.bytes, head.starts_with("\x1f\x8b")};
}

Result<std::vector<std::string>> readPieces(const std::string& path, std::span<const Piece> pieces,
                                            const Progress& progress) {
  std::vector<std::string> out;
  LOCKSTEP_ASSIGN(const FileInfo info, inspectFile(path));
  if (!info.gzip) {
    LOCKSTEP_ASSIGN(const OpenFile file, openRegular(path));
    for (const Piece& piece : pieces) {
      LOCKSTEP_ASSIGN(std::string bytes, readAt(path, file.fd.get(), piece.offset,
                                                static_cast<std::size_t>(piece.size)));
      if (std::ssize(bytes) < piece.size)
        return endsEarly(path, info.bytes, piece.offset + piece.size);
      out.push_back(std::move(bytes));
      LOCKSTEP_TRY(report(progress, std::ssize(out), std::ssize(pieces)));
    }
    return out;
  }
  if (pieces.empty()) return out;
  std::int64_t at = 0;  // in the content
  const auto take = [&](std::string_view bytes) -> Result<bool> {
    const std::int64_t end = at + std::ssize(bytes);
    while (out.size() <= pieces.size()) {
      const Piece& piece = pieces[out.empty() ? 0 : out.size() - 1];
      if (out.empty()) out.emplace_back();
      const std::int64_t from = piece.offset + std::ssize(out.back());
      const std::int64_t to = std::min(end, piece.offset + piece.size);
      if (from < to)
        out.back() +=
            bytes.substr(static_cast<std::size_t>(from - at), static_cast<std::size_t>(to - from));
      if (std::ssize(out.back()) < piece.size) break;  // the rest comes later
      if (out.size() == pieces.size()) return false;
      out.emplace_back();
    }
    at = end;
    return true;
  };
  LOCKSTEP_TRY(readBeginning(path, take, progress));
  const Piece& last = pieces.back();
  if (out.size() < pieces.size() || std::ssize(out.back()) < last.size)
    return endsEarly(path, at, last.offset + last.size);
  return out;
}

Result<Content> readWholeContent(const std::string& path, bool hashed, const Progress& progress) {
  Content out;
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  LOCKSTEP_ASSIGN(out.sha256, withMemoryFor(message("the data file {}", path),
                                            none ? 0 : static_cast<std::int64_t>(size), [&] {
                                              if (!none && size <= kLargestContent)
                                                out.bytes.reserve(size);
                                              return readContent(
                                                  path, hashed,
                                                  [&](std::string_view piece) -> Status {
                                                    out.bytes += piece;
                                                    return {};
                                                  },
                                                  progress);
                                            }));
  return out;
}

}  // namespace lockstep::data
