// A made-up click log in Criteo's format, of which the best possible AUC is known.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"

namespace lockstep::data {

// A row is a label, 13 numbers and 26 categories. Column c has kClickLogValues[c mod 8] categories
// whose frequencies fall as 1/rank^skew (Zipf). The label is 1 with probability 1/(1 + e^−z): z is
// the sum of a weight of each category, a multiple of the logarithm of each number, and weights of
// pairs of categories of neighbouring small columns. One number in ten, and one category in fifty,
// is missing. All of it is a function of the seed and the row.
inline constexpr std::int64_t kClickLogNumbers = 13, kClickLogColumns = 26;
inline constexpr std::int64_t kClickLogValues[] = {10, 30, 100, 300, 1000, 3000, 10000, 100000};
struct ClickLog {
  std::int64_t rows = 0;
  std::uint64_t seed = 1;
  double skew = 1.5;
  double tail = 0.1;  // the part at the end whose ceiling is told too
};
struct ClickLogFacts {
  std::string sha256;
  double ones = 0;  // share of label 1
  // AUC of the true probabilities against the labels, of all rows and of the tail: what no model
  // can exceed but by chance. Not a number where one of the labels is missing.
  double ceiling = 0, tailCeiling = 0;
};
// Written whole or not at all.
Result<ClickLogFacts> writeClickLog(const ClickLog& log, const std::string& path);

}  // namespace lockstep::data
