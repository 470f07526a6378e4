#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {

LOCKSTEP_KERNEL(embedding, EmbeddingArguments) {
  for (Index i = firstOf(); i < a.rows * a.channels; i += strideOf()) {
    const Index row = a.ids[i / a.channels] - a.first;
    a.y[i] = row >= 0 && row < a.vocabulary ? a.x[row * a.channels + i % a.channels] : 0.0f;
  }
}

// A block a row of the table: it looks through all ids, kWarp at a time, and adds the rows of its own in their order,
// so that no two threads write one element and the sum has one order. x is the rows' gradient.
LOCKSTEP_KERNEL(embeddingGrad, EmbeddingArguments) {
  const Index mine = static_cast<Index>(blockIdx.x) + a.first;
  const Index lane = threadIdx.x % kWarp;
  for (Index column = 0; column < a.channels; column += blockDim.x) {
    const Index c = column + threadIdx.x;
    float sum = 0;
    for (Index r = 0; r < a.rows; r += kWarp) {
      unsigned found = __ballot_sync(~0u, r + lane < a.rows && a.ids[r + lane] == mine);
      for (; found != 0; found &= found - 1) {
        const Index row = r + __ffs(static_cast<int>(found)) - 1;
        if (c < a.channels) sum += a.x[row * a.channels + c];
      }
    }
    if (c < a.channels) a.y[static_cast<Index>(blockIdx.x) * a.channels + c] = sum;
  }
}

}  // namespace lockstep::backends::cuda
