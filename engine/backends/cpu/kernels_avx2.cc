#include "engine/backends/cpu/kernels_body.h"

namespace lockstep::backends::cpu {
const Kernels kAvx2 = kernels("avx2", randomAvx2);
}  // namespace lockstep::backends::cpu
