// Tiles of a product of two matrices whose elements lie anywhere, for machines without cublasLt.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/device.cuh"
#include "common/ops.cuh"

// An element of a factor lies at the sum of its row's and its column's steps.
struct StridedProducts {
    const Element *left, *right;
    int rows, columns, depth;
    int left_row, left_depth, right_depth, right_column;
};

#define STRIDED_TILE 32

// Computes tile number blockIdx.x, row by row of tiles, over `depth`: calls write(row, column, Σ left(row, k) ·
// right(k, column)) for each product. Each thread has four of a column.
template <typename Write>
__device__ __forceinline__ void multiply_strided_tile(const StridedProducts &p, int depth, Write write) {
    constexpr int warps = THREADS / 32;
    STATIC_SHARED(float, left, [STRIDED_TILE][STRIDED_TILE + 1]);
    STATIC_SHARED(float, right, [STRIDED_TILE][STRIDED_TILE + 1]);
    const int across = (p.columns + STRIDED_TILE - 1) / STRIDED_TILE;
    const int first_row = int(blockIdx.x) / across * STRIDED_TILE, first_column = int(blockIdx.x) % across * STRIDED_TILE;
    float sums[STRIDED_TILE / warps] = {};
    for (int first = 0; first < depth; first += STRIDED_TILE) {
        barrier();
        for (int at = WARP; at < STRIDED_TILE; at += warps) {
            const int row = first_row + at, column = first_column + LANE;
            const bool has_left = row < p.rows && first + int(LANE) < depth;
            const bool has_right = first + at < depth && column < p.columns;
            left[at][LANE] = has_left ? to_float(p.left[size_t(row) * p.left_row + size_t(first + LANE) * p.left_depth]) : 0;
            right[at][LANE] =
                has_right ? to_float(p.right[size_t(first + at) * p.right_depth + size_t(column) * p.right_column]) : 0;
        }
        barrier();
        for (int k = 0; k < STRIDED_TILE; ++k) {
#pragma unroll
            for (int part = 0; part < STRIDED_TILE / warps; ++part) {
                sums[part] = fmaf(left[WARP + part * warps][k], right[k][LANE], sums[part]);
            }
        }
    }
#pragma unroll
    for (int part = 0; part < STRIDED_TILE / warps; ++part) {
        const int row = first_row + WARP + part * warps, column = first_column + LANE;
        if (row < p.rows && column < p.columns) write(row, column, sums[part]);
    }
}
