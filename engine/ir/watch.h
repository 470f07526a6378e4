// What people watch of a training step besides loss and metric: results f[1] of the program that
// updates, on mesh stage 0. Sums, never means: the trainer computes the two numbers from them.
//
// - Gradient norm: √kGradientSquares / kGradientDivisor, the global L2 norm of the mean gradient
//   over all parameters, before clipping (what torch.nn.utils.clip_grad_norm_ returns). The divisor
//   is Σ w; with loss scaling it contains the scale, and is below 0 in a step that updates nothing.
// - Update ratio: √(kUpdateSquares / kParameterSquares) = ‖w' − w‖ / ‖w‖ over all parameters
//   (Karpathy: Stanford CS231n notes, "Ratio of weights:updates"; about 1e-3 is usual).
//
// A parameter that several ranks hold, or hold parts of, counts once.
#pragma once

#include <string_view>

namespace lockstep::ir {

inline constexpr std::string_view kGradientSquares = "gradient_norm.squares";
inline constexpr std::string_view kGradientDivisor = "gradient_norm.divisor";
inline constexpr std::string_view kUpdateSquares = "update_ratio.update";
inline constexpr std::string_view kParameterSquares = "update_ratio.parameters";

}  // namespace lockstep::ir
