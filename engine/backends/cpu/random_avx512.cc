#include "engine/backends/cpu/random_body.h"

namespace lockstep::backends::cpu {
void randomAvx512(const Random& a) { randomNumbers(a); }
}  // namespace lockstep::backends::cpu
