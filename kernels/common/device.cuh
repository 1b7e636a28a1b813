// The vocabulary of kernels: CUDA C++ with some macros and functions of our own, so that one source runs on a GPU
// (compiled by NVRTC, with none of its headers) and on the CPU (compiled by any C++17 compiler with EMULATED defined,
// under the emulator in `emulator/`). A source includes this file first.
//
// | word | meaning |
// | --- | --- |
// | `KERNEL(name, Parameters) { … parameters.x … }` | a kernel, which the host finds by that name. Its one parameter is the struct `Parameters`, passed by value. Before it, the source defines THREADS, the most threads of a block; or, if the warps of a block do different work, KINDS_OF_WARPS and BLOCK_THREADS, the exact number of threads. It may define MULTIPROCESSOR_BLOCKS, the blocks for which a multiprocessor must have registers: otherwise the compiler spills registers to make room for more blocks |
// | `SHARED(Type, name);` | the block's dynamic shared memory, as a `Type *` aligned to 128 bytes, or to SHARED_ALIGNMENT, up to 1024, if the source defines it. Every use in a kernel names the same memory: parts of it are offsets |
// | `STATIC_SHARED(Type, name);`, `STATIC_SHARED(Type, name, [4][5]);` | a variable, or an array, in the block's static shared memory. Not initialised |
// | `threadIdx`, `blockIdx`, `blockDim`, `gridDim` | as in CUDA |
// | `LANE`, `WARP` | the thread's place in its warp, and the warp's in the block; for blocks with one dimension |
// | `barrier()` | waits for all threads of the block that have not ended; with KINDS_OF_WARPS for all BLOCK_THREADS, none of which may have ended |
// | `warp_barrier()` | waits for the warp, and shows its writes to memory to all of the warp |
// | `warp_shuffle(x, lane)` | x of the lane that each lane names |
// | `warp_broadcast(x, lane)` | x of one lane: all lanes name the same one |
// | `warp_sum(x)`, `warp_sum(x, lanes)`, `warp_max(…)` | over the warp, or over each group of `lanes` (a power of two) neighbours; every lane gets the result. Pairs `lanes/2` apart are combined first, then pairs half as far apart, and so on: GPU and CPU give the same bits |
// | `warp_any(p)`, `warp_all(p)` | whether p holds in any lane, in all |
// | `warp_mma_half(d, a, b)`, `warp_mma_bfloat16(…)`, `warp_mma_tf32(…)` | on tensor cores, D += A B of 16 × 8 sums in float, in words of 4 bytes along the depth: A has 16 rows and B 8 columns of 8 words each, which are 16 numbers of 2 bytes, the first in the lower half, or 8 floats. Lane l has D[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2] as d[i], word l % 4 + i / 2 * 4 of A's row l / 4 + i % 2 * 8 as a[i], and word l % 4 + i * 4 of B's column l / 4 as b[i]. The order of additions is the GPU's own; the emulator rounds each sum once |
// | `lower_half(bits)` | the lower 2 of 4 bytes. A kernel reads a parameter of 2 bytes as 4 and calls this: compute-sanitizer's racecheck may not know 2-byte reads of parameters |
// | `float_to_tf32(x)` | the nearest float with 10 bits behind the point, ties away from zero: tensor cores ignore the other bits |
// | `Spin spin; while (!arrived()) spin.again();` | a wait for a write of another warp or block. One `Spin` a wait. With -DDEBUG_WAIT=n a wait of n tries fails on a GPU; the emulator lets other threads run, and fails when none of them goes on either |
// | `in_register(x)` | keeps x, a number of 4 bytes or a pointer to global memory, in a register from there on: a kernel would otherwise read a parameter again at each use, which takes tens of clocks |
// | `shared_in_register(pointer)` | likewise for a pointer to shared memory; SHARED does this already |
// | `begin_next_launch();` | lets the next launch on the stream begin, if that launch may begin early, once all blocks have come here or ended |
// | `wait_for_last_launch();` | in a launch that may have begun early: waits until all of the launch before has ended, and shows its writes |
// | `in_this_order();` | keeps the compiler from moving reads across it: earlier reads are issued first. For a whole warp |
// | `Moment moment; … moment.wait(n);` | waits until a multiprocessor's clock has counted n since the moment; not at all on the CPU |
// | `fail("why")` | ends the kernel and the host's launch with an error |
// | `half_to_float`, `float_to_half`, `bfloat16_to_float`, `float_to_bfloat16` | from and to their bits, an `unsigned short`; rounded to nearest, ties to even |
//
// All 32 threads of a warp call whole-warp operations together, on values of 4 or 8 bytes. Kernels may also use the
// parts of CUDA that both machines have: `__device__`, `__forceinline__`, `__restrict__`, the vector types and `make_*`
// of 2 and 4 ints, unsigneds and floats, C's mathematics in float (write `fmaf` for an FMA: the CPU contracts nothing),
// and the functions in `emulator/intrinsics.h`. Clusters are in `cluster.cuh`, asynchronous copies in `async_copy.cuh`.
// Inline PTX stands behind `#ifndef EMULATED`, beside its emulated twin.
#pragma once

