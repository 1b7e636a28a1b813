// GRU as cuDNN and PyTorch define it: gates r, z, n, where r scales R_n h + b_Rn; h' = (1 - z) n + z h.
#pragma once

#include "common/activations.cuh"

struct Cell {
    static constexpr int gates = 3, saved_gates = 4; // the last of these is R_n h + b_Rn
    static constexpr bool has_cell_state = false, has_reset_bias = true;

    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates],
                                                 float reset_bias, float h, float &, float (&saved)[saved_gates]) {
        const float r = logistic(input[0] + recurrent[0]), z = logistic(input[1] + recurrent[1]);
        const float n = hyperbolic_tangent(fmaf(r, recurrent[2] + reset_bias, input[2]));
        saved[0] = r, saved[1] = z, saved[2] = n, saved[3] = recurrent[2] + reset_bias;
        return fmaf(z, h - n, n);
    }

    __device__ static __forceinline__ float gradient(float (&gates)[saved_gates], float, float h_before, float, float,
                                                     float dh, float &) {
        const float r = gates[0], z = gates[1], n = gates[2], scaled = gates[3];
        const float dn = dh * (1 - z) * (1 - n * n);
        gates[0] = dn * scaled * (r * (1 - r));
        gates[1] = dh * (h_before - n) * (z * (1 - z));
        gates[2] = dn;
        gates[3] = dn * r;
        return dh * z;
    }
};
