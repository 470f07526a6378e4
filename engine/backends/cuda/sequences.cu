#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {

LOCKSTEP_KERNEL(embedding, EmbeddingArguments) {
  for (Index i = firstOf(); i < a.rows * a.channels; i += strideOf()) {
    const Index row = a.ids[i / a.channels] - a.first;
    a.y[i] = row >= 0 && row < a.vocabulary ? a.x[row * a.channels + i % a.channels] : 0.0f;
  }
}

}  // namespace lockstep::backends::cuda
