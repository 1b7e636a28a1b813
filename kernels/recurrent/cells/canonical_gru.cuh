// GRU as first defined (Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014): gates r, z, n,
// where r resets h before R_n multiplies it; h' = (1 - z) n + z h. A step has two products, with reset() between.
#pragma once

#include "common/activations.cuh"

struct Cell {
    static constexpr int gates = 3, saved_gates = 1;
    static constexpr bool has_cell_state = false, has_reset_bias = false;

    // r h, the factor of R_n.
    __device__ static __forceinline__ float reset(float input, float recurrent, float h) {
        return logistic(input + recurrent) * h;
    }

    // z
    __device__ static __forceinline__ float update(float input, float recurrent) { return logistic(input + recurrent); }

    // h'; n is the hyperbolic tangent of `sum`.
    __device__ static __forceinline__ float next(float z, float sum, float h) {
        const float n = hyperbolic_tangent(sum);
        return fmaf(z, h - n, n);
    }

    // The last of `recurrent` is R_n (r h). r itself is not needed any more.
    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float h, float &, float (&)[saved_gates]) {
        return next(update(input[1], recurrent[1]), input[2] + recurrent[2], h);
    }
};
