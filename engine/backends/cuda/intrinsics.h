// The intrinsics that kernels use besides C++. Each kernel takes one argument, a struct of
// arguments.h. Shared arrays belong to the block; every thread of a block reaches each barrier, and
// every thread of a warp reaches each shuffle, ballot, and fragment load and multiplication.
//
// nvcc compiles the kernels. Tests compile the same source for the host with their own definitions
// of these intrinsics (tests/support/cuda_intrinsics.h), to compare results with other backends
// without a GPU.
#pragma once

#ifdef __CUDACC__
#define LOCKSTEP_KERNEL(name, Arguments) extern "C" __global__ void name(const Arguments a)
// The same, for blocks of up to `threads`, of which at least `blocks` fit on a multiprocessor.
#define LOCKSTEP_BOUNDED_KERNEL(name, Arguments, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Arguments a)
#define LOCKSTEP_DEVICE __device__ inline
#define LOCKSTEP_SHARED __shared__
#define LOCKSTEP_UNROLL _Pragma("unroll")
#define LOCKSTEP_UNROLL_16 _Pragma("unroll 16")

// A bounded kernel for tensor cores. Below compute capability 8.0 only the name exists, and the
// body is not compiled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define LOCKSTEP_TENSOR_KERNEL(name, Arguments, threads, blocks) \
  extern "C" __global__ void name(const Arguments) { __trap(); } \
  template <typename Never>                                      \
  __device__ void name##Never(const Arguments& a)
#else
#define LOCKSTEP_TENSOR_KERNEL LOCKSTEP_BOUNDED_KERNEL
#endif

namespace lockstep::backends::cuda {

// Returns 2^x; 0 for x below −126.
LOCKSTEP_DEVICE float powerOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Packs two numbers as 16 bits each (nearest, ties to even; infinite on overflow), the first in the
// lower half.
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

// d += a·b: 16×16 by 16×8, with fragments as the PTX ISA defines them for mma.m16n8k16. With g = l
// / 4 and t = l % 4, lane l holds: of a, rows g and g + 8, columns 2t and 2t + 1 in a[0] and a[1],
// and columns 2t + 8 and 2t + 9 in a[2] and a[3]; of b, column g, rows 2t and 2t + 1 in b0, and
// rows 2t + 8 and 2t + 9 in b1; of d, rows g and g + 8, columns 2t and 2t + 1.
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

// Loads four 8×8 matrices of 16-bit numbers from shared memory. Lane 8m + r passes the 16-byte
// aligned address of row r of matrix m. Each lane receives of matrix m, in to[m], columns 2t and 2t
// + 1 of row l / 4; transposed, these rows of column l / 4.
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

// Starts an asynchronous copy of 8 or 16 aligned bytes into shared memory, zeros unless `there`.
// Complete for the thread after cpAsyncWait(), and visible to others after a subsequent barrier.
template <int kBytes>
LOCKSTEP_DEVICE void cpAsync(void* shared, const void* from, bool there) {
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
LOCKSTEP_DEVICE void cpAsyncWait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace lockstep::backends::cuda
#endif
