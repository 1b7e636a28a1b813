// Tiles of products of floats, which tensor cores multiply exactly.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/tf32_products.cuh"
#include "common/tile_products.cuh"
#include "dynamic/replacement.cuh"

// Tensor cores round sums towards zero, so they add up the products of so much depth at most.
#define EXACT_DEPTH 16
static_assert(STRIP % EXACT_DEPTH == 0 && EXACT_DEPTH % 8 == 0, "whole products");

// Computes the tile of TILE × TENSOR_COLUMNS products from these on, of which a warp has 16 rows and 16 columns. `stages` is
// shared: Element[STAGES][TILE + TENSOR_COLUMNS][PITCH]. Factors are copied Access elements at once.
template <int Access>
__device__ __forceinline__ void multiply_exact_tile(const Products &p, int row, int column, Element *stages) {
    const int first_row = WARP / TENSOR_WARPS * 16 + LANE / 4, first_column = WARP % TENSOR_WARPS * 16;
    float sums[2][4] = {};
    for_strips_by<Access, TENSOR_COLUMNS>(p, row, column, stages, [&](const Element *strip) {
        const auto split = [&](int line, int k, unsigned &high, unsigned &low) {
            split_float(__float_as_uint(strip[line * PITCH + k]), high, low);
        };
#pragma unroll
        for (int first = 0; first < STRIP; first += EXACT_DEPTH) {
            float some[2][4] = {};
#pragma unroll
            for (int k = first + LANE % 4; k < first + EXACT_DEPTH; k += 8) {
                unsigned a[2][4], b[2][2][2];
#pragma unroll
                for (int i = 0; i < 4; ++i) split(first_row + i % 2 * 8, k + i / 2 * 4, a[HIGH][i], a[LOW][i]);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int of_weights = TILE + first_column + i / 2 * 8 + LANE / 4;
                    split(of_weights, k + i % 2 * 4, b[HIGH][i / 2][i % 2], b[LOW][i / 2][i % 2]);
                }
#pragma unroll
                for (const auto &of : exact_parts) {
#pragma unroll
                    for (int tile = 0; tile < 2; ++tile) warp_mma_tf32(some[tile], a[of[0]], b[of[1]][tile]);
                }
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] += some[i / 4][i % 4];
        }
    });
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int r = row + first_row + i / 2 % 2 * 8, c = column + first_column + i / 4 * 8 + LANE % 4 * 2 + i % 2;
        if (r >= p.rows || c >= p.columns) continue;
        float sum = sums[i / 4][i % 4];
        if (sum != sum) {
            sum = sum_in_order(0, p.depth, [&](int k, float sum) {
                return fmaf(p.x[size_t(r) * p.depth + k], p.weights[size_t(c) * p.depth + k], sum);
            });
        }
        p.products[size_t(r) * p.columns + c] = sum;
    }
}
