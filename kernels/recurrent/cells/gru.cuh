// GRU as cuDNN and PyTorch define it: gates r, z, n, where r scales R_n h + b_Rn; h' = (1 - z) n + z h.
#pragma once

#include "common/activations.cuh"

struct Cell {
    static constexpr int gates = 3;
    static constexpr bool has_cell_state = false, has_reset_bias = true;

    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates],
                                                 float reset_bias, float h, float &) {
        const float r = logistic(input[0] + recurrent[0]), z = logistic(input[1] + recurrent[1]);
        const float n = hyperbolic_tangent(fmaf(r, recurrent[2] + reset_bias, input[2]));
        return fmaf(z, h - n, n);
    }
};
