// h' = max(W x + R h + b, 0). NaN stays NaN.
#pragma once

#include "common/device.cuh"

struct Cell {
    static constexpr int gates = 1;
    static constexpr bool has_cell_state = false, has_reset_bias = false;

    __device__ static __forceinline__ float step(const float (&input)[gates], const float (&recurrent)[gates], float,
                                                 float, float &) {
        const float sum = input[0] + recurrent[0];
        return sum < 0 ? 0 : sum;
    }
};
