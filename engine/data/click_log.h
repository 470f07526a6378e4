// A synthetic click log in Criteo's format with a known best possible AUC.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/progress.h"
#include "engine/base/status.h"

namespace lockstep::data {

// A row has a label, 13 numbers and 26 categories. Column c has kClickLogValues[c mod 8] categories
// whose frequencies fall as 1/rank^skew (Zipf). The label is 1 with probability 1/(1 + e^−z), where
// z is the sum of a weight per category, a multiple of the logarithm of each number, and weights of
// pairs of categories of adjacent small columns. One number in ten and one category in fifty are
// missing. Everything is a function of the seed and the row.
inline constexpr std::int64_t kClickLogNumbers = 13, kClickLogColumns = 26;
inline constexpr std::int64_t kClickLogValues[] = {10, 30, 100, 300, 1000, 3000, 10000, 100000};
struct ClickLog {
  std::int64_t rows = 0;
  std::uint64_t seed = 1;
  double skew = 1.5;
  double tail = 0.1;  // the final part of the rows, whose ceiling is reported separately
};
struct ClickLogFacts {
  std::string sha256;
  double ones = 0;  // share of label 1
  // AUC of the true probabilities against the labels, of all rows and of the tail: the expected
  // maximum of any model. NaN where a label does not occur.
  double ceiling = 0, tailCeiling = 0;
};
// Writes the file atomically; tells `progress` of the rows.
Result<ClickLogFacts> writeClickLog(const ClickLog& log, const std::string& path,
                                    const Progress& progress = {});

}  // namespace lockstep::data
