// Cases of every op that has a kernel: shapes, attributes, and what operands are filled with. What
// a backend makes of them is held against the reference backend in f64: by the self-test of a node,
// and by backends_conformance_test, which asks for a case of every op. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/backend.h"

namespace lockstep::backends {

enum class Fill : std::uint8_t {
  kNormal,
  kFewValues,
  kPositive,
  kLabels,
  kIds,
  kManyIds,
  kOwnIds,
  kBytes,
  kBound,
  kBelow,
  kInfinite,
  kBf16,
  kF16,
  kShort,   // f32 of as many digits as bf16 has, 8 bits
  kPooled,  // what the forward op makes of the operand before: the greatest of its windows
  kCoded,   // what ranks' gradients are coded as, one after another
};

struct CaseInput {
  Shape shape;
  Fill fill = Fill::kNormal;
};
struct Case {
  std::string name;
  ir::Op op;
  ir::Attrs attrs;
  std::vector<CaseInput> inputs;
  // what a GPU may be wrong by besides, in the same terms, where it may round factors
  double rounding = 0;
};
std::vector<Case> allCases();

// The largest error allowed in f32. Of every element, relative to itself; besides what a backward
// stable kernel may be wrong by, which computes the exact result of operands that are off by some
// 2⁻²⁴ of themselves (Higham: "Accuracy and Stability of Numerical Algorithms", 1.5): kStableUnits
// times CaseOutcome::conditioning. And never more than of the largest magnitude of its output. Sums
// over tens of thousands of elements are among the cases.
inline constexpr double kCaseTolerance = 2e-5, kStableUnits = 32;
// Products and convolutions are sums alone, whose terms' magnitudes are known: nothing is allowed
// relative to the element.
inline constexpr double kProductUnits = 8;
bool isProduct(ir::Op op);

// Numbers of `key`, which f32 holds exactly, so that all precisions see the same.
double draw(Fill fill, std::uint64_t key, std::uint64_t i);

// The bits of the nearest number of bf16 or f16, ties to even, and the number of the bits.
std::uint16_t narrowBits(DType type, float x);
float ofNarrow(DType type, std::uint16_t bits);

// Elements as numbers, with a fence on each side; the data start on 16 bytes or, not aligned, one
// element past that.
class CaseTensor {
 public:
  explicit CaseTensor(ir::TensorType type, bool aligned = false);
  double at(std::int64_t i) const;
  void set(std::int64_t i, double value);
  void fill(double value);
  void setFilled(Fill fill, std::uint64_t key);
  std::span<std::byte> bytes() { return {address(0), static_cast<std::size_t>(type_.bytes())}; }
  bool fenced() const;
  Operand operand() { return {address(0), type_}; }
  const ir::TensorType& type() const { return type_; }

 private:
  std::byte* address(std::int64_t i) {
    return bytes_.data() + before_ + i * static_cast<std::int64_t>(sizeOf(type_.dtype));
  }
  const std::byte* address(std::int64_t i) const {
    return bytes_.data() + before_ + i * static_cast<std::int64_t>(sizeOf(type_.dtype));
  }
  ir::TensorType type_;
  std::int64_t before_ = 0;
  std::vector<std::byte> bytes_;
};

struct CaseOutcome {
  std::vector<CaseTensor> outputs;
  std::string problem;           // "" where it was played
  std::int64_t allocations = 0;  // of the last run, where they are counted
  double rounding = 0;           // what outputs may be wrong by besides
  // Where it was asked for, of each element of each output: what it is off by where every operand
  // is off by 2⁻²⁴ of itself and all go the same way, 2⁻²⁴·Σ|∂y/∂x·x|: of a product 2⁻²⁴ times the
  // sum of its terms' magnitudes.
  std::vector<std::vector<double>> conditioning;
  // what is allowed of the element, and of its conditioning
  double relative = kCaseTolerance, units = kStableUnits;
};
struct CaseOptions {
  DType compute = DType::kF32;
  bool inPlace = false;                     // outputs that may lie on an input's memory do
  bool aligned = false;                     // operands lie on 16 bytes
  std::int64_t (*allocations)() = nullptr;  // until now
  // in f64: not 0 puts operands off a little, by a number of this key
  std::uint64_t disturbed = 0;
  bool magnitudes = false;  // operands are without their signs
  struct Planted {
    std::size_t operand = 0;
    std::int64_t element = 0;
    double value = 0;
  };
  std::optional<Planted> planted;  // in place of the number that the operand has there
};
// Runs the case twice, disturbed once, so that a kernel that leaves something behind is found out.
// Outputs are poisoned before. The backend's operands are in the host's memory (hosted.h).
CaseOutcome play(Backend& backend, const Case& one, const CaseOptions& options);
// Operands that say which of others is taken, and those alone: what they are off by is no matter of
// degree.
bool chooses(ir::Op op, std::size_t operand);
// Whether an output of the op may lie on an input's memory.
bool canBeInPlace(ir::Op op);

// What a case is held against: the reference backend in f64, with the conditioning of its elements.
CaseOutcome expected(const Case& one);

// How far two outcomes are apart beyond what `got` is rounded by; where one is no number, infinity.
struct CaseDifference {
  // the greatest difference of two elements, relative to the largest magnitude of their output in
  // `want`
  double relative = 0;
  // of what is allowed in f32: above 1 the kernel is wrong. Integers are allowed nothing
  double share = 0;
  // of the greatest share:  // "output 0 element 7: 1.5 instead of 1, of at most 3"; "" where there
  // is none
  std::string where;
};
CaseDifference difference(const CaseOutcome& want, const CaseOutcome& got);

}  // namespace lockstep::backends
