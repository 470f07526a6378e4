// The CUDA backend's kernels, for the host.
#include "tests/support/cuda_words.h"

#include "engine/backends/cuda/attention.cu"
#include "engine/backends/cuda/compression.cu"
#include "engine/backends/cuda/convolutions.cu"
#include "engine/backends/cuda/elementwise.cu"
#include "engine/backends/cuda/losses.cu"
#include "engine/backends/cuda/normalization.cu"
#include "engine/backends/cuda/optimizers.cu"
#include "engine/backends/cuda/random.cu"
#include "engine/backends/cuda/reductions.cu"
#include "engine/backends/cuda/rows.cu"
#include "engine/backends/cuda/sequences.cu"
