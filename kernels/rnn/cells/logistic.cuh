// 1 / (1 + e^-x). Off by some 2^-23 at most, most of it from the exponential, whose argument is rounded: far below 0, where
// the logistic is as small as e^x, by up to |x| 2^-24 of itself. Where e^-x overflows it is 0, and so is 1 / infinity.
#pragma once

#include "device.cuh"

__device__ __forceinline__ float logistic(float x) {
#ifdef EMULATED
    return 1 / (1 + expf(-x));
#else
    // No step of its own for numbers below the normal ones: the sum is none, and results that are such are as good as 0.
    float power, reciprocal;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f)); // e^-x = 2^(-x log2 e)
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1 + power));
    return reciprocal;
#endif
}
