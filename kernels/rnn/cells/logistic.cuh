// 1 / (1 + e^-x), right to some units in the last place: as exact as the exponential and the reciprocal. Where e^-x
// overflows it is 0, and so is 1 / infinity.
#pragma once

#include "device.cuh"

__device__ __forceinline__ float logistic(float x) {
    const float sum = 1 + expf(-x);
#ifdef EMULATED
    return 1 / sum;
#else
    float reciprocal;
    asm("rcp.approx.f32 %0, %1;" : "=f"(reciprocal) : "f"(sum)); // within 1 unit in the last place
    return reciprocal;
#endif
}
