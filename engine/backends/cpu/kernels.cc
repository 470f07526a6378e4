#include "engine/backends/cpu/kernels.h"

namespace lockstep::backends::cpu {

Packs& packsOfThread() {
  static thread_local Packs packs;
  return packs;
}

bool runnable(const Kernels& kernels) {
  if (&kernels == &kAvx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (&kernels == &kAvx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return true;
}

const Kernels& best() {
  static const Kernels& chosen = runnable(kAvx512) ? kAvx512 : runnable(kAvx2) ? kAvx2 : kBase;
  return chosen;
}

}  // namespace lockstep::backends::cpu
