// Floats as factors of tensor cores, which use the bits of TF32 alone. A float is rounded to one TF32 number; or, for
// exact products, split into a sum of two, and a product becomes three TF32 products (Ootomo and Yokota, 2022). The
// fourth, of both low parts, is left out: at most 2⁻²² of the product, and much less of a sum of many. Tensor cores
// round their sums towards zero, so long sums of exact products must be added up elsewhere.
#pragma once

#include "common/device.cuh"

// A float as a factor of one product. Tensor cores cut off its low bits, which would make it smaller. So it first grows
// by a third of the last bit that they use, which keeps numbers the same on average. The error is 1.1 times that of
// rounding to the nearest TF32 number, which takes three instructions. The assembly computes the factor in the register
// that the product reads; the compiler would otherwise copy it there again and again.
__device__ __forceinline__ unsigned rounded_float(unsigned bits) {
    constexpr float factor = 1 + 1.f / (3 << 10);
#ifdef EMULATED
    return __float_as_uint(factor * __uint_as_float(bits));
#else
    unsigned larger;
    asm volatile("mul.rn.f32 %0, %1, %2;" : "=r"(larger) : "r"(bits), "f"(factor));
    return larger;
#endif
}

// Splits a float into the nearest TF32 number and the rest, of which tensor cores lose at most 2⁻²³ of the float.
// Infinity has no finite rest, and from 2¹²⁸ - 2¹¹⁶ on there is no nearest number: products of these are NaN.
__device__ __forceinline__ void split_float(unsigned bits, unsigned &high, unsigned &low) {
    high = (bits + 0x1000) & ~0x1fffu;
    low = __float_as_uint(__uint_as_float(bits) - __uint_as_float(high));
}

enum { HIGH, LOW };
// The parts of both factors in each product, the smallest product first.
__device__ constexpr int exact_parts[3][2] = {{LOW, HIGH}, {HIGH, LOW}, {HIGH, HIGH}};
