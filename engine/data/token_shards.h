// Files of tokens, read as one sequence. Internal to the data module.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "engine/data/dataset.h"

namespace lockstep::data {

struct TokenShard {
  std::string path;
  std::int64_t offset = 0;  // of the first token, in bytes
  std::int64_t first = 0;   // of its tokens in the whole sequence
  std::int64_t count = 0;
  int bytesPerToken = 0;
  UniqueFd file;  // open where there are few shards
};

// Threads: reading is const and may happen on several threads at once.
class TokenShards {
 public:
  // Errors: as openTokens(), but for the range.
  static Result<TokenShards> open(const TokenFiles& files);
  std::int64_t count() const;
  const std::vector<TokenShard>& shards() const { return shards_; }
  // Reads the tokens from `first` on. Errors: kDataLoss for a token that is not in the vocabulary,
  // with its place, or a file that has become shorter; those of reading.
  Status read(std::int64_t first, std::span<std::int32_t> out) const;

 private:
  Status readFrom(const TokenShard& shard, std::int64_t first, std::span<std::int32_t> out) const;

  std::vector<TokenShard> shards_;
  std::int64_t vocabulary_ = 0;
};

}  // namespace lockstep::data
