// The cells' activations, without branches: a warp would run both sides, one after the other.
#pragma once

#include "common/device.cuh"

// 1 / (1 + 2^y), off by about 2^-23 at most besides y's own error. 2^y may overflow: 1 / infinity is 0.
__device__ __forceinline__ float reciprocal_of_power(float y) {
#ifdef EMULATED
    return 1 / (1 + exp2f(y));
#else
    // `ftz` saves instructions for subnormal numbers: 1 + 2^y is never one, and a subnormal result is as good as 0.
    float power, reciprocal;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(y));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1 + power));
    return reciprocal;
#endif
}

// 1 / (1 + e^-x). Most of its error comes from rounding the exponent: where the logistic is as small as e^x, up to |x|
// 2^-24 of the result.
__device__ __forceinline__ float logistic(float x) {
    return reciprocal_of_power(x * -1.44269504f); // e^-x = 2^(-x log2 e)
}

// tanh x, off by 2e-7 of itself at most, mostly from the GPU's exponential. tanh |x| is 1 - 2 / (1 + e^2|x|), but near
// 0, where this loses digits, it is x + x³ P(x²): P has the least maximal relative error up to 1, 6e-9.
__device__ __forceinline__ float hyperbolic_tangent(float x) {
    const float large = fmaf(-2, reciprocal_of_power(fabsf(x) * 2.88539008f), 1), square = x * x;
    float p = fmaf(-0.000358452031f, square, 0.00230136467f);
    p = fmaf(p, square, -0.00794610661f);
    p = fmaf(p, square, 0.0214866567f);
    p = fmaf(p, square, -0.0538798012f);
    p = fmaf(p, square, 0.133323446f);
    p = fmaf(p, square, -0.333332956f);
    return copysignf(fabsf(x) < 1 ? fmaf(p * square, x, x) : large, x);
}
