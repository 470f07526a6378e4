#include "engine/specs/field.h"

#include <algorithm>
#include <limits>
#include <span>

#include "engine/base/suggest.h"

namespace lockstep::specs {
namespace {

// "batch" of "training.batch".
std::string_view leaf(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

}  // namespace

Error wrongField(std::string path, std::string what) {
  Error error = invalidArgument("{}", what);
  error.why = std::move(path);
  return error;
}

Status checkRange(std::string_view path, std::int64_t value, std::int64_t lowest,
                  std::int64_t highest) {
  if (value >= lowest && value <= highest) return {};
  return wrongField(std::string(path),
                    fmt::format("{} is {}; expected {} to {}", leaf(path), value, lowest, highest));
}

Status checkNumber(std::string_view path, double value, double lowest, double below) {
  if (value >= lowest && value < below) return {};  // false for NaN
  const std::string bound = below < std::numeric_limits<double>::max()
                                ? fmt::format("at least {} and less than {}", lowest, below)
                                : fmt::format("a finite number, at least {}", lowest);
  return wrongField(std::string(path),
                    fmt::format("{} is {}; expected {}", leaf(path), value, bound));
}

Status checkKind(std::string_view path, std::string_view value,
                 std::span<const std::string_view> known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return {};
  return wrongField(std::string(path),
                    fmt::format("{} is \"{}\"; expected {}", leaf(path), value,
                                expectedOneOf(value, std::span(known.begin(), known.size()))));
}

}  // namespace lockstep::specs
