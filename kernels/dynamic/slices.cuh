// Sums over rows in slices: few sums of many rows keep all multiprocessors busy. Each slice has its own sums, which are
// added up afterwards, in their order.
#pragma once

#include "common/device.cuh"
#include "dynamic/numbers.cuh"
#include "dynamic/together.cuh"

// A slice has a multiple of as many rows. A long sum of single numbers would round each to the size of the whole, so a slice
// is a sum of sums of as many rows. Twin of the number in `crates/dynamic/src/batched/slices.rs`.
#define SLICE_ROWS 64

// The rows of a slice. The last slices may have fewer, or none.
__device__ __forceinline__ int rows_of_slice(int rows, int slices) {
    const int groups = (rows + SLICE_ROWS - 1) / SLICE_ROWS;
    return (groups + slices - 1) / slices * SLICE_ROWS;
}

// A sum of slices' sums, which lie one behind the other: sums[part][number].
struct Parts {
    const float *sums;
    size_t count;
    int part_count;

    __device__ __forceinline__ float sum(size_t number) const {
        float sum = 0;
        for (int part = 0; part < part_count; ++part) sum += sums[part * count + number];
        return sum;
    }
};

// to[number] = the sum of the parts, added to the old number if `adds`.
struct PartsSum {
    Parts parts;
    Numbers to;
    int adds;
};

__device__ __forceinline__ void add_up_parts(const PartsSum &it, unsigned block, unsigned blocks) {
    for_all_of_task(it.parts.count, block, blocks, [&](size_t number) {
        const float sum = it.parts.sum(number);
        it.to.set(number, it.adds ? it.to.get(number) + sum : sum);
    });
}
