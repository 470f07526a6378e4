// Test cases of every op that has a kernel: shapes, attributes and fill of the operands. Results of
// a backend are compared with the reference backend in f64, by a node's self-test and by
// backends_conformance_test, which requires a case of every op. Threads: one at a time.
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
  kShort,   // f32 values with 8 significant bits, as many as bf16 has
  kPooled,  // result of the forward op on the preceding operand: the maxima of its windows
  kCoded,   // encoded gradients of several ranks, concatenated
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
  // additional tolerance on GPUs that may round operands, in the same terms
  double rounding = 0;
};
std::vector<Case> allCases();

// Tolerance in f32: relative to each element (kCaseTolerance), plus what a backward stable kernel
// may be off by, i.e. one that computes the exact result of operands perturbed by about 2⁻²⁴
// relative (Higham: "Accuracy and Stability of Numerical Algorithms", 1.5): kStableUnits times
// CaseOutcome::conditioning; and never more than kCaseTolerance times the largest magnitude of the
// output. Cases include sums over tens of thousands of elements.
inline constexpr double kCaseTolerance = 2e-5, kStableUnits = 32;
// Matmuls and convolutions are plain sums whose terms' magnitudes are known: no tolerance relative
// to the element applies.
inline constexpr double kProductUnits = 8;
bool isMatmulOrConv(ir::Op op);

// Returns number `i` of stream `key`, exactly representable in f32, so that all precisions see the
// same values.
double draw(Fill fill, std::uint64_t key, std::uint64_t i);

// Rounds to bf16 or f16 (nearest, ties to even), and converts back.
std::uint16_t toBits16(DType type, float x);
float fromBits16(DType type, std::uint16_t bits);

// A tensor with guard elements on both sides. Data start on a 16-byte boundary, or one element past
// it unless `aligned`.
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
  std::string problem;           // "" if it ran
  std::int64_t allocations = 0;  // during the last run, where counted
  double rounding = 0;           // additional tolerance of outputs
  // If requested: for each element of each output, its change when every operand changes by 2⁻²⁴
  // relative in the worst direction, 2⁻²⁴·Σ|∂y/∂x·x|; for a matmul, 2⁻²⁴ times the sum of its
  // terms' magnitudes.
  std::vector<std::vector<double>> conditioning;
  // tolerance relative to the element, and in units of its conditioning
  double relative = kCaseTolerance, units = kStableUnits;
};
struct CaseOptions {
  DType compute = DType::kF32;
  bool inPlace = false;                     // outputs that may alias an input do
  bool aligned = false;                     // operands are aligned to 16 bytes
  std::int64_t (*allocations)() = nullptr;  // running allocation counter
  // f64 only: nonzero perturbs operands slightly, seeded by this key
  std::uint64_t disturbed = 0;
  bool magnitudes = false;  // operands are replaced by their absolute values
  struct Planted {
    std::size_t operand = 0;
    std::int64_t element = 0;
    double value = 0;
  };
  std::optional<Planted> planted;  // overrides one element of an operand
};
// Runs the case twice, once perturbed, to detect kernels that keep state. Outputs are poisoned
// first. The backend's operands are in host memory (hosted.h).
CaseOutcome runCase(Backend& backend, const Case& one, const CaseOptions& options);
// Whether the operand only selects among others, so that perturbing it is meaningless.
bool chooses(ir::Op op, std::size_t operand);
// Whether an output of the op may alias an input.
bool canBeInPlace(ir::Op op);

// Returns the expected outcome: the reference backend in f64, with the conditioning of each
// element.
CaseOutcome expected(const Case& one);

// Difference of two outcomes beyond the rounding of `got`; infinite where an element is not a
// number.
struct CaseDifference {
  // greatest difference of two elements, relative to the largest magnitude of that output in `want`
  double relative = 0;
  // fraction of the tolerance in f32: above 1 the kernel is wrong. Integers must match exactly.
  double share = 0;
  // where the fraction is greatest: "output 0 element 7: 1.5 instead of 1, of at most 3"; "" where
  // there is no difference
  std::string where;
};
CaseDifference difference(const CaseOutcome& want, const CaseOutcome& got);

}  // namespace lockstep::backends
