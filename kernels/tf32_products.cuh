// Floats as factors of tensor cores, which take numbers of TF32 and do not look at what these have no bits for: rounded to one;
// or, where products are to be those of floats, as the sum of two, and a product as three of theirs, as Ootomo and Yokota
// (2022) have it. What is left out, the product of both rests, is 2⁻²² of the product at most, and much less of a sum of many.
// Tensor cores round their sums towards zero: long ones of exact products are to be added up elsewhere.
#pragma once

#include "device.cuh"

// A float as the factor of one product. What is cut off would make it smaller: a third of the last bit that is looked at is
// added first, by a factor, so that numbers are not smaller on average. The error is 1.1 times that of the nearest number of
// TF32, which takes three instructions. In a register of its own, where the factor is to stand: the compiler would copy it
// there, again and again.
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

// A float's two parts: the nearest number of TF32, and the rest, of which tensor cores lose at most 2⁻²³ of the float. What is
// infinite has no such rest, and from 2¹²⁸ - 2¹¹⁶ on, nothing is near: products of these are NaN.
__device__ __forceinline__ void split_float(unsigned bits, unsigned &high, unsigned &low) {
    high = (bits + 0x1000) & ~0x1fffu;
    low = __float_as_uint(__uint_as_float(bits) - __uint_as_float(high));
}

enum { HIGH, LOW };
// Which parts of both factors are multiplied, the smallest products first.
__device__ constexpr int exact_parts[3][2] = {{LOW, HIGH}, {HIGH, LOW}, {HIGH, HIGH}};
