#include "engine/specs/field.h"

#include <algorithm>
#include <limits>
#include <span>

#include "engine/base/suggest.h"

namespace lockstep::specs {
Error wrongField(std::string path, Message what, std::vector<Remedy> remedies) {
  Error error = invalidArgument("{}", what);
  error.field = std::move(path);
  return withRemedies(std::move(error), std::move(remedies));
}

Status checkRange(std::string_view path, std::int64_t value, std::int64_t lowest,
                  std::int64_t highest) {
  if (value >= lowest && value <= highest) return {};
  const std::int64_t near = std::clamp(value, lowest, highest);
  return wrongField(std::string(path),
                    message("{} is {}; expected {} to {}", path, value, lowest, highest),
                    {{{std::string(path), fmt::format("{}", near)}}});
}

Status checkNumber(std::string_view path, double value, double lowest, double below) {
  if (value >= lowest && value < below) return {};  // false for NaN
  const Message bound = below < std::numeric_limits<double>::max()
                            ? message("at least {} and less than {}", lowest, below)
                            : message("a finite number, at least {}", lowest);
  return wrongField(std::string(path), message("{} is {}; expected {}", path, value, bound),
                    {{{std::string(path), fmt::format("{}", lowest)}}});
}

Status checkKind(std::string_view path, std::string_view value,
                 std::span<const std::string_view> known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return {};
  const std::string near = nearest(value, known);
  return wrongField(std::string(path),
                    message("{} is \"{}\"; expected {}", path, value, expectedOneOf(value, known)),
                    {{{std::string(path), near.empty() ? std::string(known.front()) : near}}});
}

}  // namespace lockstep::specs
