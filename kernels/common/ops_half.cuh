// Elements are half, IEEE's 16-bit type; arithmetic is in float.
#pragma once

#include "common/device.cuh"

struct Element {
    unsigned short bits;
};

__device__ __forceinline__ float to_float(Element element) { return half_to_float(element.bits); }
__device__ __forceinline__ Element to_element(float value) { return {float_to_half(value)}; }
__device__ __forceinline__ Element element_of(unsigned bits) { return {lower_half(bits)}; }
__device__ __forceinline__ unsigned bits_of(Element element) { return element.bits; }

// The operands of tensor cores, and their products.
__device__ __forceinline__ Element to_tensor(Element element) { return element; }
__device__ __forceinline__ void warp_mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    warp_mma_half(d, a, b);
}
