// Totals over a channel: by threads, then by warps and blocks, then by the blocks of a cluster, in a fixed order. A
// type of totals has `Total::none()`, the total over nothing, and a function `joined_by_warp(total)`, which gives all
// lanes the total over a warp.
#pragma once

#include "norm/planes.cuh"

// Nearly as exact as double, in few operations of it: most GPUs have few units for these.
__device__ __forceinline__ double reciprocal(double x) {
    const double near = 1 / float(x);
    return near * (2 - x * near);
}
__device__ __forceinline__ double reciprocal_root(double x) {
    const float near = 1 / sqrtf(float(x));
    // The reciprocal of 0 is infinite. A double that is 0 in float has the same.
    return isinf(near) ? near : near * (1.5 - 0.5 * x * near * near);
}

// One of all elements of a channel.
__device__ __forceinline__ double part_of(const Shape &shape) {
    return reciprocal(double(shape.images) * shape.plane);
}

// What the blocks of a cluster send to each other. It is in dynamic shared memory.
template <typename Total> struct Exchange {
    Mbarrier arrived;
    alignas(16) Total of_blocks[MOST_BLOCKS];

    // All threads of the cluster come here.
    __device__ __forceinline__ void begin(const Shape &shape) {
        if (shape.blocks == 1) return;
        if (threadIdx.x == 0) {
            arrived.initialize(1);
            arrived.expect(shape.blocks * sizeof(Total));
        }
        cluster_barrier();
    }

    // The total of the cluster's channel. All threads of the cluster come, each with its own total, and get it.
    __device__ __forceinline__ Total channel_total(const Shape &shape, const Total &total) {
        STATIC_SHARED(Total, of_warps, [WARPS]);
        const Total of_warp = joined_by_warp(total);
        if (LANE == 0) of_warps[WARP] = of_warp;
        barrier();
        const Total of_block = joined_by_warp(LANE < WARPS ? of_warps[LANE] : Total::none());
        if (shape.blocks == 1) return of_block;
        if (WARP == 0 && int(LANE) < shape.blocks) send(of_block, of_blocks + shape.block(), arrived, LANE);
        Spin spin;
        while (!arrived.has_ended(0)) spin.again();
        return joined_by_warp(int(LANE) < shape.blocks ? of_blocks[LANE] : Total::none());
    }
};
