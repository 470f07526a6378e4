#include "app/history/series_name.h"

#include <charconv>

namespace lockstep::app {
namespace {

// Removes the text before the first '/', and the '/', from `rest`. Returns the text; "" where
// `rest` has no such part.
std::string_view takePart(std::string_view& rest) {
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos || slash + 1 == rest.size()) return {};
  const std::string_view part = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  return part;
}

// Removes a number and the '/' after it from `rest`. Returns -1 where there is none; "012" is none.
int takeNumber(std::string_view& rest) {
  std::string_view after = rest;
  const std::string_view part = takePart(after);
  int number = -1;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (error != std::errc() || number < 0 || std::to_string(number) != part) return -1;
  rest = after;
  return number;
}

bool take(std::string_view& rest, std::string_view word) {
  if (!rest.starts_with(word)) return false;
  rest.remove_prefix(word.size());
  return true;
}

}  // namespace

SeriesName parseSeriesName(std::string_view series) {
  SeriesName out;
  std::string_view rest = series;
  if (take(rest, "rank/")) {
    out.rank = takeNumber(rest);
    out.figure = out.rank < 0 ? series : rest;
    return out;
  }
  if (take(rest, "node/")) out.node = takePart(rest);
  if (out.node.empty()) {
    out.figure = series;
    return out;
  }
  const std::string_view figure = rest;
  if (take(rest, "gpu/")) {
    out.gpu = takeNumber(rest);
    if (out.gpu < 0) rest = figure;
  } else if (take(rest, "to/")) {
    out.to = takePart(rest);
    if (out.to.empty()) rest = figure;
  }
  out.figure = rest;
  return out;
}

}  // namespace lockstep::app
