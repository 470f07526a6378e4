#include "engine/data/content.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "engine/base/hash.h"
#include "engine/base/memory.h"
#include "engine/base/unique_fd.h"

namespace lockstep::data {
namespace {

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
    if (error.next.empty() || error.code == Code::kNotFound)
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
  LOCKSTEP_ASSIGN(const std::string head, readAt(path, file.fd.get(), 0, kPackedHead));
  LOCKSTEP_ASSIGN(const auto unpacker, makeUnpacker(packingOf(head), path, sink, piece.size()));
  Sha256 hash;
  for (std::int64_t done = 0;;) {
    const ssize_t count = read(file.fd.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, message("cannot read the data file {}", path));
    if (count == 0) break;
    const auto bytes = std::string_view(piece).substr(0, static_cast<std::size_t>(count));
    if (hashed) hash.update(bytes);
    LOCKSTEP_TRY(unpacker->add(bytes));
    LOCKSTEP_TRY(report(progress, done += count, file.bytes));
  }
  LOCKSTEP_TRY(unpacker->end());
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
  LOCKSTEP_ASSIGN(const std::string head, readAt(path, file.fd.get(), 0, kPackedHead));
  return FileInfo{file.bytes, packingOf(head) != Packing::kNone};
}

Result<std::vector<std::string>> readPieces(const std::string& path, std::span<const Piece> pieces,
                                            const Progress& progress) {
  std::vector<std::string> out;
  LOCKSTEP_ASSIGN(const FileInfo info, inspectFile(path));
  if (!info.packed) {
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
