// h' = tanh(W x + R h + b).
#pragma once

#include "common/activations.cuh"

struct Cell {
    static constexpr int gates = 1, saved_gates = 1;
    static constexpr bool has_cell_state = false, has_reset_bias = false;

    // Nothing is saved: the gradient needs h' alone.
    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float, float &, float (&)[saved_gates]) {
        return hyperbolic_tangent(input[0] + recurrent[0]);
    }

    __device__ static __forceinline__ float gradient(float (&gates)[saved_gates], float h, float, float, float, float dh,
                                                     float &) {
        gates[0] = dh * (1 - h * h);
        return 0;
    }
};
