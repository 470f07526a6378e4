#include "app/history/spans.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::app {

Span spanOf(std::span<const Point> points) {
  Span out{points.front().x, std::numeric_limits<double>::quiet_NaN(),
           std::numeric_limits<double>::quiet_NaN(), points.back().y};
  for (const Point& point : points) {
    out.low = std::fmin(out.low, point.y);  // fmin passes over NaN
    out.high = std::fmax(out.high, point.y);
  }
  return out;
}

std::vector<Span> spansOf(std::span<const Point> points, std::size_t each) {
  std::vector<Span> out;
  for (std::size_t i = 0; i < points.size(); i += each)
    out.push_back(spanOf(points.subspan(i, std::min(each, points.size() - i))));
  return out;
}

std::vector<Span> cutTo(const std::vector<Span>& spans, double from, double to) {
  const auto before = [](const Span& span, double x) { return span.x < x; };
  const auto after = [](double x, const Span& span) { return x < span.x; };
  auto first = std::lower_bound(spans.begin(), spans.end(), from, before);
  auto last = std::upper_bound(first, spans.end(), to, after);
  if (first != spans.begin()) --first;
  if (last != spans.end()) ++last;
  return {first, last};
}

std::vector<Span> mergedTo(const std::vector<Span>& spans, std::size_t most) {
  const std::size_t each = (spans.size() + most - 1) / most;
  std::vector<Span> out;
  for (std::size_t i = 0; i < spans.size(); i += each) {
    Span span = spans[i];
    for (std::size_t k = i + 1; k < std::min(i + each, spans.size()); ++k) {
      span.low = std::fmin(span.low, spans[k].low);
      span.high = std::fmax(span.high, spans[k].high);
      span.last = spans[k].last;
    }
    out.push_back(span);
  }
  return out;
}

}  // namespace lockstep::app