#ifndef KINDS_OF_WARPS
#define BLOCK_THREADS THREADS
#endif

#ifdef EMULATED

#include "emulator/device.h"

#else

#ifdef MULTIPROCESSOR_BLOCKS
#define LAUNCH_BOUNDS __launch_bounds__(BLOCK_THREADS, MULTIPROCESSOR_BLOCKS)
#else
#define LAUNCH_BOUNDS __launch_bounds__(BLOCK_THREADS)
#endif

#define KERNEL(name, Parameters)                                                                                       \
    extern "C" __global__ void LAUNCH_BOUNDS name(const __grid_constant__ Parameters parameters)

#ifndef SHARED_ALIGNMENT
#define SHARED_ALIGNMENT 128
#endif
extern __shared__ __align__(SHARED_ALIGNMENT) uint4 dynamic_shared_memory[];
#define SHARED(Type, name) Type *const name = reinterpret_cast<Type *>(shared_in_register(dynamic_shared_memory))
#define STATIC_SHARED(Type, name, ...) __shared__ Type name __VA_ARGS__

#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)
#define WHOLE_WARP 0xffffffffu

__device__ __forceinline__ int in_register(int x) {
    asm volatile("" : "+r"(x));
    return x;
}
__device__ __forceinline__ unsigned in_register(unsigned x) {
    asm volatile("" : "+r"(x));
    return x;
}
// Converted to an address of its space, so that the compiler still knows the space.
template <typename T> __device__ __forceinline__ T *in_register(T *pointer) {
    size_t address = __cvta_generic_to_global(pointer);
    asm volatile("" : "+l"(address));
    return static_cast<T *>(__cvta_global_to_generic(address));
}
template <typename T> __device__ __forceinline__ T *shared_in_register(T *pointer) {
    unsigned address = __cvta_generic_to_shared(pointer);
    asm volatile("" : "+r"(address));
    return static_cast<T *>(__cvta_shared_to_generic(address));
}

#ifdef KINDS_OF_WARPS
// __syncthreads() and `bar.sync` are aligned: all warps must take the same path to them. These warps take different
// ones.
__device__ __forceinline__ void barrier() { asm volatile("barrier.sync 1, %0;" ::"n"(BLOCK_THREADS) : "memory"); }
#else
__device__ __forceinline__ void barrier() { __syncthreads(); }
#endif
__device__ __forceinline__ void warp_barrier() { __syncwarp(); }

__device__ __forceinline__ void in_this_order() { __syncwarp(); }

template <typename T> __device__ __forceinline__ T warp_shuffle(T x, int lane) {
    return __shfl_sync(WHOLE_WARP, x, lane);
}

template <typename T> __device__ __forceinline__ T warp_broadcast(T x, int lane) { return warp_shuffle(x, lane); }

template <typename T> __device__ __forceinline__ T warp_sum(T x, int lanes = 32) {
#pragma unroll
    for (int apart = lanes / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(WHOLE_WARP, x, apart);
    return x;
}

template <typename T> __device__ __forceinline__ T warp_max(T x, int lanes = 32) {
#pragma unroll
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
        const T other = __shfl_xor_sync(WHOLE_WARP, x, apart);
        x = other > x ? other : x;
    }
    return x;
}

__device__ __forceinline__ bool warp_any(bool p) { return __any_sync(WHOLE_WARP, p); }
__device__ __forceinline__ bool warp_all(bool p) { return __all_sync(WHOLE_WARP, p); }

// Launches may begin early from compute capability 9.0 on.
__device__ __forceinline__ void begin_next_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_last_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void fail(const char *why) {
    printf("block (%u, %u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, why);
    __trap();
}

class Spin {
#ifdef DEBUG_WAIT
    unsigned tries = 0;

  public:
    __device__ __forceinline__ void again() {
        if (++tries >= DEBUG_WAIT) fail("what it waits for does not arrive");
    }
#else
  public:
    __device__ __forceinline__ void again() {}
#endif
};

class Moment {
    const unsigned then = clock();

  public:
    __device__ __forceinline__ void wait(unsigned clocks) const {
        while (unsigned(clock()) - then < clocks) {}
    }
};

__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ float bfloat16_to_float(unsigned short bits) {
    return __uint_as_float(unsigned(bits) << 16);
}

__device__ __forceinline__ unsigned short float_to_bfloat16(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned short lower_half(unsigned bits) {
    unsigned short half;
    asm("cvt.u16.u32 %0, %1;" : "=h"(half) : "r"(bits));
    return half;
}

__device__ __forceinline__ float float_to_tf32(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}

#define WARP_MMA(name, shape, type)                                                                                    \
    __device__ __forceinline__ void warp_mma_##name(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {   \
        asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                                           \
                     ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                            \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
    }
WARP_MMA(half, "m16n8k16", "f16")
WARP_MMA(bfloat16, "m16n8k16", "bf16")
WARP_MMA(tf32, "m16n8k8", "tf32")
#undef WARP_MMA

#endif
