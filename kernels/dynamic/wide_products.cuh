// Tiles of products of many rows, by multiply-adds of floats.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/quads.cuh"
#include "common/tile_products.cuh"

// A block computes a square of products, and a thread a square of 4 x 4 of them, which are 16 apart. The sums run along k in
// strips. Twins of the numbers in `crates/dynamic/src/batched/library.rs`.
#define WIDE_TILE 64
#define WIDE_STRIP 16
#define WIDE_STAGES 3

// Elements from one row of a strip to the next: threads read quads of neighbouring rows from different banks.
constexpr int WIDE_PITCH = WIDE_STRIP + 4;
constexpr int WIDE_STAGE = 2 * WIDE_TILE * WIDE_PITCH;

// Begins the copies of a strip of the rows of a matrix from `first` on. Zeros take the place of what is not there.
template <int Access>
__device__ __forceinline__ void copy_strip(Element *to, const Element *matrix, long long first, int rows, int k, int depth) {
    constexpr int across = WIDE_STRIP / Access;
#pragma unroll 1
    for (int number = threadIdx.x; number < WIDE_TILE * across; number += THREADS) {
        const int down = number / across, along = number % across * Access;
        const bool is_there = first + down < rows && k + along < depth;
        copy_async<Access * sizeof(Element)>(to + down * WIDE_PITCH + along,
                                             matrix + (is_there ? (first + down) * depth + k + along : 0), is_there);
    }
}

// Computes the tile of WIDE_TILE x WIDE_TILE products from these on. `stages` is shared: Element[WIDE_STAGES][WIDE_STAGE].
template <int Access>
__device__ __forceinline__ void multiply_wide_tile_by(const Products &p, int row, int column, Element *stages) {
    const auto copy = [&](int number, int k) {
        if (k < p.depth) {
            Element *const stage = stages + number * WIDE_STAGE;
            copy_strip<Access>(stage, p.x, row, p.rows, k, p.depth);
            copy_strip<Access>(stage + WIDE_TILE * WIDE_PITCH, p.weights, column, p.columns, k, p.depth);
        }
        end_group();
    };
    const int down = int(threadIdx.x) / 16, along = int(threadIdx.x) % 16;
    float sums[4][4] = {};
#pragma unroll
    for (int ahead = 0; ahead < WIDE_STAGES - 1; ++ahead) copy(ahead, ahead * WIDE_STRIP);
    int at_hand = 0, ahead = WIDE_STAGES - 1;
#pragma unroll 1
    for (int k = 0; k < p.depth; k += WIDE_STRIP) {
        wait_for_groups<WIDE_STAGES - 2>();
        barrier(); // the wide strip is there, and nobody reads the one before any more
        copy(ahead, k + (WIDE_STAGES - 1) * WIDE_STRIP);
        const Element *const of_x = stages + at_hand * WIDE_STAGE + down * WIDE_PITCH;
        const Element *const of_weights = stages + at_hand * WIDE_STAGE + (WIDE_TILE + along) * WIDE_PITCH;
#pragma unroll
        for (int at = 0; at < WIDE_STRIP; at += 4) {
            float4 left[4], above[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                left[i] = in_float(*reinterpret_cast<const Quad *>(of_x + i * 16 * WIDE_PITCH + at));
                above[i] = in_float(*reinterpret_cast<const Quad *>(of_weights + i * 16 * WIDE_PITCH + at));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[i][j] = add_products(left[i], above[j], sums[i][j]);
        }
        at_hand = at_hand == WIDE_STAGES - 1 ? 0 : at_hand + 1;
        ahead = ahead == WIDE_STAGES - 1 ? 0 : ahead + 1;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int r = row + down + i * 16, c = column + along + j * 16;
            if (r < p.rows && c < p.columns) p.products[size_t(r) * p.columns + c] = sums[i][j];
        }
}

__device__ __forceinline__ void multiply_wide_tile(const Products &p, int row, int column, Element *stages) {
    constexpr int access = 16 / sizeof(Element);
    const size_t places = size_t(p.x) | size_t(p.weights);
    if (p.depth % access == 0 && places % 16 == 0)
        multiply_wide_tile_by<access>(p, row, column, stages);
    else
        multiply_wide_tile_by<1>(p, row, column, stages);
}
