#include "engine/data/click_log.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/random.h"

namespace lockstep::data {
namespace {

// One random stream per kind of number.
enum Stream : std::uint64_t {
  kLabel = 1,
  kNumber,
  kCategory,
  kMissing,
  kNumberWeight,
  kWeight,
  kPair
};

constexpr double kNumberScale = 0.15, kWeightScale = 0.3, kPairScale = 0.1, kBias = -1.2;
// maximum number of categories of a column with pair weights
constexpr std::int64_t kSmall = 100;

std::int64_t valuesOf(std::int64_t column) {
  return kClickLogValues[static_cast<std::size_t>(column) % std::size(kClickLogValues)];
}

struct Scored {
  double score = 0;
  bool one = false;
};
// The Mann–Whitney statistic; ties count ½.
double aucOf(std::vector<Scored> rows) {
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.score < b.score; });
  double zeros = 0, ones = 0, ordered = 0;
  for (std::size_t i = 0; i < rows.size();) {
    double tiedOnes = 0, tiedZeros = 0;
    const double score = rows[i].score;
    for (; i < rows.size() && rows[i].score == score; ++i)
      (rows[i].one ? tiedOnes : tiedZeros) += 1;
    ordered += tiedOnes * (zeros + 0.5 * tiedZeros);
    zeros += tiedZeros;
    ones += tiedOnes;
  }
  return ordered / (ones * zeros);
}

class ClickLogMapper {
 public:
  explicit ClickLogMapper(const ClickLog& log) : log_(log) {
    for (const std::int64_t values : kClickLogValues) {
      std::vector<double>& sums = cumulative_.emplace_back();
      double sum = 0;
      for (std::int64_t rank = 1; rank <= values; ++rank)
        sums.push_back(sum += std::pow(static_cast<double>(rank), -log.skew));
      for (double& value : sums) value /= sum;
    }
  }

  // Appends the row's line to `out`; returns its true score and its label.
  Scored add(std::int64_t row, std::string& out) const {
    const auto at = static_cast<std::uint64_t>(row);
    double z = kBias;
    std::string rest;
    for (std::int64_t i = 0; i < kClickLogNumbers; ++i) {
      const std::uint64_t element = at * kClickLogNumbers + static_cast<std::uint64_t>(i);
      if (randomUniform(key(kMissing), element) < 0.1) {
        rest += '\t';
        continue;
      }
      // Counts are log-normal.
      const double count = std::floor(std::exp(1.5 + 1.2 * randomNormal(key(kNumber), element)));
      const double weight = randomNormal(key(kNumberWeight), static_cast<std::uint64_t>(i));
      z += kNumberScale * weight * (std::log1p(count) - 1.7);
      rest += fmt::format("\t{}", static_cast<std::int64_t>(count));
    }
    std::int64_t before = -1;
    for (std::int64_t c = 0; c < kClickLogColumns; ++c) {
      const std::uint64_t element = at * kClickLogColumns + static_cast<std::uint64_t>(c);
      if (randomUniform(key(kMissing) + 1, element) < 0.02) {
        rest += '\t';
        before = -1;
        continue;
      }
      const std::int64_t value = draw(c, randomUniform(key(kCategory), element));
      const auto name = static_cast<std::uint64_t>(c) << 32 | static_cast<std::uint64_t>(value);
      z += kWeightScale * randomNormal(key(kWeight), name);
      const bool small = valuesOf(c) <= kSmall;
      if (small && before >= 0)
        z += kPairScale *
             randomNormal(randomKey(key(kPair), name), static_cast<std::uint64_t>(before));
      before = small ? value : -1;
      rest += fmt::format("\t{:08x}", static_cast<std::uint32_t>(randomKey(name, 0)));
    }
    const bool one = randomUniform(key(kLabel), at) < 1 / (1 + std::exp(-z));
    out += one ? '1' : '0';
    out += rest;
    out += '\n';
    return {z, one};
  }

 private:
  std::uint64_t key(Stream stream) const { return randomKey(log_.seed, stream); }
  // Samples a category: inverts the cumulative frequencies at u.
  std::int64_t draw(std::int64_t column, double u) const {
    const auto& sums = cumulative_[static_cast<std::size_t>(column) % cumulative_.size()];
    return std::min(std::lower_bound(sums.begin(), sums.end(), u) - sums.begin(),
                    std::ssize(sums) - 1);
  }

  const ClickLog log_;
  std::vector<std::vector<double>> cumulative_;  // by column kind
};

}  // namespace

Result<ClickLogFacts> writeClickLog(const ClickLog& log, const std::string& path,
                                    const Progress& progress) {
  if (log.rows < 1) return invalidArgument("{} rows do not make a table", log.rows);
  const ClickLogMapper mapper(log);
  std::vector<Scored> rows;
  rows.reserve(static_cast<std::size_t>(log.rows));
  ClickLogFacts facts;
  Sha256 hash;
  LOCKSTEP_TRY(writeFileAtomically(path, [&](const Append& append) -> Status {
    std::string text;
    for (std::int64_t row = 0; row < log.rows; ++row) {
      rows.push_back(mapper.add(row, text));
      facts.ones += rows.back().one ? 1 : 0;
      if (text.size() < (std::size_t{1} << 20) && row + 1 < log.rows) continue;
      hash.update(text);
      LOCKSTEP_TRY(append(text));
      if (progress && !progress(row + 1, log.rows))
        return makeError(Code::kCancelled, "making {} was cancelled", path);
      text.clear();
    }
    return {};
  }));
  facts.sha256 = hash.hex();
  facts.ones /= static_cast<double>(log.rows);
  const auto first = static_cast<std::ptrdiff_t>((1 - log.tail) * static_cast<double>(log.rows));
  facts.tailCeiling = aucOf({rows.begin() + first, rows.end()});
  facts.ceiling = aucOf(std::move(rows));
  return facts;
}

}  // namespace lockstep::data
