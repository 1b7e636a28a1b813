// What is stored is half, IEEE's of 16 bits; arithmetic is in float.
#pragma once

#include "device.cuh"

struct Element {
    unsigned short bits;
};

__device__ __forceinline__ float to_float(Element element) { return half_to_float(element.bits); }
__device__ __forceinline__ Element to_element(float value) { return {float_to_half(value)}; }
