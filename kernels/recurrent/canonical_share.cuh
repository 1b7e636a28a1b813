// A block's share of a time step of canonical GRU, in two parts: r and z from h, then n from r h.
#pragma once

#include "recurrent/states.cuh"

// Sums of r and z.
typedef PairSums<2> FirstSums;

// Calls write(unit of the block, row of the tile, r h, z) for each of the thread's pairs.
template <typename Write>
__device__ __forceinline__ void first_part(const Weights &weights, const float *h, States &states, FirstSums &sums,
                                           Write write) {
    clear(sums);
    multiply_part<0, 2>(weights, h, sums);
    add_up<GROUP_PAIRS, LANES>(sums);
    states.reset(sums, write);
}

// Computes the new states from r h of all units.
__device__ __forceinline__ void last_part(const Weights &weights, const float *reset, States &states, int step,
                                          const FirstSums &first) {
    PairSums<1> last;
    clear(last);
    multiply_part<2, 1>(weights, reset, last);
    add_up<GROUP_PAIRS, LANES>(last);
    Sums sums;
#pragma unroll
    for (int i = 0; i < LANE_PAIRS; i++) {
        sums[i][0] = 0; // r is not needed any more
        sums[i][1] = first[i][1];
        sums[i][2] = last[i][0];
    }
    states.update(step, sums);
}
