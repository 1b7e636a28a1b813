// The gradient of a row of a filter from products of columns of x and columns of dy: sums on their diagonals.
#pragma once

#include "common/ops.cuh"

// From a column of x to the next in a warp's sums.
constexpr int SUM_PITCH = 8 + 1;

// The words of shared memory that a warp needs for the products of 16 · `tiles` columns of x with 8 of dy.
template <int tiles> __device__ __forceinline__ constexpr int diagonal_words() { return tiles * 16 * SUM_PITCH; }

// The sums of a warp's places, of each row of the filter, from the products as warp_mma() has them. The first column of
// x stands `shift` columns before the first place of the first column of dy; `stride` columns of x lie between those of
// neighbouring columns of dy.
template <int stride, int rows, int tiles>
__device__ __forceinline__ void sum_diagonals(const float (&sums)[rows][tiles][4], int filter_columns, int shift,
                                              float *products, float *places) {
#pragma unroll
    for (int r = 0; r < rows; r++) {
#pragma unroll
        for (int tile = 0; tile < tiles; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                products[(tile * 16 + LANE / 4 + i / 2 * 8) * SUM_PITCH + LANE % 4 * 2 + i % 2] = sums[r][tile][i];
        warp_barrier();
        if (LANE < filter_columns) {
            float sum = 0;
#pragma unroll
            for (int q = 0; q < 8; q++) sum += products[(q * stride + LANE + shift) * SUM_PITCH + q];
            places[r * filter_columns + LANE] = sum;
        }
        warp_barrier();
    }
}
