// Tokenised text: integers in files, read where they lie.
#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/base/hash.h"
#include "engine/data/content.h"
#include "engine/data/dataset.h"
#include "engine/data/range.h"
#include "engine/data/token_shards.h"

namespace lockstep::data {
namespace {

// Consecutive samples of `tokens` tokens each; labels are the following ones.
class Tokens final : public Dataset {
 public:
  Tokens(TokenShards shards, std::int64_t first, std::int64_t last, std::int64_t tokens)
      : shards_(std::move(shards)),
        first_(first),
        size_((last - first - 1) / tokens),
        tokens_(tokens),
        fields_{{"x", DType::kI32, {tokens}}, {"label", DType::kI32, {tokens}}} {}
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const std::span ids(reinterpret_cast<std::int32_t*>(out), static_cast<std::size_t>(tokens_));
    const Status status =
        shards_.read(first_ + index * tokens_ + static_cast<std::int64_t>(field), ids);
    if (status.ok()) return;
    std::ranges::fill(ids, 0);
    const std::lock_guard lock(mutex_);
    if (problem_.ok()) problem_ = status;
  }
  Status problem() const override {
    const std::lock_guard lock(mutex_);
    return problem_;
  }
  std::int64_t tableSamples() const override { return std::int64_t{1} << 20; }

 private:
  const TokenShards shards_;
  const std::int64_t first_, size_, tokens_;
  const std::vector<Field> fields_;
  mutable std::mutex mutex_;
  mutable Status problem_;
};

}  // namespace

Result<FileFacts> inspectTokens(const TokenFiles& files) {
  constexpr std::size_t kSample = 4096;
  constexpr std::int64_t kSamples = 64;  // over all files, besides the ends of each
  LOCKSTEP_ASSIGN(const TokenShards shards, TokenShards::open(files));
  Sha256 hash;
  for (const TokenShard& shard : shards.shards()) {
    LOCKSTEP_ASSIGN(const OpenFile file, openRegular(shard.path));
    hash.update(fmt::format("{} {} {}\n", file.bytes, shard.count, shard.bytesPerToken));
    const std::int64_t count = 2 + kSamples / std::ssize(shards.shards());
    const std::int64_t last = std::max<std::int64_t>(0, file.bytes - std::int64_t{kSample});
    for (std::int64_t i = 0; i < count; ++i) {
      LOCKSTEP_ASSIGN(const std::string sample,
                      readAt(shard.path, file.fd.get(), last * i / (count - 1), kSample));
      hash.update(sample);
    }
  }
  FileFacts facts;
  facts.sha256 = hash.hex();
  facts.dimensions = {shards.count()};
  return facts;
}

Status checkTokens(const TokenFiles& files, const FileFacts& facts) {
  const std::int64_t all = facts.dimensions.empty() ? 0 : facts.dimensions[0];
  const std::int64_t part = placeOf(files.to, all) - placeOf(files.from, all);
  if (part > files.tokens) return {};
  Error error = invalidArgument("the tokens in {} are too few", files.path);
  error.why = message("from {} to {} of them are {}; a sample takes {}", files.from, files.to,
                      std::max<std::int64_t>(part, 0), files.tokens + 1);
  error.next = "give more of them, or fewer tokens in model.input.shape";
  return error;
}

Result<std::unique_ptr<Dataset>> openTokens(const TokenFiles& files) {
  LOCKSTEP_ASSIGN(TokenShards shards, TokenShards::open(files));
  FileFacts facts;
  facts.dimensions = {shards.count()};
  LOCKSTEP_TRY(checkTokens(files, facts));
  const std::int64_t first = placeOf(files.from, shards.count());
  const std::int64_t last = placeOf(files.to, shards.count());
  return std::unique_ptr<Dataset>(
      std::make_unique<Tokens>(std::move(shards), first, last, files.tokens));
}

}  // namespace lockstep::data
