// GRU as it was defined first (Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014): gates r, z,
// n, where r resets h before it is multiplied; h' = (1 - z) n + z h. A step takes two products, and reset() between them.
#pragma once

#include "rnn/cells/activations.cuh"

struct Cell {
    static constexpr int gates = 3;
    static constexpr bool has_cell_state = false, has_reset_bias = false;

    // r h, which R_n multiplies.
    __device__ static __forceinline__ float reset(float input, float recurrent, float h) {
        return logistic(input + recurrent) * h;
    }

    // z.
    __device__ static __forceinline__ float update(float input, float recurrent) { return logistic(input + recurrent); }

    // h', given what n is the hyperbolic tangent of.
    __device__ static __forceinline__ float next(float z, float sum, float h) {
        const float n = hyperbolic_tangent(sum);
        return fmaf(z, h - n, n);
    }

    // The last of `recurrent` is R_n (r h); r itself is not needed any more.
    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float h, float &) {
        return next(update(input[1], recurrent[1]), input[2] + recurrent[2], h);
    }
};
