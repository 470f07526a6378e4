// What kernels are written in besides C++. Each takes one argument, a struct of arguments.h. A shared array is one of
// the block's threads together; every thread of a block comes to each barrier, shuffle and ballot.
//
// nvcc compiles the kernels. Tests compile the same text for the host, with definitions of their own of all these
// words (tests/support/emulated_device.h), to hold what is computed against the other backends where there is no GPU.
#pragma once

#ifdef __CUDACC__
#define LOCKSTEP_KERNEL(name, Arguments) extern "C" __global__ void name(const Arguments a)
#define LOCKSTEP_DEVICE __device__ inline
#define LOCKSTEP_SHARED __shared__
#define LOCKSTEP_UNROLL _Pragma("unroll")
#define LOCKSTEP_UNROLL_16 _Pragma("unroll 16")
#endif
