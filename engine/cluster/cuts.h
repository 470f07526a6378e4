// Partitions of an extent (samples of a batch, elements of a group) over ranks, as n + 1 cut-points
// for n ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::cluster {

// Returns cut-points of `extent` in `shares` parts, as even as possible, larger parts first: 64 in
// 3 is 0, 22, 43, 64.
std::vector<std::int64_t> evenCuts(std::int64_t extent, int shares);

// Returns cut-points in proportion to `shares`, which are above 0, rounded to the nearest integer.
std::vector<std::int64_t> cutsBy(std::int64_t extent, const std::vector<double>& shares);

// Returns the greatest divisor of `whole` up to `most`, at least 1.
int divisorUpTo(int whole, int most);

std::int64_t largestPart(const std::vector<std::int64_t>& cuts);

// Returns whether no part is empty.
bool leaveNoneEmpty(const std::vector<std::int64_t>& cuts);

}  // namespace lockstep::cluster
