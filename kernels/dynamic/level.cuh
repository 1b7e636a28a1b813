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

// Calls `each` for the numbers below `count`, shared among all threads of the launch.
template <typename Each> __device__ __forceinline__ void for_all(unsigned count, Each each) {
    for (unsigned number = blockIdx.x * THREADS + threadIdx.x; number < count; number += gridDim.x * THREADS) each(number);
}

// Likewise for warps. `each` is called by all lanes of a warp together.
template <typename Each> __device__ __forceinline__ void for_all_by_warps(unsigned count, Each each) {
    const unsigned warps = THREADS / 32;
    for (unsigned number = blockIdx.x * warps + WARP; number < count; number += gridDim.x * warps) each(number);
}
