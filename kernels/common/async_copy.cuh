// Asynchronous copies from global to shared memory, for GPUs of compute capability 8.0 and above and for the emulator.
// Older GPUs wait for each copy. A thread's copies form groups.
//
// | word | meaning |
// | --- | --- |
// | `copy_async<bytes>(to, from, is_there)` | copies 4, 8 or 16 bytes, aligned to their size, from global to dynamic shared memory; if `is_there` is false, writes zeros and reads nothing. A copy of 2 bytes works too, but is synchronous |
// | `end_group()` | ends the thread's group of copies, which may be empty, and begins the next |
// | `wait_for_groups<n>()` | waits until all ended groups but the last n have arrived. This thread sees their bytes, and other threads do behind a `barrier()` |
#pragma once

#include "common/device.cuh"

#ifdef EMULATED

#include "emulator/async_copy.h"

#elif __CUDA_ARCH__ >= 800

template <int BYTES> __device__ __forceinline__ void copy_async(void *to, const void *from, bool is_there) {
    static_assert(BYTES == 2 || BYTES == 4 || BYTES == 8 || BYTES == 16, "2, 4, 8 or 16 bytes");
    const unsigned place = __cvta_generic_to_shared(to), bytes = is_there ? BYTES : 0;
    if constexpr (BYTES == 2)
        *static_cast<unsigned short *>(to) = is_there ? *static_cast<const unsigned short *>(from) : 0;
    // Whole sectors gain nothing from the L1 cache.
    else if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(BYTES), "r"(bytes)
                     : "memory");
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int BUT> __device__ __forceinline__ void wait_for_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(BUT) : "memory");
}

#else

template <int BYTES> __device__ __forceinline__ void copy_async(void *to, const void *from, bool is_there) {
    struct alignas(BYTES) Piece {
        unsigned short part[BYTES / 2];
    };
    *static_cast<Piece *>(to) = is_there ? *static_cast<const Piece *>(from) : Piece{};
}

__device__ __forceinline__ void end_group() {}

template <int BUT> __device__ __forceinline__ void wait_for_groups() {}

#endif
