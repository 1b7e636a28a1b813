// h' = max(W x + R h + b, 0). NaN stays NaN.
#pragma once

#include "common/device.cuh"

struct Cell {
    static constexpr int gates = 1, saved_gates = 1;
    static constexpr bool has_cell_state = false, has_reset_bias = false;

    // Nothing is saved: the gradient needs h' alone.
    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float, float &, float (&)[saved_gates]) {
        const float sum = input[0] + recurrent[0];
        return sum < 0 ? 0 : sum;
    }

    __device__ static __forceinline__ float gradient(float (&gates)[saved_gates], float h, float, float, float, float dh,
                                                     float &) {
        gates[0] = h > 0 ? dh : 0;
        return 0;
    }
};
