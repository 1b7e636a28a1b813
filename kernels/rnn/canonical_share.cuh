// A block's share of a time step of canonical GRU, which is in two parts: r and z from h, and n from r h.
#pragma once

#include "rnn/states.cuh"

// r's and z's sums, and n's.
typedef float FirstSums[GROUP_PAIRS][2];
typedef float LastSums[GROUP_PAIRS][1];

// The lane's part of the products of some gates with h, as [BATCH_TILE][PADDED_HIDDEN].
template <int First, int Count>
__device__ __forceinline__ void multiply_gates(const Weights &weights, const float *h, float (&sums)[GROUP_PAIRS][Count]) {
#pragma unroll
    for (int pair = 0; pair < GROUP_PAIRS; pair++)
#pragma unroll
        for (int gate = 0; gate < Count; gate++) sums[pair][gate] = 0;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        float4 part[BATCH_TILE];
#pragma unroll
        for (int row = 0; row < BATCH_TILE; row++)
            part[row] = *reinterpret_cast<const float4 *>(&h[row * PADDED_HIDDEN + first_element(chunk)]);
#pragma unroll
        for (int unit = 0; unit < GROUP_UNITS; unit++) {
#pragma unroll
            for (int gate = 0; gate < Count; gate++) {
                const float4 weight = weights[(chunk * GROUP_UNITS + unit) * GATES + First + gate];
#pragma unroll
                for (int row = 0; row < BATCH_TILE; row++) {
                    float &sum = sums[unit * BATCH_TILE + row][gate];
                    sum = fmaf(weight.x, part[row].x, sum);
                    sum = fmaf(weight.y, part[row].y, sum);
                    sum = fmaf(weight.z, part[row].z, sum);
                    sum = fmaf(weight.w, part[row].w, sum);
                }
            }
        }
    }
}

// Adds up the lanes' parts: each lane of the group ends with the pairs that Own says, in front.
template <int Pairs = GROUP_PAIRS, int Lanes = LANES, int Count>
__device__ __forceinline__ void add_up_gates(float (&sums)[GROUP_PAIRS][Count]) {
    if constexpr (Lanes > 1 && Pairs > 1) {
        constexpr int half = divided_up(Pairs, 2);
#pragma unroll
        for (int pair = 0; pair < half; pair++)
#pragma unroll
            for (int gate = 0; gate < Count; gate++)
                sums[pair][gate] =
                    add_kept(sums[pair][gate], half + pair < Pairs ? sums[half + pair][gate] : 0, Lanes / 2);
        add_up_gates<half, Lanes / 2>(sums);
    } else if constexpr (Lanes > 1) {
#pragma unroll
        for (int gate = 0; gate < Count; gate++) sums[0][gate] = warp_sum(sums[0][gate], Lanes);
    }
}

// r h of each of the thread's pairs goes to write(unit of the block, row of the tile, r h).
template <typename Write>
__device__ __forceinline__ void first_part(const Weights &weights, const float *h, States &states, int first_unit,
                                           int first_row, FirstSums &sums, Write write) {
    multiply_gates<0>(weights, h, sums);
    add_up_gates(sums);
    states.reset(first_unit, first_row, sums, write);
}

// The new states from all r h.
__device__ __forceinline__ void last_part(const Weights &weights, const float *reset, States &states, int step,
                                          const FirstSums &first) {
    LastSums last;
    multiply_gates<2>(weights, reset, last);
    add_up_gates(last);
    Sums sums;
#pragma unroll
    for (int i = 0; i < LANE_PAIRS; i++) {
        sums[i][0] = 0; // r has done its work
        sums[i][1] = first[i][1];
        sums[i][2] = last[i][0];
    }
    states.update(step, sums);
}
