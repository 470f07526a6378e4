#include "engine/backends/cpu/kernels.h"

#include <memory>

namespace lockstep::backends::cpu {

namespace {
// Made on a thread's first product: as a thread_local of its own every thread of the process would
// hold it.
template <typename P>
P& ofThread() {
  static thread_local std::unique_ptr<P> packs;
  if (!packs) packs = std::make_unique_for_overwrite<P>();
  return *packs;
}
}  // namespace

Packs& packsOfThread() { return ofThread<Packs>(); }
Packs16& packs16OfThread() { return ofThread<Packs16>(); }
PacksTiles& packsTilesOfThread() { return ofThread<PacksTiles>(); }

const Kernels kAmx = [] {
  Kernels out = kAvx512;
  out.isa = "amx";
  out.gemm16 = gemm16Tiles;
  out.adds16 = true;
  return out;
}();

bool runnable(const Kernels& kernels) {
  if (&kernels == &kAmx) {
    static const bool allowed = allowTiles();
    return runnable(kAvx512) && allowed;
  }
  if (&kernels == &kAvx512Bf16) return runnable(kAvx512) && __builtin_cpu_supports("avx512bf16");
  if (&kernels == &kAvx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (&kernels == &kAvx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
  return true;
}

const Kernels& best() {
  static const Kernels& chosen = [&]() -> const Kernels& {
    const Kernels* last = &kBase;
    for (const Kernels* each : kAll) {
      // Where Intel's processors add two products of bf16 at once they start half as many as of
      // f32.
      if (each == &kAvx512Bf16 && __builtin_cpu_is("intel")) continue;
      if (runnable(*each)) last = each;
    }
    return *last;
  }();
  return chosen;
}

}  // namespace lockstep::backends::cpu
