// Medians.
#pragma once

#include <vector>

namespace lockstep {

// Returns the value at index n/2 in order, the upper one of an even number; 0 if there is none.
double median(std::vector<double> values);
// Returns the lower one of an even number, so that of two values the larger is an outlier. Requires
// a value.
double lowerMedian(std::vector<double> values);

}  // namespace lockstep
