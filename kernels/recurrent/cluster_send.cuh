// What the blocks of a cluster send each other in a step: their units' factors of the next product.
//
// A source includes states.cuh or back_states.cuh before it includes this.
#pragma once

#include "common/cluster_exchange.cuh"

// A row of factors has this many parts of HIDDEN: h, or the gradients of each gate.
constexpr int SENT_PARTS = DEPTH / HIDDEN;

// Units in one send: as many as fit 16 bytes, if their number divides UNITS and H.
constexpr int WIDTH = together(HIDDEN | UNITS, 16 / sizeof(Factor));
struct alignas(WIDTH * sizeof(Factor)) FactorVector {
    Factor factor[WIDTH];
};

// Sends the block's units, for `rows` rows of the tile, to all blocks. `factors` already has them.
__device__ __forceinline__ void send_own(ClusterExchange &others, Factor *factors, int thread, int first_unit, int rows) {
    constexpr int PART_VECTORS = UNITS / WIDTH, ROW_VECTORS = SENT_PARTS * PART_VECTORS, VECTORS = BATCH_TILE * ROW_VECTORS;
#pragma unroll
    for (int k = 0; k < divided_up(BLOCKS * VECTORS, THREADS); k++) {
        const int i = thread + k * THREADS;
        const int block = i / VECTORS, vector = i % VECTORS;
        const int row = vector / ROW_VECTORS, part = vector % ROW_VECTORS / PART_VECTORS;
        const int unit = first_unit + vector % PART_VECTORS * WIDTH;
        if (block >= BLOCKS || row >= rows || unit >= HIDDEN) continue;
        FactorVector *const place = reinterpret_cast<FactorVector *>(&factors[row * PADDED_HIDDEN + part * HIDDEN + unit]);
        others.send(*place, place, block);
    }
}
