// Sums over rows in slices: few sums of many rows keep all multiprocessors busy. Each slice has its own sums, which are
// added up afterwards, in their order.
#pragma once

#include "common/device.cuh"

// A slice has a multiple of as many rows. A long sum of single numbers would round each to the size of the whole, so a slice
// is a sum of sums of as many rows. Twin of the number in `crates/dynamic/src/batched/slices.rs`.
#define SLICE_ROWS 64

// The rows of a slice. The last slices may have fewer, or none.
__device__ __forceinline__ int rows_of_slice(int rows, int slices) {
    const int groups = (rows + SLICE_ROWS - 1) / SLICE_ROWS;
    return (groups + slices - 1) / slices * SLICE_ROWS;
}

// sums[number] = Σ parts[part][number], added to the old number if `adds`.
struct PartsSum {
    float *sums;
    const float *parts;
    size_t count;
    int part_count, adds;
};

__device__ __forceinline__ void add_up_parts(const PartsSum &it, unsigned block, unsigned blocks) {
    const size_t step = size_t(blocks) * THREADS;
    for (size_t number = size_t(block) * THREADS + threadIdx.x; number < it.count; number += step) {
        float sum = it.adds ? it.sums[number] : 0;
#pragma unroll 4
        for (int part = 0; part < it.part_count; ++part) sum += it.parts[part * it.count + number];
        it.sums[number] = sum;
    }
}
