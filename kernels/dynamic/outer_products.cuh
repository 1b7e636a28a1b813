// Sums of outer products of few rows: the gradients of matrices.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/device.cuh"
#include "common/ops.cuh"
#include "dynamic/level.cuh"

// sums[i][j] = Σ dy[row][i] · x[row][j], added to the old number if `adds`.
struct OuterProducts {
    const Element *dy, *x;
    float *sums;
    // Where the number of rows is; null for `count`.
    const Range *script;
    int count, rows, columns;
    int adds, is_of_children;
};

// A block has a square of sums, and a thread a square of 4 x 4 of them. Twin of the number in
// `crates/dynamic/src/batched/library.rs`.
#define OUTER_SIDE 64
// The rows of dy and x that are in shared memory at once; and those after which a sum of sums goes on: a long sum of single
// numbers would round each to the size of the whole.
#define OUTER_DEPTH 16
#define OUTER_GROUP 256

// The part of a row of numbers that a block reads.
__device__ __forceinline__ void read_part(float (&part)[OUTER_DEPTH][OUTER_SIDE], const Element *rows, int columns,
                                          int first_row, int end, int first_column) {
    for (int at = threadIdx.x; at < OUTER_DEPTH * OUTER_SIDE; at += THREADS) {
        const int row = first_row + at / OUTER_SIDE, column = first_column + at % OUTER_SIDE;
        const bool is_there = row < end && column < columns;
        part[at / OUTER_SIDE][at % OUTER_SIDE] = is_there ? to_float(rows[size_t(row) * columns + column]) : 0;
    }
}

__device__ __forceinline__ void sum_outer_products(const OuterProducts &it, int depth, int block) {
    STATIC_SHARED(float, left, [OUTER_DEPTH][OUTER_SIDE]);
    STATIC_SHARED(float, right, [OUTER_DEPTH][OUTER_SIDE]);
    const int across = (it.columns + OUTER_SIDE - 1) / OUTER_SIDE;
    const int first_row = block / across * OUTER_SIDE, first_column = block % across * OUTER_SIDE;
    const int down = int(threadIdx.x) / 16 * 4, along = int(threadIdx.x) % 16 * 4;
    float sums[4][4] = {};
    for (int group = 0; group < depth; group += OUTER_GROUP) {
        const int end = min(depth, group + OUTER_GROUP);
        float of_group[4][4] = {};
        for (int first = group; first < end; first += OUTER_DEPTH) {
            barrier(); // nobody reads the last rows any more
            read_part(left, it.dy, it.rows, first, end, first_row);
            read_part(right, it.x, it.columns, first, end, first_column);
            barrier(); // the rows are there
#pragma unroll
            for (int k = 0; k < OUTER_DEPTH; ++k)
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        of_group[i][j] = fmaf(left[k][down + i], right[k][along + j], of_group[i][j]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) sums[i][j] += of_group[i][j];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = first_row + down + i, column = first_column + along + j;
            if (row >= it.rows || column >= it.columns) continue;
            float *const to = it.sums + size_t(row) * it.columns + column;
            *to = it.adds ? *to + sums[i][j] : sums[i][j];
        }
}
