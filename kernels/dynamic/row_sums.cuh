// Sums of rows: the gradients of vectors.
//
// A source defines THREADS before it includes this.
#pragma once

#include "common/device.cuh"
#include "common/ops.cuh"
#include "dynamic/level.cuh"
#include "dynamic/slices.cuh"

#define WARPS (THREADS / 32)

// sums[slice][column] = Σ rows[row][column], over the rows of the slice; added to the old sum if `adds`.
struct RowSums {
    const Element *rows;
    float *sums;
    // Where the number of rows is; null for `count`.
    const Range *script;
    int count, columns, slices;
    int adds, is_of_children;
};

// The rows that a thread adds up before it adds their sum, and the columns of a block.
#define GROUP 16
#define SUM_COLUMNS 32

// A block sums some columns of a slice: warps sum some rows each, then the first warp the sums of all. The order is always
// the same.
__device__ __forceinline__ void sum_columns(const RowSums &it, int block) {
    STATIC_SHARED(float, parts, [WARPS][SUM_COLUMNS]);
    const int count = count_of(it.script, it.count, it.is_of_children);
    const int across = (it.columns + SUM_COLUMNS - 1) / SUM_COLUMNS, slice = block / across;
    const int column = block % across * SUM_COLUMNS + LANE;
    const int of_slice = rows_of_slice(count, it.slices);
    const int begin = slice * of_slice, end = min(count, begin + of_slice);
    float sum = 0;
    if (column < it.columns) {
        // Sums of sums: a long sum of single numbers would round each to the size of the whole.
        for (int first = begin + WARP; first < end; first += WARPS * GROUP) {
            float its = 0;
#pragma unroll
            for (int i = 0; i < GROUP; ++i) {
                const int row = first + i * WARPS;
                if (row < end) its += to_float(it.rows[size_t(row) * it.columns + column]);
            }
            sum += its;
        }
    }
    parts[WARP][LANE] = sum;
    barrier();
    if (WARP == 0 && column < it.columns) {
        for (int other = 1; other < WARPS; ++other) sum += parts[other][LANE];
        float *const to = it.sums + size_t(slice) * it.columns + column;
        *to = it.adds ? *to + sum : sum;
    }
}
