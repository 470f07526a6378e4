// Element types and static shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class DType : std::uint8_t { kF32, kF64, kBf16, kF16, kI32, kI64, kU8 };

std::size_t sizeOf(DType dtype);          // bytes of one element
std::string_view dtypeName(DType dtype);  // "f32"
std::optional<DType> dtypeFromName(std::string_view name);
bool isFloat(DType dtype);

using Shape = std::vector<std::int64_t>;  // row-major; an empty shape is a scalar
std::int64_t elementCount(const Shape& shape);
std::string shapeText(const Shape& shape);  // "64x784", "" for a scalar

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t bytes() const {
    return elementCount(shape) * static_cast<std::int64_t>(sizeOf(dtype));
  }
};

}  // namespace lockstep
