// Floats as sums of bfloat16 numbers, which tensor cores multiply twice as fast as TF32 and take in any order of memory. A
// float is the sum of three: each has the eight bits that come next, rounded to nearest, so that what is left may be below
// zero. Of nine products of parts, six make a product of floats. The others are at most 2⁻²³ of it, and of either sign. Two
// parts have 16 bits, more than TF32, and three products are enough for them.
//
// Infinity has no parts, and neither have the largest numbers, from 2¹²⁸ - 2¹¹⁹ on: products of these are NaN. The largest
// parts may be 2⁻⁸ larger than their floats, so a product from 2¹²⁸ - 2¹²¹ on may be infinite.
#pragma once

#include "common/device.cuh"

// The parts of both factors in each product, the smallest products first. Of two parts, the last three products.
__device__ constexpr int products_of_parts[6][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};
template <int PARTS> constexpr int first_product = PARTS == 3 ? 0 : PARTS == 2 ? 3 : 5;

// Two numbers in bfloat16, the first one in the lower half.
__device__ __forceinline__ unsigned bfloat16_pair(float lower, float upper) {
#ifdef EMULATED
    return float_to_bfloat16(lower) | unsigned(float_to_bfloat16(upper)) << 16;
#else
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
    return pair;
#endif
}

// The parts of two floats, the largest ones first.
template <int PARTS> __device__ __forceinline__ void split_pair(float lower, float upper, unsigned (&pairs)[PARTS]) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        pairs[part] = bfloat16_pair(lower, upper);
        lower -= __uint_as_float(pairs[part] << 16);
        upper -= __uint_as_float(pairs[part] & 0xffff0000);
    }
}
