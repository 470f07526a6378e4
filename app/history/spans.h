// Sums up points of a curve as spans. x increases in all arguments and results.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "app/history/run_data.h"

namespace lockstep::app {

Span spanOf(std::span<const Point> points);  // at least one; NaN counts only as `last`
// A span for every `each` points; the last may have fewer.
std::vector<Span> spansOf(std::span<const Point> points, std::size_t each);
// The spans in [from, to] and a neighbour on either side.
std::vector<Span> cutTo(const std::vector<Span>& spans, double from, double to);
// For very long runs: merges neighbours until `most` are left.
std::vector<Span> mergedTo(const std::vector<Span>& spans, std::size_t most);

}  // namespace lockstep::app
