// What takes the place of an exact product of floats, or of a sum of such, that is no number: infinity has no parts for tensor
// cores, and neither have the largest numbers (`common/tf32_products.cuh`).
#pragma once

#include "common/device.cuh"

// The same sum by multiply-adds.
class Replacement {
    float sum = 0, most = 0;

  public:
    __device__ __forceinline__ void add(float x, float y) {
        sum = fmaf(x, y, sum);
        most = fmaxf(most, fmaxf(fabsf(x), fabsf(y)));
    }

    // What `exact` should be. Numbers that have parts cannot be the reason: then it stays.
    __device__ __forceinline__ float of(float exact) const { return most >= 0x1p127f ? sum : exact; }
};
