// GRU as it was defined first (Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014): gates r, z,
// n, where r resets h before it is multiplied; h' = (1 - z) n + z h. A step takes two products, and reset() between them.
#pragma once

#include "rnn/cells/logistic.cuh"

struct Cell {
    static constexpr int gates = 3;
    static constexpr bool has_cell_state = false, has_reset_bias = false;

    // r h, which R_n multiplies.
    __device__ static __forceinline__ float reset(float input, float recurrent, float h) {
        return logistic(input + recurrent) * h;
    }

    // The last of `recurrent` is R_n (r h); r itself is not needed any more.
    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float h, float &) {
        const float z = logistic(input[1] + recurrent[1]), n = tanhf(input[2] + recurrent[2]);
        return fmaf(z, h - n, n);
    }
};
