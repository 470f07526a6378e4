// Runs test cases on a backend, and compares results with those of the reference backend in f64.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/backends/case_tensor.h"
#include "engine/backends/cases.h"

namespace lockstep::backends {

// Tolerance in f32: relative to each element (kCaseTolerance), plus what a backward stable kernel
// may be off by, i.e. one that computes the exact result of operands perturbed by about 2⁻²⁴
// relative (Higham: "Accuracy and Stability of Numerical Algorithms", 1.5): kStableUnits times
// CaseOutcome::conditioning; and never more than kCaseTolerance times the largest magnitude of the
// output. Cases include sums over tens of thousands of elements.
inline constexpr double kCaseTolerance = 2e-5, kStableUnits = 32;
// Matmuls and convolutions are plain sums whose terms' magnitudes are known: no tolerance relative
// to the element applies.
inline constexpr double kProductUnits = 8;

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
// How operands are aligned: each to 16 bytes, to one element past that, or to one element more than
// the operand before it.
enum class CaseAlignment : std::uint8_t { kSixteen, kOnePast, kDifferent };
struct CaseOptions {
  DType compute = DType::kF32;
  bool inPlace = false;  // outputs that may alias an input do
  CaseAlignment alignment = CaseAlignment::kOnePast;
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
