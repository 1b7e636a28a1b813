// Elements are floats. Only tensor cores round them, to TF32.
#pragma once

#include "common/device.cuh"

typedef float Element;

__device__ __forceinline__ float to_float(Element element) { return element; }
__device__ __forceinline__ Element to_element(float value) { return value; }
__device__ __forceinline__ Element element_of(unsigned bits) { return __uint_as_float(bits); }

// The operands of tensor cores, and their products.
__device__ __forceinline__ Element to_tensor(Element element) { return float_to_tf32(element); }
__device__ __forceinline__ void warp_mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    warp_mma_tf32(d, a, b);
}
