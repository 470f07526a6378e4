// Checks of single fields. Errors name the field and have valid remedies.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::specs {

Error wrongField(std::string path, Message what, std::vector<Remedy> remedies = {});
// Checks that value is in [lowest, highest].
Status checkRange(std::string_view path, std::int64_t value, std::int64_t lowest,
                  std::int64_t highest);
// Checks that value is finite and lowest ≤ value < below.
Status checkNumber(std::string_view path, double value, double lowest, double below);
// Checks that `value` is one of `known`; the error suggests the nearest.
Status checkKind(std::string_view path, std::string_view value,
                 std::span<const std::string_view> known);
inline Status checkKind(std::string_view path, std::string_view value,
                        std::initializer_list<std::string_view> known) {
  return checkKind(path, value, std::span(known.begin(), known.size()));
}

}  // namespace lockstep::specs
