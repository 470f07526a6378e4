// Reads data files, plain, gzip or zstd, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/progress.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "engine/data/unpack.h"

namespace lockstep::data {

// A regular file: a FIFO could block for ever. Errors name the file: kNotFound;
// kFailedPrecondition for what is no regular file.
struct OpenFile {
  UniqueFd fd;
  std::int64_t bytes = 0;
};
Result<OpenFile> openRegular(const std::string& path);
// Reads up to `size` bytes of the open file from `offset` on; fewer at its end.
Result<std::string> readAt(const std::string& path, int fd, std::int64_t offset, std::size_t size);

// Streams the file's content to `sink`. Returns the SHA-256 of the file as stored (compressed or
// not) if `hashed`, else "". Errors: as openRegular(); kDataLoss. `progress` counts the bytes as
// stored.
Result<std::string> readContent(const std::string& path, bool hashed, const Sink& sink,
                                const Progress& progress = {});

// Streams the file's content to `take` until that returns false, or to its end. Errors as
// readContent(); what is wrong after the place where it stopped is not noticed.
using Take = std::function<Result<bool>(std::string_view bytes)>;
Status readBeginning(const std::string& path, const Take& take, const Progress& progress = {});

// What is known of a file before its content is read. Errors: as readContent().
struct FileInfo {
  std::int64_t bytes = 0;  // as stored
  bool packed = false;     // gzip or zstd
};
Result<FileInfo> inspectFile(const std::string& path);

// A range of a file's content, in bytes after decompression.
struct Piece {
  std::int64_t offset = 0, size = 0;
};
// Reads pieces of the content, which are in ascending order and do not overlap. A plain file is
// read there alone, a packed one from its beginning to the last piece. Errors: as readContent(),
// kDataLoss if the content ends before a piece does.
Result<std::vector<std::string>> readPieces(const std::string& path, std::span<const Piece> pieces,
                                            const Progress& progress = {});

struct Content {
  std::string bytes, sha256;
};
// Reads the whole content into memory.
Result<Content> readWholeContent(const std::string& path, bool hashed,
                                 const Progress& progress = {});

// Compares hexadecimal digests, ignoring case. Errors: kFailedPrecondition, with both, unless
// `expected` is empty.
Status checkSha256(const std::string& path, std::string expected, const std::string& actual);
// Makes a kDataLoss error about the file.
Error dataLoss(const std::string& path, Message why);

}  // namespace lockstep::data
