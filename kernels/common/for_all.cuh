// A loop over numbers, shared out to all threads of a grid.
//
// A source defines THREADS, those of a block, before it includes this.
#pragma once

#include "common/device.cuh"

// Calls each(number) for the numbers below `count`, over all threads of the grid.
template <typename Each> __device__ __forceinline__ void for_all(long long count, Each each) {
    const long long stride = (long long)gridDim.x * THREADS;
    for (long long number = (long long)blockIdx.x * THREADS + threadIdx.x; number < count; number += stride) each(number);
}
