// oneDNN primitives on plain layouts: the largest matrix products, on several threads. A primitive
// that would want a blocked layout is never chosen, so nothing is reordered at run time. Executing
// a primitive allocates a few small blocks (oneDNN 2.6 builds the list of its arguments anew),
// which is why they are taken only where they are faster than our own kernels: never on one thread.
// Internal to engine/backends.
#pragma once

#include <memory>

#include "engine/backends/kernel.h"

namespace lockstep::backends {

class OneDnnEngine {
 public:
  explicit OneDnnEngine(int threads);
  ~OneDnnEngine();
  OneDnnEngine(const OneDnnEngine&) = delete;
  OneDnnEngine& operator=(const OneDnnEngine&) = delete;

  // Whether oneDNN's threads are worth their start; never on one thread.
  bool wantsMatmul(const MatmulShape& shape) const;

  // The product with its bias and without ReLU, of which oneDNN's makes 0 of NaN. Null where oneDNN
  // has only its reference implementation for the spec. Errors: kInternal with oneDNN's own words.
  Result<std::unique_ptr<Kernel>> bindMatmul(const KernelSpec& spec);

 private:
  struct State;
  std::shared_ptr<State> state_;  // kernels hold it too
};

}  // namespace lockstep::backends
