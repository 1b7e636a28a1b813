// LSTM: gates i, f, g, o; c' = f c + i g; h' = o tanh(c').
#pragma once

#include "common/activations.cuh"

struct Cell {
    static constexpr int gates = 4, saved_gates = 4;
    static constexpr bool has_cell_state = true, has_reset_bias = false;

    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float, float &c, float (&saved)[saved_gates]) {
        const float i = logistic(input[0] + recurrent[0]), f = logistic(input[1] + recurrent[1]);
        const float g = hyperbolic_tangent(input[2] + recurrent[2]), o = logistic(input[3] + recurrent[3]);
        c = fmaf(f, c, i * g);
        saved[0] = i, saved[1] = f, saved[2] = g, saved[3] = o;
        return o * hyperbolic_tangent(c);
    }

    __device__ static __forceinline__ float gradient(float (&gates)[saved_gates], float, float, float c, float c_before,
                                                     float dh, float &dc) {
        const float i = gates[0], f = gates[1], g = gates[2], o = gates[3], t = hyperbolic_tangent(c);
        dc = fmaf(dh * o, 1 - t * t, dc);
        gates[0] = dc * g * (i * (1 - i));
        gates[1] = dc * c_before * (f * (1 - f));
        gates[2] = dc * i * (1 - g * g);
        gates[3] = dh * t * (o * (1 - o));
        dc *= f;
        return 0;
    }
};
