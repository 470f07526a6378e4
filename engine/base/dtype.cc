#include "engine/base/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace lockstep {
namespace {
struct DTypeRow {
  std::string_view name;
  std::size_t size;
  bool isFloat;
};
constexpr std::array<DTypeRow, 7> kDTypes = {{{"f32", 4, true},
                                              {"f64", 8, true},
                                              {"bf16", 2, true},
                                              {"f16", 2, true},
                                              {"i32", 4, false},
                                              {"i64", 8, false},
                                              {"u8", 1, false}}};
const DTypeRow& row(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }
}  // namespace

std::size_t sizeOf(DType dtype) { return row(dtype).size; }
std::string_view dtypeName(DType dtype) { return row(dtype).name; }
bool isFloat(DType dtype) { return row(dtype).isFloat; }

std::optional<DType> dtypeFromName(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::int64_t elementCount(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  return count;
}

std::string shapeText(const Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

}  // namespace lockstep
