#include "engine/backends/case_tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/random.h"

namespace lockstep::backends {
namespace {

constexpr double kFence = 12345.0;

// Rounds to 8 significant bits, ties to even.
std::uint16_t bf16Bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return 0x7fc0;
  if (std::isinf(x)) return static_cast<std::uint16_t>(bits >> 16);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  // saturates at the largest finite number
  return static_cast<std::uint16_t>((rounded & 0x7f80) == 0x7f80 ? rounded - 1 : rounded);
}
float ofBf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
// Rounds to 11 significant bits with exponents from −14 to 15; overflow is infinite.
std::uint16_t f16Bits(float x) {
  const int sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return 0x7e00;
  const double size = std::abs(static_cast<double>(x));
  if (size >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  // the implicit leading bit adds 1024
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>(sign |
                                    (size < 0x1p-14 ? steps : ((exponent + 14) << 10) + steps));
}
float ofF16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 31
                         ? (fraction == 0 ? INFINITY : NAN)
                         : std::ldexp(static_cast<float>(exponent > 0 ? 1024 + fraction : fraction),
                                      std::max(exponent, 1) - 25);
  return std::copysign(size, (bits & 0x8000) != 0 ? -1.0f : 1.0f);
}

// Returns at least the first `count` numbers; cached, since many tensors share a fill and key.
const std::vector<double>& drawn(Fill fill, std::uint64_t key, std::int64_t count) {
  static std::map<std::pair<Fill, std::uint64_t>, std::vector<double>> all;
  std::vector<double>& numbers = all[{fill, key}];
  for (std::size_t i = numbers.size(); i < static_cast<std::size_t>(count); ++i)
    numbers.push_back(draw(fill, key, i));
  return numbers;
}

}  // namespace

std::uint16_t toBits16(DType type, float x) {
  return type == DType::kF16 ? f16Bits(x) : bf16Bits(x);
}
float fromBits16(DType type, std::uint16_t bits) {
  return type == DType::kF16 ? ofF16(bits) : ofBf16(bits);
}

double draw(Fill fill, std::uint64_t key, std::uint64_t i) {
  switch (fill) {
    case Fill::kNormal:
      return static_cast<float>(randomNormal(key, i));
    case Fill::kBf16:
    case Fill::kShort:
      return ofBf16(bf16Bits(static_cast<float>(randomNormal(key, i))));
    case Fill::kF16:
      return ofF16(f16Bits(static_cast<float>(randomNormal(key, i))));
    case Fill::kFewValues:
      return std::floor(randomUniform(key, i) * 5) - 2;
    case Fill::kPositive:
      return static_cast<float>(0.5 + randomUniform(key, i));
    case Fill::kLabels:
      return std::floor(randomUniform(key, i) * 3);
    case Fill::kIds:
      return std::floor(randomUniform(key, i) * 3) - 1;
    case Fill::kManyIds:  // below 1000, lower ids more often
      return std::floor(randomUniform(key, i) * randomUniform(key, ~i) * 1000);
    case Fill::kOwnIds:  // distinct, except −1
      return i % 4 == 1 ? -1.0 : static_cast<double>(i);
    case Fill::kBytes:
      return std::floor(randomUniform(key, i) * 256);
    case Fill::kBelow:
      return -1;
    case Fill::kInfinite:
      return INFINITY;
    case Fill::kBound:  // bound of the scores of positive operands
      return 16;
    case Fill::kPooled:
    case Fill::kCoded:
      break;  // derived from other operands
  }
  return 0;
}

CaseTensor::CaseTensor(ir::TensorType type, std::int64_t past) : type_(std::move(type)) {
  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= 16);
  before_ = past > 0 ? past * static_cast<std::int64_t>(sizeOf(type_.dtype)) : 16;
  bytes_.resize(static_cast<std::size_t>(before_ + type_.bytes()) + sizeOf(type_.dtype));
  set(-1, kFence);
  set(type_.count(), kFence);
}

double CaseTensor::at(std::int64_t i) const {
  const std::byte* p = address(i);
  switch (type_.dtype) {
    case DType::kF32:
      return *reinterpret_cast<const float*>(p);
    case DType::kF64:
      return *reinterpret_cast<const double*>(p);
    case DType::kI32:
      return *reinterpret_cast<const std::int32_t*>(p);
    case DType::kBf16:
    case DType::kF16:
      return fromBits16(type_.dtype, *reinterpret_cast<const std::uint16_t*>(p));
    default:
      return *reinterpret_cast<const std::uint8_t*>(p);
  }
}

void CaseTensor::set(std::int64_t i, double value) {
  std::byte* p = address(i);
  switch (type_.dtype) {
    case DType::kF32:
      *reinterpret_cast<float*>(p) = static_cast<float>(value);
      break;
    case DType::kF64:
      *reinterpret_cast<double*>(p) = value;
      break;
    case DType::kI32:
      *reinterpret_cast<std::int32_t*>(p) = static_cast<std::int32_t>(value);
      break;
    case DType::kBf16:
    case DType::kF16:
      *reinterpret_cast<std::uint16_t*>(p) = toBits16(type_.dtype, static_cast<float>(value));
      break;
    default:
      *reinterpret_cast<std::uint8_t*>(p) =
          static_cast<std::uint8_t>(static_cast<int>(value) & 255);
  }
}

void CaseTensor::fill(double value) {
  for (std::int64_t i = 0, count = type_.count(); i < count; ++i) set(i, value);
}

void CaseTensor::setFilled(Fill with, std::uint64_t key) {
  const std::int64_t count = type_.count();
  const std::vector<double>& numbers = drawn(with, key, count);
  for (std::int64_t i = 0; i < count; ++i) set(i, numbers[static_cast<std::size_t>(i)]);
}

bool CaseTensor::fenced() const {
  const double fence =
      sizeOf(type_.dtype) == 2 ? fromBits16(type_.dtype, toBits16(type_.dtype, kFence)) : kFence;
  return !isFloat(type_.dtype) || (at(-1) == fence && at(type_.count()) == fence);
}

}  // namespace lockstep::backends
