// oneDNN primitives on plain layouts, for the largest matmuls on several threads. Primitives that
// would need a blocked layout are never chosen, so nothing is reordered at run time. Executing a
// primitive allocates a few small blocks (oneDNN 2.6 rebuilds its argument list), so primitives are
// used only where they are faster than our own kernels, and never on one thread. Internal to
// engine/backends.
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

  // Whether oneDNN is expected to be faster for the shape; false on one thread.
  bool wantsMatmul(const MatmulShape& shape) const;

  // Binds a matmul with bias and without ReLU (oneDNN's maps NaN to 0). Returns null where oneDNN
  // has only its reference implementation. Errors: kInternal with oneDNN's message.
  Result<std::unique_ptr<Kernel>> bindMatmul(const KernelSpec& spec);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the kernels
};

}  // namespace lockstep::backends
