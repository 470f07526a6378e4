// Writes a NumPy file of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::data {

// Writes to a temporary file beside `path`, which finish() puts in its place and the destructor
// removes. Threads: one at a time.
class TokenWriter {
 public:
  // `bytesPerToken`: 2 or 4. Errors: those of the file system, here and below.
  static Result<TokenWriter> open(const std::string& path, int bytesPerToken);
  TokenWriter(TokenWriter&& other) noexcept = default;
  TokenWriter& operator=(TokenWriter&& other) noexcept = default;
  ~TokenWriter();

  Status add(std::span<const std::int32_t> tokens);
  Status finish();
  std::int64_t count() const { return count_; }

 private:
  TokenWriter() = default;
  Status write(std::int64_t offset, std::string_view bytes);

  std::string path_, temporary_;
  UniqueFd file_;
  int bytesPerToken_ = 0;
  std::int64_t count_ = 0, end_ = 0;
  std::string buffer_;
};

}  // namespace lockstep::data
