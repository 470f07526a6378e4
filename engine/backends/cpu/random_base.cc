#include "engine/backends/cpu/random_body.h"

namespace lockstep::backends::cpu {
void randomBase(const Random& a) { randomNumbers(a); }
}  // namespace lockstep::backends::cpu
