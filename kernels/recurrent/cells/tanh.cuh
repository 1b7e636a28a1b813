// h' = tanh(W x + R h + b).
#pragma once

#include "common/activations.cuh"

struct Cell {
    static constexpr int gates = 1;
    static constexpr bool has_cell_state = false, has_reset_bias = false;

    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float, float &) {
        return hyperbolic_tangent(input[0] + recurrent[0]);
    }
};
