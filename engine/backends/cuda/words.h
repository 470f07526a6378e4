// What kernels are written in besides C++. Each takes one argument, a struct of arguments.h. A
// shared array is one of the block's threads together; every thread of a block comes to each
// barrier, and every thread of a warp to each shuffle, ballot, load and product of fragments.
//
// nvcc compiles the kernels. Tests compile the same text for the host, with definitions of their
// own of all these words (tests/support/cuda_words.h), to hold what is computed against the other
// backends where there is no GPU.
#pragma once

#ifdef __CUDACC__
#define LOCKSTEP_KERNEL(name, Arguments) extern "C" __global__ void name(const Arguments a)
#define LOCKSTEP_DEVICE __device__ inline
#define LOCKSTEP_SHARED __shared__
#define LOCKSTEP_UNROLL _Pragma("unroll")
#define LOCKSTEP_UNROLL_16 _Pragma("unroll 16")

// A kernel by tensor cores, of so many threads a block, so many blocks of which a multiprocessor
// has at least. Below compute capability 8.0 there is its name alone: what follows is never
// compiled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define LOCKSTEP_TENSOR_KERNEL(name, Arguments, threads, blocks) \
  extern "C" __global__ void name(const Arguments) { __trap(); } \
  template <typename Never>                                      \
  __device__ void name##Never(const Arguments& a)
#else
#define LOCKSTEP_TENSOR_KERNEL(name, Arguments, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Arguments a)
#endif

namespace lockstep::backends::cuda {

// 2^x, of x below −126 0.
LOCKSTEP_DEVICE float powerOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two numbers of 16 bits, each the nearest, ties to even, infinite beyond the largest; the first in
// the lower half.
LOCKSTEP_DEVICE unsigned packBf16(float first, float second) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
LOCKSTEP_DEVICE unsigned packF16(float first, float second) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}

// d += a·b: 16×16 by 16×8, of fragments as the PTX ISA lays them out for mma.m16n8k16. Lane l has,
// with g = l / 4 and t = l % 4, of a rows g and g + 8, columns 2t and 2t + 1, a[0] and a[1], and 2t
// + 8 and 2t + 9, a[2] and a[3]; of b rows 2t and 2t + 1, b0, and 2t + 8 and 2t + 9, b1, of column
// g; of d rows g and g + 8, columns 2t and 2t + 1.
LOCKSTEP_DEVICE void multiplyBf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
LOCKSTEP_DEVICE void multiplyF16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices of 8×8 numbers of 16 bits in shared memory; lane 8m + r has the address, on 16
// bytes, of row r of matrix m. Each lane gets of matrix m, in to[m], of row l / 4 the columns 2t
// and 2t + 1; transposed, of column l / 4 these rows.
LOCKSTEP_DEVICE void loadMatrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
LOCKSTEP_DEVICE void loadTransposed(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

// 8 or 16 bytes, aligned so, into shared memory, zeros where they are not `there`: on the way until
// the thread waits for its copies. The others see them after a barrier behind that.
template <int kBytes>
LOCKSTEP_DEVICE void copyAhead(void* shared, const void* from, bool there) {
  static_assert(kBytes == 8 || kBytes == 16);
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto at = __cvta_generic_to_global(from);
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(at),
                 "r"(there ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(at),
                 "r"(there ? 8 : 0)
                 : "memory");
}
LOCKSTEP_DEVICE void waitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace lockstep::backends::cuda
#endif
