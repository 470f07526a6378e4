// Samples of token files, for display.
#include "engine/data/range.h"
#include "engine/data/samples.h"
#include "engine/data/token_shards.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::data {
namespace {

class TokenSamples final : public SampleReader {
 public:
  TokenSamples(TokenFiles files, TokenShards shards)
      : files_(std::move(files)),
        shards_(std::move(shards)),
        first_(placeOf(files_.from, shards_.count())) {}

  std::vector<std::string> files() const override {
    std::vector<std::string> out;
    for (const TokenShard& shard : shards_.shards()) out.push_back(shard.path);
    return out;
  }
  std::int64_t size() const override {
    return (placeOf(files_.to, shards_.count()) - first_ - 1) / files_.tokens;
  }
  Shape shape() const override { return {files_.tokens}; }
  Status count(const Progress&) override { return {}; }
  const std::map<int, std::int64_t>& labels() const override { return none_; }

  Result<std::vector<StoredSample>> read(std::span<const std::int64_t> indices,
                                         const Progress& progress) override {
    std::vector<StoredSample> out;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(files_.tokens));
    for (const std::int64_t index : indices) {
      if (index >= size()) break;
      StoredSample sample;
      sample.index = index;
      const Status status = shards_.read(first_ + index * files_.tokens, tokens);
      if (status.ok())
        sample.bytes = fmt::format("{}", fmt::join(tokens, " "));
      else
        sample.problem = status.error();
      out.push_back(std::move(sample));
      LOCKSTEP_TRY(report(progress, std::ssize(out), std::ssize(indices)));
    }
    return out;
  }

  Status check(const Progress& progress) override {
    constexpr std::int64_t kAtOnce = 1 << 18;
    std::vector<std::int32_t> tokens;
    for (std::int64_t at = 0; at < shards_.count(); at += kAtOnce) {
      tokens.resize(static_cast<std::size_t>(std::min(kAtOnce, shards_.count() - at)));
      LOCKSTEP_TRY(shards_.read(at, tokens));
      LOCKSTEP_TRY(report(progress, at, shards_.count()));
    }
    return {};
  }

 private:
  const TokenFiles files_;
  const TokenShards shards_;
  const std::int64_t first_;
  const std::map<int, std::int64_t> none_;
};

}  // namespace

Result<std::unique_ptr<SampleReader>> readTokenSamples(const TokenFiles& files) {
  constexpr std::int64_t kMostShown = 1 << 22;
  if (files.tokens < 1 || files.tokens > kMostShown)
    return invalidArgument("a sample of {} tokens cannot be shown", files.tokens);
  LOCKSTEP_ASSIGN(TokenShards shards, TokenShards::open(files));
  FileFacts facts;
  facts.dimensions = {shards.count()};
  LOCKSTEP_TRY(checkTokens(files, facts));
  return std::unique_ptr<SampleReader>(std::make_unique<TokenSamples>(files, std::move(shards)));
}

}  // namespace lockstep::data
