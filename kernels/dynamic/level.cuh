// What all kernels that are made from vertex functions share: the words of their text.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of tensors and states. Sums are float.
#pragma once

#include "common/activations.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/quads.cuh"

// The rows of a kind that a launch computes, and their edges. Rows and edges of the batch follow each other from `row`
// and `edge` on, unless `rows` and `edges` list them. A launch that serves many batches finds its range in the script of
// the batch that is there when it runs.
struct Range {
    const int *rows, *edges;
    int row_of_kind, row_count, row;
    int edge_of_kind, edge_count, edge;
};

// The rows, or edges, that a script counts; without one, `count`.
__device__ __forceinline__ int count_of(const Range *script, int count, int is_of_children = 0) {
    return !script ? count : is_of_children ? script->edge_count : script->row_count;
}

// An index of a table with these rows; -1 if it is none.
__device__ __forceinline__ int index_in(int rows, long long index) {
    return index >= 0 && index < rows ? int(index) : -1;
}

// Calls `each` for the numbers below `count`, shared among all threads of the launch.
template <typename Each> __device__ __forceinline__ void for_all(unsigned count, Each each) {
    for (unsigned number = blockIdx.x * THREADS + threadIdx.x; number < count; number += gridDim.x * THREADS) each(number);
}

// Likewise for warps. `each` is called by all lanes of a warp together.
template <typename Each> __device__ __forceinline__ void for_all_by_warps(unsigned count, Each each) {
    const unsigned warps = THREADS / 32;
    for (unsigned number = blockIdx.x * warps + WARP; number < count; number += gridDim.x * warps) each(number);
}

__device__ __forceinline__ float4 quad_at(const Element *from) { return in_float(*reinterpret_cast<const Quad *>(from)); }

__device__ __forceinline__ float add_products(float4 x, float4 y, float sum) {
    return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, fmaf(x.x, y.x, sum))));
}

// The rows of a tile.
#define TILE_ROWS 8

// The row of the tile whose sums a lane has at the end. Of its four lanes the first one goes on.
#define LANE_ROW (LANE / 4)
#define IS_FIRST_OF_ROW (LANE % 4 == 0)

// Adds up a warp's sums of the rows of a tile: a lane gets those of LANE_ROW.
template <int count>
__device__ __forceinline__ void share_out_rows(float (&of_row)[count], float (&sums)[TILE_ROWS][count]) {
    // Lanes far apart share out the rows, half of those left at a time: a lane adds up those that it keeps alone.
#pragma unroll
    for (int half = TILE_ROWS / 2; half > 0; half /= 2) {
        const int apart = 4 * half;
        const bool keeps_upper = LANE & apart;
#pragma unroll
        for (int row = 0; row < half; ++row) {
#pragma unroll
            for (int i = 0; i < count; ++i) {
                const float lower = sums[row][i], upper = sums[row + half][i];
                sums[row][i] =
                    (keeps_upper ? upper : lower) + warp_shuffle(keeps_upper ? lower : upper, LANE ^ apart);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < count; ++i) of_row[i] = warp_sum(sums[0][i], 4);
}

// products[i] = Σ x[LANE_ROW][k] · matrix[columns[i] + unit][k], by a warp. x is in shared memory, and `depth` a multiple
// of 4.
template <int depth, int count>
__device__ __forceinline__ void multiply_tile(float (&products)[count], const float *x, int rows, const Element *matrix,
                                              const int (&columns)[count], int unit) {
    float sums[TILE_ROWS][count] = {};
    Quad next[count];
    const auto read = [&](int k) {
#pragma unroll
        for (int i = 0; i < count; ++i)
            next[i] = *reinterpret_cast<const Quad *>(matrix + size_t(columns[i] + unit) * depth + k);
    };
    // Of few products, the weights that come next are on their way meanwhile: a large matrix comes from memory. There are no
    // registers for more.
    constexpr bool is_ahead = count <= 5;
    if (is_ahead && int(LANE) * 4 < depth) read(LANE * 4);
    for (int k = LANE * 4; k < depth; k += 128) {
        if (!is_ahead) read(k);
        float4 weights[count];
#pragma unroll
        for (int i = 0; i < count; ++i) weights[i] = in_float(next[i]);
        if (is_ahead && k + 128 < depth) read(k + 128);
#pragma unroll
        for (int row = 0; row < TILE_ROWS; ++row) {
            if (row < rows) {
                const float4 its = *reinterpret_cast<const float4 *>(x + row * depth + k);
#pragma unroll
                for (int i = 0; i < count; ++i) sums[row][i] = add_products(its, weights[i], sums[row][i]);
            }
        }
    }
    share_out_rows(products, sums);
}
