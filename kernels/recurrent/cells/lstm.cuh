// LSTM: gates i, f, g, o; c' = f c + i g; h' = o tanh(c').
#pragma once

#include "common/activations.cuh"

struct Cell {
    static constexpr int gates = 4;
    static constexpr bool has_cell_state = true, has_reset_bias = false;

    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float, float &c) {
        const float i = logistic(input[0] + recurrent[0]), f = logistic(input[1] + recurrent[1]);
        const float g = hyperbolic_tangent(input[2] + recurrent[2]), o = logistic(input[3] + recurrent[3]);
        c = fmaf(f, c, i * g);
        return o * hyperbolic_tangent(c);
    }
};
