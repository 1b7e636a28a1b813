// What cells make of their sums, with no branch: threads of a warp would take both ways, one after the other.
#pragma once

#include "device.cuh"

// 1 / (1 + 2^y), off by some 2^-23 at most beside what y is off by. Where 2^y overflows it is 0, and so is 1 / infinity.
__device__ __forceinline__ float reciprocal_of_power(float y) {
#ifdef EMULATED
    return 1 / (1 + exp2f(y));
#else
    // No step of its own for numbers below the normal ones: the sum is none, and results that are such are as good as 0.
    float power, reciprocal;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(y));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1 + power));
    return reciprocal;
#endif
}

// 1 / (1 + e^-x). Most of what it is off by comes from the exponent, which is rounded: far below 0, where the logistic is as
// small as e^x, up to |x| 2^-24 of itself.
__device__ __forceinline__ float logistic(float x) {
    return reciprocal_of_power(x * -1.44269504f); // e^-x = 2^(-x log2 e)
}

// tanh x, off by 4e-7 of itself at most, most of it from a GPU's exponential: of |x| 1 - 2 / (1 + e^2x), and around 0, where
// that loses digits, x + x³ P(x²) with the polynomial whose largest error relative to tanh x is least up to 0.6: 3e-9.
__device__ __forceinline__ float hyperbolic_tangent(float x) {
    const float large = fmaf(-2, reciprocal_of_power(fabsf(x) * 2.88539008f), 1), square = x * x;
    float p = fmaf(-0.00589515781f, square, 0.0207959712f);
    p = fmaf(p, square, -0.0537838303f);
    p = fmaf(p, square, 0.133319244f);
    p = fmaf(p, square, -0.333332986f);
    return copysignf(fabsf(x) < 0.6f ? fmaf(p * square, x, x) : large, x);
}
