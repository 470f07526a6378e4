#include "engine/backends/cpu/kernels_body.h"

namespace lockstep::backends::cpu {
const Kernels kAvx512Bf16 = kernels("avx512bf16", randomAvx512);
}  // namespace lockstep::backends::cpu
