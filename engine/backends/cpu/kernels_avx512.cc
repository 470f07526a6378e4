#include "engine/backends/cpu/kernels_body.h"

namespace lockstep::backends::cpu {
const Kernels kAvx512 = kernels("avx512", randomAvx512);
}  // namespace lockstep::backends::cpu
