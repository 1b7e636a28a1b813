// What all kernels that are made from vertex functions share: the words of their text.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of tensors and states. Sums are float.
#pragma once

#include "common/activations.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"

// The rows of a kind that a launch computes, and their edges. Rows and edges of the batch follow each other from `row`
// and `edge` on, unless `rows` and `edges` list them.
struct Range {
    const int *rows, *edges;
    int row_of_kind, row_count, row;
    int edge_of_kind, edge_count, edge;
};

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

struct alignas(4 * sizeof(Element)) Quad {
    Element element[4];
};

__device__ __forceinline__ float4 quad_at(const Element *from) {
    const Quad quad = *reinterpret_cast<const Quad *>(from);
    return make_float4(to_float(quad.element[0]), to_float(quad.element[1]), to_float(quad.element[2]),
                       to_float(quad.element[3]));
}

__device__ __forceinline__ float add_products(float4 x, float4 y, float sum) {
    return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, fmaf(x.x, y.x, sum))));
}

// sums[row][i] = Σ x[row][k] · matrix[columns[i] + unit][k], by a warp; all lanes get them. x is in shared memory, and
// `depth` a multiple of 4.
template <int depth, int row_count, int count>
__device__ __forceinline__ void multiply_tile(float (&sums)[row_count][count], const float *x, int rows,
                                              const Element *matrix, const int (&columns)[count], int unit) {
#pragma unroll
    for (int row = 0; row < row_count; ++row) {
#pragma unroll
        for (int i = 0; i < count; ++i) sums[row][i] = 0;
    }
    for (int k = LANE * 4; k < depth; k += 128) {
        float4 weights[count];
#pragma unroll
        for (int i = 0; i < count; ++i) weights[i] = quad_at(matrix + size_t(columns[i] + unit) * depth + k);
#pragma unroll
        for (int row = 0; row < row_count; ++row) {
            if (row < rows) {
                const float4 its = *reinterpret_cast<const float4 *>(x + row * depth + k);
#pragma unroll
                for (int i = 0; i < count; ++i) sums[row][i] = add_products(its, weights[i], sums[row][i]);
            }
        }
    }
#pragma unroll
    for (int row = 0; row < row_count; ++row) {
        if (row < rows) {
#pragma unroll
            for (int i = 0; i < count; ++i) sums[row][i] = warp_sum(sums[row][i]);
        }
    }
}

// sums[LANE][i], without an index that would push the sums out of registers.
template <int count, int row_count>
__device__ __forceinline__ float of_lane(const float (&sums)[row_count][count], int i) {
    float its = 0;
#pragma unroll
    for (int row = 0; row < row_count; ++row) its = int(LANE) == row ? sums[row][i] : its;
    return its;
}
