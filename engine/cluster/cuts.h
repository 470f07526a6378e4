// How an extent (samples of a batch, elements of a group) is divided over ranks: n ranks have n + 1
// cut-points.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::cluster {

// Cut-points of `extent` over `shares`, as even as possible, larger shares first: 64 over 3 is
// 0, 22, 43, 64.
std::vector<std::int64_t> evenCuts(std::int64_t extent, int shares);

// In proportion to `shares`, which are above 0, each cut rounded to the nearest sample.
std::vector<std::int64_t> cutsBy(std::int64_t extent, const std::vector<double>& shares);

// The greatest divisor of `whole` that is at most `most`, 1 at least.
int divisorUpTo(int whole, int most);

// Whether every rank has something.
bool leaveNoneEmpty(const std::vector<std::int64_t>& cuts);

}  // namespace lockstep::cluster
