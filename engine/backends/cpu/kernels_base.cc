#include "engine/backends/cpu/kernels_body.h"

namespace lockstep::backends::cpu {
const Kernels kBase = kernels("base", randomBase);
}  // namespace lockstep::backends::cpu
